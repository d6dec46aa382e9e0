"""Vault: which secrets jobs of pg_cron ask for and which are there; values go in and out by name.

Guarantees  a value is a bound parameter, left out of the server's log where this role may say so; no error
            holds one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import psycopg
from psycopg.errors import InsufficientPrivilege
from psycopg.rows import TupleRow

from redrive.errors import SetupError
from redrive.store.faults import explain_psycopg
from redrive.store.statement import Statement, scalar, text_array

State = Literal["there", "missing", "empty", "localhost"]

# What pg_net would look for in the database's own container.
LOCAL = r"^\s*https?://([^/@]*@)?(localhost|127[.][0-9.]+|0[.]0[.]0[.]0|\[::1\])(:|/|\s*$)"
# How redrive's own jobs name a secret: `redrive.post_tick(p_url_secret => 'project_url', ...)`.
ASKED = r"p_(url|key)_secret\s*=>\s*'([^']+)'"
HAS_VAULT = Statement("select to_regclass('vault.decrypted_secrets') is not null", (), scalar)
HAS_CRON = Statement("select to_regclass('cron.job') is not null", (), scalar)


class Asked(NamedTuple):
    """A job of pg_cron's and a secret that it asks for: a url or a key."""

    job: str
    kind: str
    name: str


class Secret(NamedTuple):
    """localhost: a URL that pg_net would look for in the database's own container."""

    name: str
    state: State


def asked() -> Statement[list[Asked]]:
    """What the active jobs of this database ask for; needs pg_cron."""
    return Statement(
        "select j.jobname, m.found[1], m.found[2] from cron.job j "
        "cross join regexp_matches(j.command, %s, 'g') m(found) "
        "where j.active and j.database = current_database() order by 1, 2 desc",
        (ASKED,),
        lambda rows: [Asked(*row) for row in rows],
    )


def states(names: Sequence[str]) -> Statement[list[Secret]]:
    """What Vault has under these names, in their order; no value leaves the server. Needs Vault."""
    return Statement(
        "select w.name, case when s.decrypted_secret is null then 'missing' "
        "when btrim(s.decrypted_secret, E' \\t\\r\\n') = '' then 'empty' "
        "when s.decrypted_secret ~* %s then 'localhost' else 'there' end "
        "from unnest(%s::text[]) with ordinality w(name, place) "
        "left join vault.decrypted_secrets s on s.name = w.name order by w.place",
        (LOCAL, text_array(names)),
        lambda rows: [Secret(*row) for row in rows],
    )


def put(connection: psycopg.Connection[TupleRow], name: str, value: str) -> bool:
    """Make the secret, or give it this value; whether it is new. Raises `SetupError`."""
    try:
        with connection.transaction():
            _hush(connection)
            # Two at once are one after the other: Vault would refuse the second name.
            connection.execute("select pg_advisory_xact_lock(hashtextextended('redrive.vault', 0))")
            row = connection.execute("select id from vault.secrets where name = %s", (name,)).fetchone()
            if row is None:
                connection.execute("select vault.create_secret(%s, %s)", (value, name))
            else:
                connection.execute("select vault.update_secret(%s, %s)", (row[0], value))
            return row is None
    except psycopg.Error as error:
        raise _explained(error, name, value) from None


def read(connection: psycopg.Connection[TupleRow], name: str) -> str | None:
    """The value; None where there is none. Raises `SetupError`."""
    try:
        row = connection.execute(
            "select decrypted_secret from vault.decrypted_secrets where name = %s", (name,)
        ).fetchone()
    except psycopg.Error as error:
        raise _explained(error, name) from None
    return None if row is None else row[0]


def _hush(connection: psycopg.Connection[Any]) -> None:
    """Keep parameters out of the server's log; not every role may."""
    try:
        with connection.transaction():
            connection.execute("set local log_parameter_max_length = 0")
    except InsufficientPrivilege:
        pass


def _explained(error: psycopg.Error, name: str, value: str | None = None) -> Exception:
    explained = None if error.sqlstate == "42501" else explain_psycopg(error)
    said = str(explained or error.diag.message_primary or error)
    if value:
        said = said.replace(value, "<value>")
    if explained is not None:
        return type(explained)(said)
    return SetupError(f"Vault refused secret {name}: {said}; connect as the project's own role")
