"""Temporary objects by which a session tries to run code of its own with somebody else's rights.

A name without a schema is looked for among them first, unless the search path says otherwise: a domain's
check runs wherever a value becomes one, a view's expressions wherever it is read. Functions are never found
there.
"""

from __future__ import annotations

from typing import Any

import psycopg

_TYPES = (
    "text", "name", "uuid", "json", "jsonb", "bytea", "date", "timestamptz", "int2", "int4", "int8", "float8",
    "bool", "_text", "_int4", "_int8", "regclass",
)  # fmt: skip
_RELATIONS = (
    "pg_class", "pg_proc", "pg_namespace", "pg_roles", "pg_database", "pg_extension",
    "pg_settings", "pg_locks", "pg_stat_activity", "pg_stat_user_tables",
)  # fmt: skip


def shadow(connection: psycopg.Connection[Any]) -> None:
    """Make them in this session, each of which tells `caught` as whom it was run."""
    connection.execute(
        "create function pg_temp.caught() returns boolean language plpgsql as $$ begin "
        "if current_user <> current_setting('test.me') then "
        "perform set_config('test.caught', current_user::pg_catalog.text, false); end if; return true; end $$"
    )
    connection.execute("select set_config('test.me', current_user::pg_catalog.text, false)")
    for name in _RELATIONS:
        connection.execute(
            f"create view pg_temp.{name} as select * from pg_catalog.{name} where pg_temp.caught()".encode()
        )
    for name in _TYPES:
        connection.execute(
            f"create domain pg_temp.{name} as pg_catalog.{name} check (pg_temp.caught())".encode()
        )


def caught(connection: psycopg.Connection[Any]) -> str | None:
    """As whom one of them was run, if as somebody else than the session's role."""
    row = connection.execute("select nullif(current_setting('test.caught', true), '')").fetchone()
    assert row is not None
    return row[0]
