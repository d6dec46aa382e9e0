"""What was sent: the messages of a queue in the test database in use, wherever they are by now.

Guarantees  live, delayed, running, archived and dead messages are seen, in the order they were sent;
            a payload matches when it has everything the expected one has.
Not given   messages of a transaction that is still open, and done ones of a queue with ``archive=False``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from psycopg import sql
from pydantic_core import to_jsonable_python

from redrive import payload as payloads
from redrive.store import adapters, messages
from redrive.store.database import connect
from redrive.store.statement import Statement, nothing
from redrive.testing.database import current

_POLICY = "select redrive.queue_policy(p_queue => %s::text)"
_IDS = "select msg_id from pgmq.{live} union select msg_id from pgmq.{archive} order by 1"
_OURS = "x-redrive-"
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `state`: ready, delayed, running, archived or dead.

    `due_at` is None for one that has ended. `headers` are the sender's own.
    """

    queue: str
    id: int
    payload: Any
    key: str | None
    headers: dict[str, Any]
    state: str
    attempts: int
    due_at: datetime | None

    def __str__(self) -> str:
        when = f" until {self.due_at:%Y-%m-%d %H:%M:%S %Z}" if self.state == "delayed" else ""
        key = "" if self.key is None else f", key {self.key!r}"
        headers = f", headers {_shown(self.headers)}" if self.headers else ""
        return f"{self.id}, {self.state}{when}{key}{headers}: {_shown(self.payload)}"


def sent(queue: str) -> list[Message]:
    """Every message sent to `queue`, by id. Raises `QueueMissing`, and `ConfigError` outside a test."""
    with connect(current()) as connection:
        adapters.run_blocking(Statement(_POLICY, (queue,), nothing), connection)
        tables = {"live": sql.Identifier(f"q_{queue}"), "archive": sql.Identifier(f"a_{queue}")}
        ids = [row[0] for row in connection.execute(sql.SQL(_IDS).format(**tables))]
        found = [adapters.run_blocking(messages.message(queue, each), connection) for each in ids]
    return [_message(each) for each in found if each is not None]


def assert_sent(
    queue: str, payload: object = None, *, key: str | None = None, headers: object = None
) -> Message:
    """The first message of `queue` that has all of `payload`, this key, and all of `headers`.

    Objects may have more fields than expected, lists may not have more items. What is left out, or None, is
    not compared. pydantic models, UUIDs and datetimes are compared as the JSON they become. Raises
    `AssertionError` that lists what was sent, else as `sent`.

        assert_sent("email_jobs", {"template": "welcome"}, key="email:welcome:8f3c")
    """
    __tracebackhide__ = True
    wanted, titles = to_jsonable_python(payload, by_alias=True), to_jsonable_python(headers)
    found = sent(queue)
    for each in found:
        if (
            (payload is None or _has(each.payload, wanted))
            and (key is None or each.key == key)
            and (headers is None or _has(each.headers, titles))
        ):
            return each
    raise AssertionError(_failure(queue, found, _expected(wanted, key, titles)))


def _message(found: dict[str, Any]) -> Message:
    headers = cast("dict[str, Any]", found["headers"] or {})
    due = found.get("due_at")
    return Message(
        queue=found["queue"],
        id=found["msg_id"],
        payload=found["message"],
        key=found["key"],
        headers={name: value for name, value in headers.items() if not name.startswith(_OURS)},
        state=found["state"],
        attempts=found["attempts"],
        due_at=None if due is None else datetime.fromisoformat(due),
    )


def _has(actual: object, expected: object) -> bool:
    """Whether `actual` has everything in `expected`; both are JSON."""
    match expected:
        case dict():
            wanted = cast("dict[str, object]", expected)
            if not isinstance(actual, dict):
                return False
            held = cast("dict[str, object]", actual)
            return all(name in held and _has(held[name], value) for name, value in wanted.items())
        case list():
            items = cast("list[object]", expected)
            if not isinstance(actual, list):
                return False
            given = cast("list[object]", actual)
            return len(given) == len(items) and all(map(_has, given, items))
        case _:
            # To Python True is 1, to JSON it is not.
            return actual == expected and isinstance(actual, bool) == isinstance(expected, bool)


def _expected(payload: object, key: str | None, headers: object) -> str:
    parts = [] if payload is None else [f"payload {_shown(payload)}"]
    parts += [] if key is None else [f"key {key!r}"]
    parts += [] if headers is None else [f"headers {_shown(headers)}"]
    return " and ".join(parts)


def _failure(queue: str, found: Sequence[Message], expected: str) -> str:
    if not found:
        return f"nothing was sent to queue {queue}"
    lines = [f"no message of queue {queue} has {expected}; sent were"]
    lines += [f"  {each}" for each in found[:_SHOWN]]
    if (more := len(found) - _SHOWN) > 0:
        lines.append(f"  and {more} more")
    return "\n".join(lines)


def _shown(value: object) -> str:
    text = (
        json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else payloads.encode(value)
    )
    return text if len(text) <= 500 else f"{text[:499]}…"
