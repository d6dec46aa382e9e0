"""``redrive alerts watch``: check and deliver until a signal, so that a dead last worker is seen."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from typing import Annotated, Literal

import typer

from redrive.cli.options import DatabaseOption
from redrive.cli.running import run
from redrive.cli.session import session
from redrive.errors import ConfigError
from redrive.settings import load_settings
from redrive.store import migrations
from redrive.watch.watch import Watch
from redrive.worker.logs import configure

log = logging.getLogger("redrive.watch")

# A name server that does not answer holds up the end no longer.
_LEAVING = 3.0


def watch(
    every: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Seconds between two checks. Default: REDRIVE_CHECK_EVERY, else 60.",
            show_default=False,
        ),
    ] = None,
    log_format: Annotated[Literal["text", "json"], typer.Option(help="One line an event.")] = "text",
    database: DatabaseOption = None,
) -> None:
    """Check health, deliver alerts and prune until SIGTERM or Ctrl-C; a second one ends at once.

    Every worker does this too; run this one elsewhere, and it is seen when the last worker dies.
    Exit: 0 ended by a signal, 2 configuration, 3 database out of reach at the start.
    """
    if every is not None and not 1 <= every <= 3600:
        raise ConfigError(f"--every is {every:g}; it must be from 1 to 3600 seconds")
    seconds = every or load_settings().check_every
    with session(database) as store:
        configure(log_format)
        log.info("database: %s", store.description, extra={"event": "database"})
        migrations.demand(store.run(migrations.check_statement()), store.url)
        made = Watch.configured(store.url, check_every=seconds, retention=True)
        run(_watch(made, seconds))


async def _watch(made: Watch, seconds: float) -> None:
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()

    def obey(number: int) -> None:
        if ending.is_set():
            os._exit(128 + number)
        log.info("%s: ending", signal.Signals(number).name, extra={"event": "watch_ending"})
        ending.set()
        timer = threading.Timer(_LEAVING, os._exit, [0])
        timer.daemon = True
        timer.start()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, obey, number)
    await made.start()
    log.info(
        "watching: a check every %g s, alerts to %s",
        seconds,
        ", ".join(each.name for each in made.sinks) or "nobody",
        extra={"event": "watch_started"},
    )
    await ending.wait()
    await made.stop()
