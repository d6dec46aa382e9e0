"""The database: a lazy pool per process and event loop, and one way to run a `Statement` on it.

Guarantees  every call ends within its deadline and two seconds for calling it off, whatever the network does;
            a statement that lost a serialization conflict or a deadlock is run again;
            every fault arrives as one of redrive's errors, without the password.
Not given   whether a statement took effect before an `Unavailable`: the caller's fence or key decides.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from redrive.errors import Unavailable
from redrive.store import url as database_url
from redrive.store.faults import CONFLICTS, explain_psycopg
from redrive.store.statement import Statement

# Whoever waits for a connection is told once, by an exception. The pool's words for each try are for those
# who listen, not for the terminal of a script without logging.
logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())

T = TypeVar("T")
Pool = AsyncConnectionPool[AsyncConnection[TupleRow]]

# Five more tries, 0.01 to 0.16 s apart: a conflict is over as soon as the other transaction is.
_CONFLICT_PAUSES = (0.01, 0.02, 0.04, 0.08, 0.16)
# How long a cancel request may take after the deadline before the socket is simply closed.
_CALLING_OFF = 2.0
# The pool tries to connect for 1 s, then waits to be asked again: whoever asks every 2 s is served within 2 s
# of the server's return (its own backoff, 1, 2, 4, 8... s, would sleep through it).
_PATIENCE = 2.0
_CONNECTING = 1.0


class Database:
    """What is asked of one database, by whichever event loop of whichever process asks.

    `size` connections at most per process and event loop, opened when first needed; `deadline` in seconds
    for every call, waiting for a connection included.
    """

    def __init__(self, url: str, *, size: int = 4, deadline: float = 30.0) -> None:
        self.url = url
        self._arguments = arguments(url)
        self._size = size
        self._deadline = deadline
        self._pools: dict[asyncio.AbstractEventLoop, Pool] = {}
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"Database({database_url.redact(self.url)!r})"

    async def run(self, statement: Statement[T], *, deadline: float | None = None) -> T:
        """Run one statement in a transaction of its own and return what its `load` makes of the rows.

        `deadline` in seconds takes the place of the database's own.
        Raises the error the fault stands for: `Unavailable` when the database is out of reach, does not
        answer in time or refuses with one conflict after another; else see `redrive.store.faults`.
        """
        async with _Deadline(self._deadline if deadline is None else deadline):
            try:
                rows = await self._execute_again_on_conflict(statement)
            except psycopg.Error as error:
                raise _explained(error) from error
        return statement.load(rows)

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[AsyncConnection[TupleRow], None]:
        """A pooled connection in autocommit; what happens on it is the caller's: no deadline, raw errors.

        A transaction still open at the end is rolled back. Raises `Unavailable` when no connection can be
        had within the deadline.
        """
        pool = await self._pool()
        async with _Deadline(self._deadline):
            connection = await self._checkout(pool)
        try:
            yield connection
        finally:
            await _give_back(pool, connection)

    async def close(self) -> None:
        """Close this event loop's connections; closing twice, or before anything was opened, is fine."""
        pool = self._known_pools().pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()

    async def _execute_again_on_conflict(self, statement: Statement[Any]) -> list[TupleRow]:
        for pause in _CONFLICT_PAUSES:
            try:
                return await self._execute(statement)
            except psycopg.Error as error:
                if error.sqlstate not in CONFLICTS:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        try:
            return await self._execute(statement)
        except psycopg.Error as error:
            if error.sqlstate in CONFLICTS:
                raise Unavailable(f"the statement lost six conflicts in a row: {error}; try again") from error
            raise

    async def _execute(self, statement: Statement[Any]) -> list[TupleRow]:
        pool = await self._pool()
        connection = await self._checkout(pool)
        try:
            cursor = await connection.execute(statement.sql.encode(), statement.params)
            return await cursor.fetchall() if cursor.description else []
        finally:
            await _give_back(pool, connection)

    async def _checkout(self, pool: Pool) -> AsyncConnection[TupleRow]:
        while True:
            failures = _connect_failures(pool)
            try:
                connection = await pool.getconn(timeout=_PATIENCE)
            except PoolTimeout:
                if _connect_failures(pool) > failures:
                    raise await self._why_out_of_reach() from None
                continue  # all connections are busy: the deadline decides
            except PoolClosed as error:
                raise Unavailable("the connections were closed while this call waited for one") from error
            if _is_alive(connection):
                return connection
            await connection.close()
            await pool.putconn(connection)

    async def _why_out_of_reach(self) -> Exception:
        """The pool keeps the reason to itself, so ask once more, directly."""
        try:
            connection = await AsyncConnection.connect(**self._arguments)
        except psycopg.Error as error:
            return _explained(error)
        await connection.close()
        return Unavailable("the database was out of reach until a moment ago; try again")

    async def _pool(self) -> Pool:
        pools, loop = self._known_pools(), asyncio.get_running_loop()
        pool = pools.get(loop)
        if pool is None:
            for gone in [each for each in pools if each.is_closed()]:
                del pools[gone]
            pool = pools[loop] = AsyncConnectionPool(
                kwargs=self._arguments,
                min_size=0,
                max_size=self._size,
                reconnect_timeout=_CONNECTING,
                open=False,
                name="redrive",
            )
        if pool.closed:
            await pool.open()
        return pool

    def _known_pools(self) -> dict[asyncio.AbstractEventLoop, Pool]:
        # After a fork the sockets are the parent's: they are forgotten, never closed from here.
        if self._process != os.getpid():
            self._pools, self._process = {}, os.getpid()
        return self._pools


class _Deadline:
    """Like `asyncio.timeout`, but insisting, and at half the price of two of them (12 µs saved a call).

    The first cancellation makes psycopg cancel the statement on the server; where the network swallows that
    too, the second interrupts it, upon which psycopg closes the socket.
    """

    __slots__ = ("_before", "_fired", "_handle", "_seconds", "_task")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._fired = 0

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "the database is asked from a task"
        self._task = task
        self._before = task.cancelling()
        self._handle = asyncio.get_running_loop().call_later(self._seconds, self._fire)

    def _fire(self) -> None:
        self._fired += 1
        if self._fired == 1:
            self._handle = asyncio.get_running_loop().call_later(_CALLING_OFF, self._fire)
        self._task.cancel()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._handle.cancel()
        for _each in range(self._fired):
            self._task.uncancel()
        # Somebody else's cancellation goes first.
        if self._fired and kind is asyncio.CancelledError and self._task.cancelling() <= self._before:
            raise Unavailable(
                f"the database did not answer within {self._seconds:g} s; the call was called off, "
                "and whether it took effect is unknown; try again"
            ) from None


def arguments(url: str) -> dict[str, Any]:
    """How redrive connects to `url` with psycopg: autocommit, nothing that a transaction pooler breaks."""
    return {**database_url.parse(url), "autocommit": True, "prepare_threshold": None}


def connect(url: str) -> Connection[TupleRow]:
    """A blocking connection in autocommit, for commands that need just one. Raises like `Database`."""
    try:
        return psycopg.connect(**arguments(url))
    except psycopg.Error as error:
        raise _explained(error) from error


def _explained(error: psycopg.Error) -> Exception:
    return explain_psycopg(error) or error


def _connect_failures(pool: Pool) -> int:
    return pool.get_stats().get("connections_errors", 0)


def _is_alive(connection: AsyncConnection[TupleRow]) -> bool:
    """Whether the server has not hung up while the connection was idle: reads what has arrived, asks nothing.

    Without this a restart of the database would fail one statement for each idle connection.
    """
    try:
        connection.pgconn.consume_input()  # takes in the farewell
        connection.pgconn.is_busy()
        connection.pgconn.consume_input()  # meets the closed socket
    except psycopg.OperationalError:
        return False
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


async def _give_back(pool: Pool, connection: AsyncConnection[TupleRow]) -> None:
    if connection.pgconn.transaction_status != TransactionStatus.IDLE and not connection.closed:
        try:
            async with asyncio.timeout(_CALLING_OFF):
                await connection.rollback()
        except (psycopg.Error, TimeoutError):
            await connection.close()
    await pool.putconn(connection)
