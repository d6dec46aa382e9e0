"""``redrive worker``: work an app's queues."""

from __future__ import annotations

import logging
from functools import partial
from typing import Annotated, Literal

import typer

from redrive.cli.declaring import app_name
from redrive.cli.options import AppOption, DatabaseOption
from redrive.cli.session import session
from redrive.worker.logs import configure
from redrive.worker.options import DEFAULT_CONCURRENCY, DEFAULT_DRAIN, DEFAULT_POLL, WorkerOptions
from redrive.worker.supervisor import supervise

log = logging.getLogger("redrive.worker")


def worker(
    app: AppOption = None,
    queues: Annotated[
        list[str] | None,
        typer.Option(
            "--queue", metavar="QUEUE", help="Only this queue; may be repeated.", show_default=False
        ),
    ] = None,
    concurrency: Annotated[
        int, typer.Option(metavar="N", help="Jobs at once in each process, shared by its queues.")
    ] = DEFAULT_CONCURRENCY,
    processes: Annotated[int, typer.Option(metavar="N", help="Worker processes.")] = 1,
    drain_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="How long running jobs may go on after SIGTERM.")
    ] = DEFAULT_DRAIN,
    poll: Annotated[
        float, typer.Option(metavar="SECONDS", help="Longest pause between two looks at an idle queue.")
    ] = DEFAULT_POLL,
    health: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Answer /livez, /readyz and /metrics there.", show_default=False
        ),
    ] = None,
    log_format: Annotated[Literal["text", "json"], typer.Option(help="One line an event.")] = "text",
    database: DatabaseOption = None,
) -> None:
    """Work the queues of an app until SIGTERM or Ctrl-C; a second one ends at once.

    Jobs that drain cuts off run again elsewhere, at no charge.
    Exit: 0 drained, 2 configuration, 3 database out of reach.
    """
    # Other commands start without it.
    from redrive.watch.prometheus import MetricsPage

    name = app_name(app)
    with session(database) as store:
        options = WorkerOptions(
            app_spec=name,
            url=store.url,
            queues=tuple(queues or ()),
            concurrency=concurrency,
            processes=processes,
            drain_timeout=drain_timeout,
            poll=poll,
            health=health,
            log_format=log_format,
        )
        configure(log_format)
        log.info("database: %s", store.description, extra={"event": "database"})
        code = supervise(options, partial(MetricsPage, store.url))
    raise typer.Exit(code)
