"""drain: 20,000 no-op jobs, one worker process, the archive kept."""

from __future__ import annotations

import statistics
import time
from importlib.util import find_spec
from typing import Any

from psycopg import Connection

from benchmarks.jobs import DRAIN
from benchmarks.payload import payloads
from benchmarks.peers import bare
from benchmarks.peers.child import Child
from benchmarks.place import Place, value
from benchmarks.result import Cell, Goal, Result
from benchmarks.rounds import Runs, interleaved
from benchmarks.usage import Usage
from benchmarks.worker import Worker
from redrive import Redrive

JOBS = 20_000
WARM_UP = 2_000
ROUNDS = 5
_BARE = "bench_bare"
_FLOOR = "bare pgmq.read(100)"
_PEER = "pgqueuer, batch 500, pool 4, uvloop"


def run(place: Place) -> Result:
    drain = Drain(place)
    contenders = {
        _FLOOR: lambda: drain.bare(_FLOOR, 100),
        "bare pgmq.read(500)": lambda: drain.bare("bare pgmq.read(500)", 500),
        "redrive --concurrency 500": lambda: drain.ours("redrive --concurrency 500", 500),
        "redrive --concurrency 100": lambda: drain.ours("redrive --concurrency 100", 100),
    }
    skipped: dict[str, str] = {}
    if find_spec("pgqueuer") and find_spec("asyncpg"):
        url = place.database("pgqueuer")
        contenders[_PEER] = lambda: drain.pgqueuer(_PEER, url)
    else:
        skipped["pgqueuer"] = "pgqueuer or asyncpg is not installed; both are in the dependency group dev"
    return _result(interleaved(contenders, ROUNDS), drain.used, skipped)


def _result(runs: dict[str, Runs], used: dict[str, list[float]], skipped: dict[str, str]) -> Result:
    floor = runs[_FLOOR].median
    cpu = {name: statistics.median(each) for name, each in used.items()}
    rows: list[tuple[Cell, ...]] = []
    for name, each in runs.items():
        mine = cpu.get(name)
        rows.append(
            (name, each.median, each.spread, each.median / floor, mine, cpu[_FLOOR] / mine if mine else None)
        )
    goals = [
        Goal("redrive at 500 to bare", runs["redrive --concurrency 500"].median / floor, 0.8),
        Goal("redrive at 100 to bare", runs["redrive --concurrency 100"].median / floor, 0.6),
    ]
    return Result(
        "drain",
        "jobs a second, one worker process",
        (
            f"{JOBS:,} no-op async jobs of 120 bytes on a full queue, archive kept; a fresh queue each round",
            "bare: a loop of pgmq.read and pgmq.archive over one psycopg connection, payloads parsed",
            f"redrive: `redrive worker --queue … --concurrency …`, idle, after {WARM_UP:,} jobs to warm up;",
            "         from the commit of app.sync.send_many to the last archived_at, by the database's clock",
            "cpu: µs of processor time a job, worker and server together; ratio: bare's to the contender's",
        ),
        ("contender", "jobs/s", "runs", "ratio", "cpu", "ratio of cpu"),
        rows,
        goals,
        skipped,
    )


class Drain:
    """The contenders: each answers jobs a second, and keeps the processor time a job took."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.used: dict[str, list[float]] = {}
        """µs a job, of each contender's rounds."""

    def bare(self, name: str, batch: int) -> float:
        self._place.fresh_bare_queue(_BARE)
        arguments = ("drain", self._place.url, _BARE, str(batch), str(JOBS))
        with Child("benchmarks.peers.bare", *arguments) as child, self._place.connect() as connection:
            bare.send_batch(connection, _BARE, payloads(JOBS))
            return self._go(name, child, connection)

    def pgqueuer(self, name: str, url: str) -> float:
        with Child("benchmarks.peers.pgqueuer", url, str(JOBS)) as child, self._place.connect() as connection:
            return self._go(name, child, connection)

    def ours(self, name: str, concurrency: int) -> float:
        self._place.fresh_queue(DRAIN)
        app = Redrive(self._place.url)
        with Worker(self._place, DRAIN, concurrency) as worker, self._place.connect() as connection:
            _send_and_wait(app, connection, WARM_UP)
            usage = Usage(connection, worker.pid)
            seconds = _send_and_wait(app, connection, JOBS)
            self._keep(name, usage)
        return JOBS / seconds

    def _go(self, name: str, child: Child, connection: Connection[Any]) -> float:
        usage = Usage(connection, child.pid)
        seconds = float(child.go())
        self._keep(name, usage)
        return JOBS / seconds

    def _keep(self, name: str, usage: Usage) -> None:
        if (seconds := usage.seconds()) is not None:
            self.used.setdefault(name, []).append(seconds / JOBS * 1e6)


def _send_and_wait(app: Redrive, connection: Connection[Any], count: int) -> float:
    """Seconds from the commit to the last message's archived_at."""
    archived = value(connection, "select count(*) from pgmq.a_bench_drain")
    with connection.transaction():
        app.sync.send_many(DRAIN, payloads(count), connection=connection)
    began = value(connection, "select clock_timestamp()")
    done = "select sum(done) from redrive.worker where queue = %s"
    while value(connection, done, DRAIN) < archived + count:
        time.sleep(0.02)
    return (value(connection, "select max(archived_at) from pgmq.a_bench_drain") - began).total_seconds()
