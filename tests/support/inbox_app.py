"""The app that real receivers and workers run in tests: two inboxes, one queue, and effects in a table.

A payload says what its handler does: {"fail": n} fails n times, {"effect": name} writes it with the job's
completion, {"linger": seconds} waits afterwards, {"exit": code} ends its process.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psycopg

from redrive import Backoff, Event, Job, Redrive, SyncJob
from tests.support.receiving import SECRET

QUICK = Backoff(base=0.05, factor=1, jitter=0)
TABLES = "create table effect (name text, event text, attempt integer)"

app = Redrive()
app.inbox("github", provider="github", secret=SECRET, queue="hooks", backoff=QUICK, visibility_timeout=2)
app.inbox("stripe", provider="stripe", secret=SECRET, queue="hooks")


@app.on("github", "push")
async def pushed(event: Event, job: Job) -> None:
    wanted: dict[str, Any] = event.payload or {}
    if "exit" in wanted:
        os._exit(wanted["exit"])
    if job.attempt <= wanted.get("fail", 0):
        raise ValueError("not yet")
    async with job.transaction() as connection:
        await connection.execute(
            "insert into effect values (%s, %s, %s)", (wanted.get("effect"), event.id, job.attempt)
        )
    await asyncio.sleep(wanted.get("linger", 0))


@app.on("stripe", "invoice.*")
def invoiced(event: Event, job: SyncJob) -> None:
    with job.transaction() as connection:
        connection.execute("insert into effect values (%s, %s, %s)", (event.type, event.id, job.attempt))


def furnish(db: psycopg.Connection[Any]) -> None:
    """The app's queue, and the table its handlers write to."""
    db.execute(TABLES.encode())
    db.execute("select redrive.create_queue('hooks')")
