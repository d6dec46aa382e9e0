"""retention: 2,000,000 old rows are pruned while a worker settles; killed in the middle, then finished."""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from typing import Any, LiteralString

from psycopg import Connection

from benchmarks.place import Place, value
from benchmarks.result import Goal, Result
from benchmarks.rounds import say

OLD = 2_000_000
YOUNG = 100_000
BATCH = 10
KILLED_AT = OLD // 2
QUIET = 5.0
_QUEUE = "bench_retention"
_SEND: LiteralString = """
select count(*)
  from redrive.send_batch(%s, (select jsonb_agg(jsonb_build_object('n', n)) from generate_series(1, %s) n))"""
_CLAIM: LiteralString = "select array_agg(msg_id), array_agg(read_ct) from redrive.claim(%s, 60, %s, 'bench')"
_SETTLE: LiteralString = (
    "select count(*) from redrive.settle(%s, %s, %s, array_fill('done'::text, array[%s]))"
)


class Settler:
    """Sends, claims and settles on a connection of its own until told to stop; how long each settle took."""

    def __init__(self, place: Place) -> None:
        self.taken: list[float] = []
        self.done = 0
        self._connection = place.connect()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._connection.close()

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._connection.execute(_SEND, (_QUEUE, BATCH))
            row = self._connection.execute(_CLAIM, (_QUEUE, BATCH)).fetchone()
            assert row is not None
            began = time.perf_counter()
            self._connection.execute(_SETTLE, (_QUEUE, *row, BATCH))
            self.taken.append(time.perf_counter() - began)
            self.done += BATCH


def run(place: Place) -> Result:
    place.fresh_queue(_QUEUE)
    with place.connect() as connection:
        say(f"archiving {OLD + YOUNG:,}")
        _archive(connection)
        connection.execute("vacuum analyze")
        settler = Settler(place)
        settler.start()
        try:
            time.sleep(QUIET)
            alone = len(settler.taken)
            seconds, killed_with = _prune(place, connection)
        finally:
            settler.stop()
        quiet, meanwhile = settler.taken[:alone], settler.taken[alone:]
        left = value(connection, "select count(*) from pgmq.a_bench_retention where outcome = 'old'")
        young = value(connection, "select count(*) from pgmq.a_bench_retention where outcome = 'young'")
        done = value(connection, "select count(*) from pgmq.a_bench_retention where outcome = 'done'")
        assert (left, young, done) == (0, YOUNG, settler.done), (left, young, done, settler.done)
    return Result(
        "retention",
        f"milliseconds a settle of {BATCH} while {OLD:,} archived rows are pruned",
        (
            f"{OLD:,} rows past their 30 days, {YOUNG:,} younger ones; redrive prune with its own batches",
            f"killed (SIGKILL) with {killed_with:,} rows left and started again: {OLD / seconds:,.0f} rows/s",
            "afterwards: none of the old rows, all of the younger ones, all that was settled meanwhile",
        ),
        ("while", "p50", "p99", "worst"),
        [("nothing else runs", *_figures(quiet)), ("redrive prune runs", *_figures(meanwhile))],
        (Goal("the longest settle, seconds", max(meanwhile), 1.0, most=True),),
    )


def _archive(connection: Connection[Any]) -> None:
    for outcome, count, days in (("old", OLD, 40), ("young", YOUNG, 10)):
        connection.execute(
            "insert into pgmq.a_bench_retention "
            "(msg_id, read_ct, enqueued_at, archived_at, vt, message, outcome, duration) "
            "select nextval(pg_get_serial_sequence('pgmq.q_bench_retention', 'msg_id')), 1, "
            "moment, moment, moment, jsonb_build_object('n', n, 'user', 'anna'), %s, 0.1 "
            "from generate_series(1, %s) n, "
            "lateral (select now() - make_interval(days => %s) + make_interval(secs => n * 0.1) as moment) t",
            (outcome, count, days),
        )


def _prune(place: Place, connection: Connection[Any]) -> tuple[float, int]:
    """Seconds of pruning, and how many rows were left when the first run was killed."""
    began = time.perf_counter()
    first = _start(place)
    while (left := _old(connection)) > KILLED_AT:
        assert first.poll() is None, "the first run ended before it could be killed"
        time.sleep(1)
    first.kill()
    first.wait()
    say(f"killed with {left:,} left")
    assert _start(place).wait() == 0
    return time.perf_counter() - began, left


def _old(connection: Connection[Any]) -> int:
    return int(value(connection, "select count(*) from pgmq.a_bench_retention where outcome = 'old'"))


def _start(place: Place) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "redrive.cli", "prune", _QUEUE, "--what", "archive", "--yes"]
    return subprocess.Popen(
        [*command, "--database", place.url], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _figures(taken: list[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(taken, n=100, method="inclusive")
    return cuts[49] * 1000, cuts[98] * 1000, max(taken) * 1000
