"""Handlers in transactions hold connections: what they do waits for none that nobody gives back."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import psycopg
import pytest

from redrive import Job, Redrive, SyncJob
from redrive.store.blocking import BlockingPool
from redrive.store.database import Database
from tests.support.working import count, fetch, make_queue, send, until, working

Db = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def few_connections(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of each kind, and a second of patience with the database."""
    make_queue(db, "mail")
    monkeypatch.setattr("redrive.worker.jobs._MOST_CONNECTIONS", 2)
    for name, kind in (("Database", Database), ("BlockingPool", BlockingPool)):
        monkeypatch.setattr(f"redrive.worker.jobs.{name}", functools.partial(kind, deadline=1.0))


def outcomes(db: Db) -> list[Any]:
    return fetch(db, "select outcome, count(*) from pgmq.a_mail group by 1")


async def test_a_transaction_waits_for_its_neighbours_however_long_they_take(
    db: Db, database_url: str
) -> None:
    app = Redrive()

    @app.job("mail")
    async def handle(payload: Any, job: Job) -> None:
        async with job.transaction():
            await asyncio.sleep(0.7)

    async with working(app, database_url):
        for n in range(8):
            send(db, "mail", n)
        await until(lambda: count(db, "q_mail") == 0)
    assert outcomes(db) == [("done", 8)] and fetch(db, "select * from redrive.attempt") == []


async def test_a_transaction_in_a_thread_waits_for_its_neighbours_too(db: Db, database_url: str) -> None:
    app = Redrive()
    never = threading.Event()

    @app.job("mail")
    def handle(payload: Any, job: SyncJob) -> None:
        with job.transaction():
            never.wait(0.7)

    async with working(app, database_url):
        for n in range(8):
            send(db, "mail", n)
        await until(lambda: count(db, "q_mail") == 0)
    assert outcomes(db) == [("done", 8)] and fetch(db, "select * from redrive.attempt") == []


async def test_extending_needs_no_connection_that_a_transaction_holds(db: Db, database_url: str) -> None:
    app = Redrive()
    both = asyncio.Barrier(2)

    @app.job("mail")
    async def handle(payload: Any, job: Job) -> None:
        async with job.transaction():
            await both.wait()
            await job.extend(100)

    async with working(app, database_url):
        for n in range(2):
            send(db, "mail", n)
        await until(lambda: count(db, "q_mail") == 0)
    assert outcomes(db) == [("done", 2)] and fetch(db, "select * from redrive.attempt") == []
