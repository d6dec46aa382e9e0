"""Database URLs: what we accept, what we hand to libpq, what we show.

Guarantees  the password never appears in anything this module raises or in what `redact` returns.
"""

from __future__ import annotations

import re
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

from redrive.errors import ConfigError

_RULE = "it must look like postgresql://user:password@host:5432/database"
_ENCODE = (
    "in a user name or password write @ as %40, / as %2F, : as %3A, "
    "? as %3F, # as %23, % as %25 and a space as %20"
)
# A driver after the +, as SQLAlchemy and others write it, says nothing about the database.
_SCHEME = re.compile(r"(?P<scheme>postgres(?:ql)?)(?:\+(?P<driver>[a-z0-9_]+))?://", re.IGNORECASE)

# Beneath these the URL's own parameters win. Keepalives and tcp_user_timeout end a half-open connection
# within a minute also where no deadline watches (a handler's own transaction).
_DEFAULTS: dict[str, str] = {
    "application_name": "redrive",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


def parse(url: str) -> dict[str, Any]:
    """The libpq parameters of `url`, ours beneath its own.

    Understands ``postgres://``, ``postgresql://`` and ``postgresql+driver://``; raises `ConfigError` naming
    what is wrong with anything else.
    """
    return {**_DEFAULTS, **_parameters(url)}


def redact(url: str) -> str:
    """`url` without its password and its query, for people to read; never raises."""
    try:
        known = _parameters(url)
    except ConfigError:
        return "postgresql://…"
    user, host, port = (str(known.get(name) or "") for name in ("user", "host", "port"))
    where = (f"{user}@" if user else "") + host + (f":{port}" if port else "")
    return f"postgresql://{where}/{known.get('dbname') or ''}"


def _parameters(url: str) -> dict[str, Any]:
    if url != url.strip():
        raise ConfigError("the database URL begins or ends with white space (a newline?); remove it")
    scheme = _SCHEME.match(url)
    if scheme is None:
        kind = re.match(r"[A-Za-z][A-Za-z0-9+.-]*(?=://)", url)
        shown = f"starts with {kind.group()}://" if kind else "has no scheme"
        raise ConfigError(f"the database URL {shown}; {_RULE}")
    try:
        known = conninfo_to_dict(f"postgresql://{_translated(url[scheme.end() :], scheme['driver'])}")
    except (ProgrammingError, UnicodeDecodeError) as error:
        raise ConfigError(f"the database URL {_problem(url, error)}; {_RULE}; {_ENCODE}") from None
    _check_parts(known)
    return known


def _problem(url: str, error: Exception) -> str:
    """libpq repeats the URL in most of its complaints, password and all: only the harmless one is told."""
    unknown = re.search(r'invalid URI query parameter: "(\w+)"', str(error))
    if unknown and "@" not in url.partition("?")[2]:
        return f"has a parameter {unknown[1]!r} that libpq does not know"
    return "cannot be read"


def _check_parts(known: dict[str, Any]) -> None:
    """A raw @, / or : in a password moves whatever follows it into another part, without a complaint."""
    if any("@" in str(known.get(part) or "") for part in ("host", "dbname")):
        raise ConfigError(f"the database URL has more than one @; {_ENCODE}")
    for port in filter(None, str(known.get("port") or "").split(",")):
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ConfigError(f"the database URL's port is not a number from 1 to 65535; {_RULE}; {_ENCODE}")


def _translated(rest: str, driver: str | None) -> str:
    """asyncpg spells libpq's sslmode `ssl`; nothing else differs among the drivers."""
    if driver != "asyncpg":
        return rest
    return re.sub(r"([?&])ssl=", r"\1sslmode=", rest)
