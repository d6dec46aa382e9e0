"""parked: what a claim takes behind 200,000 messages that are not due: delayed, or backed off."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any, LiteralString

from psycopg import Connection

from benchmarks.place import Place
from benchmarks.result import Goal, Result
from benchmarks.rounds import say

PARKED = 200_000
READY = 20_000
SIZES = (10, 100, 500)
ROUNDS = 12
_CHUNK = 1_000
_QUEUES = {
    "nothing": "bench_clear",
    "delayed, 200 due times": "bench_delayed",
    "delayed, one due time": "bench_tied",
    "backed off": "bench_backed_off",
}
_FAIL: LiteralString = """
with c as materialized (select msg_id, read_ct from redrive.claim(%s, 60, %s, 'bench')),
     a as (select array_agg(msg_id) ids, array_agg(read_ct) cts, array_agg('retry'::text) ends from c)
select count(*) from a, redrive.settle(%s, a.ids, a.cts, a.ends, p_worker => 'bench')"""
_CALLS: dict[str, LiteralString] = {
    "redrive.claim": "select count(*) from redrive.claim(%s, 60, %s, 'bench')",
    "pgmq.read": "select count(*) from pgmq.read(%s, 60, %s)",
}

Times = dict[tuple[str, str, int], float]


def run(place: Place) -> Result:
    with place.connect() as connection:
        for parked, queue in _QUEUES.items():
            say(f"in front: {parked}")
            place.fresh_queue(queue, {"backoff": {"base": 3600, "factor": 1, "cap": 3600, "jitter": 0.2}})
            _park(connection, queue, parked)
            for _ in range(READY // _CHUNK):
                _send(connection, queue)
        connection.execute("vacuum analyze")
        return _result(_measure(connection))


def _park(connection: Connection[Any], queue: str, parked: str) -> None:
    """As users do: sent with a delay, or claimed and reported as failed."""
    for chunk in range(0 if parked == "nothing" else PARKED // _CHUNK):
        match parked:
            case "delayed, 200 due times":
                _send(connection, queue, delay=3600 + chunk)
            case "delayed, one due time":
                _send(connection, queue, at=datetime.now(UTC).date() + timedelta(days=2))
            case _:
                _send(connection, queue)
                connection.execute(_FAIL, (queue, _CHUNK, queue))


def _send(connection: Connection[Any], queue: str, *, delay: int = 0, at: date | None = None) -> None:
    connection.execute(
        "select count(*) from redrive.send_batch(%s, (select jsonb_agg(jsonb_build_object('n', n)) "
        "from generate_series(1, %s) n), p_delay => %s, p_at => %s::timestamptz)",
        (queue, _CHUNK, delay, at),
    )


def _measure(connection: Connection[Any]) -> Times:
    """Each call commits; what it took stays taken. In turn over the queues, so that drift hits all alike."""
    taken: dict[tuple[str, str, int], list[float]] = {}
    turned = list(_QUEUES.items())
    for size in SIZES:
        for n in range(ROUNDS + 2):
            for call, query in _CALLS.items():
                for parked, queue in turned[n % len(turned) :] + turned[: n % len(turned)]:
                    began = time.perf_counter()
                    row = connection.execute(query, (queue, size)).fetchone()
                    seconds = time.perf_counter() - began
                    assert row == (size,)
                    if n >= 2:
                        taken.setdefault((call, parked, size), []).append(seconds * 1000)
    return {what: statistics.median(each) for what, each in taken.items()}


def _result(times: Times) -> Result:
    rows = []
    for call in _CALLS:
        for parked in _QUEUES:
            here = [times[call, parked, size] for size in SIZES]
            clear = [times[call, "nothing", size] for size in SIZES]
            rows.append((call, parked, *here, *(a / b for a, b in zip(here, clear, strict=True))))
    ours = [row for row in rows if row[0] == "redrive.claim" and row[1] != "nothing"]
    worst = max(ratio for row in ours for ratio in row[-len(SIZES) :])
    return Result(
        "parked",
        "milliseconds a claim, with what stands in front of the ready messages",
        (
            f"{PARKED:,} messages in front, {READY:,} ready; a commit a call; medians of {ROUNDS}",
            "vacuum analyze before, default autovacuum while it runs; redrive's settings on the queue tables",
        ),
        ("call", "in front", *(f"{size}" for size in SIZES), *(f"×{size}" for size in SIZES)),
        rows,
        (
            Goal(
                "claim behind 200,000 parked messages to claim without them, at worst", worst, 1.5, most=True
            ),
        ),
    )
