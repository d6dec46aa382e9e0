"""``redrive dlq``: look at dead letters, send them again, or give them up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from redrive.cli.importing import Importing
from redrive.cli.message import print_facts
from redrive.cli.options import DatabaseOption, JsonOption, QueueArgument, YesOption
from redrive.cli.output import answer, answer_json, confirm, console, count, one_line, say, shown
from redrive.cli.redaction import redact
from redrive.cli.redriving import Orders, Redriving
from redrive.cli.selection import (
    AllOption,
    ErrorOption,
    IdsOption,
    LimitOption,
    ReasonOption,
    Selection,
    by_id,
)
from redrive.cli.session import Session, session
from redrive.cli.tables import print_table
from redrive.errors import RedriveError
from redrive.store import dead_letters
from redrive.store.dead_letters import DeadLetter

app = typer.Typer(no_args_is_help=True, help="Dead letters: messages that ended in failure.")

_CHUNK = 500
_PAYLOAD = 200

DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Say how many and show the first few; change nothing.")
]


@app.command("list")
def list_(
    queue: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="Default: every queue.", show_default=False)
    ] = None,
    after: Annotated[int, typer.Option(metavar="ID", help="Go on after this id.")] = 0,
    limit: Annotated[int, typer.Option(metavar="N", help="At most this many of each queue.")] = 50,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """List dead letters, the oldest first. What looks like a secret is redacted."""
    with session(database) as store:
        found = store.run(dead_letters.page(queue, after=after, limit=limit))
    if as_json:
        answer_json([_as_json(each) for each in found])
        return
    print_letters(found)
    if queue is not None and len(found) == limit:
        say(f"perhaps there are more: redrive dlq list {queue} --after {found[-1].dead_id}")


@app.command()
def show(
    queue: QueueArgument,
    dead_id: Annotated[int, typer.Argument(metavar="ID", help="As dlq list shows it.", show_default=False)],
    raw: Annotated[bool, typer.Option("--raw", help="Do not redact what looks like a secret.")] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Show a dead letter, its payload and its failed attempts with their tracebacks."""
    with session(database) as store:
        found = by_id(store, queue, dead_id)
    if found is None:
        say(_unknown(queue, dead_id))
        raise typer.Exit(1)
    facts = _as_json(found, raw=raw)
    if as_json:
        answer_json(facts)
    else:
        print_facts({name: each for name, each in facts.items() if name != "failures"}, facts["failures"])


@app.command()
def redrive(
    queue: QueueArgument,
    ids: IdsOption = None,
    reason: ReasonOption = None,
    error: ErrorOption = None,
    everything: AllOption = False,
    limit: LimitOption = None,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="At most this many a second.", show_default=False)
    ] = None,
    canary: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Send N first and wait until they have ended; stop at the first that fails again.",
            show_default=False,
        ),
    ] = None,
    patch: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="An object; its fields replace those of the payloads.", show_default=False
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also those whose key another message has completed: they run again."),
    ] = False,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Send dead letters again, each as a new message with a new budget.

    Headers, key and origin are kept. Exit 1 when a canary fails again, or when one asked for stays dead.
    """
    selection = Selection(queue, ids or (), reason, error, everything, limit)
    orders = Orders(queue, rate=rate, canary=canary, patch=patch, force=force)
    with session(database) as store:
        if dry_run:
            _dry_run(selection, store, "would be sent again", as_json=as_json)
            return
        asked = list(dict.fromkeys(ids)) if ids else selection.find(store).ids
        redriving = Redriving(store, orders, asked)
        outcome = redriving.outcome
        try:
            redriving.run()
        except (KeyboardInterrupt, RedriveError):
            if as_json:
                answer_json(outcome.as_json())
            raise
    if as_json:
        answer_json(outcome.as_json())
    else:
        answer(outcome.summary())
    if outcome.canary_failure is not None:
        say(f"stopped: {outcome.canary_failure}")
    if not outcome.complete:
        raise typer.Exit(1)


@app.command()
def discard(
    queue: QueueArgument,
    ids: IdsOption = None,
    reason: ReasonOption = None,
    error: ErrorOption = None,
    everything: AllOption = False,
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Give dead letters up: they leave for the archive and are not sent again."""
    selection = Selection(queue, ids or (), reason, error, everything, limit)
    with session(database) as store:
        if dry_run:
            _dry_run(selection, store, "would be given up", as_json=as_json)
            return
        found = selection.find(store)
        missing = selection.missing(found)
        if found.ids:
            confirm(f"Give up {count(len(found.ids), 'dead letter')} of queue {queue}?", yes=yes)
        gone: list[int] = []
        for chunk in _chunks(found.ids, _CHUNK):
            gone += store.run(dead_letters.discard(queue, chunk))
    if as_json:
        answer_json({"queue": queue, "discarded": sorted(gone), "missing": missing})
    else:
        answer(f"{count(len(gone), 'dead letter')} of queue {queue} given up")
        for each in missing:
            say(_unknown(queue, each))
    if missing or len(gone) < len(found.ids):
        raise typer.Exit(1)


@app.command("import")
def import_(
    source: Annotated[
        str,
        typer.Argument(metavar="QUEUE_DEAD", help="The queue that they were put into.", show_default=False),
    ],
    queue: Annotated[
        str,
        typer.Option(
            "--queue", metavar="QUEUE", help="The queue whose dead letters they become.", show_default=False
        ),
    ],
    limit: LimitOption = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Take in dead letters that another worker put into a queue of its own.

    Each is moved: it leaves that queue, whose archive keeps it, and is listed, redriven and discarded here.
    Known are {original_msg_id, read_ct, enqueued_at, dead_lettered_at, payload} and {payload, attempts}. What
    is neither is left and named, with exit 1.
    """
    with session(database) as store:
        importing = Importing(store, source, queue, limit)
        outcome = importing.look()
        if not dry_run:
            if outcome.imported:
                letters = count(outcome.imported, "dead letter")
                confirm(f"Take {letters} of {source} in as those of queue {queue}?", yes=yes)
            outcome = importing.outcome
            importing.run(outcome.imported)
    if as_json:
        answer_json(outcome.as_json())
    else:
        answer(outcome.summary("would become dead letters" if dry_run else "became dead letters"))
    if outcome.left:
        raise typer.Exit(1)


def print_letters(found: Iterable[DeadLetter]) -> None:
    """Dead letters as a table, redacted and shortened."""
    # What the other columns leave to each of these two; a payload is not what a list is read for.
    most = max(20, (console().width - 80) // 2)
    columns = ("queue", "id", "died", "attempts", "reason", "error", "key", "payload")
    rows = [
        (
            each.queue,
            each.dead_id,
            each.dead_lettered_at,
            each.attempts,
            each.reason,
            one_line(redact(each.error), most),
            each.key,
            one_line(shown(redact(each.payload)), min(most, _PAYLOAD)),
        )
        for each in found
    ]
    print_table(
        columns,
        rows,
        numbers=("id", "attempts"),
        keep=("queue", "id", "reason"),
        shed=("key", "payload", "died"),
    )


def _dry_run(selection: Selection, store: Session, what: str, *, as_json: bool) -> None:
    found = selection.find(store)
    missing = selection.missing(found)
    if as_json:
        sample = [_as_json(each) for each in found.sample]
        answer_json({"count": len(found.ids), "sample": sample, "missing": missing})
    else:
        answer(f"{count(len(found.ids), 'dead letter')} {what}; nothing was changed")
        if found.sample:
            print_letters(found.sample)
        for each in missing:
            say(_unknown(selection.queue, each))
    if missing:
        raise typer.Exit(1)


def _as_json(letter: DeadLetter, *, raw: bool = False) -> dict[str, Any]:
    facts = letter._asdict()
    return facts if raw else redact(facts)


def _unknown(queue: str, dead_id: int) -> str:
    return f"queue {queue} has no dead letter {dead_id}; see redrive dlq list {queue}"


def _chunks(ids: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(ids), size):
        yield ids[start : start + size]
