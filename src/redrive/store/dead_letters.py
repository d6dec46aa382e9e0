"""Dead letters: page through them, send them again, give them up, as statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from redrive import payload as payloads
from redrive.policy import check_count
from redrive.store.statement import Row, Statement, column, int_array


class DeadLetter(NamedTuple):
    """`dead_id` names it in its dead-letter queue, `original_msg_id` named it when it was a message.

    `reason`: failed, crashed, rejected or malformed. `failures` are its first and last ten attempts.
    `generation`: how often it had been sent again before. What an envelope lacks is None. JSON nested too
    deeply to be read is an `Unreadable`, its text.
    """

    queue: str
    dead_id: int
    original_msg_id: int | None
    read_ct: int | None
    enqueued_at: datetime | None
    dead_lettered_at: datetime
    payload: Any
    attempts: int | None
    reason: str | None
    error: str | None
    failures: list[dict[str, Any]]
    headers: dict[str, Any] | None
    key: str | None
    generation: int
    origin: int | None


class Redriven(NamedTuple):
    """`status`: redriven (`new_id` is the new message), key done, no payload, locked or missing."""

    dead_id: int
    new_id: int | None
    status: str


class TakenIn(NamedTuple):
    """What became of a message that may be a dead letter of somebody else's: `msg_id` names it in its queue.

    `status`: imported (`dead_id` is the new letter), no envelope, in flight or locked (left where it is).
    """

    msg_id: int
    dead_id: int | None
    status: str


_JSON = ("payload", "failures", "headers")
_COLUMNS = ", ".join(f"{name}::text" if name in _JSON else name for name in DeadLetter._fields)


def page(queue: str | None = None, *, after: int = 0, limit: int = 100) -> Statement[list[DeadLetter]]:
    """At most `limit` dead letters with ids beyond `after`, by id; of every queue when none is named.

    Raises `InvalidArgument`, `QueueMissing`.
    """
    return Statement(
        f"select {_COLUMNS}"
        " from redrive.dead_letters(p_queue => %s::text, p_after => %s::bigint, p_limit => %s::integer)",
        (queue, check_count(after, "after", least=0), check_count(limit, "limit")),
        lambda rows: [_dead_letter(row) for row in rows],
    )


def redrive(
    queue: str, ids: Sequence[int], *, patch: Mapping[str, Any] | None = None, force: bool = False
) -> Statement[list[Redriven]]:
    """Send dead letters again, in one transaction; one answer an id.

    `patch`: fields that replace those of the payloads. `force`: keys that another message has completed are
    freed, so that these run. Raises `PayloadError`, `QueueMissing`.
    """
    return Statement(
        "select dead_id, new_id, status from redrive.redrive(p_queue => %s::text, p_msg_ids => %s::bigint[],"
        " p_patch => %s::jsonb, p_force => %s::boolean)",
        (queue, int_array(ids), None if patch is None else payloads.encode(dict(patch), root="patch"), force),
        lambda rows: [Redriven(*row) for row in rows],
    )


def discard(queue: str, ids: Sequence[int]) -> Statement[list[int]]:
    """Give dead letters up; the ids of those it found. Raises `QueueMissing`."""
    return Statement(
        "select redrive.discard(p_queue => %s::text, p_msg_ids => %s::bigint[])",
        (queue, int_array(ids)),
        column,
    )


def import_from(
    source: str, queue: str, *, after: int = 0, limit: int = 200, dry_run: bool = False
) -> Statement[list[TakenIn]]:
    """Take what stands in `source`, a queue of pgmq's, in as dead letters of `queue`; one answer a message.

    At most `limit` messages with ids beyond `after`, by id, moved in one transaction. `dry_run`: nothing is
    changed, imported means would be. Raises `InvalidArgument`, `QueueMissing`.
    """
    return Statement(
        "select msg_id, dead_id, status from redrive.import_dead_letters(p_from => %s::text,"
        " p_queue => %s::text, p_after => %s::bigint, p_limit => %s::integer, p_dry_run => %s::boolean)",
        (source, queue, check_count(after, "after", least=0), check_count(limit, "limit"), dry_run),
        lambda rows: [TakenIn(*row) for row in rows],
    )


def _dead_letter(row: Row) -> DeadLetter:
    values = dict(zip(DeadLetter._fields, row, strict=True))
    for name in _JSON:
        values[name] = None if values[name] is None else payloads.decode_any(values[name])
    # An envelope made by hand may have anything there.
    found = cast("list[Any]", values["failures"]) if isinstance(values["failures"], list) else []
    values["failures"] = [each for each in found if isinstance(each, dict)]
    return DeadLetter(**values)
