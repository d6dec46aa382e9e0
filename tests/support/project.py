"""Databases as a Supabase project has them: its roles, stand-ins for its schemas, pgmq owned by its own role.

The role that owns a project is called `postgres` there and `supabase_postgres` here: no superuser. A server
that serves projects belongs to them alone, since roles are the whole server's.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import namedtuple_row

from redrive.store import pgmq
from redrive.store.database import connect
from redrive.store.migrations import migrate
from tests.support.layouts import scripts
from tests.support.safeupdate import unguarded
from tests.support.server import Server

OWNER = "supabase_postgres"
USER = UUID("00000000-0000-0000-0000-000000000001")
HOSTED = "1.5.1"
_ROLES = Path(__file__).parent / "supabase_like_roles.sql"
# What a template database's copies do not inherit.
_DATABASE_RIGHTS = f"grant create, connect, temporary on database {{}} to {OWNER}"
# A role's own settings do not follow SET ROLE: PostgREST sets them anew for each request.
_TIMEOUTS = {"anon": "3s"}
_ANY_TIMEOUT = "8s"


@dataclass(frozen=True, slots=True)
class Project:
    """One database, and who may come to it: `url` is its owner's, over TCP as Supabase's tools need it."""

    server: Server
    name: str

    @property
    def url(self) -> str:
        return self.url_of(OWNER)

    @property
    def admin_url(self) -> str:
        """A superuser's, which no project has: to prepare and to look, never for what is under test."""
        return self.url_of("postgres")

    def url_of(self, role: str) -> str:
        return f"postgresql://{role}@127.0.0.1:{self.server.port}/{self.name}?sslmode=disable"

    def connect(self, role: str = OWNER) -> psycopg.Connection[Any]:
        """In autocommit; columns of a row by position and by name."""
        return psycopg.connect(self.url_of(role), autocommit=True, row_factory=namedtuple_row)

    def admin(self) -> psycopg.Connection[Any]:
        return self.connect("postgres")

    def read(self, query: str, parameters: Sequence[object] | None = None, *, role: str = OWNER) -> list[Any]:
        """The rows of one query, or none where the statement answers no rows."""
        with self.connect(role) as connection:
            cursor = connection.execute(query.encode(), parameters)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def api(
        self,
        role: str,
        *,
        user: UUID | None = USER,
        claims: Mapping[str, object] | None = None,
        schema: str = "public",
    ) -> Generator[psycopg.Connection[Any]]:
        """A request as PostgREST makes it: one transaction of `role`, committed unless something raises.

        `user` is the claim `sub` (of authenticated alone, None for a token without it); `claims` come on top.
        safeupdate's rule holds: an UPDATE or DELETE without WHERE, at whatever depth, fails the request.
        """
        told: dict[str, object] = {"role": role}
        if role == "authenticated" and user is not None:
            told["sub"] = str(user)
        told |= claims or {}
        unsafe: list[str] = []
        with psycopg.connect(self.url_of("authenticator"), row_factory=namedtuple_row) as connection:
            connection.add_notice_handler(lambda notice: unsafe.extend(_explained(notice.message_primary)))
            settings = {
                "role": role,
                "search_path": f'"{schema}", "public", "extensions"',
                "statement_timeout": _TIMEOUTS.get(role, _ANY_TIMEOUT),
                "request.jwt.claims": json.dumps(told),
                "request.method": "POST",
            }
            for name, value in settings.items():
                connection.execute("select set_config(%s, %s, true)", [name, value])
            yield connection
            assert not unsafe, f"safeupdate refuses what has no WHERE: {unsafe}"


class Projects:
    """Makes projects on `server`, as cheap copies of templates; each kind's template is made once."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._numbers = count(1)
        self._templates: dict[tuple[str | None, bool], str] = {}
        self._admin = psycopg.connect(server.url, autocommit=True)

    def make(self, layout: str | None = HOSTED, *, migrated: bool = False) -> Project:
        """A project with pgmq in `layout` (None: without), after `redrive migrate` by its owner or before."""
        kind = (layout, migrated)
        if kind not in self._templates:
            self._templates[kind] = self._template(layout, migrated).name
        return self._copy(self._templates[kind])

    def copy(self, of: Project) -> Project:
        """What `of` holds now, as a project of its own; nobody is connected to `of` meanwhile."""
        return self._copy(of.name)

    def drop(self, project: Project) -> None:
        self._admin.execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(project.name))
        )

    def close(self) -> None:
        self._admin.close()

    def _template(self, layout: str | None, migrated: bool) -> Project:
        if migrated:
            made = self.make(layout)
            with connect(made.url) as owner:
                migrate(owner)
            return made
        if layout is not None:
            made = self.make(None)
            with connect(made.url) as owner:
                for script in scripts(layout) or [pgmq.install_sql()]:
                    owner.execute(script.encode())
            return made
        made = self._copy("template0")
        with connect(made.admin_url) as admin:
            # What begins with a backslash is psql's own.
            lines = _ROLES.read_text().splitlines()
            admin.execute("\n".join(line for line in lines if not line.startswith("\\")).encode())
            self._watch_updates(admin)
        return made

    def _copy(self, template: str) -> Project:
        name = f"project_{next(self._numbers)}"
        self._admin.execute(
            sql.SQL("create database {} template {} strategy file_copy").format(
                sql.Identifier(name), sql.Identifier(template)
            )
        )
        if template != "template0":
            self._admin.execute(sql.SQL(_DATABASE_RIGHTS).format(sql.Identifier(name)))
        return Project(self.server, name)

    def _watch_updates(self, admin: psycopg.Connection[Any]) -> None:
        """Have the server tell an API caller's connection of every statement, the nested ones too."""
        settings = {
            "session_preload_libraries": "auto_explain",
            "auto_explain.log_min_duration": "0",
            "auto_explain.log_nested_statements": "on",
            "auto_explain.log_level": "notice",
        }
        for name, value in settings.items():
            admin.execute(f"alter role authenticator set {name} = '{value}'".encode())


def _explained(notice: str | None) -> list[str]:
    """Of what auto_explain says of a statement: the parts of it that safeupdate refuses."""
    _, found, rest = (notice or "").partition("Query Text: ")
    return unguarded(rest) if found else []
