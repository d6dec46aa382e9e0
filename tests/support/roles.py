"""Roles for a test: they belong to the whole server, so each gets a name of its own and is dropped again."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

import psycopg
from psycopg import ConnectionInfo, sql

from redrive.store.database import connect

_NUMBERS = count(1)


class Roles:
    """`create` answers the name it made up; `drop` needs the databases with their grants to be gone."""

    def __init__(self, server_url: str) -> None:
        self._server_url = server_url
        self._made: list[str] = []

    def create(self, name: str, attributes: str = "nologin") -> str:
        made = f"{name}_{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(self._server_url, autocommit=True) as admin:
            admin.execute(f'create role "{made}" {attributes}'.encode())
        self._made.append(made)
        return made

    def url(self, info: ConnectionInfo, role: str) -> str:
        """The URL of the database behind `info`, as `role`."""
        return f"postgresql://{role}@/{info.dbname}?host={info.host}&port={info.port}"

    def connect(self, info: ConnectionInfo, role: str) -> psycopg.Connection[Any]:
        return connect(self.url(info, role))

    def drop(self) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as admin:
            for role in self._made:
                admin.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))
