"""Outbox: where an app's messages leave. Builds each statement once, and runs it on whichever connection.

Guarantees  without a connection of the caller's, one call is one transaction: all its messages or none.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypedDict, TypeVar, Unpack, cast

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from redrive import payload as payloads
from redrive.app.bridge import Bridge
from redrive.errors import Unavailable
from redrive.job import JobDefinition, tracing
from redrive.settings import choose_database, load_settings
from redrive.store import adapters, messages
from redrive.store.database import Database
from redrive.store.embedded import EmbeddedServer
from redrive.store.faults import CONFLICTS
from redrive.store.messages import Sent
from redrive.store.statement import Statement

T = TypeVar("T")

_DEADLINE = 30.0
_CONFLICT_PAUSES = (0.01, 0.03, 0.1, 0.3)


class Options(TypedDict, total=False):
    """What may be said of a message beside its payload; see `Redrive.send`."""

    delay: float | datetime
    headers: Mapping[str, Any] | None
    unique: bool


class SendOptions(Options, total=False):
    """The options of `send`."""

    key: str | None
    connection: object


class SendManyOptions(Options, total=False):
    """The options of `send_many`: `keys` has one entry a message."""

    keys: Iterable[str | None] | None
    connection: object


class Outbox:
    """`url` tells the database the app names; None: the environment's, looked up when first needed."""

    def __init__(self, url: Callable[[], str | None], max_payload: int) -> None:
        self._url = url
        self._max_payload = max_payload
        self._named: str | None = None
        self._database: Database | None = None
        self._server: EmbeddedServer | None = None
        self._bridge = Bridge(self._close_database)

    @property
    def database(self) -> Database:
        """Raises `ConfigError` when no database is named anywhere."""
        named = self._url()
        if self._database is None or named != self._named:
            self._named = named
            self._database = Database(named or self._found(), deadline=_DEADLINE)
        return self._database

    def one(
        self,
        queue: str,
        payload: object,
        job: JobDefinition | None = None,
        *,
        key: str | None = None,
        **options: Unpack[Options],
    ) -> Statement[Sent]:
        """The statement that sends one message."""
        plain = payload if job is None else job.plain(payload)
        return messages.send(queue, payloads.encode(plain, limit=self._max_payload), key=key, **options)

    def many(
        self,
        queue: str,
        values: Iterable[object],
        job: JobDefinition | None = None,
        *,
        keys: Iterable[str | None] | None = None,
        **options: Unpack[Options],
    ) -> list[Statement[list[Sent]]]:
        """The statements that send many, in their order."""
        plain = values if job is None else [job.plain(value, n) for n, value in enumerate(values)]
        batches = payloads.encode_many(plain, limit=self._max_payload, count=messages.CHUNK)
        return messages.send_batch(queue, batches, keys=keys, **options)

    async def send(
        self, queue: str, payload: object, job: JobDefinition | None = None, **options: Unpack[SendOptions]
    ) -> Sent:
        """Send one message, with a span round it where the app is traced."""
        connection = options.pop("connection", None)
        with tracing.sending(queue, cast("dict[str, Any]", options)) as span:
            found = await self.run(self.one(queue, payload, job, **options), connection)
            span.sent([found.id])
            return found

    async def send_many(
        self,
        queue: str,
        values: Iterable[object],
        job: JobDefinition | None = None,
        **options: Unpack[SendManyOptions],
    ) -> list[Sent]:
        """Send many, all or none."""
        connection = options.pop("connection", None)
        with tracing.sending(queue, cast("dict[str, Any]", options)) as span:
            found = await self.run_all(self.many(queue, values, job, **options), connection)
            span.sent(each.id for each in found)
            return found

    def send_blocking(
        self, queue: str, payload: object, job: JobDefinition | None = None, **options: Unpack[SendOptions]
    ) -> Sent:
        connection = options.pop("connection", None)
        with tracing.sending(queue, cast("dict[str, Any]", options)) as span:
            found = self.run_blocking(self.one(queue, payload, job, **options), connection)
            span.sent([found.id])
            return found

    def send_many_blocking(
        self,
        queue: str,
        values: Iterable[object],
        job: JobDefinition | None = None,
        **options: Unpack[SendManyOptions],
    ) -> list[Sent]:
        connection = options.pop("connection", None)
        with tracing.sending(queue, cast("dict[str, Any]", options)) as span:
            found = self.run_all_blocking(self.many(queue, values, job, **options), connection)
            span.sent(each.id for each in found)
            return found

    async def run(self, statement: Statement[T], connection: object) -> T:
        if connection is not None:
            return await adapters.run(statement, connection)
        return await self.database.run(statement)

    async def run_all(self, statements: Sequence[Statement[list[T]]], connection: object) -> list[T]:
        if connection is not None:
            found = [await adapters.run(statement, connection) for statement in statements]
        elif len(statements) == 1:
            found = [await self.database.run(statements[0])]
        else:
            found = await self._together(statements)
        return [each for answer in found for each in answer]

    def run_blocking(self, statement: Statement[T], connection: object) -> T:
        if connection is not None:
            return adapters.run_blocking(statement, connection)
        return self._bridge.run(self.database.run(statement))

    def run_all_blocking(self, statements: Sequence[Statement[list[T]]], connection: object) -> list[T]:
        if connection is not None:
            return [each for statement in statements for each in adapters.run_blocking(statement, connection)]
        return self._bridge.run(self.run_all(statements, None))

    async def close(self) -> None:
        """Close what this event loop and the blocking face have opened."""
        await self._close_database()
        await asyncio.to_thread(self._bridge.close)
        if self._server is not None:
            self._server.stop()
            self._server = self._database = None

    async def _close_database(self) -> None:
        if self._database is not None:
            await self._database.close()

    def _found(self) -> str:
        choice = choose_database(load_settings())
        if choice.url is not None:
            return choice.url
        # Kept: the server runs as long as somebody who started it holds on to it.
        self._server = EmbeddedServer(choice.directory)
        return self._server.start()

    async def _together(self, statements: Sequence[Statement[T]]) -> list[T]:
        for pause in _CONFLICT_PAUSES:
            try:
                return await self._transaction(statements)
            except psycopg.Error as error:
                if error.sqlstate not in CONFLICTS:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        return await self._transaction(statements)

    async def _transaction(self, statements: Sequence[Statement[T]]) -> list[T]:
        async with self.database.connection() as connection, connection.transaction():
            return [await _in_time(statement, connection) for statement in statements]


async def _in_time(statement: Statement[T], connection: AsyncConnection[TupleRow]) -> T:
    try:
        async with asyncio.timeout(_DEADLINE):
            return await adapters.run(statement, connection)
    except TimeoutError:
        raise Unavailable(f"the database did not answer within {_DEADLINE:g} s; nothing was sent") from None
