"""Workers: who works on which queue, as far as it was seen; and who holds back the cleaning of dead rows."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from redrive.store.statement import Statement

# Whoever calls redrive.read_with_dlq, all of them together: what they run nobody knows.
READER = "read_with_dlq"


class Worker(NamedTuple):
    """`alive`: seen within a minute. `running`: jobs now, None where the worker does not say.

    The worker named "" keeps the sums of those that are gone.
    """

    queue: str
    worker: str
    started_at: datetime
    last_seen: datetime
    age_sec: float
    alive: bool
    running: int | None
    claimed: int
    done: int
    failed: int
    dead: int
    given_back: int


class Holder(NamedTuple):
    """Who keeps dead rows from being cleaned up. Ages in seconds, `xmin_age` in transactions."""

    pid: int | None
    role: str | None
    application: str | None
    state: str | None
    since: datetime | None
    age_sec: float | None
    xmin_age: int | None
    what: str


def listing() -> Statement[list[Worker]]:
    """One row a queue and worker."""
    return Statement(
        f"select {', '.join(Worker._fields)} from redrive.workers()",
        (),
        lambda rows: [Worker(*row) for row in rows],
    )


def holders() -> Statement[list[Holder]]:
    """The oldest first."""
    return Statement(
        f"select {', '.join(Holder._fields)} from redrive.holders()",
        (),
        lambda rows: [Holder(*row) for row in rows],
    )
