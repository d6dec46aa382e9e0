"""Webhook events: receive one, read it back, list, replay and count them, as statements.

Guarantees  `receive` refuses nothing because of what a webhook's sender wrote, beyond what the database does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from redrive import payload as payloads
from redrive.errors import InvalidArgument
from redrive.store.statement import Row, Statement, scalar, text_array

STATUSES = ("received", "processed", "failed", "ignored")


class Received(NamedTuple):
    """`id` names the event's record, `msg_id` the message of its job.

    `duplicate`: the event was there already, and nothing was sent. `conflict`: with another body.
    """

    id: str
    msg_id: int
    duplicate: bool
    conflict: bool


class Recorded(NamedTuple):
    """An event as it was recorded. `payload` is JSON text, None where jsonb cannot hold the body.

    `raw` is the body as it was received. `attempts` and `last_error` are those of message `msg_id`;
    `generation`: how often the event was sent again. `origin`: webhook or reconcile.
    """

    id: str
    source: str
    event_id: str
    type: str
    resource: str | None
    received_at: datetime
    status: str
    attempts: int
    last_error: str | None
    payload: str | None
    raw: bytes
    headers: dict[str, Any] | None
    msg_id: int
    queue: str
    generation: int
    origin: str
    settled_at: datetime | None


def receive(
    source: str,
    event_id: str,
    type: str,
    payload: str | None,
    raw: bytes,
    headers: Mapping[str, str | Sequence[str]],
    queue: str,
    *,
    resource: str | None = None,
    volatile: Sequence[str] = (),
    derived: bool = False,
    origin: str = "webhook",
) -> Statement[Received]:
    """Record an event and send its job, in one call. `payload` is its JSON text, None where there is none.

    `volatile`: top-level fields of the payload that the provider changes between deliveries. `derived`: the
    id was made from a state that may come back, so that it suppresses for two hours only.
    A payload or a header that jsonb cannot hold raises `InvalidArgument`, or the driver's error of class 54.
    """
    return Statement(
        "select id::text, msg_id, duplicate, conflict from redrive.receive_event(p_source => %s::text,"
        " p_event_id => %s::text, p_type => %s::text, p_payload => %s::jsonb, p_raw => %s::bytea,"
        " p_headers => %s::jsonb, p_queue => %s::text, p_resource => %s::text, p_volatile => %s::text[],"
        " p_derived => %s::boolean, p_origin => %s::text)",
        (
            source,
            event_id,
            type,
            payload,
            raw,
            json.dumps(dict(headers), ensure_ascii=False),
            queue,
            resource,
            text_array(volatile) if volatile else None,
            derived,
            origin,
        ),
        lambda rows: Received(*rows[0]),
    )


def load(id: str) -> Statement[Recorded | None]:
    """The event with everything that was recorded of it; None when there is none.

    Raises `InvalidArgument` for what is no uuid.
    """
    columns = ", ".join(_AS_TEXT.get(name, name) for name in Recorded._fields)
    return Statement(
        f"select {columns} from redrive.event(p_id => %s::uuid)", (check_id(id),), _only_recorded
    )


def note_refusals(refusals: Sequence[Mapping[str, Any]]) -> Statement[None]:
    """What was refused since this was last said: `source`, `reason`, `count` and `samples` each.

    A sample: `at` (ISO 8601), `detail`, `headers`, `body_base64`, `size`, `event_id`, each or none of them.
    """
    return Statement(
        "select redrive.note_refusals(p_refusals => %s::jsonb)",
        (json.dumps([dict(each) for each in refusals], ensure_ascii=False),),
        lambda rows: None,
    )


def note_fetch(source: str, resource: str, at: datetime) -> Statement[bool]:
    """May the answer of a fetch that began `at` (by `now()`) be written? True, and remembered, if so.

    For the transaction that writes the answer: until its end other answers for `resource` wait.
    """
    return Statement(
        "select redrive.note_fetch(p_source => %s::text, p_resource => %s::text, p_at => %s::timestamptz)",
        (source, resource, at.isoformat()),
        scalar,
    )


def now() -> Statement[datetime]:
    """The database's clock, the only one that counts."""
    return Statement("select redrive.clock()", (), scalar)


def check_id(id: object) -> str:
    """Return `id` as the text of a uuid, else raise `InvalidArgument`."""
    try:
        return str(UUID(str(id)))
    except ValueError:
        raise InvalidArgument(f"event id {id!r} is no uuid; `redrive inbox list` shows them") from None


_AS_TEXT = {"id": "id::text", "payload": "payload::text", "headers": "headers::text"}


def _only_recorded(rows: Sequence[Row]) -> Recorded | None:
    if not rows:
        return None
    values = dict(zip(Recorded._fields, rows[0], strict=True))
    values["headers"] = None if values["headers"] is None else payloads.decode_any(values["headers"])
    return Recorded(**values)
