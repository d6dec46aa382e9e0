"""Jobs: builds what a handler is given, and lends it the worker's hands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from psycopg import AsyncConnection, Connection
from psycopg.rows import TupleRow

from redrive.errors import Lost
from redrive.job import BlockingCompletion, Cancelled, Completion, Job, SyncJob, learn_installation
from redrive.store.blocking import BlockingPool
from redrive.store.database import Database
from redrive.store.statement import Statement, column
from redrive.worker.held import Held

# Connections for job.transaction(), of each kind; opened only when used.
_MOST_CONNECTIONS = 10

T = TypeVar("T")

Completing = Callable[[Held, bool], None]


class Jobs:
    """Makes a `Job` or `SyncJob` for a delivery. `worker` names this process in the store.

    A handler in a transaction holds a connection, and waits for one only where nobody else can: extending and
    the inbox's questions have their own, and which database this is `start` has asked.
    `completing` is told before a job's own transaction settles its delivery, and when it did not come to it.
    """

    def __init__(
        self, url: str, worker: str, *, concurrency: int, completing: Completing | None = None
    ) -> None:
        size = min(concurrency, _MOST_CONNECTIONS)
        self.database = Database(url, size=size)
        self.pool = BlockingPool(url, size=size)
        self.aside = Database(url, size=1)
        # Whoever waits for a connection waits for its neighbours: that is no fault of the database.
        self.room = asyncio.Semaphore(size)
        self.blocking_room = threading.Semaphore(size)
        self.worker = worker
        self.completing = completing or _mark
        self.loop = asyncio.get_running_loop()

    async def start(self, knowing: Database | None = None) -> None:
        """Before the first job; `knowing` may know already which database this is.

        Raises `Unavailable`, `SetupError`.
        """
        await learn_installation(knowing or self.aside, self.aside, self.database, self.pool)

    def job(self, held: Held) -> Job:
        """For an `async def` handler."""
        return Job(_Settling(held, self), **_facts(held))

    def sync_job(self, held: Held) -> SyncJob:
        """For a `def` handler."""
        job = SyncJob(_BlockingSettling(held, self), **_facts(held))
        job.cancelled = _Watched()
        return job

    async def close(self) -> None:
        await self.database.close()
        await self.aside.close()
        await asyncio.to_thread(self.pool.close)


def was_seen(job: Job | SyncJob | None) -> bool:
    """Whether a `def` handler looked at `job.cancelled` when it was set: then it may have given up."""
    return job is not None and isinstance(job.cancelled, _Watched) and job.cancelled.seen


def _mark(held: Held, completing: bool) -> None:
    held.completing = completing


class _Watched(Cancelled):
    """Remembers whether anybody was told."""

    __slots__ = ("seen",)

    def __init__(self) -> None:
        super().__init__()
        self.seen = False

    def __bool__(self) -> bool:
        if super().__bool__():
            self.seen = True
            return True
        return False

    def wait(self, timeout: float | None = None) -> bool:
        if super().wait(timeout):
            self.seen = True
            return True
        return False


class _Settling(Completion):
    def __init__(self, held: Held, jobs: Jobs) -> None:
        d = held.delivery
        super().__init__(jobs.database, d.queue, d.msg_id, d.read_ct, jobs.worker)
        self._held = held
        self._jobs = jobs

    async def extend(self, seconds: float) -> None:
        await _extend(self._jobs.aside, self._held, seconds)

    async def ask(self, statement: Statement[T]) -> T:
        return await self._jobs.aside.run(statement)

    def blocking(self) -> SyncJob:
        # Who decides how it ended looks at this one from now on.
        self._held.job = job = self._jobs.sync_job(self._held)
        return job

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        try:
            async with self._jobs.room, super().transaction() as connection:
                yield connection
        except BaseException:
            self._jobs.completing(self._held, False)
            raise

    async def _settle(self, connection: object) -> None:
        # From here on the message may vanish by our own hand: the heartbeat must not call that a loss.
        self._jobs.completing(self._held, True)
        try:
            await super()._settle(connection)
        except BaseException:
            self._jobs.completing(self._held, False)
            raise


class _BlockingSettling(BlockingCompletion):
    def __init__(self, held: Held, jobs: Jobs) -> None:
        d = held.delivery
        super().__init__(jobs.pool, d.queue, d.msg_id, d.read_ct, jobs.worker)
        self._held = held
        self._jobs = jobs

    def extend(self, seconds: float) -> None:
        asyncio.run_coroutine_threadsafe(
            _extend(self._jobs.aside, self._held, seconds), self._jobs.loop
        ).result()

    @contextmanager
    def transaction(self) -> Generator[Connection[TupleRow]]:
        try:
            with self._jobs.blocking_room, super().transaction() as connection:
                yield connection
        except BaseException:
            self._jobs.completing(self._held, False)
            raise

    def _settle(self, connection: object) -> None:
        self._jobs.completing(self._held, True)
        try:
            super()._settle(connection)
        except BaseException:
            self._jobs.completing(self._held, False)
            raise


async def _extend(database: Database, held: Held, seconds: float) -> None:
    d = held.delivery
    owned = await database.run(
        Statement(
            "select redrive.extend(p_queue => %s::text, p_msg_ids => array[%s::bigint], "
            "p_read_cts => array[%s::integer], p_vt => %s::numeric)",
            (d.queue, d.msg_id, d.read_ct, seconds),
            column,
        )
    )
    if not owned:
        raise Lost(
            f"message {d.msg_id} of queue {d.queue} is no longer this delivery's: another worker has claimed "
            "or settled it, or it was cancelled; stop working on it"
        )


def _facts(held: Held) -> dict[str, object]:
    d = held.delivery
    return {
        "queue": d.queue,
        "msg_id": d.msg_id,
        "read_ct": d.read_ct,
        "attempt": d.attempt,
        "max_attempts": held.lane.max_attempts,
        "key": d.key,
        "headers": d.headers,
        "enqueued_at": d.enqueued_at,
    }
