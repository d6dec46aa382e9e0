"""``redrive inbox show``: one event, whole."""

from __future__ import annotations

import base64
from typing import Annotated, Any, cast

import typer

from redrive import payload as payloads
from redrive.cli.inbox_selection import lookup
from redrive.cli.message import print_facts
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import answer_json, say
from redrive.cli.redaction import redact
from redrive.cli.session import Session, session
from redrive.errors import QueueMissing
from redrive.store import messages
from redrive.store.events import Recorded

_BRIEF = ("state", "outcome", "attempts", "enqueued_at", "due_at", "archived_at", "duration")


def show(
    event: Annotated[
        str,
        typer.Argument(
            metavar="EVENT", help="An id as inbox list shows it, or SOURCE/EVENT_ID.", show_default=False
        ),
    ],
    raw: Annotated[
        bool, typer.Option("--raw", help="Do not redact what looks like a secret; show the body as it came.")
    ] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Show an event: its request, its payload, its message and the failed attempts.

    With --raw --json the body as it was received is in `raw_base64`, byte for byte.
    """
    with session(database) as store:
        found = lookup(store, event)
        if found is None:
            say(f"there is no event {event}; see redrive inbox list")
            raise typer.Exit(1)
        message = _message(store, found)
    facts = _facts(found, raw=raw)
    if raw and as_json:
        facts["raw_base64"] = base64.b64encode(found.raw).decode()
    failures: list[dict[str, Any]] = [] if message is None else message["failures"]
    failures = failures if raw else redact(failures)
    brief = None if message is None else {name: message.get(name) for name in _BRIEF}
    if as_json:
        answer_json({**facts, "message": brief, "failures": failures})
        return
    known = {name: value for name, value in facts.items() if value is not None}
    if brief is not None:
        known |= {f"message {name}": value for name, value in brief.items() if value is not None}
    print_facts(known, failures)


def _facts(event: Recorded, *, raw: bool) -> dict[str, Any]:
    facts = event._asdict()
    body = facts.pop("raw")
    facts["payload"] = None if event.payload is None else payloads.decode_any(event.payload)
    facts["size"] = len(body)
    # Last, where a long one hides nothing.
    facts |= {name: facts.pop(name) for name in ("headers", "payload")}
    if not raw:
        facts = redact(facts)
        if event.payload is None:
            facts["body"] = f"{len(body):,} bytes that are no JSON Postgres can hold; --raw shows them"
        return facts
    if event.payload is None:
        facts["body"] = body.decode("utf-8", "backslashreplace")
    return facts


def _message(store: Session, event: Recorded) -> dict[str, Any] | None:
    """What is known of its message; None when its queue was dropped, or keeps no archive."""
    try:
        found = store.run(messages.message(event.queue, event.msg_id))
    except QueueMissing:
        return None
    # A queue that was dropped and made again counts its messages from 1 again.
    headers: object = None if found is None else found["headers"]
    mine = isinstance(headers, dict) and cast("dict[str, Any]", headers).get("x-redrive-event") == event.id
    return found if mine else None
