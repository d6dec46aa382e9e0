"""The web front: a Starlette application that any ASGI server runs."""
