"""Place: the Postgres a run of the benchmarks has for itself, durable and with its default settings."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, LiteralString, Self

import psycopg
from psycopg import Connection, sql

from redrive.store.embedded import EmbeddedServer
from redrive.store.migrations import migrate


class Place:
    """Use it as a context manager: the server and all it kept are gone afterwards."""

    def __init__(self) -> None:
        self._server = EmbeddedServer(Path(tempfile.mkdtemp(prefix="redrive-bench-")))

    def __enter__(self) -> Self:
        self.url = self._server.start()
        with self.connect() as connection:
            migrate(connection)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(remove=True)

    @property
    def description(self) -> str:
        return self._server.description

    def connect(self) -> Connection[Any]:
        """A connection in autocommit."""
        return psycopg.connect(self.url, autocommit=True)

    def database(self, name: str) -> str:
        """The URL of another, empty database of the same server."""
        with self.connect() as connection:
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        return self.url.replace("@/redrive?", f"@/{name}?")

    def fresh_queue(self, name: str, policy: Mapping[str, Any] | None = None) -> str:
        """An empty queue `name`, made anew: no dead rows of an earlier run, and a checkpoint behind it."""
        with self.connect() as connection:
            if value(connection, "select exists (select from redrive.queue where queue = %s)", name):
                connection.execute("select redrive.drop_queue(%s)", (name,))
            connection.execute("select redrive.create_queue(%s, %s)", (name, json.dumps(dict(policy or {}))))
            connection.execute("checkpoint")
        return name

    def fresh_bare_queue(self, name: str) -> str:
        """The same as pgmq makes it, without redrive's columns and settings."""
        with self.connect() as connection:
            if value(connection, "select exists (select from pgmq.meta where queue_name = %s)", name):
                connection.execute("select pgmq.drop_queue(%s)", (name,))
            connection.execute("select pgmq.create(%s)", (name,))
            connection.execute("checkpoint")
        return name


def value(connection: Connection[Any], query: LiteralString, *params: object) -> Any:
    """The first column of the first row."""
    row = connection.execute(query, params).fetchone()
    assert row is not None
    return row[0]
