"""A Postgres for the tests, and databases of it.

REDRIVE_TEST_URL names a running server instead (its role may create databases), REDRIVE_PG_BIN other tools.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from redrive.store.database import Database
from tests.support.databases import Databases
from tests.support.layouts import NEWEST
from tests.support.roles import Roles
from tests.support.server import Server


@pytest.fixture(scope="session")
def server() -> Generator[Server | None]:
    """The tests' server, one a pytest process; None where REDRIVE_TEST_URL names another."""
    if os.environ.get("REDRIVE_TEST_URL"):
        yield None
        return
    started = Server()
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def server_url(server: Server | None) -> str:
    """Where databases are created."""
    return server.url if server else os.environ["REDRIVE_TEST_URL"]


@pytest.fixture(scope="session")
def server_tcp_url(server: Server | None) -> str:
    """The same server by TCP, for what stands between a client and its server."""
    return server.tcp_url if server else os.environ["REDRIVE_TEST_URL"]


@pytest.fixture(scope="session")
def databases(server_url: str) -> Generator[Databases]:
    """Makes databases: `databases.empty()`, `databases.migrated(layout)`."""
    made = Databases(server_url, os.environ.get("PYTEST_XDIST_WORKER", "main"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def roles(server_url: str, databases: Databases) -> Generator[Roles]:
    """Makes roles, each with a name of its own; they go at the end, after the databases that know them."""
    made = Roles(server_url)
    yield made
    made.drop()


@pytest.fixture
def layout() -> str:
    """Which pgmq the test's database has; the SQL ring runs each test on all of them."""
    return NEWEST


@pytest.fixture
def empty_database_url(databases: Databases) -> Generator[str]:
    """A database of this test's own with nothing in it."""
    url = databases.empty()
    yield url
    databases.drop(url)


@pytest.fixture
def database_url(databases: Databases, layout: str) -> Generator[str]:
    """A migrated database of this test's own."""
    url = databases.migrated(layout)
    yield url
    databases.drop(url)


@pytest.fixture
def db(database_url: str) -> Generator[psycopg.Connection[Any]]:
    """A connection to the test's database in autocommit; columns of a row by position and by name."""
    with psycopg.connect(database_url, autocommit=True, row_factory=namedtuple_row) as connection:
        yield connection


@pytest.fixture
async def database(database_url: str) -> AsyncGenerator[Database]:
    """The `Database` of the test's database."""
    opened = Database(database_url)
    yield opened
    await opened.close()
