"""Migrations: schema redrive in one transaction, and what a database still lacks.

Guarantees  `migrate` changes all or nothing; any number at once is fine, the later ones find nothing to do;
            unchanged functions are not touched; what `plan_sql` prints does the same without Python;
            an older redrive never takes a newer one's functions back.
Not given   that a half-installed pgmq is mended: it is refused, with the way out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from redrive.errors import InvalidArgument, RedriveError, SetupError
from redrive.sql import FOLDER, SqlFile, function_files, table_files
from redrive.store import grants, install, pgmq
from redrive.store.faults import CONFLICTS, explain_psycopg
from redrive.store.script import rows
from redrive.store.statement import Row, Statement
from redrive.store.url import redact

# (kind, name) -> checksum; and the newest release that applied any of them.
Installed = dict[tuple[str, str], str]
Release = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Migration:
    """What `migrate` did; `pgmq` is how it got there, `newer` the reason why nothing was done, if so."""

    pgmq: Literal["found", "extension", "sql"]
    tables: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    lost_roles: tuple[str, ...] = ()
    newer: str | None = None

    @property
    def changed(self) -> bool:
        return self.pgmq != "found" or bool(self.tables or self.functions or self.dropped)


def migrate(connection: psycopg.Connection[Any], *, folder: Path = FOLDER) -> Migration:
    """Bring the database to this release: pgmq where there is none, tables, functions, grants.

    `connection` is in autocommit and in no transaction. Raises `SetupError` with one sentence, and changes
    nothing, for a replica, a server before Postgres 14, missing rights, an edited table file, an object of
    somebody else's that depends on a function to be replaced, or a lock that is not had in time.
    """
    if connection.info.transaction_status != TransactionStatus.IDLE:
        raise InvalidArgument("migrate needs a connection that is in no transaction; commit first")
    cursor = connection.cursor(row_factory=tuple_row)
    try:
        with connection.transaction():
            cursor.execute(install.opening().encode())
            before, newest = _installed(cursor)
            if newest > release():
                shown = ".".join(map(str, newest))
                return Migration(
                    "found", newer=f"redrive {shown}, newer than this one, has migrated this database"
                )
            had_pgmq = _truth(cursor, f"select {pgmq.PRESENT}")
            cursor.execute(_body(folder).encode())
            after, _ = _installed(cursor)
            return _report(cursor, before, after, had_pgmq)
    except psycopg.Error as error:
        raise _explained(error) from error


def plan_sql(*, folder: Path = FOLDER) -> str:
    """What `migrate` does as one SQL script, for psql or a migration tool; may be run again and again."""
    return (
        f"-- What `redrive migrate` does, of redrive {version('redrive')}; it may be run again and again.\n"
        f"--   psql --set ON_ERROR_STOP=1 --file this.sql\n"
        f"begin;\n{install.opening()}{_body(folder)}commit;\n"
    )


def check_statement(*, folder: Path = FOLDER) -> Statement[list[str]]:
    """Asks what this database lacks for this release: an empty list when a worker may start.

    A database that a newer release migrated lacks nothing: its functions keep their names and parameters.
    A database without schema redrive, or a role without any part, raises `SetupError` instead.
    """
    tables, functions = table_files(folder), function_files(folder)
    return Statement(
        "select kind, name, checksum, release from redrive.schema_files() "
        f"union all select 'pgmq', '', '', null where {pgmq.PRESENT}",
        (),
        lambda rows: _lacking(rows, tables, functions),
    )


def demand(lacking: Sequence[str], url: str) -> None:
    """For whoever cannot begin without: raises `SetupError` when the answer of a check is not empty."""
    if lacking:
        shown = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
        raise SetupError(f"database {redact(url)} lacks {shown}; run `redrive migrate`")


def check(connection: psycopg.Connection[Any], *, folder: Path = FOLDER) -> list[str]:
    """`check_statement` on a blocking connection; a missing schema is an answer too."""
    statement = check_statement(folder=folder)
    cursor = connection.cursor(row_factory=tuple_row)
    try:
        return statement.load(cursor.execute(statement.sql.encode()).fetchall())
    except psycopg.Error as error:
        explained = explain_psycopg(error)
        if isinstance(explained, SetupError):
            return [str(explained)]
        raise explained or error from error


def release() -> Release:
    """This redrive's release as numbers; a development version counts as the release it leads to."""
    numbers = re.match(r"\d+(\.\d+)*", version("redrive"))
    return tuple(map(int, numbers.group().split("."))) if numbers else (0,)


def _body(folder: Path) -> str:
    tables, functions = table_files(folder), function_files(folder)
    return "\n".join(
        (
            pgmq.install_sql(),
            pgmq.check_sql(),
            install.bookkeeping(),
            install.refuse_newer(release()),
            install.tables(rows(tables), release()),
            install.functions(rows(functions), release()),
            grants.apply_sql(functions),
        )
    )


def _installed(cursor: psycopg.Cursor[Any]) -> tuple[Installed, Release]:
    if not _truth(cursor, "select to_regclass('redrive.schema_file') is not null"):
        return {}, ()
    found = cursor.execute("select kind, name, checksum, release from redrive.schema_file").fetchall()
    return {(kind, name): checksum for kind, name, checksum, _ in found}, max(
        (tuple(row[3]) for row in found), default=()
    )


def _truth(cursor: psycopg.Cursor[Any], sql: str) -> bool:
    row = cursor.execute(sql.encode()).fetchone()
    return bool(row and row[0])


def _report(cursor: psycopg.Cursor[Any], before: Installed, after: Installed, had_pgmq: bool) -> Migration:
    new = [key for key, checksum in after.items() if before.get(key) != checksum]
    by_extension = _truth(
        cursor, "select exists (select from pg_catalog.pg_extension where extname = 'pgmq')"
    )
    lost = cursor.execute(
        "select distinct role from redrive.role_grant "
        "where role not in (select rolname from pg_catalog.pg_roles) order by role"
    ).fetchall()
    return Migration(
        pgmq="found" if had_pgmq else "extension" if by_extension else "sql",
        tables=tuple(sorted(name for kind, name in new if kind == "table")),
        functions=tuple(sorted(name for kind, name in new if kind == "function")),
        dropped=tuple(sorted(name for kind, name in before if (kind, name) not in after)),
        lost_roles=tuple(role for (role,) in lost),
    )


def _lacking(rows: Sequence[Row], tables: Sequence[SqlFile], functions: Sequence[SqlFile]) -> list[str]:
    found = {(row[0], row[1]): row[2] for row in rows}
    if any(tuple(row[3]) > release() for row in rows if row[3] is not None):
        return []
    wanted = {("table", file.name): file.checksum for file in tables}
    wanted |= {("function", file.name): file.checksum for file in functions}
    missing = [f"{kind} {name} is missing" for kind, name in wanted if (kind, name) not in found]
    differing = [f"{k} {n} differs" for (k, n), sum_ in wanted.items() if found.get((k, n), sum_) != sum_]
    without_pgmq = [] if found.pop(("pgmq", ""), None) is not None else ["pgmq is missing"]
    unknown = [f"{kind} {name} is not of this release" for kind, name in found if (kind, name) not in wanted]
    return without_pgmq + missing + differing + unknown


def _explained(error: psycopg.Error) -> RedriveError | psycopg.Error:
    message = error.diag.message_primary or str(error)
    match error.sqlstate:
        case "55P03":
            return SetupError(
                "migrate did not get a lock in time: another migrate is running, or a session holds on to "
                "one of redrive's tables (see pg_locks); nothing was changed; run it again"
            )
        case "42501":
            return SetupError(f"migrate may not do this: {message}; run it as the owner of the database")
        case state if state in CONFLICTS:
            return SetupError(
                f"migrate met another transaction ({message}); nothing was changed; run it again"
            )
        case _:
            # A fault in a file: its first line says which one.
            file = re.search(r"-- .*", error.diag.internal_query or error.diag.context or "")
            if file:
                error.add_note(f"in: {file.group()}")
            return explain_psycopg(error) or error
