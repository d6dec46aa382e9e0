"""Link: one connection of the worker's own that survives its database.

Guarantees  a call ends within its deadline, even where the network swallows every byte: the socket is shut,
            which libpq notices at once (a cancel request would have to pass the same network);
            after any failure that may concern the connection, the next call opens a new one.
Not given   that a failed call took no effect.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from redrive.errors import Unavailable
from redrive.store.database import arguments
from redrive.store.faults import explain_psycopg

T = TypeVar("T")
Wire = AsyncConnection[TupleRow]

# A claim of 500 takes 10 ms; this is for a server that is overloaded, not for one that is gone.
DEADLINE = 10.0
CONNECTING = 10.0


class Link:
    """One autocommit connection to `url`, opened when first needed. `name` shows in pg_stat_activity."""

    def __init__(self, url: str, name: str, *, deadline: float = DEADLINE) -> None:
        self._arguments: dict[str, Any] = {**arguments(url), "application_name": name}
        self._deadline = deadline
        self._wire: Wire | None = None
        self._lock = asyncio.Lock()

    async def call(self, work: Callable[[Wire], Awaitable[T]], *, deadline: float | None = None) -> T:
        """Await `work` with the connection, within `deadline` seconds.

        Raises `Unavailable` for everything that may be the connection's fault, else the redrive error that
        the fault stands for, else psycopg's own.
        """
        async with self._lock:
            wire = await self._open()
            overdue = False

            def shut() -> None:
                nonlocal overdue
                overdue = True
                _shut(wire)

            timer = asyncio.get_running_loop().call_later(deadline or self._deadline, shut)
            try:
                return await work(wire)
            except psycopg.Error as error:
                if overdue:
                    await self._drop()
                    raise Unavailable(
                        f"the database did not answer within {deadline or self._deadline:g} s; "
                        "the connection was closed and the call will be repeated"
                    ) from error
                explained = explain_psycopg(error)
                if wire.closed or isinstance(explained, Unavailable):
                    await self._drop()
                    raise explained or Unavailable(f"the connection was lost: {error}") from error
                raise (explained or error) from error
            except BaseException:
                await self._drop()
                raise
            finally:
                timer.cancel()

    def shut(self) -> None:
        """Make the call under way fail at once; a cancelled one would first try to tell the server."""
        if self._wire is not None:
            _shut(self._wire)

    async def close(self) -> None:
        async with self._lock:
            await self._drop()

    async def _open(self) -> Wire:
        if self._wire is not None and not self._wire.closed:
            return self._wire
        try:
            async with asyncio.timeout(CONNECTING):
                self._wire = await AsyncConnection.connect(**self._arguments)
        except psycopg.Error as error:
            raise explain_psycopg(error) or Unavailable(f"the database is out of reach: {error}") from error
        except TimeoutError:
            raise Unavailable(f"the database took no connection within {CONNECTING:g} s") from None
        return self._wire

    async def _drop(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            await wire.close()


def _shut(wire: Wire) -> None:
    """Shut the socket beneath libpq, which then sees the end of the stream and still closes it itself."""
    if wire.closed:
        return
    try:
        with socket.socket(fileno=os.dup(wire.fileno())) as same:
            same.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
