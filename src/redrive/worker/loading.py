"""Loading: what a worker process needs of the app, imported by name in each process anew."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from redrive.job import JobDefinition
from redrive.worker.options import WorkerOptions

log = logging.getLogger("redrive.worker")

# Nothing depends on it any more: the sockets end with the process.
_CLOSING = 5.0


class App(Protocol):
    """What `redrive.app.Redrive` is to the worker."""

    database_url: str | None

    @property
    def jobs(self) -> Mapping[str, JobDefinition]: ...

    async def close(self) -> None:
        """Close what its handlers' sends have opened."""
        ...


Load = Callable[[str], App]


def app_of(load: Load, options: WorkerOptions) -> App:
    """The app, pointed at the worker's database unless its code names another. Raises `ConfigError`."""
    app = load(options.app_spec)
    if app.database_url is None:
        app.database_url = options.url
    return app


async def close(app: App) -> None:
    """Close the app's connections, in 5 seconds or not at all."""
    try:
        async with asyncio.timeout(_CLOSING):
            await app.close()
    except Exception as error:
        log.debug("closing the app: %r", error)
