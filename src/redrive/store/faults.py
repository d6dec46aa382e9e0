"""What the database's complaints mean: SQLSTATE and message in, one of redrive's errors out.

Pure, so that every front (the pool, asyncpg, SQLAlchemy, Django) tells the same fault the same way.
`None` means: not ours to translate, let the driver's own error through.
"""

from __future__ import annotations

import re

import psycopg

from redrive.errors import InvalidArgument, Lost, QueueMissing, RedriveError, SetupError, Unavailable
from redrive.sql import FOLDER, PARTS, SqlFile

# Raised by redrive's own functions: the message is a finished sentence.
_OURS: dict[str, type[RedriveError]] = {
    "RD001": QueueMissing,
    "RD002": SetupError,
    "RD003": Lost,
}

_MIGRATE = "redrive's schema is missing here or older than this redrive; run `redrive migrate`"
_OUR_SCHEMA = re.compile(r'"redrive"|\bredrive\.')
_FUNCTION = re.compile(r"for function ([a-z][a-z0-9_]*)$")
_READ_ONLY = "this is a read replica or a read-only session; name the primary in the database URL"

# Connection lost or refused; server starting, stopping or full; statement cancelled, lock not had in time.
_OUT_OF_REACH = frozenset({"57P01", "57P02", "57P03", "57P05", "57014", "55P03", "25P03", "25P04"})
_OUT_OF_REACH_CLASSES = frozenset({"08", "53", "58"})

# A transaction that lost against another one; run again as a whole, it may well succeed.
CONFLICTS = frozenset({"40001", "40P01"})


def explain(sqlstate: str | None, message: str) -> RedriveError | None:
    """The redrive error for a fault of the server, or None where the driver's error says it best."""
    if sqlstate is None:
        return None
    if sqlstate in _OURS:
        return _OURS[sqlstate](message)
    if sqlstate in _OUT_OF_REACH or sqlstate[:2] in _OUT_OF_REACH_CLASSES:
        return Unavailable(f"the database gave up: {message}; try again")
    match sqlstate:
        case "3F000" | "42883" | "42P01" if _OUR_SCHEMA.search(message):
            return SetupError(f"{message}: {_MIGRATE}")
        case "42501":
            return SetupError(f"{message}: {_grant(message)}")
        case "25006":
            return SetupError(f"{message}: {_READ_ONLY}")
        case _ if sqlstate[:2] == "22":
            return InvalidArgument(message)
        case _:
            return None


def explain_psycopg(error: psycopg.Error) -> RedriveError | None:
    """`explain` for psycopg; an error without SQLSTATE from the connection itself is `Unavailable`."""
    if error.sqlstate is None:
        lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
        return Unavailable(f"the database is out of reach: {_one_line(error)}") if lost else None
    return explain(error.sqlstate, error.diag.message_primary or str(error))


def _grant(message: str) -> str:
    """How the right is given; the server names the function, and its file the parts that may execute it."""
    named = _FUNCTION.search(message)
    file = FOLDER / "functions" / f"{named[1]}.sql" if named else None
    parts = SqlFile(file.stem, file.read_text(encoding="utf-8")).parts if file and file.is_file() else ()
    lacks = f"part {' or '.join(parts)}" if parts else "a part"
    return (
        f"this role lacks {lacks} of redrive; the owner of schema redrive gives it with "
        f"`redrive grant ROLE {'|'.join(parts or PARTS)}`"
    )


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
