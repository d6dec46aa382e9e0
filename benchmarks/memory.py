"""memory: what the worker process has resident while it works 200,000 jobs."""

from __future__ import annotations

import statistics

from benchmarks.jobs import MEMORY, SAY_EVERY
from benchmarks.payload import payloads
from benchmarks.place import Place
from benchmarks.result import Goal, Result
from benchmarks.worker import Worker
from redrive import Redrive

JOBS = 200_000
_CHUNK = 20_000
_CONCURRENCY = 500


def run(place: Place) -> Result:
    place.fresh_queue(MEMORY)
    app = Redrive(place.url)
    resident: list[int] = []
    with Worker(place, MEMORY, _CONCURRENCY) as worker, place.connect() as connection:
        for first in range(0, JOBS, _CHUNK):
            app.sync.send_many(MEMORY, payloads(_CHUNK, first), connection=connection)
            for _ in range(_CHUNK // SAY_EVERY):
                resident.append(int(worker.hear().split()[1]))
    return _result(resident)


def _result(resident: list[int]) -> Result:
    if not all(resident):
        why = {"memory": "the system has no /proc, where a process finds out what it has resident"}
        return Result("memory", "MB resident", (), ("jobs", "MB"), (), skipped=why)
    per_chunk = _CHUNK // SAY_EVERY
    chunks = [resident[n : n + per_chunk] for n in range(0, len(resident), per_chunk)]
    first = statistics.mean(chunks[0])
    rows = [
        ((n + 1) * _CHUNK, statistics.mean(each) / 1e6, max(each) / 1e6, statistics.mean(each) / first)
        for n, each in enumerate(chunks)
    ]
    off = max(abs(row[-1] - 1) for row in rows)
    return Result(
        "memory",
        "MB resident in the worker process",
        (f"{JOBS:,} no-op async jobs of 120 bytes, --concurrency {_CONCURRENCY}, read every {SAY_EVERY:,}",),
        ("jobs so far", "MB, mean", "MB, most", "ratio to the first"),
        rows,
        (Goal("largest change from the first 20,000 jobs", off, 0.1, most=True),),
    )
