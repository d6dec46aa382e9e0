"""pickup: from the commit of a send to the start of its handler, on a worker that has nothing to do."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any, LiteralString

from psycopg import Connection

from benchmarks.jobs import PICKUP
from benchmarks.peers.child import Child
from benchmarks.place import Place
from benchmarks.result import Goal, Result
from benchmarks.worker import Worker

SAMPLES = 300
_BARE = "bench_bare"
_PAUSES = (0.02, 0.08)
_BARE_SEND: LiteralString = "select pgmq.send(%s, jsonb_build_object('n', 1)), pg_notify('bench_bare', '')"
_SEND: LiteralString = "select redrive.send(%s, jsonb_build_object('n', 1))"


def run(place: Place) -> Result:
    place.fresh_queue(PICKUP)
    place.fresh_bare_queue(_BARE)
    bare: list[float] = []
    ours: list[float] = []
    with (
        Worker(place, PICKUP, concurrency=20) as worker,
        Child("benchmarks.peers.bare", "pickup", place.url, _BARE) as child,
        place.connect() as connection,
    ):
        child.go()
        for _ in range(SAMPLES):
            # One after the other, so that whatever else the machine does hits both alike.
            bare.append(_sample(connection, _BARE_SEND, _BARE, child.line))
            ours.append(_sample(connection, _SEND, PICKUP, worker.hear))
    return _result({"bare LISTEN, pgmq.read(1)": bare, "redrive worker": ours})


def _sample(connection: Connection[Any], send: LiteralString, queue: str, hear: Callable[[], str]) -> float:
    """Milliseconds from asking for the commit to the handler's first line."""
    # Not in step with any poll.
    time.sleep(random.uniform(*_PAUSES))
    with connection.transaction():
        row = connection.execute(send, (queue,)).fetchone()
        assert row is not None
        began = time.monotonic()
    msg_id, at = hear().split()
    assert int(msg_id) == row[0]
    return (float(at) - began) * 1000


def _result(samples: dict[str, list[float]]) -> Result:
    rows = []
    for name, each in samples.items():
        cuts = statistics.quantiles(each, n=100, method="inclusive")
        rows.append((name, cuts[49], cuts[94], cuts[98]))
    bare = rows[0]
    return Result(
        "pickup",
        "milliseconds from commit to handler",
        (
            f"{SAMPLES} sends each, in turn, {_PAUSES[0]:g} to {_PAUSES[1]:g} s apart; the commit is in it",
            "bare: one connection LISTENs, another reads one message; the sender notifies in its transaction",
            "redrive: `redrive worker --concurrency 20`, told by redrive.send",
        ),
        ("contender", "p50", "p95", "p99", "×p50", "×p95", "×p99"),
        [(*row, *(row[n] / bare[n] for n in (1, 2, 3))) for row in rows],
        (Goal("p50 of redrive to the bare loop's", rows[1][1] / bare[1], 1.5, most=True),),
    )
