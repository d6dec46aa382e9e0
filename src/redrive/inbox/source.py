"""Sources: the API behind an inbox, which knows what is true now; an event only says where to look.

A source names its resources ("media:8f3c"), fetches one, lists what changed, and keeps its own tables. What
it raises is an outcome: `Snooze` when the API asks to be left alone, `Reject` when it refuses for good,
`ApiError` when another try may succeed. `fetch` answering None means that the API has no such resource.
"""

from __future__ import annotations

from asyncio import sleep
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

import psycopg
from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege, InvalidSchemaName, UndefinedColumn, UndefinedTable
from psycopg.rows import TupleRow, tuple_row

from redrive.errors import RedriveError, SetupError
from redrive.job import Snooze
from redrive.sql import function_files
from redrive.store import grants, install
from redrive.store.faults import explain_psycopg

T = TypeVar("T")
State = dict[str, Any]
Connection = AsyncConnection[TupleRow]

# How long one request of a sweep may be put off by the API, in all.
_MOST_WAITING = 900.0
# An API that fails is asked five more times; it has failed for half a minute then.
_AFTER_FAILURES = (1.0, 2.0, 4.0, 8.0, 16.0)


class ApiError(RedriveError):
    """The API did not answer, or not with what it promises; the next try may succeed."""


class Signal(Protocol):
    """What a source looks at of an event: which resource changed."""

    @property
    def source(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def resource(self) -> str | None: ...
    @property
    def payload(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Listed:
    """One entry of a list: `resource` as the source names it, `created` None where the API does not say."""

    resource: str
    state: State
    created: datetime | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the list of resources of one `kind`; `total`: how many the API says there are."""

    kind: str
    entries: Sequence[Listed]
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A local row: `fetched` is the database's time at which its state was asked for.

    `final`: it is not expected to change any more. `fetchable`: the API can be asked for it by its id; if
    not, its list, which is read whole, is the answer.
    """

    resource: str
    kind: str
    state: State
    fetched: datetime
    created: datetime | None = None
    final: bool = False
    fetchable: bool = True


@dataclass(frozen=True, slots=True)
class Synthetic:
    """The event that reconciliation sends in place of one that never arrived; it looks like it."""

    type: str
    resource: str
    payload: State = field(default_factory=dict[str, Any])


class Api(Protocol):
    """What an inbox's ``api=`` is at least: `policy` is the queue's where the app declares nothing."""

    @property
    def policy(self) -> Mapping[str, Any]: ...
    def resources(self, event: Signal) -> Sequence[str]:
        """What the event is about, best first; empty: nothing the API could be asked for."""
        ...

    def schema(self, source: str) -> str:
        """SQL that makes the source's tables for inbox `source`, and may run again; "" for none.

        Its rows in `redrive.api_table` say which part of redrive needs which rights on them.
        """
        ...

    async def close(self) -> None:
        """Close the connections of this event loop; closing twice is fine."""
        ...


@runtime_checkable
class Source(Api, Protocol):
    """An API whose state is kept in tables. `connection` is in the transaction that completes the job."""

    def check_credentials(self) -> None:
        """Raises `ConfigError` where a credential is missing; asked at a worker's start, asks no API."""
        ...

    async def fetch(self, resource: str) -> State | None:
        """The state now; None: the API has no such resource (any more)."""
        ...

    async def check_tables(self, connection: Connection, source: str) -> None:
        """Raise `SetupError` unless the tables are those of inbox `source`."""
        ...

    def list_changed(self, since: datetime | None) -> AsyncIterator[Page]:
        """Pages of every kind, newest first, until what was created since is covered; None: everything.

        A kind that is not `Stored.fetchable` is listed whole. Waits where the API asks for it. A resource may
        come twice, as pages shift.
        """
        ...

    def known(self, connection: Connection, since: datetime | None) -> AsyncIterator[Stored]:
        """The local rows that were created since, and those not in a final state; None: every row."""
        ...

    async def stored(self, connection: Connection, resources: Sequence[str]) -> Mapping[str, Stored]:
        """The local rows of these resources."""
        ...

    def differs(self, listed: Listed, stored: Stored) -> bool:
        """Whether a list's entry says something else than the local row."""
        ...

    def signal(self, resource: str, state: State | None, stored: Stored | None) -> Synthetic:
        """The event for what reconciliation found; `state` None: the API has it no more."""
        ...

    async def upsert(self, connection: Connection, resource: str, state: State, at: datetime) -> None:
        """Write what `fetch` answered; `at` is the database's time before it was asked."""
        ...

    async def delete(self, connection: Connection, resource: str, at: datetime, event: Signal) -> None:
        """Write that the API has it no more; `event` is what told us to look."""
        ...


async def patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` answers, waiting as the API asks to and trying again after failures.

    Raises `ApiError` when that takes too long, `Reject` when the API refuses.
    """
    waited, failures = 0.0, iter(_AFTER_FAILURES)
    while True:
        try:
            return await ask()
        except Snooze as busy:
            pause = busy.seconds
            if waited + pause > _MOST_WAITING:
                raise ApiError(
                    f"the API asks to be left alone for {pause:g} s, after {waited:g} s already; "
                    "run this again later"
                ) from None
            waited += pause
        except ApiError:
            pause = next(failures, None)
            if pause is None:
                raise
        await sleep(pause)


@asynccontextmanager
async def tables_of(api: Api) -> AsyncGenerator[None]:
    """Raises `SetupError` with the way out where the tables of `api`, or a right to them, are missing."""
    try:
        yield
    except (UndefinedTable, UndefinedColumn, InvalidSchemaName, InsufficientPrivilege) as error:
        said = error.diag.message_primary or str(error)
        raise SetupError(
            f"{said}: run `redrive migrate --app module:attribute`, which makes the tables of "
            f"{type(api).__name__} and grants them to the roles that have a part of redrive"
        ) from error


def install_tables(connection: psycopg.Connection[Any], apis: Mapping[str, Api]) -> list[str]:
    """Make the tables of each inbox's API, by inbox; what was done, one sentence each.

    They belong to the owner of schema redrive; roles with a part of redrive get what that part needs. Raises
    `SetupError`.
    """
    done: list[str] = []
    for source, api in apis.items():
        script = api.schema(source)
        if not script:
            continue
        cursor = connection.cursor(row_factory=tuple_row)
        try:
            with connection.transaction():
                cursor.execute(install.opening().encode())
                cursor.execute(script.encode())
                cursor.execute(grants.apply_sql(function_files()).encode())
        except InsufficientPrivilege as error:
            raise SetupError(
                f"{error.diag.message_primary}: the owner of schema redrive makes the tables of "
                f"{type(api).__name__}; let it create schemas (grant create on database ... to ...), "
                "then run this again"
            ) from error
        except psycopg.Error as error:
            raise explain_psycopg(error) or SetupError(
                f"{error.diag.message_primary or error}: something else stands where the tables of "
                f"{type(api).__name__} belong; rename it, then run this again"
            ) from error
        done.append(f"inbox {source}: the tables of {type(api).__name__} are there")
    return done
