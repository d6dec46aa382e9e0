"""Completion: a handler's own writes and its message's end, committed together.

Guarantees  the settle is the last statement before the commit and is fenced: when the message is no longer
            this delivery's, `Lost` is raised and nothing of the transaction stays;
            a connection that cannot keep this promise (no open transaction, a stricter isolation, another
            database) is refused before it is used.
Not given   with `complete`, that the caller commits: until then the message is neither done nor lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakKeyDictionary

import psycopg
from psycopg import AsyncConnection, Connection, IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow

from redrive.errors import InvalidArgument, Lost
from redrive.store import adapters
from redrive.store.blocking import BlockingPool
from redrive.store.database import Database
from redrive.store.statement import Row, Statement, scalar

# Somebody else's transaction holds the message's row: an operator's, or another handler's look at it.
_LOCKED_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)

_INSTALLATION = Statement("select redrive.installation_id()::text", (), scalar)


def _facts(rows: Sequence[Row]) -> tuple[str, bool, str]:
    return rows[0][0], rows[0][1], rows[0][2]


# In a transaction block its start lies before this statement's; a statement alone starts its own transaction.
_WHERE = Statement(
    "select current_setting('transaction_isolation'), transaction_timestamp() < statement_timestamp(), "
    "redrive.installation_id()::text",
    (),
    _facts,
)


class _Fence:
    """The one delivery to be completed, and what its settle's verdicts mean."""

    def __init__(self, queue: str, msg_id: int, read_ct: int, worker: str) -> None:
        self._queue = queue
        self._msg_id = msg_id
        self._read_ct = read_ct
        self._worker = worker
        self._started = time.monotonic()

    def done(self) -> Statement[str]:
        """Settle it as done."""
        return Statement(
            "select verdict from redrive.settle(p_queue => %s::text, p_msg_ids => array[%s::bigint], "
            "p_read_cts => array[%s::integer], p_outcomes => array['done'], "
            "p_durations => array[%s::numeric], p_worker => %s::text)",
            (self._queue, self._msg_id, self._read_ct, time.monotonic() - self._started, self._worker),
            scalar,
        )

    def judge(self, verdict: str) -> bool:
        """True when it is done, False when its row is locked and it is worth another try; else `Lost`."""
        if verdict in ("ok", "late"):
            return True
        if verdict == "locked":
            return False
        raise Lost(
            f"message {self._msg_id} of queue {self._queue} is no longer this delivery's: another worker has "
            "claimed or settled it, or it was cancelled; the transaction is rolled back"
        )

    def check_open(self, connection: AsyncConnection[TupleRow] | Connection[TupleRow]) -> None:
        """Raises `InvalidArgument` when the handler has ended the transaction it was given."""
        if connection.info.transaction_status == TransactionStatus.IDLE:
            raise InvalidArgument(
                f"the transaction of message {self._msg_id} of queue {self._queue} was ended inside its "
                "transaction() block, by a COMMIT or ROLLBACK; the block's end is what commits, and an "
                "exception what rolls back; the message is not completed"
            )

    def still_locked(self) -> Lost:
        return Lost(
            f"message {self._msg_id} of queue {self._queue} could not be completed: another transaction "
            "holds its row; the transaction is rolled back"
        )


def _check_place(found: tuple[str, bool, str], ours: str) -> None:
    isolation, in_transaction, installation = found
    rule = "complete() needs an open transaction, read committed, in the worker's own database"
    if not in_transaction:
        raise InvalidArgument(f"the connection is not in a transaction; {rule}; begin one")
    if isolation != "read committed":
        raise InvalidArgument(f"the connection's transaction is {isolation}; {rule}")
    if installation != ours:
        raise InvalidArgument(f"the connection is to another database; {rule}")


class Completion:
    """Completes one delivery of an `async def` handler. Made when the handler starts: it times the job."""

    def __init__(self, database: Database, queue: str, msg_id: int, read_ct: int, worker: str) -> None:
        self._database = database
        self._fence = _Fence(queue, msg_id, read_ct, worker)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        """See `Job.transaction`."""
        async with self._database.connection() as connection:
            await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
            try:
                async with connection.transaction():
                    yield connection
                    self._fence.check_open(connection)
                    await self._settle(connection)
            finally:
                await _reset(connection)

    async def complete(self, connection: object) -> None:
        """See `Job.complete`."""
        ours = await _installation(self._database)
        _check_place(await adapters.run(_WHERE, connection), ours)
        await self._settle(connection)

    async def _settle(self, connection: object) -> None:
        for pause in (*_LOCKED_PAUSES, None):
            if self._fence.judge(await adapters.run(self._fence.done(), connection)):
                return
            if pause is not None:
                await asyncio.sleep(pause)
        raise self._fence.still_locked()


class BlockingCompletion:
    """Completes one delivery of a `def` handler, on the handler's thread."""

    def __init__(self, pool: BlockingPool, queue: str, msg_id: int, read_ct: int, worker: str) -> None:
        self._pool = pool
        self._fence = _Fence(queue, msg_id, read_ct, worker)

    @contextmanager
    def transaction(self) -> Generator[Connection[TupleRow]]:
        """See `SyncJob.transaction`."""
        with self._pool.connection() as connection:
            connection.isolation_level = IsolationLevel.READ_COMMITTED
            try:
                with connection.transaction():
                    yield connection
                    self._fence.check_open(connection)
                    self._settle(connection)
            finally:
                _reset_blocking(connection)

    def complete(self, connection: object) -> None:
        """See `SyncJob.complete`."""
        _check_place(adapters.run_blocking(_WHERE, connection), _installation_blocking(self._pool))
        self._settle(connection)

    def _settle(self, connection: object) -> None:
        for pause in (*_LOCKED_PAUSES, None):
            if self._fence.judge(adapters.run_blocking(self._fence.done(), connection)):
                return
            if pause is not None:
                time.sleep(pause)
        raise self._fence.still_locked()


_known: WeakKeyDictionary[Database | BlockingPool, str] = WeakKeyDictionary()


async def learn_installation(database: Database, *also: Database | BlockingPool) -> None:
    """Ask which database this is, for `complete` on any of these.

    Best before jobs hold connections: behind a small pooler there may be none left to ask with.
    """
    found = await _installation(database)
    for each in also:
        _known[each] = found


async def _installation(database: Database) -> str:
    if database not in _known:
        _known[database] = await database.run(_INSTALLATION)
    return _known[database]


def _installation_blocking(pool: BlockingPool) -> str:
    if pool not in _known:
        with pool.connection() as connection:
            _known[pool] = adapters.run_blocking(_INSTALLATION, connection)
    return _known[pool]


async def _reset(connection: AsyncConnection[TupleRow]) -> None:
    try:
        await connection.set_isolation_level(None)
    except psycopg.Error:
        # Cut off in the middle of something: not for the next user of the pool.
        await connection.close()


def _reset_blocking(connection: Connection[TupleRow]) -> None:
    try:
        connection.isolation_level = None
    except psycopg.Error:
        connection.close()
