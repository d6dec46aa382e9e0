"""Gauges: the database's numbers as samples, asked once in ten seconds at most, whoever scrapes how often.

Guarantees  an answer within five seconds, of the database or without it: then `redrive_database_up` is 0 and
            every number of the database is absent;
            a part that may not be read, for want of a right or on an older schema, leaves the others whole.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import psycopg

from redrive.errors import RedriveError, Unavailable
from redrive.store import alerts, events, leases, metrics, schedules, workers
from redrive.store.database import Database
from redrive.store.statement import Statement, scalar
from redrive.watch.families import Samples

log = logging.getLogger("redrive.watch")

EVERY = 10.0
DEADLINE = 5.0
# Leases may be called anything, a name a customer for one.
_MOST_LEASES = 100


class DatabaseGauges:
    """Asks over one connection of its own, opened when first needed."""

    def __init__(self, url: str) -> None:
        self._database = Database(url, size=1, deadline=DEADLINE)
        self._lock = asyncio.Lock()
        self._read_at = -EVERY
        self._samples = Samples()
        self._unreadable: set[str] = set()

    async def read(self) -> Samples:
        """The numbers, at most ten seconds old."""
        async with self._lock:
            if time.monotonic() - self._read_at >= EVERY:
                self._samples = await self._ask()
                self._read_at = time.monotonic()
            return self._samples

    async def close(self) -> None:
        await self._database.close()

    async def _ask(self) -> Samples:
        found = Samples()
        until = time.monotonic() + DEADLINE
        for part, statement, fill in _PARTS:
            try:
                answer = await self._database.run(statement(), deadline=max(0.05, until - time.monotonic()))
            except Unavailable as error:
                log.debug("the numbers for /metrics: %s", error)
                down = Samples()
                down.set("redrive_database_up", 0)
                return down
            except (RedriveError, psycopg.Error) as error:
                self._tell(part, error)
                found.set("redrive_readable", 0, part)
                continue
            self._unreadable.discard(part)
            found.set("redrive_readable", 1, part)
            fill(found, answer)
        found.set("redrive_database_up", 1)
        return found

    def _tell(self, part: str, error: Exception) -> None:
        if part not in self._unreadable:
            self._unreadable.add(part)
            log.warning(
                "/metrics lacks %s: %s; a role that may read them: redrive grant ROLE read",
                part,
                error,
                extra={"event": "metrics_unreadable"},
            )


def _queues(to: Samples, rows: Sequence[metrics.Gauges]) -> None:
    for q in rows:
        to.set("redrive_queue_paused", q.paused, q.queue)
        if q.problem is not None:
            continue
        age = q.oldest_ready_age_sec if q.ready else 0
        values: dict[str, float | None] = {
            "ready": q.ready,
            "delayed": q.delayed,
            "in_flight": q.in_flight,
            "parked": q.parked,
            "dead": q.dead,
            "oldest_ready_age_seconds": age,
            "max_attempt": q.max_attempt,
            "inflow_per_second": q.inflow_per_sec,
            "outflow_per_second": q.outflow_per_sec,
            "failure_ratio": q.failure_rate,
            "drain_seconds": q.drain_sec,
            "archive_rows": q.archive_rows,
            "archive_bytes": q.archive_bytes,
            "dead_tuples": q.dead_tuples,
            "last_done_timestamp_seconds": _timestamp(q.last_done_at),
            "workers": q.workers,
        }
        for name, value in values.items():
            to.set(f"redrive_queue_{name}", value, q.queue)


def _workers(to: Samples, rows: Sequence[workers.Worker]) -> None:
    for queue in dict.fromkeys(row.queue for row in rows):
        mine = [row for row in rows if row.queue == queue]
        to.set("redrive_queue_running_jobs", sum(w.running or 0 for w in mine if w.alive), queue)
        to.set("redrive_queue_claimed_total", sum(w.claimed for w in mine), queue)
        for outcome in ("done", "failed", "dead", "given_back"):
            total = sum(getattr(w, outcome) for w in mine)
            to.set("redrive_queue_reports_total", total, queue, outcome)


def _inbox(to: Samples, rows: Sequence[events.SourceStatus]) -> None:
    for s in rows:
        for status in ("waiting", "processed", "failed", "ignored"):
            to.set("redrive_inbox_events", getattr(s, status), s.source, status)
        oldest = _timestamp(s.oldest_waiting_at)
        to.set("redrive_inbox_oldest_waiting_timestamp_seconds", oldest, s.source)
        to.set("redrive_inbox_last_received_timestamp_seconds", _timestamp(s.last_received_at), s.source)
        for reason, total in s.refused.items():
            to.set("redrive_inbox_refused_total", total, s.source, reason)


def _schedules(to: Samples, rows: Sequence[schedules.ScheduleRow]) -> None:
    for s in rows:
        to.set("redrive_schedule_paused", s.paused, s.name)
        if not s.paused:
            to.set("redrive_schedule_lag_seconds", s.lag_sec or 0, s.name)


def _leases(to: Samples, rows: Sequence[leases.Lease]) -> None:
    for lease in rows[:_MOST_LEASES]:
        to.set("redrive_lease_held", lease.held, lease.name)


def _holders(to: Samples, rows: Sequence[workers.Holder]) -> None:
    for what in dict.fromkeys(row.what for row in rows):
        to.set("redrive_xmin_age_seconds", max(r.age_sec or 0 for r in rows if r.what == what), what)


def _firing(to: Samples, rows: Sequence[alerts.Alert]) -> None:
    firing = [alert.rule for alert in rows if alert.state == "firing"]
    for rule in dict.fromkeys(firing):
        to.set("redrive_alert_firing", firing.count(rule), rule)


def _sinks(to: Samples, rows: Sequence[alerts.Sink]) -> None:
    for sink in rows:
        to.set("redrive_alert_deliveries_open", sink.open, sink.sink)
        to.set("redrive_alert_deliveries_failed_total", sink.failures, sink.sink)


def _watch(to: Samples, state: alerts.WatchState) -> None:
    to.set("redrive_health_check_age_seconds", state.age_sec)
    to.set("redrive_health_check_problems", len(state.problems))


def _notifications(to: Samples, usage: float) -> None:
    to.set("redrive_notification_queue_usage_ratio", usage)


def _usage() -> Statement[float]:
    return Statement("select pg_notification_queue_usage()", (), scalar)


def _timestamp(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


# What it is called where it cannot be read, what is asked, and what becomes of the answer.
_PARTS: tuple[tuple[str, Callable[[], Statement[Any]], Callable[[Samples, Any], None]], ...] = (
    ("queues", metrics.gauges, _queues),
    ("workers", workers.listing, _workers),
    ("inbox", events.status, _inbox),
    ("schedules", schedules.listing, _schedules),
    ("leases", leases.listing, _leases),
    ("holders", workers.holders, _holders),
    ("alerts", alerts.listing, _firing),
    ("sinks", alerts.sinks, _sinks),
    ("watch", alerts.state, _watch),
    ("notifications", _usage, _notifications),
)
