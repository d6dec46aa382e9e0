"""``redrive message``: look at single messages, and cancel, hurry, postpone or take them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from redrive.cli.options import DatabaseOption, IdsArgument, JsonOption, QueueArgument, YesOption
from redrive.cli.output import answer, answer_json, confirm, count, facts, say, shown
from redrive.cli.redaction import redact
from redrive.cli.session import Session, session
from redrive.store import deliveries, messages
from redrive.watch.why_words import span

app = typer.Typer(no_args_is_help=True, help="Single messages.")

_ORDER = (
    *("queue", "msg_id", "state", "outcome", "key", "attempts", "read_ct", "isolated"),
    *("enqueued_at", "due_at", "archived_at", "duration", "headers", "message"),
)

IdArgument = Annotated[int, typer.Argument(metavar="ID", help="The message's id.", show_default=False)]


@app.command()
def show(
    queue: QueueArgument,
    msg_id: IdArgument,
    raw: Annotated[bool, typer.Option("--raw", help="Do not redact what looks like a secret.")] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Show a message wherever it is (ready, delayed, running, archived or dead) and its failed attempts."""
    with session(database) as store:
        found = store.run(messages.message(queue, msg_id))
    if found is None:
        say(_unknown(queue, [msg_id]))
        raise typer.Exit(1)
    found = found if raw else redact(found)
    if as_json:
        answer_json(found)
        return
    print_facts({name: found[name] for name in _ORDER if found.get(name) is not None}, found["failures"])


@app.command()
def cancel(
    queue: QueueArgument, ids: IdsArgument, yes: YesOption = False, database: DatabaseOption = None
) -> None:
    """End messages that are not running; they are archived as cancelled, their keys freed."""
    with session(database) as store:
        confirm(f"Cancel {count(len(ids), 'message')} of queue {queue}?", yes=yes)
        done = store.run(messages.cancel(queue, ids))
        _report(store, queue, ids, done, "cancelled")


@app.command()
def now(queue: QueueArgument, ids: IdsArgument, database: DatabaseOption = None) -> None:
    """Make delayed messages due at once."""
    with session(database) as store:
        _report(store, queue, ids, store.run(messages.reschedule(queue, ids, 0)), "due now")


@app.command()
def snooze(
    queue: QueueArgument,
    ids: IdsArgument,
    seconds: Annotated[
        float, typer.Option("--for", metavar="SECONDS", help="How long from now.", show_default=False)
    ],
    database: DatabaseOption = None,
) -> None:
    """Postpone messages that are not running, at no charge."""
    with session(database) as store:
        done = store.run(messages.reschedule(queue, ids, seconds))
        _report(store, queue, ids, done, f"due in {seconds:g} s")


@app.command()
def release(
    queue: QueueArgument, msg_id: IdArgument, yes: YesOption = False, database: DatabaseOption = None
) -> None:
    """Take a running message back at no charge, so that another worker may claim it at once.

    For a worker that is known to be gone: one that still runs the job cannot report it any more, and the job
    runs a second time.
    """
    with session(database) as store:
        found = store.run(messages.message(queue, msg_id))
        if found is None:
            say(_unknown(queue, [msg_id]))
            raise typer.Exit(1)
        if found["state"] != "running":
            say(
                f"message {msg_id} of queue {queue} is {found['state']}, not running; there is nothing "
                "to take back"
            )
            raise typer.Exit(1)
        confirm(
            f"Take message {msg_id} of queue {queue} back? If its worker is still alive, the job runs twice.",
            yes=yes,
        )
        if not store.run(deliveries.release(queue, msg_id, found["read_ct"])):
            say(f"message {msg_id} of queue {queue} has ended, or was claimed again, a moment ago")
            raise typer.Exit(1)
    answer(f"message {msg_id} of queue {queue} may be claimed again")


def print_facts(known: dict[str, Any], failures: Sequence[dict[str, Any]]) -> None:
    """The facts of a message or dead letter, then its failed attempts, each with its traceback."""
    facts(_spelled(known).items())
    for failure in failures:
        about = _spelled(
            {name: each for name, each in failure.items() if name not in ("error", "error_type", "traceback")}
        )
        said = ", ".join(f"{name} {shown(value)}" for name, value in about.items() if value is not None)
        answer(f"\nfailed: {said}")
        told = failure.get("traceback") or f"{failure.get('error_type')}: {failure.get('error') or ''}"
        answer("\n".join(f"  {line}" for line in str(told).splitlines()))


def _spelled(known: dict[str, Any]) -> dict[str, Any]:
    """With its duration as people read it."""
    took = known.get("duration")
    return known | {"duration": span(took)} if isinstance(took, (int, float)) else known


def _report(store: Session, queue: str, ids: Sequence[int], done: Sequence[int], what: str) -> None:
    """Say which it did and why not the others; exit 1 when there are others."""
    if done:
        answer(f"{count(len(done), 'message')} of queue {queue} {what}: {' '.join(map(str, sorted(done)))}")
    left = sorted(set(ids) - set(done))
    for each in left:
        found = store.run(messages.message(queue, each))
        say(
            _unknown(queue, [each])
            if found is None
            else f"message {each} of queue {queue} is {found['state']}; left alone"
        )
    if left:
        raise typer.Exit(1)


def _unknown(queue: str, ids: Sequence[int]) -> str:
    listed = " ".join(map(str, ids))
    return f"queue {queue} has no message {listed}: it was never sent, or its policy keeps no archive"
