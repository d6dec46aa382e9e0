"""The patient: the database that is examined, as the connecting role sees it.

Guarantees  everything asked is asked in a read-only transaction of its own, under a time limit on both sides
            and without waiting for locks: a sick database cannot hold the doctor up, nor the doctor it;
            what may not be read, or takes too long, raises `NotChecked` with the reason.
Not given   that the database is the same for two questions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import namedtuple_row

from redrive.errors import Unavailable
from redrive.inbox.inbox import Inbox
from redrive.store.database import arguments
from redrive.store.faults import explain_psycopg
from redrive.watch.doctor.finding import NotChecked
from redrive.watch.doctor.names import quoted

# A check reads the catalogue or the edge of an index: what takes longer is itself sick.
ANSWERS_WITHIN = 5.0
_CALLING_OFF = 2.0
_CONNECTING = 10.0
# Settings of the transaction alone: behind a transaction pooler a session's would be somebody else's.
_OPENING = (
    "begin isolation level read committed, read only; set local search_path = pg_catalog; "
    "set local lock_timeout = '500ms'; set local statement_timeout = {milliseconds}"
)
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05"})

_FACTS = """
select current_user::text as me,
       current_database()::text as database,
       coalesce(%s::text, current_user::text) as role,
       (select r.oid from pg_roles r where r.rolname = coalesce(%s::text, current_user::text)) as role_oid,
       (select pg_get_userbyid(n.nspowner)::text from pg_namespace n where n.nspname = 'redrive') as owner,
       exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'redrive' and c.relname = 'queue') as has_redrive,
       exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = 'pgmq' and c.relname = 'meta') as has_pgmq,
       current_setting('server_version_num')::integer as version,
       (select array_agg(word::text) from pg_get_keywords() where catcode <> 'U') as keywords
"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the database does not know: whose rights matter, the app's inboxes, and how many work on it.

    `role` is the workers' role, None for the connecting one. `processes`: how many worker processes there
    will be (None: those that are seen), with `concurrency` jobs at once each.
    """

    role: str | None = None
    inboxes: Mapping[str, Inbox] | None = None
    processes: int | None = None
    concurrency: int = 20


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that redrive knows, and which of its tables are there."""

    name: str
    adopted: bool
    has_queue: bool
    has_archive: bool
    has_dlq: bool
    has_dlq_archive: bool


@dataclass(slots=True)
class Patient:
    """Make it by `admit`, and `close` it. `owner` is who owns schema redrive, None where there is none."""

    url: str
    connection: AsyncConnection[Any]
    around: Surroundings
    me: str
    database: str
    role: str
    role_oid: int | None
    owner: str | None
    has_redrive: bool
    has_pgmq: bool
    version: int
    keywords: Sequence[str]
    _queues: list[Queue] | NotChecked | None = field(default=None, repr=False)

    @classmethod
    async def admit(cls, url: str, around: Surroundings) -> Patient:
        """Raises `Unavailable`."""
        connection = await connect(url)
        try:
            [found] = await rows(connection, _FACTS, around.role, around.role)
        except BaseException:
            await connection.close()
            raise
        return cls(url, connection, around, **found._asdict())

    async def close(self) -> None:
        await self.connection.close()

    async def reconnect(self) -> None:
        """After a question that was not answered. Raises `Unavailable`."""
        await self.connection.close()
        self.connection = await connect(self.url)

    def ident(self, name: str | None) -> str:
        """`name` of a role or database as an identifier in SQL to be run here."""
        return quoted(name or "", self.keywords)

    async def rows(self, sql: str, *params: object, within: float = ANSWERS_WITHIN) -> list[Any]:
        """The rows of a query, columns by name. Raises `NotChecked`, `Unavailable`."""
        return await rows(self.connection, sql, *params, within=within)

    async def row(self, sql: str, *params: object) -> Any:
        """The only row of a query."""
        [found] = await self.rows(sql, *params)
        return found

    async def has(self, name: str) -> bool:
        """Whether there is a relation, or a function where `name` ends in (), of this name."""
        function = name.endswith("()")
        # Not by to_regclass: whoever may not use the schema is refused an answer.
        schema, _, name = name.removesuffix("()").partition(".")
        sql = _HAS_FUNCTION if function else _HAS_RELATION
        return (await self.row(sql, schema, name)).there

    def demand_redrive(self) -> None:
        """Raises `NotChecked` where there is no schema redrive."""
        if not self.has_redrive:
            raise NotChecked("schema redrive is missing here; run redrive migrate")

    async def demand(self, name: str) -> None:
        """Raises `NotChecked` where this relation or function of schema redrive is missing."""
        self.demand_redrive()
        if not await self.has(name):
            raise NotChecked("schema redrive is older than this redrive; run redrive migrate")

    async def queues(self) -> list[Queue]:
        """Redrive's queues. Raises `NotChecked` where there is no schema redrive, or it may not be read."""
        self.demand_redrive()
        if self._queues is None:
            try:
                self._queues = [Queue(*row) for row in await self.rows(_QUEUES)]
            except NotChecked as why:
                self._queues = why
        if isinstance(self._queues, NotChecked):
            raise self._queues
        return self._queues

    async def tables(self) -> list[tuple[str, str]]:
        """(queue, table) of each q_ and a_ table of redrive's queues and their dead-letter queues."""
        made: list[tuple[str, str]] = []
        for each in await self.queues():
            made += [(each.name, f"q_{each.name}")] if each.has_queue else []
            made += [(each.name, f"a_{each.name}")] if each.has_archive else []
            made += [(each.name, f"q_{each.name}_dlq")] if each.has_dlq else []
            made += [(each.name, f"a_{each.name}_dlq")] if each.has_dlq_archive else []
        return made


_HAS_RELATION = """
select exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                where n.nspname = %s and c.relname = %s) as there
"""
_HAS_FUNCTION = """
select exists (select from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                where n.nspname = %s and p.proname = %s) as there
"""
_QUEUES = """
select q.queue, q.adopted,
       to_regclass(format('pgmq.%I', 'q_' || q.queue)) is not null as q,
       to_regclass(format('pgmq.%I', 'a_' || q.queue)) is not null as a,
       to_regclass(format('pgmq.%I', 'q_' || q.queue || '_dlq')) is not null as q_dlq,
       to_regclass(format('pgmq.%I', 'a_' || q.queue || '_dlq')) is not null as a_dlq
  from redrive.queue q
 order by q.queue
"""


async def connect(url: str) -> AsyncConnection[Any]:
    """A connection of the doctor's own. Raises `Unavailable`."""
    try:
        async with asyncio.timeout(_CONNECTING):
            return await AsyncConnection.connect(**arguments(url), row_factory=namedtuple_row)
    except TimeoutError:
        raise Unavailable(f"the database did not take a connection within {_CONNECTING:g} s") from None
    except psycopg.Error as error:
        raise explain_psycopg(error) or error from error


async def rows(
    connection: AsyncConnection[Any], sql: str, *params: object, within: float = ANSWERS_WITHIN
) -> list[Any]:
    """See `Patient.rows`."""
    asking = asyncio.create_task(_ask(connection, sql, params, within))
    # The server's own limit comes first. A network that swallows the answer swallows the first cancellation's
    # call to the server as well: the second one gives up waiting for that, too.
    for pause in (within + _CALLING_OFF, _CALLING_OFF, _CALLING_OFF):
        if (await asyncio.wait({asking}, timeout=pause))[0]:
            break
        asking.cancel()
    try:
        return await asking
    except (asyncio.CancelledError, TimeoutError):
        await connection.close()
        raise Unavailable(f"the database did not answer a question within {within:g} s") from None
    except psycopg.Error as error:
        raise _explained(error, within) from error


async def _ask(
    connection: AsyncConnection[Any], sql: str, params: Sequence[object], within: float
) -> list[Any]:
    opening = _OPENING.format(milliseconds=round(within * 1000))
    await connection.execute(opening.encode())
    try:
        cursor = await connection.execute(sql.encode(), params or None)
        found = await cursor.fetchall()
    except psycopg.Error:
        if not connection.closed:
            await connection.execute("rollback")
        raise
    await connection.execute("rollback")
    return found


def _explained(error: psycopg.Error, within: float) -> Exception:
    message = " ".join((error.diag.message_primary or str(error)).split())
    if error.sqlstate is None:
        return explain_psycopg(error) or NotChecked(f"the answer cannot be read: {message}")
    if error.sqlstate in _LOST or error.sqlstate[:2] == "08":
        return explain_psycopg(error) or Unavailable(f"the database is out of reach: {message}")
    match error.sqlstate:
        case "57014":
            return NotChecked(f"the database took over {within:g} s to answer")
        case "55P03":
            return NotChecked(f"somebody holds a lock that this would wait for ({message})")
        case "42501":
            return NotChecked(f"{message}; run the doctor as the owner of schema redrive")
        case _:
            return NotChecked(f"the database answered: {message}")
