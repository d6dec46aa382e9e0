"""BlockingPool: connections for code that runs in threads, such as `def` handlers."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager

from psycopg import Connection
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from redrive.errors import Unavailable
from redrive.store.database import arguments

Pool = ConnectionPool[Connection[TupleRow]]


class BlockingPool:
    """At most `size` blocking connections to `url` a process, opened when first needed.

    `deadline` is how many seconds to wait for one.
    """

    def __init__(self, url: str, *, size: int = 4, deadline: float = 30.0) -> None:
        self.url = url
        self._size = size
        self._deadline = deadline
        self._pool: Pool | None = None
        self._process = os.getpid()
        self._opening = threading.Lock()

    @contextmanager
    def connection(self) -> Generator[Connection[TupleRow]]:
        """A connection in autocommit; an open transaction at the end is rolled back. Raises `Unavailable`."""
        pool = self._opened()
        try:
            connection = pool.getconn()
        except PoolTimeout as error:
            raise Unavailable(
                f"no database connection could be had within {self._deadline:g} s: {error}; try again"
            ) from error
        try:
            yield connection
        finally:
            pool.putconn(connection)

    def close(self) -> None:
        """Close the connections; closing twice is fine."""
        with self._opening:
            pool, self._pool = self._pool, None
        if pool is not None and self._process == os.getpid():
            pool.close()

    def _opened(self) -> Pool:
        with self._opening:
            # After a fork the sockets are the parent's.
            if self._pool is None or self._process != os.getpid():
                self._process = os.getpid()
                self._pool = ConnectionPool(
                    kwargs=arguments(self.url),
                    min_size=0,
                    max_size=self._size,
                    timeout=self._deadline,
                    check=_check_alive,
                    open=True,
                    name="redrive-blocking",
                )
            return self._pool


def _check_alive(connection: Connection[TupleRow]) -> None:
    """Raises when the server has said goodbye while the connection was idle; asks the server nothing."""
    connection.pgconn.consume_input()
    connection.pgconn.is_busy()
    connection.pgconn.consume_input()
