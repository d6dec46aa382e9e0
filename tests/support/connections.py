"""Every kind of connection a caller may bring: each opener yields one with a transaction open on it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import asyncpg
import django
import psycopg
import sqlalchemy
from django.conf import settings as django_settings
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker


@dataclass
class Transaction:
    connection: Any
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    fetch: Callable[[str], Any]
    """The only value of a query on this connection: it must still be usable by its owner."""


def parts(url: str) -> dict[str, Any]:
    known = conninfo_to_dict(url)
    return {
        "host": known["host"],
        "port": int(str(known["port"])),
        "user": known.get("user") or "postgres",
        "database": known["dbname"],
    }


def sqlalchemy_url(url: str, driver: str) -> str:
    known = parts(url)
    query = f"host={known['host']}&port={known['port']}"
    return f"postgresql+{driver}://{known['user']}@/{known['database']}?{query}"


@contextmanager
def psycopg_(url: str) -> Generator[Transaction]:
    # A row factory of the caller's own, as many have one.
    with psycopg.connect(url, row_factory=cast("Any", dict_row)) as c:
        yield Transaction(c, c.commit, c.rollback, lambda sql: c.execute(sql).fetchone()["v"])  # type: ignore


@contextmanager
def psycopg_pipeline(url: str) -> Generator[Transaction]:
    with psycopg.connect(url) as c, c.pipeline():
        yield Transaction(c, c.commit, c.rollback, lambda sql: c.execute(sql.encode()).fetchone()[0])  # type: ignore


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncGenerator[Transaction]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=cast("Any", dict_row)) as c:

        async def fetch(sql: str) -> Any:
            row: Any = await (await c.execute(sql.encode())).fetchone()
            return row["v"]

        yield Transaction(c, c.commit, c.rollback, fetch)


@asynccontextmanager
async def asyncpg_(url: str) -> AsyncGenerator[Transaction]:
    c = await asyncpg.connect(**parts(url))
    # What people do to get dicts out of jsonb; text sent as jsonb would arrive as a JSON string.
    await c.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    t = c.transaction()
    await t.start()
    try:
        yield Transaction(c, t.commit, t.rollback, c.fetchval)
    finally:
        await c.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncGenerator[Transaction]:
    async with asyncpg.create_pool(**parts(url), min_size=1) as pool, pool.acquire() as c:
        t = c.transaction()
        await t.start()
        yield Transaction(c, t.commit, t.rollback, c.fetchval)


@contextmanager
def sqlalchemy_connection(url: str) -> Generator[Transaction]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(url, "psycopg"))
    with engine.connect() as c:
        yield Transaction(c, c.commit, c.rollback, lambda sql: c.scalar(sqlalchemy.text(sql)))
    engine.dispose()


@contextmanager
def sqlalchemy_session(url: str) -> Generator[Transaction]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(url, "psycopg"))
    with Session(engine) as s:
        yield Transaction(s, s.commit, s.rollback, lambda sql: s.scalar(sqlalchemy.text(sql)))
    engine.dispose()


@contextmanager
def sqlalchemy_scoped(url: str) -> Generator[Transaction]:
    engine = sqlalchemy.create_engine(sqlalchemy_url(url, "psycopg"))
    s = scoped_session(sessionmaker(engine))
    yield Transaction(s, s.commit, s.rollback, lambda sql: s.scalar(sqlalchemy.text(sql)))
    s.remove()
    engine.dispose()


@asynccontextmanager
async def sqlalchemy_async(url: str, driver: str = "psycopg") -> AsyncGenerator[Transaction]:
    engine = create_async_engine(sqlalchemy_url(url, driver))
    async with engine.connect() as c:
        yield Transaction(c, c.commit, c.rollback, lambda sql: c.scalar(sqlalchemy.text(sql)))
    await engine.dispose()


def sqlalchemy_asyncpg(url: str) -> Any:
    return sqlalchemy_async(url, "asyncpg")


@asynccontextmanager
async def sqlalchemy_async_session(url: str) -> AsyncGenerator[Transaction]:
    engine = create_async_engine(sqlalchemy_url(url, "asyncpg"))
    async with AsyncSession(engine) as s:
        yield Transaction(s, s.commit, s.rollback, lambda sql: s.scalar(sqlalchemy.text(sql)))
    await engine.dispose()


def django_connection(url: str) -> Any:
    if not django_settings.configured:
        django_settings.configure(USE_TZ=True)
        django.setup()
    from django.db.utils import ConnectionHandler

    known = parts(url)
    return ConnectionHandler(
        {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": known["database"],
                "USER": known["user"],
                "HOST": known["host"],
                "PORT": known["port"],
            }
        }
    )


@contextmanager
def django_(url: str) -> Generator[Transaction]:
    from django.utils.connection import ConnectionProxy

    handler = django_connection(url)
    c: Any = ConnectionProxy(handler, "default")  # what `from django.db import connection` gives
    c.set_autocommit(False)

    def fetch(sql: str) -> Any:
        with c.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()[0]

    yield Transaction(c, c.commit, c.rollback, fetch)
    handler.close_all()


BLOCKING = [
    psycopg_,
    psycopg_pipeline,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_scoped,
    django_,
]
ASYNC = [
    psycopg_async,
    asyncpg_,
    asyncpg_pool,
    sqlalchemy_async,
    sqlalchemy_asyncpg,
    sqlalchemy_async_session,
]


# Django refuses to be used on a thread whose event loop is running.
EVERYWHERE = [*BLOCKING[:-1], *ASYNC]


@asynccontextmanager
async def transaction(kind: Any, url: str) -> AsyncGenerator[Transaction]:
    """Any of `EVERYWHERE`, for async tests."""
    if kind in ASYNC:
        async with kind(url) as opened:
            yield opened
    else:
        with kind(url) as opened:
            yield opened


async def finished(value: Any) -> Any:
    """What a blocking or an async call brings."""
    return await value if isinstance(value, Awaitable) else value
