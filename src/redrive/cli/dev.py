"""``redrive dev``: a Postgres, the schema, and a worker that starts anew when the code changes."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path
from typing import Annotated

import typer

from redrive.app import load_app
from redrive.cli.declaring import app_name, install
from redrive.cli.migrate import bring_up
from redrive.cli.options import AppOption, DatabaseOption, YesOption
from redrive.cli.output import say
from redrive.cli.session import Session, session
from redrive.errors import ConfigError
from redrive.worker.logs import configure
from redrive.worker.options import DEFAULT_CONCURRENCY, WorkerOptions
from redrive.worker.supervisor import Child

log = logging.getLogger("redrive.dev")

# Whoever saves a file wants to see the new code at work.
_DRAIN = 3.0
_AFTER_DEATH = 1.0


def dev(
    app: AppOption = None,
    concurrency: Annotated[int, typer.Option(metavar="N", help="Jobs at once.")] = DEFAULT_CONCURRENCY,
    yes: YesOption = False,
    database: DatabaseOption = None,
) -> None:
    """Develop: an embedded Postgres in ./.redrive, migrations, a worker that reloads when a .py file changes.

    A database that is configured is used in place of the embedded one; where only DATABASE_URL names it, dev
    asks before it adds schema redrive. Ctrl-C ends.
    """
    name = app_name(app)
    with session(database, begin_embedded=True, announce=True) as store:
        for line in bring_up(store, yes=yes):
            say(line)
        for line in install_tables_of(store, name):
            say(line)
        options = WorkerOptions(
            app_spec=name, url=store.url, concurrency=concurrency, drain_timeout=_DRAIN, poll=1.0
        )
        configure(options.log_format)
        logging.getLogger("watchfiles").setLevel(logging.WARNING)
        asyncio.run(Reloader(options, Path.cwd()).run())


def install_tables_of(store: Session, name: str) -> list[str]:
    """Make the tables of the APIs of the app's inboxes; what was done, one sentence each."""
    try:
        inboxes = load_app(name).inboxes
    except ConfigError:
        # The worker will say what is wrong with the app, and wait for a change.
        return []
    return install(store, inboxes)


class Reloader:
    """One worker process at a time, replaced when a Python file beneath `folder` changes, until a signal."""

    def __init__(self, options: WorkerOptions, folder: Path) -> None:
        self._options = options
        self._folder = folder
        self._ending = asyncio.Event()
        self._changed = asyncio.Event()
        self._child: Child | None = None
        self._signals = 0

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        watching = asyncio.create_task(self._watch())
        try:
            while not self._ending.is_set():
                await self._one_process()
        finally:
            self._ending.set()
            await watching

    async def _one_process(self) -> None:
        """Run a process until it ends or the code changes; one that ended by itself is waited with."""
        self._changed.clear()
        self._child = child = Child(self._options, 0)
        running = asyncio.create_task(child.run())
        changed = asyncio.create_task(self._changed.wait())
        await asyncio.wait({running, changed}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            child.drain()
            await running
        elif not self._ending.is_set() and not self._changed.is_set():
            await self._after(running.result(), changed)
        changed.cancel()

    async def _after(self, code: int, changed: asyncio.Task[bool]) -> None:
        """A killed process is replaced; one that refused to start would refuse again until a change."""
        if code < 0 or code > 3:
            log.warning("the worker died (%d); another follows", code, extra={"event": "worker_replaced"})
            await asyncio.wait({changed}, timeout=_AFTER_DEATH)
            return
        log.warning(
            "the worker ended; it starts again when a file changes", extra={"event": "worker_waiting"}
        )
        await changed

    async def _watch(self) -> None:
        # anyio, whose events it takes too, is not ours to install: half of its type is unknown.
        from watchfiles import PythonFilter, awatch  # pyright: ignore[reportUnknownVariableType]

        async for changes in awatch(
            self._folder,
            watch_filter=PythonFilter(),
            stop_event=self._ending,
            ignore_permission_denied=True,
        ):
            shown = ", ".join(sorted({str(Path(path).relative_to(self._folder)) for _, path in changes})[:3])
            log.info("%s changed; the worker starts anew", shown, extra={"event": "reload"})
            self._changed.set()

    def _signalled(self) -> None:
        self._signals += 1
        self._ending.set()
        self._changed.set()
        if self._signals > 1 and self._child is not None:
            self._child.kill()
