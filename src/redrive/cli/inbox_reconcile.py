"""``redrive inbox reconcile``: find what never arrived by asking the provider."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer

from redrive.app import Redrive, load_app
from redrive.cli import inbox_times as times
from redrive.cli import running
from redrive.cli.declaring import app_name
from redrive.cli.options import AppOption, DatabaseOption, JsonOption
from redrive.cli.output import answer, answer_json, count, say
from redrive.cli.progress import progress
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.errors import ConfigError, RedriveError
from redrive.inbox.inbox import Inbox
from redrive.inbox.reconcile import Tally, reconciliation
from redrive.inbox.source import ApiError
from redrive.job import Reject
from redrive.store.database import Database

_COLUMNS = ("listed", "checked", "missing", "changed", "gone", "sent", "waiting")


def reconcile(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The inbox, as the app calls it.", show_default=False)
    ],
    since: Annotated[
        str, typer.Option(metavar="TIME", help="What was created since: 24h ago (s, m, h, d, w), or a time.")
    ] = "24h",
    full: Annotated[
        bool, typer.Option("--full", help="Everything there is, whenever it was created.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is missing or differs; send nothing.")
    ] = False,
    app: AppOption = None,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Ask the provider what is true, and send an event for all that is missing, differs or is gone here.

    The events wait in the inbox's queue, where a worker fetches each resource again. Safe to run again, and
    while webhooks arrive. For GitHub: asks for redelivery of what was never recorded. Exit 1 when the
    provider does not answer; what was found until then is sent, and told.
    """
    window = None if full else times.parse(since, "--since")
    loaded = load_app(app_name(app))
    failure: BaseException | None = None
    with session(database, announce=True) as store, progress(f"reconciling {source}", total=None) as step:
        run = _Run(loaded, source, store.url, times.moment(store, window), dry_run, step)
        try:
            running.run(run.run())
        except Reject as refused:
            failure = ConfigError(refused.reason)
        except (RedriveError, KeyboardInterrupt) as error:
            failure = error
    _answer(run, source, failure, dry_run=dry_run, as_json=as_json)
    if isinstance(failure, ApiError):
        say(f"stopped before the end: {failure}")
        raise typer.Exit(1)
    if failure is not None:
        raise failure


def _answer(run: _Run, source: str, failure: BaseException | None, *, dry_run: bool, as_json: bool) -> None:
    """What was found, also until it failed; nobody wants to read of nothing before they read why."""
    if as_json:
        answer_json({"source": source, "dry_run": dry_run, "kinds": run.as_json()})
    elif failure is None or isinstance(failure, ApiError) or run.report:
        _show(run.report, dry_run=dry_run)


class _Run:
    def __init__(
        self,
        app: Redrive,
        source: str,
        url: str,
        since: datetime | None,
        dry_run: bool,
        step: Callable[[int], None],
    ) -> None:
        self._app = app
        self._database = Database(url, size=2)
        self._reconciliation = reconciliation(
            _inbox(app, source), self._database, since, dry_run=dry_run, step=step
        )

    @property
    def report(self) -> dict[str, Tally]:
        return self._reconciliation.report

    def as_json(self) -> dict[str, dict[str, int]]:
        return {kind: asdict(tally) for kind, tally in self.report.items()}

    async def run(self) -> None:
        try:
            await self._reconciliation.run()
        finally:
            await self._database.close()
            await self._app.close()


def _inbox(app: Redrive, source: str) -> Inbox:
    inboxes = app.inboxes
    if source not in inboxes:
        known = f"they are: {', '.join(sorted(inboxes))}" if inboxes else "it declares none"
        raise ConfigError(f"the app has no inbox {source!r}; {known}")
    return inboxes[source]


def _show(report: dict[str, Tally], *, dry_run: bool) -> None:
    rows = [(kind, *(getattr(tally, name) for name in _COLUMNS)) for kind, tally in report.items()]
    # Where the first page was not read already, there is nothing to tell of.
    if report:
        print_table(("kind", *_COLUMNS), rows, numbers=_COLUMNS, keep=("kind",))
    if dry_run:
        found = sum(tally.missing + tally.changed + tally.gone for tally in report.values())
        answer(f"{count(found, 'event')} would be sent; nothing was changed")
    else:
        answer(f"{count(sum(tally.sent for tally in report.values()), 'event')} sent")
