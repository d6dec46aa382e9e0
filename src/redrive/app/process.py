"""Entry of a worker process: ``python -m redrive.app.process``, by the supervisor."""

from __future__ import annotations

from typing import cast

from redrive.app.loading import load_app
from redrive.app.redrive import Redrive
from redrive.watch.watch import Watch
from redrive.worker.loading import App
from redrive.worker.options import WorkerOptions
from redrive.worker.process import main


def beside(app: App, options: WorkerOptions, worker: str) -> Watch:
    """What runs beside a worker: health, alerts, schedules, retention. Raises `ConfigError`."""
    schedules = cast(Redrive, app).schedules
    return Watch.configured(options.url, schedules=schedules, retention=True)


if __name__ == "__main__":
    main(load_app, beside)
