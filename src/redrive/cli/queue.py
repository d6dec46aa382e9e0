"""``redrive queue``: make, look at, pause, drop and adopt queues, and change their policy."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from redrive.cli.options import DatabaseOption, JsonOption, QueueArgument, YesOption
from redrive.cli.output import answer, answer_json, confirm, facts, shown
from redrive.cli.policy_edit import changes
from redrive.cli.session import session
from redrive.cli.status import metrics_row
from redrive.cli.tables import print_table
from redrive.errors import QueueMissing
from redrive.store import metrics, queues
from redrive.store.queues import PolicyField, Queue

app = typer.Typer(no_args_is_help=True, help="Queues and their policies.")

_SHOWN_POLICY = ("max_attempts", "visibility_timeout", "timeout", "single_flight", "archive")


@app.command()
def create(queue: QueueArgument, database: DatabaseOption = None) -> None:
    """Make a queue and its dead-letter queue; fine when it is there already."""
    with session(database) as store:
        store.run(queues.create(queue))
    answer(f"queue {queue} is there, with its dead-letter queue {queue}_dlq")


@app.command("list")
def list_(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """List every queue, pgmq's own too (kind: foreign)."""
    with session(database) as store:
        found = store.run(queues.listing())
    if as_json:
        answer_json([each._asdict() for each in found])
        return
    columns = ("queue", "kind", "paused", "created", *(name.replace("_", " ") for name in _SHOWN_POLICY))
    rows = [
        (
            *(each.queue, each.kind, each.paused, each.created_at),
            *((each.policy or {}).get(name) for name in _SHOWN_POLICY),
        )
        for each in found
    ]
    print_table(columns, rows, keep=("queue",), shed=("created", "archive", "single flight", "kind"))


@app.command()
def show(queue: QueueArgument, as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """Show one queue: its kind, its policy and its numbers."""
    with session(database) as store:
        gauges = store.run(metrics.gauges(queue))[0]
        found = _one(store.run(queues.listing()), queue)
    if as_json:
        answer_json({**found._asdict(), "metrics": metrics_row(gauges)})
        return
    facts(
        [
            ("queue", found.queue),
            ("kind", found.kind),
            ("created", found.created_at),
            *(pair for pair in metrics_row(gauges).items() if pair[0] != "queue"),
            *((f"policy {name}", shown_policy(value)) for name, value in (found.policy or {}).items()),
        ]
    )


@app.command()
def policy(
    queue: QueueArgument,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Override a field: max_attempts=3, timeout=null, backoff.base=10. May be repeated.",
            show_default=False,
        ),
    ] = None,
    reset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD",
            help="Take an override back: what the code declares holds again. May be repeated.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Show a queue's policy and who said what: an override goes before what code declares and the default.

    Durations are seconds. Workers follow a change within half a minute.
    """
    with session(database) as store:
        fields = store.run(queues.policy_fields(queue))
        if settings or reset:
            store.run(queues.set_policy(queue, changes(settings or [], fields), reset or []))
            fields = store.run(queues.policy_fields(queue))
    if as_json:
        answer_json({"queue": queue, "policy": {each.field: _said(each) for each in fields}})
        return
    rows = [
        (
            each.field,
            shown_policy(each.value),
            *(shown_policy(*said) for said in (each.declared, each.override)),
        )
        for each in fields
    ]
    print_table(("field", "value", "declared in code", "override"), rows, keep=("field",))


@app.command()
def pause(queue: QueueArgument, database: DatabaseOption = None) -> None:
    """Hand nothing out any more; running jobs finish, sends go on."""
    with session(database) as store:
        changed = store.run(queues.pause(queue))
    answer(f"queue {queue} {'is paused' if changed else 'was paused already'}")


@app.command()
def resume(queue: QueueArgument, database: DatabaseOption = None) -> None:
    """Hand out again."""
    with session(database) as store:
        changed = store.run(queues.resume(queue))
    answer(f"queue {queue} {'is handed out again' if changed else 'was not paused'}")


@app.command()
def drop(queue: QueueArgument, yes: YesOption = False, database: DatabaseOption = None) -> None:
    """Delete a queue: its messages, archive, dead letters, keys and policy."""
    with session(database) as store:
        gauges = store.run(metrics.gauges(queue))[0]
        more = " or more" if gauges.more else ""
        waiting = sum(n or 0 for n in (gauges.ready, gauges.delayed, gauges.in_flight))
        confirm(
            f"Delete queue {queue} with its {waiting:,}{more} unfinished messages, {gauges.dead or 0:,} dead "
            "letters and its archive, for good?",
            yes=yes,
        )
        store.run(queues.drop(queue))
    answer(f"queue {queue} is deleted")


@app.command()
def adopt(queue: QueueArgument, database: DatabaseOption = None) -> None:
    """Take a queue made by pgmq under redrive's policy; its rights and retention stay as they are."""
    with session(database) as store:
        store.run(queues.adopt(queue))
    answer(f"queue {queue} is adopted, with the dead-letter queue {queue}_dlq")


def shown_policy(*value: Any) -> str:
    """A policy value as `--set` takes it; nothing when nobody said anything."""
    if not value:
        return ""
    return (
        "null" if value[0] is None else str(value[0]).lower() if isinstance(value[0], bool) else shown(*value)
    )


def _one(found: list[Queue], name: str) -> Queue:
    for each in found:
        if each.queue == name:
            return each
    raise QueueMissing(f"queue {name} was dropped a moment ago")


def _said(field: PolicyField) -> dict[str, Any]:
    said: dict[str, Any] = {"value": field.value}
    if field.declared:
        said["declared"] = field.declared[0]
    if field.override:
        said["override"] = field.override[0]
    return said
