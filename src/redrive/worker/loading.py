"""Loading: what a worker process needs of the app, imported by name in each process anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from redrive.job import JobDefinition
from redrive.worker.options import WorkerOptions


class App(Protocol):
    """What `redrive.app.Redrive` is to the worker."""

    database_url: str | None

    @property
    def jobs(self) -> Mapping[str, JobDefinition]: ...


Load = Callable[[str], App]


def definitions_of(load: Load, options: WorkerOptions) -> Mapping[str, JobDefinition]:
    """The app's jobs, the app pointed at the worker's database unless its code names another.

    Raises `ConfigError`.
    """
    app = load(options.app_spec)
    if app.database_url is None:
        app.database_url = options.url
    return app.jobs
