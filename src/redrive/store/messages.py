"""Messages: send, cancel, reschedule and show, as statements for whoever holds a connection.

Guarantees  every argument is checked before there is a statement, so a refusal has touched no database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from redrive import payload as payloads
from redrive.errors import InvalidArgument
from redrive.policy import check_count, check_seconds
from redrive.store.statement import Row, Scalar, Statement, column, int_array, text_array

# The database refuses longer delays too.
MAX_DELAY = 3_155_760_000
MAX_KEY = 512
# Messages a statement: 1,000 to 5,000 are equally fast for small ones, 10,000 is slower.
CHUNK = 2_500
_BIGINT = 2**63 - 1
# Wider than the rule for new queues: an adopted one may have capitals and hyphens.
_SENDABLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,42}")


class Sent(NamedTuple):
    """A message that was sent, or with `unique` the one that was there already.

    `id` is its msg_id; 0 when the key was taken by hand (`begin_job`) and belongs to no message.
    """

    id: int
    duplicate: bool


def send(
    queue: str,
    text: str,
    *,
    key: str | None = None,
    delay: float | datetime = 0,
    headers: object = None,
    unique: bool = False,
) -> Statement[Sent]:
    """Send one message, whose payload is the JSON `text`.

    `delay` is seconds from now or an aware datetime. `unique`: when the key is queued, running or done, that
    message is the answer and nothing is sent. Raises `InvalidArgument`.
    """
    given = _Given(p_queue=(check_sendable(queue), "text"), p_message=(text, "jsonb"))
    if key is not None:
        given["p_key"] = (_key(key), "text")
    given.update(_options(delay, headers, unique))
    if unique:
        return Statement(f"select * from redrive.send_checked({given.call})", given.params, _only_sent)
    return Statement(f"select redrive.send({given.call})", given.params, _only_id)


def send_batch(
    queue: str,
    batches: Sequence[payloads.Batch],
    *,
    keys: Iterable[str | None] | None = None,
    delay: float | datetime = 0,
    headers: object = None,
    unique: bool = False,
) -> list[Statement[list[Sent]]]:
    """Send the messages of each batch in one statement, ids in their order; `keys` has one entry a message.

    Raises `InvalidArgument`.
    """
    queue = check_sendable(queue)
    options = _options(delay, headers, unique)
    total = sum(batch.count for batch in batches)
    checked = None if keys is None else [None if key is None else _key(key, n) for n, key in enumerate(keys)]
    if checked is not None and len(checked) != total:
        raise InvalidArgument(
            f"there are {len(checked)} keys for {total} messages; give one each, None for none"
        )
    statements: list[Statement[list[Sent]]] = []
    start = 0
    for batch in batches:
        given = _Given(p_queue=(queue, "text"), p_messages=(batch.text, "jsonb"))
        if checked is not None:
            given["p_keys"] = (text_array(checked[start : start + batch.count]), "text[]")
        given.update(options)
        start += batch.count
        name, load = ("send_batch_checked", _all_sent) if unique else ("send_batch", _all_ids)
        statements.append(Statement(f"select * from redrive.{name}({given.call})", given.params, load))
    return statements


def cancel(queue: str, ids: Iterable[int] | None = None, *, key: str | None = None) -> Statement[list[int]]:
    """Archive messages that are not running as cancelled, and free their keys; the ids of those it found.

    By `ids` or by `key`. Raises `InvalidArgument`.
    """
    if (ids is None) == (key is None):
        raise InvalidArgument("cancel takes either the ids of messages or one key")
    given = _Given(p_queue=(check_sendable(queue), "text"))
    if ids is not None:
        given["p_msg_ids"] = (_ids(ids), "bigint[]")
    if key is not None:
        given["p_key"] = (_key(key), "text")
    return Statement(f"select * from redrive.cancel({given.call})", given.params, _ids_back)


def reschedule(queue: str, ids: Iterable[int], delay: float) -> Statement[list[int]]:
    """Make messages that are not running due in `delay` seconds (0: at once); the ids of those it found.

    Raises `InvalidArgument`.
    """
    given = _Given(
        p_queue=(check_sendable(queue), "text"),
        p_msg_ids=(_ids(ids), "bigint[]"),
        p_delay=(check_delay(delay, "delay"), "numeric"),
    )
    return Statement(f"select * from redrive.reschedule({given.call})", given.params, _ids_back)


def message(queue: str, msg_id: int, *, decimals: bool = False) -> Statement[dict[str, Any] | None]:
    """All that is known of one message, live, archived or dead, with its attempts; None when unknown.

    A payload nested too deeply to be read is an `Unreadable`, its text.
    """
    given = _Given(p_queue=(check_sendable(queue), "text"), p_msg_id=(check_id(msg_id), "bigint"))

    def load(rows: Sequence[Row]) -> dict[str, Any] | None:
        text, inner = rows[0]
        if text is None:
            return None
        found = payloads.decode(text, decimals=decimals)
        return found if inner is None else found | {"message": payloads.decode_any(inner, decimals=decimals)}

    # Apart: one payload nested too deeply must not hide all the rest.
    return Statement(
        "select (m.found - 'message')::text, (m.found -> 'message')::text"
        f" from (select redrive.message({given.call}) as found) m",
        given.params,
        load,
    )


def check_delay(value: object, name: str) -> float:
    """Return `value` as seconds from 0 to a hundred years, else raise `InvalidArgument`."""
    seconds = check_seconds(value, name)
    if seconds > MAX_DELAY:
        raise InvalidArgument(
            f"{name} is {value!r}; it must be at most {MAX_DELAY} seconds (a hundred years)"
        )
    return seconds


class _Given(dict[str, tuple[Scalar, str]]):
    """Named arguments: name to (value, Postgres type). What is not given keeps the function's default."""

    @property
    def call(self) -> str:
        return ", ".join(f"{name} => %s::{kind}" for name, (_, kind) in self.items())

    @property
    def params(self) -> tuple[Scalar, ...]:
        return tuple(value for value, _ in self.values())


def _options(delay: object, headers: object, unique: bool) -> _Given:
    given = _Given()
    if isinstance(delay, datetime):
        if delay.utcoffset() is None:
            raise InvalidArgument(f"delay is {delay!r}, which has no time zone; add one, such as tzinfo=UTC")
        given["p_at"] = (delay.isoformat(), "timestamptz")
    elif seconds := check_delay(delay, "delay"):
        given["p_delay"] = (seconds, "numeric")
    if (text := payloads.encode_headers(headers)) is not None:
        given["p_headers"] = (text, "jsonb")
    if unique:
        given["p_unique"] = (True, "boolean")
    return given


def check_sendable(queue: object) -> str:
    """Return `queue` when there may be such a queue, redrive's own or adopted; else `InvalidArgument`."""
    if isinstance(queue, str) and _SENDABLE.fullmatch(queue) and not queue.lower().endswith("_dlq"):
        return queue
    raise InvalidArgument(
        f"queue name {queue!r} is refused; the rule is: a letter, then letters, digits, _ or -, at most 43 "
        "characters, not ending in _dlq"
    )


def _key(key: object, index: int | None = None) -> str:
    return payloads.check_text(key, "key" if index is None else f"message {index}: key", most=MAX_KEY)


def check_id(value: object) -> int:
    """Return `value` when it may be a message's id, else raise `InvalidArgument`."""
    number = check_count(value, "message id")
    if number > _BIGINT:
        raise InvalidArgument(f"message id is {number}; the largest is {_BIGINT}")
    return number


def _ids(values: Iterable[int]) -> str:
    if isinstance(values, (str, bytes)) or not isinstance(cast("object", values), Iterable):
        raise InvalidArgument(f"ids must be a list of message ids, not {values!r}")
    return int_array([check_id(value) for value in values])


def _only_id(rows: Sequence[Row]) -> Sent:
    return Sent(rows[0][0], False)


def _only_sent(rows: Sequence[Row]) -> Sent:
    return _sent(rows[0])


def _all_ids(rows: Sequence[Row]) -> list[Sent]:
    return [Sent(row[0], False) for row in rows]


def _all_sent(rows: Sequence[Row]) -> list[Sent]:
    return [_sent(row) for row in rows]


def _sent(row: Row) -> Sent:
    return Sent(row[0] or 0, row[1])


def _ids_back(rows: Sequence[Row]) -> list[int]:
    return column(rows)
