"""Databases for tests: a template for each layout is migrated once, each test gets its own copy of it."""

from __future__ import annotations

import os
from itertools import count

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from redrive.store.database import connect
from redrive.store.migrations import migrate
from tests.support.layouts import scripts
from tests.support.server import with_database


class Databases:
    """`server_url` may create databases. `owner` keeps several runs on one server apart."""

    def __init__(self, server_url: str, owner: str) -> None:
        self._server_url = server_url
        self._prefix = f"redrive_{owner}_{os.getpid()}"
        self._numbers = count(1)
        self._templates: dict[str, str] = {}
        self._admin = psycopg.connect(server_url, autocommit=True)
        # Copying files takes a quarter of the time that writing each page to the log does.
        known = self._admin.info.server_version >= 150000
        self._strategy = sql.SQL(" strategy file_copy") if known else sql.SQL("")

    def empty(self) -> str:
        """The URL of a new database with nothing in it."""
        return self._create("template0")

    def latin1(self) -> str:
        """The same in an encoding that has few characters."""
        return self._create("template0", sql.SQL(" encoding 'LATIN1' lc_collate 'C' lc_ctype 'C'"))

    def migrated(self, layout: str) -> str:
        """The URL of a new database with pgmq in this layout and everything `migrate` makes."""
        if layout not in self._templates:
            url = self.empty()
            with connect(url) as connection:
                for script in scripts(layout):
                    connection.execute(script.encode())
                migrate(connection)
            self._templates[layout] = _name(url)
        return self._create(self._templates[layout])

    def drop(self, url: str) -> None:
        self._admin.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(_name(url)))
        )

    def drop_roles(self, *roles: str) -> None:
        """Roles are the whole server's: they go once no database of ours has rights or objects of theirs."""
        names = sql.SQL(", ").join(map(sql.Identifier, roles))
        ours = self._admin.execute(
            "select datname from pg_database where starts_with(datname, %s)", [f"{self._prefix}_"]
        )
        for (name,) in ours.fetchall():
            with connect(with_database(self._server_url, name)) as connection:
                connection.execute(sql.SQL("drop owned by {}").format(names))
        self._admin.execute(sql.SQL("drop role {}").format(names))

    def close(self) -> None:
        for name in self._templates.values():
            self.drop(with_database(self._server_url, name))
        self._admin.close()

    def _create(self, template: str, more: sql.Composable | None = None) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        self._admin.execute(
            sql.SQL("create database {} template {}{}{}").format(
                sql.Identifier(name), sql.Identifier(template), self._strategy, more or sql.SQL("")
            )
        )
        return with_database(self._server_url, name)


def _name(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])
