"""Retention: what is kept for how long, and deleting what is over a batch at a time, as statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

import psycopg

from redrive.store.statement import Statement, column, nothing, scalar, text_array

# What there is to keep, in the order in which it is tidied.
KINDS = (
    *("archive", "letters", "failures", "keys", "sent_keys", "events", "refused"),
    *("fetched", "runs", "alerts", "workers"),
)
BATCH = 5000


class Kept(NamedTuple):
    """`keep_sec` None: without end, or by a time of its own. `rows`, `bytes`: estimates; None: unreadable.

    `overdue_sec`: for how long the oldest should have been gone.
    """

    what: str
    queue: str | None
    keep_sec: Decimal | None
    max_rows: int | None
    max_bytes: int | None
    rows: int | None
    bytes: int | None
    oldest_at: datetime | None
    overdue_sec: float | None


class Over(NamedTuple):
    """How many rows would go, and when the first and the last of them ended."""

    total: int
    oldest: datetime | None
    newest: datetime | None


def listing() -> Statement[list[Kept]]:
    """Everything that is kept for a time; an archive a row."""
    return Statement(
        f"select {', '.join(Kept._fields)} from redrive.retention()",
        (),
        lambda rows: [Kept(*row) for row in rows],
    )


def purge_due(what: str, queue: str | None = None, *, batch: int = BATCH) -> Statement[int]:
    """Delete one batch of what the rules say is over; how many rows went."""
    return Statement(
        "select redrive.purge_due(p_what => %s::text, p_queue => %s::text, p_batch => %s::integer)",
        (what, queue, batch),
        scalar,
    )


def purge(
    what: str, queue: str | None, older_than: timedelta | None, *, batch: int = BATCH
) -> Statement[int]:
    """Delete one batch of what is older, or of what the rules say is over; how many rows went."""
    return Statement(f"select redrive.purge({_GIVEN})", (what, queue, _interval(older_than), batch), scalar)


def purge_rows(
    what: str, queue: str | None, older_than: timedelta | None, *, batch: int = BATCH
) -> Statement[list[str]]:
    """`purge`, answering the rows as JSON texts: to be written down before the commit."""
    return Statement(
        f"select line::text from redrive.purge_rows({_GIVEN}) line",
        (what, queue, _interval(older_than), batch),
        column,
    )


def is_of_one_table(error: Exception) -> bool:
    """Whether it was one table: it is locked, or something of the user's still needs its rows."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    state = cause.sqlstate if isinstance(cause, psycopg.Error) else None
    return state in ("55P03", "RD002") or (state or "").startswith("23")


def over(what: str, queue: str | None, older_than: timedelta | None) -> Statement[Over]:
    """What `purge` would delete, counted."""
    return Statement(
        "select total, oldest, newest from redrive.purge_count(p_what => %s::text, p_queue => %s::text,"
        " p_older_than => %s::interval)",
        (what, queue, _interval(older_than)),
        lambda rows: Over(*rows[0]),
    )


def keep(rules: Sequence[tuple[str, float | None]]) -> Statement[None]:
    """Set how long each of these is kept, all or none; None: the default again."""
    seconds = [None if each is None else f"{each:f}" for _, each in rules]
    return Statement(
        "select redrive.set_retention(p_what => r.what, p_keep => r.keep)"
        " from unnest(%s::text[], %s::numeric[]) r(what, keep)",
        (text_array([what for what, _ in rules]), text_array(seconds)),
        nothing,
    )


_GIVEN = "p_what => %s::text, p_queue => %s::text, p_older_than => %s::interval, p_batch => %s::integer"


def _interval(value: timedelta | None) -> str | None:
    return None if value is None else f"{value.total_seconds():f} seconds"
