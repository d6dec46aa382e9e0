"""pgqueuer: its QueueManager over an asyncpg pool, as its documentation runs it, until the queue is empty.

Measured on 2 cores: batches of 500 were its best; its default batch of 10 reached a third.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from datetime import timedelta

import asyncpg
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.models import Job
from pgqueuer.domain.types import QueueExecutionMode
from pgqueuer.queries import Queries

from benchmarks.payload import payloads
from benchmarks.peers.child import tell, wait_for_go

_BATCH = 500
_POOL = 4


async def drain(url: str, count: int) -> None:
    """Work `count` jobs; the time is from the manager's start to its last job logged."""
    async with asyncpg.create_pool(url, min_size=_POOL, max_size=_POOL) as pool:
        queries = Queries.from_asyncpg_pool(pool)
        if not await queries.schema_is_installed():
            await queries.install()
        await queries.clear_queue()
        await queries.clear_queue_log()
        bodies: list[bytes | None] = [json.dumps(each).encode() for each in payloads(count)]
        await queries.enqueue(["noop"] * count, bodies, [0] * count)
        manager = QueueManager(queries)
        done = 0

        @manager.entrypoint("noop")
        async def noop(job: Job) -> None:
            nonlocal done
            json.loads(job.payload or b"null")
            done += 1

        wait_for_go()
        began = time.perf_counter()
        await manager.run(
            dequeue_timeout=timedelta(seconds=0.1), batch_size=_BATCH, mode=QueueExecutionMode.drain
        )
        seconds = time.perf_counter() - began
        assert done == count
        tell(seconds)


def main() -> None:
    logging.disable(logging.CRITICAL)
    url, count = sys.argv[1:]
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ImportError:
        factory = asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(drain(url, int(count)))


if __name__ == "__main__":
    main()
