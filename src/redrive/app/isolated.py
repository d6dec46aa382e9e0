"""Entry of an isolated delivery's process: ``python -m redrive.app.isolated``, by a worker process."""

from redrive.app.loading import load_app
from redrive.worker.isolated import main

if __name__ == "__main__":
    main(load_app)
