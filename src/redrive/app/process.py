"""Entry of a worker process: ``python -m redrive.app.process``, by the supervisor."""

from redrive.app.loading import load_app
from redrive.worker.process import main

if __name__ == "__main__":
    main(load_app)
