"""An app with a FastPix inbox, its played API, and its database's tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from redrive import Redrive
from redrive.inbox.reconcile import Tally, reconciliation
from redrive.inbox.source import install_tables
from redrive.inbox.sources.fastpix import FastPix
from redrive.store import events
from redrive.store.database import Database, connect
from redrive.testing import Ran, run_until_idle, use_database
from tests.support.fastpix_api import SECRET_KEY, TOKEN_ID, FastPixApi
from tests.support.serving import Serving
from tests.support.working import until, working

SIGNING_SECRET = "c2lnbmluZy1zZWNyZXQtb2YtdGhlLXRlc3Rz"
QUEUE = "webhook_jobs"
_NUMBERS = count(1)


@dataclass
class Desk:
    """`api` is the truth; `arrive` what webhooks tell of it, `work` what the worker makes of them."""

    app: Redrive
    api: FastPixApi
    fastpix: FastPix
    database: Database
    url: str

    async def arrive(self, type: str, ident: str, *, object_type: str = "media", **data: Any) -> str:
        """Record an event as the receiver does; its id."""
        event_id = f"e-{next(_NUMBERS)}"
        payload = {
            "type": type,
            "object": {"type": object_type, "id": ident},
            "id": event_id,
            "workspace": {"id": "w-1", "name": "dev"},
            "status": "stale",
            "data": {"id": ident, "status": "stale", **data},
            "createdAt": "2026-11-30T10:53:20.123456789Z",
            "attempts": [],
        }
        text = json.dumps(payload)
        received = await self.database.run(
            events.receive("fastpix", event_id, type, text, text.encode(), {}, QUEUE, resource=ident)
        )
        return received.id

    async def work(self) -> Ran:
        """Until nothing is ready."""
        return await run_until_idle(self.app, timeout=110)

    async def drain(self) -> None:
        """The same by a worker with ten jobs at once; nothing may have failed."""
        async with working(self.app, self.url, concurrency=10):
            left = "select from redrive.webhook_event where status = 'received' limit 1"
            await until(lambda: not self.rows(left), within=60)
        assert self.rows("select last_error from redrive.webhook_event where status = 'failed'") == []

    async def reconcile(self, since: timedelta | None = None, *, dry_run: bool = False) -> dict[str, Tally]:
        """By kind what was found; `since` None: everything."""
        moment: datetime | None = None
        if since is not None:
            moment = await self.database.run(events.now()) - since
        run = reconciliation(
            self.app.inboxes["fastpix"], self.database, moment, dry_run=dry_run, step=lambda done: None
        )
        await run.run()
        return run.report

    def rows(self, sql: str, *params: Any) -> list[Any]:
        with connect(self.url) as connection:
            return connection.execute(sql.encode(), params).fetchall()

    def differences(self) -> list[str]:
        """Where the tables and the API do not agree; secrets aside, field by field."""
        wrong: list[str] = []
        tables = (
            ("media", "id", self.api.media, "true"),
            ("live_streams", "streamId", self.api.streams, "true"),
            ("uploads", "uploadId", self.api.uploads, "\"status\" not in ('media_created', 'ended')"),
        )
        for table, key, truth, listed in tables:
            rows = {
                row[0]: row[1]
                for row in self.rows(f'select "{key}", to_jsonb(t) from fastpix.{table} t where {listed}')
            }
            wrong += [f"{table} {each}: gone from the API" for each in rows.keys() - truth.keys()]
            wrong += [f"{table} {each}: missing" for each in truth.keys() - rows.keys()]
            for ident in rows.keys() & truth.keys():
                for name in ("status", "title", "playbackIds", "tracks", "timeout", "reconnectWindow"):
                    if rows[ident].get(name) != truth[ident].get(name):
                        wrong.append(f"{table} {ident}: {name} is {rows[ident].get(name)!r}")
        return wrong


@asynccontextmanager
async def desk(url: str, *, timeout: float = 5.0, **policy: Any) -> AsyncGenerator[Desk]:
    """A desk on the migrated database `url`, everything closed at the end."""
    api = FastPixApi()
    with Serving(api.app) as served:
        fastpix = FastPix(TOKEN_ID, SECRET_KEY, base_url=f"{served.url}/v1/", timeout=timeout)
        app = Redrive()
        app.inbox("fastpix", provider="fastpix", secret=SIGNING_SECRET, queue=QUEUE, api=fastpix, **policy)
        with connect(url) as connection:
            install_tables(connection, {"fastpix": fastpix})
        database = Database(url)
        with_database = use_database(app, url)
        await asyncio.to_thread(with_database.__enter__)
        try:
            yield Desk(app, api, fastpix, database, url)
        finally:
            await fastpix.close()
            await database.close()
            await asyncio.to_thread(with_database.__exit__, None, None, None)
