"""Comparison: what a database is not like, of all that the generated migrations make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.errors import (
    InsufficientPrivilege,
    InvalidSchemaName,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedObject,
    UndefinedTable,
)
from psycopg.rows import tuple_row

from redrive.errors import SetupError
from redrive.store import migrations
from redrive.store.faults import explain_psycopg
from redrive.supabase.plan import Check, Section

# What a condition speaks of is not there, so it is not true.
_ABSENT = (InvalidSchemaName, UndefinedColumn, UndefinedFunction, UndefinedObject, UndefinedTable)


def problems(connection: psycopg.Connection[Any], parts: Sequence[Section]) -> list[str]:
    """One sentence each; none where the database is as the migrations make it. It only reads.

    `connection` is in autocommit, of the role that owns schema redrive, or of one that sees as much. Raises
    `SetupError` for another one.
    """
    lacking = migrations.check(connection)
    if any("redrive migrate" in each for each in lacking):
        # There is no schema redrive to ask about the rest.
        return lacking
    return lacking + [each.problem for part in parts for each in part.checks if not _holds(connection, each)]


def _holds(connection: psycopg.Connection[Any], check: Check) -> bool:
    try:
        row = connection.cursor(row_factory=tuple_row).execute(f"select {check.sql}".encode()).fetchone()
    except _ABSENT:
        return False
    except InsufficientPrivilege as error:
        raise SetupError(
            f"{error.diag.message_primary}: only the project's own role sees everything that is compared; "
            "connect as the role that applied the migrations"
        ) from error
    except psycopg.Error as error:
        raise explain_psycopg(error) or error from error
    return row is not None and row[0] is True
