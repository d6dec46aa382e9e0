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
from redrive.policy import check_count
from redrive.store.statement import Row, Statement, nothing, scalar, text_array

# Postgres' integer.
_MOST_ROWS = 2**31 - 1

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

    `raw` is the body as it was received. `attempts` and `last_error` are those of message `msg_id`: while it
    is received those that failed, afterwards all, the one that ended it too;
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


class Listed(NamedTuple):
    """An event as a list shows it, without its bodies."""

    id: str
    source: str
    event_id: str
    type: str
    resource: str | None
    received_at: datetime
    status: str
    attempts: int
    last_error: str | None
    msg_id: int
    queue: str
    generation: int
    origin: str
    settled_at: datetime | None


class Replayed(NamedTuple):
    """`status`: replayed (`msg_id` is the new message), live, locked, no queue or missing."""

    id: str
    msg_id: int | None
    status: str


class SourceStatus(NamedTuple):
    """What became of a source's events. Each count stops at 10,000: `more` says that one did.

    `received` is the sum of the four. `refused`: requests by reason, ever.
    """

    source: str
    received: int
    waiting: int
    processed: int
    failed: int
    ignored: int
    more: bool
    refused: dict[str, int]
    last_received_at: datetime | None
    last_processed_at: datetime | None
    oldest_waiting_at: datetime | None
    last_refused_at: datetime | None


class Refusal(NamedTuple):
    """A request that was refused, or an event whose id came again with another body (reason conflict).

    `body` has its first 64 KB, `size` says how many bytes there were.
    """

    id: int
    source: str
    at: datetime
    reason: str
    detail: str | None
    headers: dict[str, Any] | None
    body: bytes | None
    size: int | None
    event_id: str | None


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


class Arrival(NamedTuple):
    """An event to be recorded, as `receive` takes it."""

    source: str
    event_id: str
    type: str
    payload: str | None
    raw: bytes
    headers: Mapping[str, str | Sequence[str]]
    queue: str
    resource: str | None = None
    volatile: Sequence[str] = ()
    derived: bool = False


def receive_many(arrivals: Sequence[Arrival]) -> Statement[list[Received]]:
    """`receive` for each, in one call, all or none; what became of each, in order."""
    return Statement(
        "select n, id::text, msg_id, duplicate, conflict"
        " from redrive.receive_events(p_events => %s::jsonb, p_raws => %s::bytea) order by n",
        (f"[{','.join(map(_described, arrivals))}]", b"".join(each.raw for each in arrivals)),
        lambda rows: [Received(*row[1:]) for row in rows],
    )


def _described(arrival: Arrival) -> str:
    facts: dict[str, object] = {
        "source": arrival.source,
        "event_id": arrival.event_id,
        "type": arrival.type,
        "queue": arrival.queue,
        "size": len(arrival.raw),
        "headers": arrival.headers,
        "resource": arrival.resource,
        "derived": arrival.derived,
    }
    if arrival.volatile:
        facts["volatile"] = arrival.volatile
    text = json.dumps(facts, ensure_ascii=False)
    # As its sender wrote it: reading and writing it again would cost more than all the rest.
    return text if arrival.payload is None else f'{text[:-1]}, "payload": {arrival.payload}}}'


def load(id: str) -> Statement[Recorded | None]:
    """The event with everything that was recorded of it; None when there is none.

    Raises `InvalidArgument` for what is no uuid.
    """
    columns = _columns(Recorded, "id", "payload", "headers")
    return Statement(
        f"select {columns} from redrive.event(p_id => %s::uuid)", (check_id(id),), _only_recorded
    )


def find(source: str, event_id: str) -> Statement[str | None]:
    """The id of the record of what `source` calls `event_id`; None when there is none."""
    return Statement(
        "select redrive.find_event(p_source => %s::text, p_event_id => %s::text)::text",
        (source, event_id),
        scalar,
    )


def recorded(source: str, event_ids: Sequence[str]) -> Statement[set[str]]:
    """Those of these ids of `source` that have a record."""
    return Statement(
        "select e from unnest(%s::text[]) e"
        " where redrive.find_event(p_source => %s::text, p_event_id => e) is not null",
        (text_array(event_ids), source),
        lambda rows: {row[0] for row in rows},
    )


def page(
    *,
    source: str | None = None,
    type: str | None = None,
    status: str | None = None,
    resource: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Statement[list[Listed]]:
    """At most `limit` events, newest first; `after` is the id of the last one of the page before.

    `type` may hold ``*`` for any text. `since` is inside, `until` outside. Raises `InvalidArgument`.
    """
    if status is not None and status not in STATUSES:
        raise InvalidArgument(f"status {status!r} is unknown; a status is one of {', '.join(STATUSES)}")
    return Statement(
        f"select {_columns(Listed, 'id')} from redrive.list_events(p_source => %s::text, p_type => %s::text,"
        " p_status => %s::text, p_resource => %s::text, p_since => %s::timestamptz,"
        " p_until => %s::timestamptz, p_after => %s::uuid, p_limit => %s::integer)",
        (
            source,
            type,
            status,
            resource,
            _moment(since, "since"),
            _moment(until, "until"),
            None if after is None else check_id(after),
            _limit(limit),
        ),
        lambda rows: [Listed(*row) for row in rows],
    )


def replay(ids: Sequence[str]) -> Statement[list[Replayed]]:
    """Send events through their queue again, in one transaction; one answer an id.

    Raises `InvalidArgument` for what is no uuid.
    """
    return Statement(
        f"select {_columns(Replayed, 'id')} from redrive.replay_events(p_ids => %s::uuid[])",
        (text_array([check_id(each) for each in ids]),),
        lambda rows: [Replayed(*row) for row in rows],
    )


def status(source: str | None = None) -> Statement[list[SourceStatus]]:
    """One row a source that is known, by name; or the one of `source`, known or not."""
    return Statement(
        f"select {_columns(SourceStatus, 'refused')} from redrive.inbox_status(p_source => %s::text)",
        (source,),
        lambda rows: [_source_status(row) for row in rows],
    )


def refusals(source: str | None = None, *, limit: int = 100) -> Statement[list[Refusal]]:
    """The quarantine, newest first. Raises `InvalidArgument`."""
    return Statement(
        f"select {_columns(Refusal, 'headers')}"
        " from redrive.refusals(p_source => %s::text, p_limit => %s::integer)",
        (source, _limit(limit)),
        lambda rows: [_refusal(row) for row in rows],
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


def check_inbox(queues: Sequence[str]) -> Statement[None]:
    """Asks whether webhooks for these queues can be recorded; raises `QueueMissing`, `SetupError` if not."""
    return Statement("select redrive.check_inbox(%s::text[])", (text_array(queues),), nothing)


def check_id(id: object) -> str:
    """Return `id` as the text of a uuid, else raise `InvalidArgument`."""
    try:
        return str(UUID(str(id)))
    except ValueError:
        raise InvalidArgument(f"event id {id!r} is no uuid; `redrive inbox list` shows them") from None


def _columns(of: type[Any], *as_text: str) -> str:
    return ", ".join(f"{name}::text" if name in as_text else name for name in of._fields)


def _limit(value: int) -> int:
    if check_count(value, "limit") > _MOST_ROWS:
        raise InvalidArgument(f"limit is {value}; it must be at most {_MOST_ROWS}")
    return value


def _moment(value: datetime | None, name: str) -> str | None:
    if value is None:
        return None
    if value.utcoffset() is None:
        raise InvalidArgument(f"{name} is {value!r}, which has no time zone; add one, such as tzinfo=UTC")
    return value.isoformat()


def _only_recorded(rows: Sequence[Row]) -> Recorded | None:
    if not rows:
        return None
    event = Recorded(*rows[0])
    return event._replace(headers=_decoded(event.headers), raw=bytes(event.raw))


def _source_status(row: Row) -> SourceStatus:
    status = SourceStatus(*row)
    return status._replace(refused=_decoded(status.refused))


def _refusal(row: Row) -> Refusal:
    refusal = Refusal(*row)
    return refusal._replace(headers=_decoded(refusal.headers))


def _decoded(text: Any) -> Any:
    return None if text is None else payloads.decode_any(text)
