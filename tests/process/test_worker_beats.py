"""A worker process says that it lives, and what it holds."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from redrive import Redrive
from redrive.worker.engine import PostgresEngine
from tests.support.working import fetch, make_queue, send, until, working

Db = psycopg.Connection[Any]


def hanging(queue: str) -> tuple[Redrive, asyncio.Event]:
    app = Redrive()
    free = asyncio.Event()

    @app.job(queue)
    async def handle(payload: Any) -> None:
        await free.wait()

    return app, free


async def test_a_worker_that_is_full_is_seen_and_says_what_it_holds(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.worker.beat.EVERY", 0.05)
    make_queue(db, "mail")
    app, free = hanging("mail")
    message = send(db, "mail", {})
    row = "select running, held, concurrency, last_seen, claimed from redrive.worker where worker = %s"
    async with working(app, database_url, concurrency=1) as worker:
        await until(lambda: [r[:3] for r in fetch(db, row, worker.name)] == [(1, [message], 1)])
        [[*_, seen, claimed]] = fetch(db, row, worker.name)
        await until(lambda: fetch(db, row, worker.name)[0][3] > seen)
        assert fetch(db, row, worker.name)[0][4] == claimed == 1
        free.set()
        await until(lambda: [r[:2] for r in fetch(db, row, worker.name)] == [(0, [])])
    assert fetch(db, "select worker from redrive.worker") == [("",)]


async def test_a_beat_that_fails_stops_nothing(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.worker.beat.EVERY", 0.02)
    beats = 0

    async def broken(self: PostgresEngine, *_: object) -> None:
        nonlocal beats
        beats += 1
        raise psycopg.errors.UndefinedFunction("worker_beat")

    monkeypatch.setattr(PostgresEngine, "beat", broken)
    make_queue(db, "mail")
    app, free = hanging("mail")
    free.set()
    async with working(app, database_url):
        await until(lambda: beats > 2)
        send(db, "mail", {})
        await until(lambda: fetch(db, "select outcome from pgmq.a_mail") == [("done",)])
