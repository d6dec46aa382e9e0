"""Adapters: run a `Statement` on the caller's own connection, inside the caller's own transaction.

Guarantees  nothing is committed, rolled back or set; the caller's row factories, codecs and pipelines do not
            matter; a fault arrives as the same redrive error whichever driver met it.
Not given   a usable transaction after a fault: Postgres aborts it, as after any failed statement.

Taken: psycopg `Connection` and `AsyncConnection`; asyncpg `Connection` (of a pool, too); SQLAlchemy
`Connection`, `Session`, `AsyncConnection`, `AsyncSession` (scoped ones, too) on psycopg, psycopg2 or asyncpg;
Django's `django.db.connection`. They are known by the module of their class: no driver is imported.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from psycopg.rows import tuple_row

from redrive.errors import InvalidArgument
from redrive.store.faults import explain
from redrive.store.statement import Row, Scalar, Statement

T = TypeVar("T")
Rows = Sequence[Row]

_PLACE = re.compile(r"%%|%s::(\w+(?:\[\])?)")
_ACCEPTED = (
    "a psycopg Connection or AsyncConnection, an asyncpg Connection, a SQLAlchemy Connection, Session, "
    "AsyncConnection or AsyncSession, or django.db.connection"
)


async def run(statement: Statement[T], connection: object) -> T:
    """Run on any accepted connection. A blocking one blocks the event loop for one round trip.

    Raises `InvalidArgument` for an unknown connection, else what the fault stands for.
    """
    adapter = _adapter(connection)
    try:
        rows = adapter.execute(connection, statement)
        if adapter.is_async:
            rows = await cast("Awaitable[Rows]", rows)
    except Exception as error:
        raise _explained(error) from error
    return statement.load(cast("Rows", rows))


def run_blocking(statement: Statement[T], connection: object) -> T:
    """Run on an accepted blocking connection, on the caller's thread. Raises as `run`."""
    adapter = _adapter(connection)
    if adapter.is_async:
        raise InvalidArgument(
            f"{type(connection).__qualname__} of {adapter.name} is async; await app.send(...) with it, or "
            "give app.sync a blocking connection"
        )
    try:
        rows = adapter.execute(connection, statement)
    except Exception as error:
        raise _explained(error) from error
    return statement.load(cast("Rows", rows))


@dataclass(frozen=True, slots=True)
class _Adapter:
    name: str
    is_async: bool
    execute: Callable[[Any, Statement[Any]], Rows | Awaitable[Rows]]


# --- the drivers ---


def _psycopg(connection: Any, statement: Statement[Any]) -> Rows:
    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(_placed(statement, lambda n, kind: f"%s::text::{kind}"), _texts(statement))
        return cursor.fetchall()


async def _psycopg_async(connection: Any, statement: Statement[Any]) -> Rows:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_placed(statement, lambda n, kind: f"%s::text::{kind}"), _texts(statement))
        return await cursor.fetchall()


async def _asyncpg(connection: Any, statement: Statement[Any]) -> Rows:
    sql = _placed(statement, lambda n, kind: f"${n}::text::{kind}").replace("%%", "%")
    return [tuple(row) for row in await connection.fetch(sql, *_texts(statement))]


def _sqlalchemy(connection: Any, statement: Statement[Any]) -> Rows:
    return connection.execute(*_for_sqlalchemy(statement)).all()


async def _sqlalchemy_async(connection: Any, statement: Statement[Any]) -> Rows:
    return (await connection.execute(*_for_sqlalchemy(statement))).all()


def _django(connection: Any, statement: Statement[Any]) -> Rows:
    with connection.cursor() as cursor:
        cursor.execute(_placed(statement, lambda n, kind: f"%s::text::{kind}"), _texts(statement))
        return cursor.fetchall()


_DJANGO = _Adapter("Django", False, _django)
_ASYNCPG = _Adapter("asyncpg", True, _asyncpg)
_SQLALCHEMY = _Adapter("SQLAlchemy", False, _sqlalchemy)
_SQLALCHEMY_ASYNC = _Adapter("SQLAlchemy", True, _sqlalchemy_async)

# By the top package of the class's module, and the class's name there.
_REGISTRY: dict[tuple[str, str], _Adapter] = {
    ("psycopg", "Connection"): _Adapter("psycopg", False, _psycopg),
    ("psycopg", "AsyncConnection"): _Adapter("psycopg", True, _psycopg_async),
    ("asyncpg", "Connection"): _ASYNCPG,
    ("asyncpg", "PoolConnectionProxy"): _ASYNCPG,
    ("sqlalchemy", "Connection"): _SQLALCHEMY,
    ("sqlalchemy", "Session"): _SQLALCHEMY,
    ("sqlalchemy", "scoped_session"): _SQLALCHEMY,
    ("sqlalchemy", "AsyncConnection"): _SQLALCHEMY_ASYNC,
    ("sqlalchemy", "AsyncSession"): _SQLALCHEMY_ASYNC,
    ("sqlalchemy", "async_scoped_session"): _SQLALCHEMY_ASYNC,
    ("django", "BaseDatabaseWrapper"): _DJANGO,
    ("django", "ConnectionProxy"): _DJANGO,
}


def _adapter(connection: object) -> _Adapter:
    for each in type(connection).__mro__:
        if adapter := _REGISTRY.get((each.__module__.partition(".")[0], each.__name__)):
            return adapter
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    raise InvalidArgument(f"connection is a {kind}; send takes {_ACCEPTED}")


# --- the statement in the driver's terms ---


def _placed(statement: Statement[Any], place: Callable[[int, str], str]) -> str:
    """The SQL with each placeholder written by `place`, from its number and its type."""
    number = 0

    def write(found: re.Match[str]) -> str:
        nonlocal number
        if found.group() == "%%":
            return "%%"
        number += 1
        return place(number, found[1])

    return _PLACE.sub(write, statement.sql)


def _texts(statement: Statement[Any]) -> list[str | None]:
    """Everything travels as text and is cast by the server: no codec the caller has set can touch it."""
    return [_text(value) for value in statement.params]


def _text(value: Scalar) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _for_sqlalchemy(statement: Statement[Any]) -> tuple[Any, dict[str, str | None]]:
    from sqlalchemy import text

    # cast() in place of ::, whose colon would end the parameter's name.
    sql = _placed(statement, lambda n, kind: f"cast(cast(:p{n} as text) as {kind})").replace("%%", "%")
    return text(sql), {f"p{n}": value for n, value in enumerate(_texts(statement), 1)}


# --- faults ---


def _explained(error: Exception) -> Exception:
    """The redrive error for a driver's error; the same error when it is none of ours to translate."""
    if isinstance(error, UnicodeEncodeError):
        return InvalidArgument(
            f"the connection's client_encoding cannot take {error.object[error.start]!r}; set it to UTF8"
        )
    for each in _causes(error):
        sqlstate = getattr(each, "sqlstate", None) or getattr(each, "pgcode", None)
        if isinstance(sqlstate, str):
            return explain(sqlstate, _message(each)) or error
    return error


def _causes(error: BaseException) -> list[BaseException]:
    """SQLAlchemy and Django wrap the driver's error: the innermost first."""
    chain: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in chain:
        chain.append(at)
        at = at.__cause__
    return chain[::-1]


def _message(error: BaseException) -> str:
    primary = getattr(getattr(error, "diag", None), "message_primary", None)
    return primary or str(error).partition("\n")[0]
