"""Webhook events as the tests of the SQL ring speak of them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.contract import Connection, Contract


def receive(
    session: Contract | Connection,
    payload: Any = ...,
    *,
    source: str | None = "stripe",
    event_id: str | None = "evt_1",
    type: str | None = "invoice.paid",
    raw: bytes | None = ...,  # type: ignore[assignment]
    headers: dict[str, Any] | None = None,
    queue: str = "jobs",
    as_text: bool = False,
    **more: Any,
) -> Any:
    """The row that `receive_event` answers. `payload` None: none; `as_text`: it is the JSON itself.

    `more`: resource, volatile, derived, origin.
    """
    if payload is ...:
        payload = {"id": event_id}
    text = payload if as_text or payload is None else json.dumps(payload)
    body = (text or "").encode() if raw is ... else raw
    named = "".join(f", p_{name} => %s" for name in more)
    execute = session.connection.execute if isinstance(session, Contract) else session.execute
    call = (
        "p_source => %s::text, p_event_id => %s::text, p_type => %s::text, p_payload => %s::jsonb, "
        f"p_raw => %s::bytea, p_headers => %s::jsonb, p_queue => %s::text{named}"
    )
    row = execute(
        f"select * from redrive.receive_event({call})".encode(),
        (source, event_id, type, text, body, json.dumps(headers or {}), queue, *more.values()),
    ).fetchone()
    assert row is not None
    return row


def event(sql: Contract, id: object) -> Any:
    [row] = sql("select * from redrive.event(%s::uuid)", str(id))
    return row


def replay(sql: Contract, *received: Any) -> list[Any]:
    return sql("select * from redrive.replay_events(%s::uuid[])", [str(each.id) for each in received])


def state(sql: Contract, received: Any) -> tuple[str, int, str | None]:
    """Its status, attempts and last error."""
    found = event(sql, received.id)
    return found.status, found.attempts, found.last_error
