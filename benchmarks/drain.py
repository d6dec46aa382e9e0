"""drain: 20,000 no-op jobs, one worker process, the archive kept."""

from __future__ import annotations

import time
from importlib.util import find_spec

from benchmarks.jobs import DRAIN
from benchmarks.payload import payloads
from benchmarks.peers import bare
from benchmarks.peers.child import Child
from benchmarks.place import Place, value
from benchmarks.result import Goal, Result
from benchmarks.rounds import Runs, interleaved
from benchmarks.worker import Worker
from redrive import Redrive

JOBS = 20_000
WARM_UP = 2_000
ROUNDS = 5
_BARE = "bench_bare"
_PEER = "pgqueuer, batch 500, pool 4, uvloop"


def run(place: Place) -> Result:
    contenders = {
        "bare pgmq.read(100)": lambda: _bare(place, 100),
        "bare pgmq.read(500)": lambda: _bare(place, 500),
        "redrive --concurrency 500": lambda: _ours(place, 500),
        "redrive --concurrency 100": lambda: _ours(place, 100),
    }
    skipped: dict[str, str] = {}
    if find_spec("pgqueuer") and find_spec("asyncpg"):
        url = place.database("pgqueuer")
        contenders[_PEER] = lambda: _pgqueuer(url)
    else:
        skipped["pgqueuer"] = "pgqueuer or asyncpg is not installed; both are in the dependency group dev"
    return _result(interleaved(contenders, ROUNDS), skipped)


def _result(runs: dict[str, Runs], skipped: dict[str, str]) -> Result:
    bare_rate = runs["bare pgmq.read(100)"].median
    goals = [
        Goal("redrive at 500 to bare", runs["redrive --concurrency 500"].median / bare_rate, 0.8),
        Goal("redrive at 100 to bare", runs["redrive --concurrency 100"].median / bare_rate, 0.6),
    ]
    return Result(
        "drain",
        "jobs a second, one worker process",
        (
            f"{JOBS:,} no-op async jobs of 120 bytes on a full queue, archive kept; a fresh queue each round",
            "bare: a loop of pgmq.read and pgmq.archive over one psycopg connection, payloads parsed",
            f"redrive: `redrive worker --queue … --concurrency …`, idle, after {WARM_UP:,} jobs to warm up;",
            "         from the commit of app.sync.send_many to the last archived_at, by the database's clock",
        ),
        ("contender", "jobs/s", "runs", "ratio"),
        [(name, each.median, each.spread, each.median / bare_rate) for name, each in runs.items()],
        goals,
        skipped,
    )


def _bare(place: Place, batch: int) -> float:
    place.fresh_bare_queue(_BARE)
    with Child("benchmarks.peers.bare", "drain", place.url, _BARE, str(batch), str(JOBS)) as child:
        with place.connect() as connection:
            bare.send_batch(connection, _BARE, payloads(JOBS))
        return JOBS / float(child.go())


def _pgqueuer(url: str) -> float:
    with Child("benchmarks.peers.pgqueuer", url, str(JOBS)) as child:
        return JOBS / float(child.go())


def _ours(place: Place, concurrency: int) -> float:
    place.fresh_queue(DRAIN)
    app = Redrive(place.url)
    with Worker(place, DRAIN, concurrency), place.connect() as connection:
        for count in (WARM_UP, JOBS):
            before = value(connection, "select coalesce(max(archived_at), now()) from pgmq.a_bench_drain")
            archived = value(connection, "select count(*) from pgmq.a_bench_drain")
            with connection.transaction():
                app.sync.send_many(DRAIN, payloads(count), connection=connection)
            began = value(connection, "select clock_timestamp()")
            while (
                value(connection, "select sum(done) from redrive.worker where queue = %s", DRAIN)
                < archived + count
            ):
                time.sleep(0.02)
            ended = value(connection, "select max(archived_at) from pgmq.a_bench_drain")
            assert before < began < ended
        return JOBS / (ended - began).total_seconds()
