"""producers: eight at once, a commit a message: do they queue for Postgres's notify lock?

Each notifying transaction holds one database-wide lock until its commit is on disk. redrive.send notifies
only where a worker is marked as waiting; a worker that finds something is no longer marked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from psycopg import Connection

from benchmarks.jobs import SPARE
from benchmarks.place import Place
from benchmarks.result import Goal, Result
from benchmarks.rounds import Runs, interleaved
from benchmarks.worker import Worker

PRODUCERS = 8
EACH = 500
ROUNDS = 7
_BARE = "bench_bare"
# A loop in the server, so that eight clients' Python is not what is measured.
_LOOP = """do $$ begin
    for n in 1 .. {each} loop
        perform {send}('{queue}', jsonb_build_object('n', n, 'user_id', '6f1c1d3e-0000-4000-8000'));
        commit;
    end loop;
end $$"""


def run(place: Place) -> Result:
    contenders = {
        "pgmq.send": lambda: _produce(place, "pgmq.send", place.fresh_bare_queue(_BARE)),
        "redrive.send, no worker": lambda: _ours(place, None),
        "redrive.send, an idle worker listening": lambda: _ours(place, "worker"),
        "redrive.send, every send notifies": lambda: _ours(place, "always"),
        "pgmq.send + pg_notify": lambda: _notifying(place),
    }
    return _result(interleaved(contenders, ROUNDS))


def _result(runs: dict[str, Runs]) -> Result:
    bare = runs["pgmq.send"].median
    quiet, listening = (
        runs[f"redrive.send, {who}"].median for who in ("no worker", "an idle worker listening")
    )
    return Result(
        "producers",
        f"messages a second from {PRODUCERS} connections",
        (
            f"{PRODUCERS} connections, each {EACH} sends in a loop in the server, a commit each",
            "an idle worker listening: `redrive worker --concurrency 100`; it works what arrives, here too",
            "every send notifies: a connection LISTENs, is marked as waiting, and never claims: the worst",
        ),
        ("sender", "messages/s", "runs", "ratio"),
        [(name, each.median, each.spread, each.median / bare) for name, each in runs.items()],
        (
            Goal("redrive.send with no worker to pgmq.send", quiet / bare, 0.9),
            Goal("redrive.send with an idle worker to one with none", listening / quiet, 0.5),
        ),
    )


def _ours(place: Place, who: str | None) -> float:
    place.fresh_queue(SPARE)
    with ExitStack() as stack:
        if who == "worker":
            stack.enter_context(Worker(place, SPARE, concurrency=100))
        elif who == "always":
            stack.enter_context(_always_waiting(place))
        return _produce(place, "redrive.send", SPARE)


@contextmanager
def _always_waiting(place: Place) -> Generator[None]:
    with place.connect() as ear:
        ear.execute("listen redrive")
        ear.execute(
            "insert into redrive.worker (queue, worker, started_at, last_seen, waiting_until) "
            "values (%s, 'bench', now(), now(), now() + interval '1 hour')",
            (SPARE,),
        )
        yield
        ear.execute("delete from redrive.worker where worker = 'bench'")


def _notifying(place: Place) -> float:
    place.fresh_bare_queue(_BARE)
    with place.connect() as connection:
        connection.execute(
            "create or replace function public.send_and_notify(q text, m jsonb) returns bigint "
            "language plpgsql as $$ begin perform pg_notify('bench', q); return pgmq.send(q, m); end $$"
        )
    return _produce(place, "public.send_and_notify", _BARE)


def _produce(place: Place, send: str, queue: str) -> float:
    """Messages a second over all producers."""
    loop = _LOOP.format(each=EACH, send=send, queue=queue).encode()
    start = threading.Barrier(PRODUCERS + 1)

    def produce(connection: Connection[Any]) -> None:
        start.wait()
        connection.execute(loop)

    with ExitStack() as stack:
        connections = [stack.enter_context(place.connect()) for _ in range(PRODUCERS)]
        threads = [threading.Thread(target=produce, args=(each,)) for each in connections]
        for thread in threads:
            thread.start()
        start.wait()
        began = time.perf_counter()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - began
    return PRODUCERS * EACH / seconds
