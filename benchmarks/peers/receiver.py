"""Receiver: what the least does that verifies, records and enqueues: an insert, then `pgmq.send`.

Two calls and two commits: a crash between them loses the event's job. Run by uvicorn, as redrive's own is:
`uvicorn benchmarks.peers.receiver:app`, with BENCH_URL naming the database.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from benchmarks.posting import SECRET

TABLE = """
    create schema if not exists app;
    create table if not exists app.webhook_events (
        id uuid primary key default gen_random_uuid(), "eventId" text unique not null, "type" text not null,
        "receivedAt" timestamptz not null default now(), "processStatus" text not null default 'received',
        "lastError" text, payload jsonb not null)
"""
QUEUE = "bench_bare_inbox"
_KEY = base64.b64decode(SECRET)
_POOL = AsyncConnectionPool(
    os.environ.get("BENCH_URL", ""), min_size=16, max_size=16, open=False, kwargs={"autocommit": True}
)


@asynccontextmanager
async def _lifespan(_: Starlette) -> AsyncGenerator[None]:
    async with _POOL:
        yield


async def _receive(request: Request) -> PlainTextResponse:
    body = await request.body()
    signature = base64.b64encode(hmac.digest(_KEY, body, hashlib.sha256))
    if not hmac.compare_digest(signature, request.headers.get("fastpix-signature", "").encode("latin-1")):
        return PlainTextResponse("bad signature", 401)
    event = json.loads(body)
    async with _POOL.connection() as connection:
        inserted = await connection.execute(
            'insert into app.webhook_events ("eventId", "type", payload) values (%s, %s, %s) '
            'on conflict ("eventId") do nothing returning id',
            (event["id"], event["type"], Jsonb(event)),
        )
        if await inserted.fetchone() is None:
            return PlainTextResponse("duplicate")
        await connection.execute("select pgmq.send(%s, %s::jsonb)", (QUEUE, Jsonb(event)))
    return PlainTextResponse("ok")


app = Starlette(routes=[Route("/webhook", _receive, methods=["POST"])], lifespan=_lifespan)
