"""The web front: a Starlette application that any ASGI server runs, or another application mounts."""

from redrive.web.application import asgi

__all__ = ["asgi"]
