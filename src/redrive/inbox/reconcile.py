"""Reconcile: what never arrived, found by asking the provider; each finding goes the way of a webhook.

For a `Source` the provider's lists are compared with the local rows. Each entry that is missing or differs
becomes an event of origin ``reconcile`` in the inbox's queue, and so does each local row that the lists
should have shown and did not, or that is not in a final state, once the API has said that it differs or is
gone. For a `Redeliverer` the provider is asked to send again what has no record.

Guarantees  nothing is written here but events: a worker fetches the truth again and writes it;
            where nothing differs, nothing is sent; run again, it sends nothing for what still waits;
            a row that is fetched while it runs is left alone, so live traffic does no harm.
Not given   a change that a list does not show, of what was created before `since` and is final here: a full
            run compares every field that the lists have.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, runtime_checkable

from redrive.errors import ConfigError
from redrive.inbox.inbox import Inbox
from redrive.inbox.source import Api, Listed, Page, Source, State, Stored, patiently, tables_of
from redrive.store import events
from redrive.store.database import Database

log = logging.getLogger("redrive.inbox")

# What a schedule looks at: what was created since.
WINDOW = timedelta(hours=24)
# An event's id has 255 characters, and may get the time of its receipt appended.
_MOST_OF_A_RESOURCE = 150
_RECORDS = 1_000


@dataclass(slots=True)
class Tally:
    """What was found of one kind of resource.

    listed   the provider showed so many        missing  had no row, or no record
    checked  rows were asked for one by one     changed  differed from their row
    gone     the provider has them no more      sent     events were sent, or redeliveries asked for
    waiting  were not sent, since an earlier run's event still waits in the queue
    """

    listed: int = 0
    checked: int = 0
    missing: int = 0
    changed: int = 0
    gone: int = 0
    sent: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Orders:
    """What to reconcile: what was created `since` (None: everything), into `queue` as events of `source`.

    `dry_run`: find, and send nothing. `step` is told how many more things were looked at.
    """

    source: str
    queue: str
    since: datetime | None
    dry_run: bool = False
    step: Callable[[int], None] = field(default=lambda done: None)


class Attempt(Protocol):
    """An attempt of a provider's to deliver an event; `guid` is the event's id, whichever attempt it is."""

    @property
    def guid(self) -> str: ...
    @property
    def event(self) -> str: ...


@runtime_checkable
class Redeliverer(Api, Protocol):
    """A provider that lists what it has delivered, and sends it again when asked."""

    def deliveries(self, since: datetime | None) -> AsyncIterator[Sequence[Any]]:
        """Pages of `Attempt`, newest first. Waits where the API asks for it."""
        ...

    async def redeliver(self, delivery: Any) -> bool:
        """False when the provider does not have it any more."""
        ...


class Reconciliation(Protocol):
    """`report` says by kind what was found so far, also of a run that failed."""

    report: dict[str, Tally]

    async def run(self) -> None: ...


def reconciliation(
    inbox: Inbox, database: Database, since: datetime | None, *, dry_run: bool, step: Callable[[int], None]
) -> Reconciliation:
    """The run for an inbox. Raises `ConfigError` when its app has given it no API that can tell."""
    orders = Orders(inbox.source, inbox.queue, since, dry_run, step)
    match inbox.api:
        case Source() as api:
            return Sweep(api, database, orders)
        case Redeliverer() as api:
            return Redelivery(api, database, orders)
        case _:
            raise ConfigError(_no_api(inbox))


def sweeping(inbox: Inbox, database: Callable[[], Database]) -> Callable[[], Awaitable[None]]:
    """What a schedule runs: the reconciliation of what was created in the last 24 hours.

    Raises `ConfigError` when the inbox has no API that can tell; the function raises as the run.
    """
    if not isinstance(inbox.api, (Source, Redeliverer)):
        raise ConfigError(f"reconcile: {_no_api(inbox)}")

    async def reconcile() -> None:
        since = await database().run(events.now()) - WINDOW
        run = reconciliation(inbox, database(), since, dry_run=False, step=lambda done: None)
        try:
            await run.run()
        finally:
            sent = sum(tally.sent for tally in run.report.values())
            listed = sum(tally.listed for tally in run.report.values())
            log.log(
                logging.INFO if sent else logging.DEBUG,
                "inbox %s: reconciled %d of the last 24 hours, %d sent",
                inbox.source,
                listed,
                sent,
                extra={"event": "reconciled", "source": inbox.source},
            )

    return reconcile


def _no_api(inbox: Inbox) -> str:
    return (
        f"inbox {inbox.source} has no API to reconcile with; declare it with api=..., such as "
        "api=FastPix() or api=GitHub(...)"
    )


class Sweep:
    """Compares a source's lists with its rows. `run` raises `ApiError`, `Reject`, and as a `Database`."""

    def __init__(self, api: Source, database: Database, orders: Orders) -> None:
        self._api = api
        self._database = database
        self._orders = orders
        self._seen: set[str] = set()
        self.report: dict[str, Tally] = {}

    async def run(self) -> None:
        async with tables_of(self._api), self._database.connection() as connection:
            await self._api.check_tables(connection, self._orders.source)
        began = await self._database.run(events.now())
        async for page in self._api.list_changed(self._orders.since):
            await self._compare(page, began)
        for row in await self._suspects(began):
            await self._check(row)

    async def _compare(self, page: Page, began: datetime) -> None:
        tally = self._tally(page.kind)
        entries = {each.resource: each for each in page.entries if each.resource not in self._seen}
        self._seen |= entries.keys()
        tally.listed += len(entries)
        async with tables_of(self._api), self._database.connection() as connection:
            rows = await self._api.stored(connection, list(entries))
        for resource, entry in entries.items():
            row = rows.get(resource)
            if row is None:
                tally.missing += 1
                await self._send(tally, resource, entry.state, None)
            # One that was fetched since has all that happened before the sweep, which is what it looks for.
            elif row.fetched < began and self._api.differs(entry, row):
                tally.changed += 1
                await self._send(tally, resource, entry.state, row)
        self._orders.step(len(entries))

    async def _suspects(self, began: datetime) -> list[Stored]:
        """Rows that the lists do not vouch for."""
        async with tables_of(self._api), self._database.connection() as connection:
            known = self._api.known(connection, self._orders.since)
            return [
                row
                async for row in known
                if row.resource not in self._seen and row.fetched < began and (row.fetchable or not row.final)
            ]

    async def _check(self, row: Stored) -> None:
        tally = self._tally(row.kind)
        tally.checked += 1
        # Of what has no address of its own, the list, which was read whole, has said everything.
        state = await patiently(partial(self._api.fetch, row.resource)) if row.fetchable else None
        if state is None:
            tally.gone += 1
            await self._send(tally, row.resource, None, row)
        elif self._api.differs(Listed(row.resource, state), row):
            tally.changed += 1
            await self._send(tally, row.resource, state, row)
        self._orders.step(1)

    async def _send(self, tally: Tally, resource: str, state: State | None, row: Stored | None) -> None:
        if self._orders.dry_run:
            return
        made = self._api.signal(resource, state, row)
        digest = hashlib.sha256(json.dumps([resource, state], sort_keys=True).encode()).hexdigest()[:32]
        event_id = f"reconcile:{resource[:_MOST_OF_A_RESOURCE]}:{digest}"
        received = await self._receive(event_id, made.type, made.resource, made.payload)
        if received.duplicate:
            earlier = await self._database.run(events.load(received.id))
            if earlier is not None and earlier.status == "received":
                tally.waiting += 1
                return
            # It was handled, and again there is the same difference: it failed, or the state has come back.
            again = f"{event_id}:{(await self._database.run(events.now())).isoformat()}"
            await self._receive(again, made.type, made.resource, made.payload)
        tally.sent += 1

    async def _receive(
        self, event_id: str, type: str, resource: str, payload: Mapping[str, Any]
    ) -> events.Received:
        text = json.dumps({"id": event_id, "type": type, **payload}, ensure_ascii=False)
        return await self._database.run(
            events.receive(
                self._orders.source,
                event_id,
                type,
                text,
                text.encode(),
                {},
                self._orders.queue,
                resource=resource,
                derived=True,
                origin="reconcile",
            )
        )

    def _tally(self, kind: str) -> Tally:
        return self.report.setdefault(kind, Tally())


class Redelivery:
    """Asks a provider to send again what has no record here. `run` raises as `Sweep.run`."""

    def __init__(self, api: Redeliverer, database: Database, orders: Orders) -> None:
        self._api = api
        self._database = database
        self._orders = orders
        self._tally = Tally()
        self.report = {"delivery": self._tally}

    async def run(self) -> None:
        newest: dict[str, Attempt] = {}
        async for page in self._api.deliveries(self._orders.since):
            for attempt in page:
                # A ping is answered, never recorded.
                if attempt.event != "ping":
                    newest.setdefault(attempt.guid, attempt)
            self._orders.step(len(page))
        self._tally.listed = len(newest)
        # Read after the list: what has arrived by now needs no help.
        recorded = await self._recorded(list(newest))
        for guid, attempt in newest.items():
            if guid in recorded:
                continue
            self._tally.missing += 1
            if self._orders.dry_run:
                continue
            if await self._api.redeliver(attempt):
                self._tally.sent += 1
            else:
                self._tally.gone += 1
            self._orders.step(1)

    async def _recorded(self, guids: Sequence[str]) -> set[str]:
        """Those that have a record, however old: an attempt of today may be of an event of last month."""
        found: set[str] = set()
        for start in range(0, len(guids), _RECORDS):
            batch = guids[start : start + _RECORDS]
            found |= await self._database.run(events.recorded(self._orders.source, batch))
        return found
