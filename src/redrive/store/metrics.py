"""Metrics: the numbers of each queue."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from redrive.store.statement import Statement


class Gauges(NamedTuple):
    """Nothing is counted past 10,000: `more` says that a count stopped there. Ages in seconds.

    `problem` is why a queue cannot be read; its numbers are None then. The rates are those of about five
    minutes, None where nobody evaluates the rules; `archive_rows` and `dead_tuples` are the statistics'.
    """

    queue: str
    ready: int | None
    delayed: int | None
    in_flight: int | None
    dead: int | None
    parked: int | None
    oldest_ready_age_sec: float | None
    max_attempt: int | None
    last_done_at: datetime | None
    paused: bool
    more: bool | None
    problem: str | None
    inflow_per_sec: float | None = None
    outflow_per_sec: float | None = None
    failure_rate: float | None = None
    drain_sec: float | None = None
    archive_rows: int | None = None
    archive_bytes: int | None = None
    dead_tuples: int | None = None
    workers: int | None = None


def gauges(queue: str | None = None) -> Statement[list[Gauges]]:
    """One row a queue, or the one of `queue`. Raises `QueueMissing`."""
    columns = ", ".join(("queue_name", *Gauges._fields[1:]))
    return Statement(
        f"select {columns} from redrive.metrics(p_queue => %s::text)",
        (queue,),
        lambda rows: [Gauges(*row) for row in rows],
    )
