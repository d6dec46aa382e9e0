"""``redrive inbox status``: was everything handled, or did nothing ever arrive?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer

from redrive.cli.inbox_selection import SourceArgument
from redrive.cli.inbox_sources import check_source
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import age, answer, answer_json, count
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.store import events
from redrive.store.events import SourceStatus

_COLUMNS = ("source", "received", "waiting", "processed", "failed", "ignored", "quarantined", "last received")
_COUNTED = ("received", "waiting", "processed", "failed", "ignored")
_NUMBERS = (*_COUNTED, "quarantined")
# Where the database stops counting each of them.
_MOST = 10_000
HANDLED, WAITING, FAILED, NOTHING = "handled", "waiting", "failed", "nothing arrived"


def status(
    source: SourceArgument = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Exit 1 unless something has arrived and all of it was handled."),
    ] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Say for each source what arrived and what became of it, in numbers and in words.

    Verdicts: handled (everything that arrived was processed, or ignored by choice), waiting (some of it is
    still to be handled), failed (some of it is a dead letter), nothing arrived. Exit 1 for a source that
    nobody knows: nothing came from it, ever, and the app that the settings name does not declare it.
    """
    with session(database) as store:
        found = store.run(events.status(source))
        now = store.run(events.now())
        if as_json:
            answer_json([{**each._asdict(), "verdict": verdict(each)} for each in found])
        check_source(store, source)
    if not as_json:
        _print(found, now)
    if check and {verdict(each) for each in found} != {HANDLED}:
        raise typer.Exit(1)


def verdict(status: SourceStatus) -> str:
    """One of the four words."""
    if not status.received:
        return NOTHING
    if status.failed:
        return FAILED
    return WAITING if status.waiting else HANDLED


def in_words(status: SourceStatus, now: datetime) -> str:
    """The verdict as a sentence, with what to do."""
    refused = sum(status.refused.values())
    told = f"; {_refusals(status)}" if refused else ""
    match verdict(status):
        case "nothing arrived":
            return f"{status.source}: nothing has ever arrived{told}"
        case "handled":
            parts = [f"{n:,} {what}" for what, n in _ended(status) if n]
            return f"{status.source}: everything that arrived was handled ({', '.join(parts)}){told}"
        case "waiting":
            since = status.oldest_waiting_at
            longest = "" if since is None else f", the oldest for {age((now - since).total_seconds())}"
            waiting = f"{count(status.waiting, 'event')} not handled yet{longest}"
            return f"{status.source}: {waiting}; redrive status tells of its queue{told}"
        case _:
            return (
                f"{status.source}: {count(status.failed, 'event')} failed; "
                f"redrive inbox list {status.source} --status failed{told}"
            )


def _refusals(status: SourceStatus) -> str:
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(status.refused.items()))
    return f"quarantined, ever: {reasons}; redrive inbox quarantine {status.source}"


def _ended(status: SourceStatus) -> list[tuple[str, int]]:
    return [("processed", status.processed), ("ignored", status.ignored)]


def _print(found: Sequence[SourceStatus], now: datetime) -> None:
    if not found:
        answer("nothing has ever arrived, from any source")
        return
    rows = [
        (
            each.source,
            *(_number(getattr(each, name), each) for name in _COUNTED),
            sum(each.refused.values()),
            each.last_received_at,
        )
        for each in found
    ]
    print_table(_COLUMNS, rows, numbers=_NUMBERS, keep=("source",), shed=("last received",))
    for each in found:
        answer(in_words(each, now))


def _number(value: int, status: SourceStatus) -> str:
    """Counting stops somewhere."""
    return f"{value:,}+" if status.more and value >= _MOST else f"{value:,}"
