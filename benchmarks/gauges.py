"""gauges: what asking for the numbers costs beside 5,000,000 archived and 500,000 live messages."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, LiteralString

from psycopg import Connection

from benchmarks.place import Place
from benchmarks.result import Goal, Result
from benchmarks.rounds import interleaved, say

ARCHIVED = 5_000_000
READY = 200_000
DELAYED = 250_000
IN_FLIGHT = 50_000
ROUNDS = 15
_QUEUE = "bench_gauges"
_STATUS = "redrive.metrics: all that redrive status shows"
_CALLS: dict[str, LiteralString] = {
    _STATUS: "select * from redrive.metrics()",
    "redrive.check_queue_health: every rule": "select * from redrive.check_queue_health()",
    "pgmq.metrics_all": "select * from pgmq.metrics_all()",
}


def run(place: Place) -> Result:
    place.fresh_queue(_QUEUE)
    with place.connect() as connection:
        say(f"archiving {ARCHIVED:,}")
        _archive(connection)
        say(f"sending {READY + DELAYED + IN_FLIGHT:,}")
        _send(connection)
        connection.execute("vacuum analyze")
        found = interleaved({name: _asked(connection, call) for name, call in _CALLS.items()}, ROUNDS)
    bare = found["pgmq.metrics_all"].median
    rows = [(name, each.median, max(each.figures), each.median / bare) for name, each in found.items()]
    return Result(
        "gauges",
        "milliseconds a call",
        (
            f"{ARCHIVED:,} rows archived; {READY:,} ready, {DELAYED:,} delayed, {IN_FLIGHT:,} in flight",
            f"vacuum analyze before; {ROUNDS} rounds, the order turned each time; the slowest is in `worst`",
        ),
        ("call", "median", "worst", "× pgmq"),
        rows,
        (Goal("redrive status, milliseconds", statistics.median(found[_STATUS].figures), 300, most=True),),
    )


def _archive(connection: Connection[Any]) -> None:
    """A month of jobs, as a worker would have left them."""
    connection.execute(
        "insert into pgmq.a_bench_gauges "
        "(msg_id, read_ct, enqueued_at, archived_at, vt, message, outcome, duration) "
        "select n, 1, moment, moment, moment, jsonb_build_object('n', n, 'user', 'anna'), 'done', 0.1 "
        "from generate_series(1, %s) n, "
        "lateral (select now() - make_interval(secs => (%s - n) * 0.5) as moment) t",
        (ARCHIVED, ARCHIVED),
    )
    connection.execute(
        "select setval(pg_get_serial_sequence('pgmq.q_bench_gauges', 'msg_id'), %s)", (ARCHIVED,)
    )


def _send(connection: Connection[Any]) -> None:
    chunk = 50_000
    for sent in range(0, READY + DELAYED, chunk):
        connection.execute(
            "select count(*) from redrive.send_batch(%s, (select jsonb_agg(jsonb_build_object('n', n)) "
            "from generate_series(1, %s) n), p_delay => %s)",
            (_QUEUE, chunk, 0 if sent < READY else 3600 + sent),
        )
    connection.execute(
        "select count(*) from redrive.send_batch(%s, (select jsonb_agg(jsonb_build_object('n', n)) "
        "from generate_series(1, %s) n))",
        (_QUEUE, IN_FLIGHT),
    )
    connection.execute("select count(*) from redrive.claim(%s, 3600, %s, 'bench')", (_QUEUE, IN_FLIGHT))


def _asked(connection: Connection[Any], call: LiteralString) -> Callable[[], float]:
    def ask() -> float:
        began = time.perf_counter()
        connection.execute(call).fetchall()
        return (time.perf_counter() - began) * 1000

    return ask
