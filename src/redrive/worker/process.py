"""The worker process: `python -m redrive.app.process`, started by the supervisor.

Its standard input is the supervisor: first a line of options, then orders (`drain`, `exit`), and its end is
the supervisor's death. File descriptor STATUS_FD, named in the environment, takes a line of JSON a second,
and a last one when this process refuses to work: a job may end it with any exit code.

    exit 0    drained                          2   configuration: app, queue, schema, rights
         3    the database is out of reach     70  the event loop hung
         75   a handler did not stop: replace  130, 143  a second signal
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import IO, Any

from redrive.errors import ConfigError, RedriveError, SetupError, Unavailable
from redrive.store import migrations
from redrive.store.database import Database
from redrive.worker.loading import App, Load, app_of, close
from redrive.worker.logs import configure
from redrive.worker.options import EXIT_CONFIG, EXIT_UNAVAILABLE, WorkerOptions
from redrive.worker.service import Service
from redrive.worker.watchdog import Watchdog
from redrive.worker.worker import Worker

log = logging.getLogger("redrive.worker")

STATUS_FD = "REDRIVE_STATUS_FD"
_LEAVING = 2.5

# What runs beside the worker of an app: made before it starts, stopped when it has drained.
Beside = Callable[[App, WorkerOptions, str], Service]


def main(load: Load, beside: Beside | None = None) -> None:
    """Work as the supervisor says; `load` imports the app, `beside` makes its company. Does not return."""
    orders = _orders()
    status = _status_fd()
    options = WorkerOptions.from_json(orders.readline().decode())
    configure(options.log_format)
    try:
        code = asyncio.run(_main(load, beside, options, orders, status))
    except (ConfigError, SetupError) as error:
        code = _refuse(error, EXIT_CONFIG, status)
    except Unavailable as error:
        code = _refuse(error, EXIT_UNAVAILABLE, status)
    sys.exit(code)


async def _main(
    load: Load, beside: Beside | None, options: WorkerOptions, orders: IO[bytes], status: int | None
) -> int:
    app = app_of(load, options)
    code, clean = await _work(app, beside, options, orders, status)
    if not clean:
        # The event loop would wait for the handlers that did not stop, the interpreter for their threads.
        _leave(code)
    await close(app)
    # What handlers have left behind, such as a thread of asyncio.to_thread, may take no longer.
    timer = threading.Timer(_LEAVING, _leave, [code])
    timer.daemon = True
    timer.start()
    return code


def _leave(code: int) -> None:
    logging.shutdown()
    os._exit(code)


async def _work(
    app: App, beside: Beside | None, options: WorkerOptions, orders: IO[bytes], status: int | None
) -> tuple[int, bool]:
    """The exit code, and whether every handler has ended."""
    await _check_schema(options.url)
    for job in app.jobs.values():
        if job.check is not None and (not options.queues or job.queue in options.queues):
            job.check()
    worker = Worker(app.jobs, options)
    companion = None if beside is None else beside(app, options, worker.name)
    loop = asyncio.get_running_loop()
    _obey_signals(worker, loop)
    threading.Thread(target=_obey, args=(orders, worker, loop), name="redrive-orders", daemon=True).start()
    watchdog = Watchdog(lambda silence: _tell(status, worker, silence))
    await watchdog.start()
    try:
        if companion is not None:
            await companion.start()
        code = await worker.run()
    finally:
        if companion is not None:
            await companion.stop()
        await watchdog.stop()
        _tell(status, worker, 0.0)
    return code, not worker.runner.given_up


async def _check_schema(url: str) -> None:
    database = Database(url, size=1)
    try:
        lacking = await database.run(migrations.check_statement())
    finally:
        await database.close()
    migrations.demand(lacking, url)


def _refuse(error: RedriveError, code: int, status: int | None) -> int:
    log.critical("%s", error, extra={"event": "worker_refused"})
    _write(status, {"refused": code})
    return code


# --- who may tell it to stop ---


def _orders() -> IO[bytes]:
    """Standard input, moved away from the handlers."""
    orders = os.fdopen(os.dup(0), "rb")
    os.set_inheritable(orders.fileno(), False)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return orders


def _status_fd() -> int | None:
    fd = os.environ.pop(STATUS_FD, None)
    if fd is None:
        return None
    os.set_inheritable(int(fd), False)
    # A supervisor that does not read must not hold up the watchdog.
    os.set_blocking(int(fd), False)
    return int(fd)


def _obey(orders: IO[bytes], worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
    for line in orders:
        match line.strip():
            case b"drain":
                _end(worker, loop)
            case b"exit":
                _exit_at_once(signal.SIGTERM)
            case _:
                pass
    log.warning("the supervisor is gone; draining", extra={"event": "supervisor_gone"})
    _end(worker, loop)


def _end(worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.call_soon_threadsafe(worker.end)
    except RuntimeError:
        pass  # it has ended


def _obey_signals(worker: Worker, loop: asyncio.AbstractEventLoop) -> None:
    seen = False

    def obey(number: int, frame: FrameType | None) -> None:
        nonlocal seen
        if seen:
            _exit_at_once(number)
        seen = True
        _end(worker, loop)

    # Not the loop's own handlers: the second signal must work while a handler blocks the loop.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, obey)


def _exit_at_once(number: int) -> None:
    os._exit(128 + number)


def _tell(status: int | None, worker: Worker, silence: float) -> None:
    line = {
        "worker": worker.name,
        "ready": worker.ready,
        "silence": round(silence, 1),
        "running": worker.runner.running,
        "notify": worker.listener.state,
        **worker.stats.as_dict(),
    }
    _write(status, line)
    worker.telling.tell(lambda each: _write(status, each))


def _write(status: int | None, line: dict[str, Any]) -> bool:
    """Whether it was heard. A line of up to 4,096 bytes is written whole, or not at all."""
    if status is None:
        return True
    try:
        os.write(status, json.dumps(line).encode() + b"\n")
    except OSError:
        return False  # the supervisor is gone or slow: the orders' end says the first
    return True
