"""inbox: signed webhooks accepted by one process, beside an endpoint that inserts and sends in two calls."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence

from benchmarks import posting
from benchmarks.jobs import INBOX, SOURCE
from benchmarks.peers import receiver
from benchmarks.place import Place, value
from benchmarks.result import Cell, Goal, Result
from benchmarks.rounds import interleaved
from benchmarks.worker import Worker
from redrive.store import events
from redrive.store.database import Database

CONNECTIONS = 16
EVENTS = 3_000
ROUNDS = 5
BACKLOG = 100_000
_READY_WITHIN = 30.0
_FILLED_AT_ONCE = 500


def run(place: Place) -> Result:
    latencies: dict[str, list[float]] = {"bare": [], "redrive": []}
    names = iter(range(1_000_000))

    def measure(name: str, port: int, path: str) -> float:
        answers = posting.post(port, posting.requests(f"{name}-{next(names)}", path, EVENTS), CONNECTIONS)
        assert not answers.refused, f"{answers.refused} of {EVENTS} were refused"
        latencies[name] += answers.latencies
        return answers.rate

    with place.connect() as connection:
        connection.execute(receiver.TABLE)
    place.fresh_bare_queue(receiver.QUEUE)
    place.fresh_queue(INBOX)
    with _bare(place) as bare_port, _redrive(place) as our_port:
        for warm in (("bare", bare_port, "/webhook"), ("redrive", our_port, f"/webhooks/{SOURCE}")):
            measure(*warm)
        latencies = {"bare": [], "redrive": []}
        rates = interleaved(
            {
                "bare": lambda: measure("bare", bare_port, "/webhook"),
                "redrive": lambda: measure("redrive", our_port, f"/webhooks/{SOURCE}"),
            },
            ROUNDS,
        )
        busy = _beside_a_worker(place, our_port)
    rows: list[Sequence[Cell]] = [
        (
            _LABELS[name],
            runs.median,
            runs.spread,
            runs.median / rates["bare"].median,
            *_milliseconds(latencies[name]),
        )
        for name, runs in rates.items()
    ]
    rows.append(("redrive, a worker draining", busy.rate, "", None, *_milliseconds(busy.latencies)))
    return Result(
        "inbox",
        "signed events of 2 KB accepted a second, and milliseconds to the answer",
        (
            f"{EVENTS:,} events a round over {CONNECTIONS} connections, {ROUNDS} rounds, one process each",
            "bare: Starlette, verify, insert, then pgmq.send: two calls, two commits, a pool of 16",
            "redrive: `redrive serve`, verify, then one call of redrive.receive_events",
            f"a worker draining: the same while a worker handles a backlog of {BACKLOG:,} such events",
        ),
        ("receiver", "events/s", "runs", "ratio", "p50", "p99", "longest"),
        rows,
        (
            Goal(
                "accepted events a second to the bare endpoint's",
                rates["redrive"].median / rates["bare"].median,
                1.3,
            ),
            Goal("p99 in ms beside a draining worker", busy.percentile(99) * 1000, 500, most=True),
        ),
    )


_LABELS = {"bare": "bare, two calls", "redrive": "redrive serve"}


def _milliseconds(latencies: Sequence[float]) -> tuple[float, float, float]:
    cuts = statistics.quantiles(latencies, n=100, method="inclusive")
    return cuts[49] * 1000, cuts[98] * 1000, max(latencies) * 1000


def _beside_a_worker(place: Place, port: int) -> posting.Answers:
    """Post while a worker has a backlog of such events."""
    place.fresh_queue(INBOX)
    wanted = posting.requests("busy", f"/webhooks/{SOURCE}", EVENTS)
    asyncio.run(_fill(place))
    with Worker(place, INBOX, concurrency=100, idle=False), place.connect() as connection:
        answers = posting.post(port, wanted, CONNECTIONS)
        left = value(connection, "select count(*) from pgmq.q_bench_inbox")
    assert left > EVENTS, "the backlog was drained before all was posted: it was no backlog"
    assert not answers.refused, f"{answers.refused} of {EVENTS} were refused"
    return answers


async def _fill(place: Place) -> None:
    database = Database(place.url, size=1)
    for first in range(0, BACKLOG, _FILLED_AT_ONCE):
        await database.run(events.receive_many([_arrival(n) for n in range(first, first + _FILLED_AT_ONCE)]))
    await database.close()


def _arrival(n: int) -> events.Arrival:
    body = posting.event(f"backlog-{n}")
    return events.Arrival(SOURCE, f"backlog-{n}", "video.media.ready", body.decode(), body, {}, INBOX)


@contextlib.contextmanager
def _bare(place: Place) -> Generator[int]:
    port = _free_port()
    command = [
        *(sys.executable, "-m", "uvicorn", "benchmarks.peers.receiver:app", "--port", str(port)),
        *("--http", "httptools", "--no-access-log", "--log-level", "warning"),
    ]
    with _serving(command, port, {"BENCH_URL": place.url}):
        yield port


@contextlib.contextmanager
def _redrive(place: Place) -> Generator[int]:
    port = _free_port()
    command = [
        *(sys.executable, "-m", "redrive.cli", "serve", "--app", "benchmarks.jobs:app", "--port", str(port)),
    ]
    with _serving(command, port, {"REDRIVE_DATABASE_URL": place.url}):
        yield port


@contextlib.contextmanager
def _serving(command: list[str], port: int, environment: dict[str, str]) -> Generator[None]:
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + _READY_WITHIN
            while not _listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(f"the receiver does not listen: {log.read()}")
                time.sleep(0.05)
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
