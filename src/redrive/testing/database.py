"""The database of a test: where it comes from, and how an app is pointed at it.

Guarantees  each database is a copy of a template that is migrated once; no test sees anything of another;
            while `use_database` lasts, the app sends nowhere else, whatever its code or the environment says.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from psycopg import sql

from redrive.app import Redrive
from redrive.errors import ConfigError
from redrive.store import adapters, queues
from redrive.store.database import connect
from redrive.store.embedded import EmbeddedServer
from redrive.store.migrations import migrate
from redrive.store.statement import Statement

T = TypeVar("T")

# The same for all processes of one pytest-xdist run, which so share a server.
_RUN = "PYTEST_XDIST_TESTRUNUID"

_in_use: list[str] = []


@contextmanager
def embedded_server() -> Generator[str]:
    """The URL of a Postgres for this run of the tests: in the temporary directory, gone at the end.

    Fast, not durable. The processes of a pytest-xdist run share one. Raises `ConfigError` when there are no
    binaries: install ``redrive[embedded]``, or set REDRIVE_PG_BIN.
    """
    run = os.environ.get(_RUN)
    if run is not None:
        directory = Path(tempfile.gettempdir()) / f"redrive-test-{run}"
    else:
        directory = Path(tempfile.mkdtemp(prefix="redrive-test-"))
    server = EmbeddedServer(directory, durable=False)
    try:
        yield server.start()
    finally:
        server.stop(remove=True)


class Databases:
    """Makes databases on the server of `server_url`, whose role may create them."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._prefix = f"redrive_test_{secrets.token_hex(4)}"
        self._made = 0
        self._template: str | None = None

    def create(self) -> str:
        """The URL of a new database that has everything `redrive migrate` makes; call `drop` with it."""
        if self._template is None:
            url = self._create("template0")
            with connect(url) as connection:
                migrate(connection)
            self._template = _name(url)
        return self._create(self._template)

    def drop(self, url: str) -> None:
        """Delete the database of `url`, whoever is still connected to it."""
        self._execute(sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(_name(url))))

    def close(self) -> None:
        """Delete the template."""
        if self._template is not None:
            self.drop(_with_name(self._server_url, self._template))
            self._template = None

    def _create(self, template: str) -> str:
        self._made += 1
        name = f"{self._prefix}_{self._made}"
        self._execute(
            sql.SQL("create database {} template {}").format(sql.Identifier(name), sql.Identifier(template))
        )
        return _with_name(self._server_url, name)

    def _execute(self, command: sql.Composed) -> None:
        with connect(self._server_url) as connection:
            connection.execute(command)


@contextmanager
def use_database(app: Redrive, url: str) -> Generator[Redrive]:
    """Point `app` at the test database `url`, and make the queues of its jobs there.

    At the end the app names the database it named before. With pytest the fixture `redrive_use` does it:
    ``redrive_use(app)``.
    """
    before = app.database_url
    app.database_url = url
    try:
        with connect(url) as connection:
            for job in app.jobs.values():
                adapters.run_blocking(queues.create(job.queue, job.policy), connection)
        with in_use(url):
            yield app
    finally:
        # In a thread: whoever ends the test may run an event loop in this one.
        closing = threading.Thread(target=lambda: asyncio.run(app.close()), name="redrive-testing")
        closing.start()
        closing.join()
        app.database_url = before


@contextmanager
def in_use(url: str) -> Generator[str]:
    """While it lasts, `url` is the database that is asked."""
    _in_use.append(url)
    try:
        yield url
    finally:
        _in_use.remove(url)


def current() -> str:
    """The test database in use, the last one named. Raises `ConfigError` when there is none."""
    if not _in_use:
        raise ConfigError(
            "no test database is in use; ask for the fixture redrive_use and call redrive_use(app), or enter "
            "use_database(app, url)"
        )
    return _in_use[-1]


def database_of(app: Redrive) -> str:
    """The test database `app` is pointed at. Raises `ConfigError`: what is no test's is never worked."""
    if app.database_url is None or app.database_url not in _in_use:
        raise ConfigError(
            "the app is not pointed at a test database; ask for the fixture redrive_use and call "
            "redrive_use(app), or enter use_database(app, url)"
        )
    return app.database_url


def ask(url: str, statement: Statement[T]) -> T:
    """Run one statement, blocking. Raises the redrive error its fault stands for."""
    with connect(url) as connection:
        return adapters.run_blocking(statement, connection)


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def _with_name(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()
