"""``redrive serve``: receive an app's webhooks, and drain its queues when asked to."""

from __future__ import annotations

import logging
from typing import Annotated, Literal

import typer
from psycopg.errors import InsufficientPrivilege

from redrive.app import Redrive
from redrive.app.loading import load_app
from redrive.cli.declaring import app_name, declare
from redrive.cli.options import AppOption, DatabaseOption
from redrive.cli.session import Session, session
from redrive.errors import SetupError
from redrive.store import events, migrations
from redrive.watch.watch import Watch
from redrive.worker.logs import configure

log = logging.getLogger("redrive.serve")


def serve(
    app: AppOption = None,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="PORT", help="Port to listen on; 0 finds a free one.")] = 8000,
    log_format: Annotated[Literal["text", "json"], typer.Option(help="One line an event.")] = "text",
    database: DatabaseOption = None,
) -> None:
    """Receive the webhooks of an app at /webhooks/SOURCE until SIGTERM or Ctrl-C; a second one ends at once.

    A POST to /tick/QUEUE drains that queue for some seconds: for those who have cron but no worker. It takes
    one of the secrets in REDRIVE_TICK_SECRET; without, only this machine may.

    Where its role may work, it also checks health and delivers alerts, as every worker does.

    /livez and /readyz answer too. Behind a proxy on this machine X-Forwarded-For and -Proto are believed; for
    one elsewhere name its address in FORWARDED_ALLOW_IPS.
    Exit: 0 drained, 2 configuration, 3 database out of reach.
    """
    # A sixth of what every other command would take to start.
    from redrive.web.access import Access
    from redrive.web.application import asgi
    from redrive.web.serving import listen
    from redrive.web.serving import serve as serve_on
    from redrive.web.tick import Ticks

    name = app_name(app)
    with session(database) as store:
        configure(log_format)
        log.info("database: %s", store.description, extra={"event": "database"})
        loaded = load_app(name)
        if loaded.database_url is None:
            loaded.database_url = store.url
        # A role that may only send and record checks nothing, and that is no news.
        ticks = Ticks(loaded, Access.from_environment(), spec=name)
        application = asgi(loaded, beside=Watch.configured(store.url, quiet=True), ticks=ticks)
        _prepare(store, loaded)
        with listen(host, port) as listening:
            where, *_ = address = listening.getsockname()
            url = f"http://{f'[{where}]' if ':' in where else where}:{address[1]}"

            def started() -> None:
                if loaded.inboxes:
                    sources = ", ".join(sorted(loaded.inboxes))
                    log.info("receiving %s at %s/webhooks/…", sources, url, extra={"event": "serving"})
                who = (
                    "who knows a secret"
                    if ticks.access.takes_secret
                    else "this machine alone: no secret is set"
                )
                queues = ", ".join(sorted(loaded.jobs))
                log.info("draining %s at %s/tick/…, for %s", queues, url, who, extra={"event": "ticking"})

            serve_on(application, listening, started, ticks.drain)


def _prepare(store: Session, app: Redrive) -> None:
    """The schema is there, and where the app has inboxes their queues are, and this role may record.

    Raises `SetupError`, `QueueMissing`, `Unavailable`.
    """
    migrations.demand(store.run(migrations.check_statement()), store.url)
    if not app.inboxes:
        return
    queues = {inbox.queue for inbox in app.inboxes.values()}
    for job in app.jobs.values():
        if job.queue not in queues:
            continue
        try:
            for line in declare(store, [job]):
                log.info("%s", line, extra={"event": "queue_declared"})
        except SetupError as error:
            # A role that may only send declares nothing; whether the queue is there is asked next.
            log.debug("queue %s is not declared: %s", job.queue, error, extra={"event": "not_declared"})
    try:
        store.run(events.check_inbox(sorted(queues)))
    except SetupError as error:
        if isinstance(error.__cause__, InsufficientPrivilege):
            raise SetupError(
                "this role may not record webhooks; the owner of schema redrive lets it with "
                "`redrive grant ROLE send`"
            ) from error
        raise
