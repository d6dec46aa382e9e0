"""What the chaos ring needs: a database with the app's queues, or a server of its own."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from redrive.store.database import connect
from redrive.store.migrations import migrate
from tests.support.chaos_app import TABLES, app
from tests.support.server import Server
from tests.support.working import Journal, make_queue

Db = psycopg.Connection[Any]
APP = "tests.support.chaos_app:app"


def furnish(db: Db) -> None:
    """The app's queues, and the tables its handlers write to."""
    db.execute(TABLES.encode())
    for queue in app.jobs:
        make_queue(db, queue)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture
def url(database_url: str, db: Db, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with the app's queues, on the server that all tests share."""
    furnish(db)
    monkeypatch.setenv("REDRIVE_TEST_BOOK", database_url)
    return database_url


@pytest.fixture
def own_server(monkeypatch: pytest.MonkeyPatch) -> Generator[Server]:
    """A server of this test's own: its database `postgres` has the app's queues.

    It keeps what it has committed, however it is stopped.
    """
    server = Server({"synchronous_commit": "on"})
    try:
        server.start()
        with connect(server.url) as connection:
            migrate(connection)
            furnish(connection)
        monkeypatch.setenv("REDRIVE_TEST_BOOK", server.url)
        yield server
    finally:
        server.stop()


def look(url: str) -> Db:
    """A connection in autocommit, columns by name."""
    return psycopg.connect(url, autocommit=True, row_factory=namedtuple_row)


def send_many(db: Db, queue: str, payload: object, number: int) -> None:
    db.execute(
        "select redrive.send_batch(%s, (select jsonb_agg(%s::jsonb) from generate_series(1, %s)))",
        (queue, json.dumps(payload), number),
    )


def set_policy(db: Db, queue: str, **policy: Any) -> None:
    """As an operator does, so that it stands above what the app declares."""
    db.execute("select redrive.set_policy(%s, %s::jsonb)", (queue, json.dumps(policy)))


class Health:
    """A free port for `health=` of a `WorkerProcess`, and what its only process says there."""

    def __init__(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.where = f"127.0.0.1:{probe.getsockname()[1]}"

    def counters(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://{self.where}/livez") as answer:
                return json.load(answer)["processes"][0]
        except urllib.error.HTTPError as error:
            with error:
                return json.load(error)["processes"][0]
