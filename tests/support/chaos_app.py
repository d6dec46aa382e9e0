"""The app of the chaos ring. What its handlers saw is kept outside of redrive's own tables: runs in the
table `run`, by the database's clock, or in the journal, where the database itself goes away.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psycopg

from redrive import Backoff, Job, Redrive, Reject, Snooze, SyncJob

app = Redrive()
QUICK = Backoff(base=0.05, factor=1, jitter=0)

TABLES = """
create table run (
    id bigint generated always as identity primary key, queue text, msg_id bigint, attempt integer,
    pid integer, parent integer, started_at timestamptz default clock_timestamp(), ended_at timestamptz);
create table effect (name text, pid integer);
"""


class Book:
    """Writes runs down, over a connection of its own that nothing else waits for."""

    def __init__(self) -> None:
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._opening = asyncio.Lock()

    async def start(self, job: Job) -> int:
        cursor = await (await self._open()).execute(
            "insert into run (queue, msg_id, attempt, pid, parent) values (%s, %s, %s, %s, %s) returning id",
            (job.queue, job.msg_id, job.attempt, os.getpid(), os.getppid()),
        )
        row = await cursor.fetchone()
        assert row is not None
        return row[0]

    async def end(self, run: int) -> None:
        await (await self._open()).execute(
            "update run set ended_at = clock_timestamp() where id = %s", (run,)
        )

    async def _open(self) -> psycopg.AsyncConnection[Any]:
        async with self._opening:
            if self._connection is None:
                self._connection = await psycopg.AsyncConnection.connect(
                    os.environ["REDRIVE_TEST_BOOK"], autocommit=True, prepare_threshold=None
                )
        return self._connection


book = Book()


def note(what: str, job: Job | SyncJob, **more: Any) -> None:
    """A line in the journal: one write, so that lines of several processes do not mix."""
    line = {"what": what, "msg_id": job.msg_id, "attempt": job.attempt, "pid": os.getpid(), **more}
    journal = os.open(os.environ["REDRIVE_TEST_JOURNAL"], os.O_WRONLY | os.O_APPEND)
    try:
        os.write(journal, json.dumps(line).encode() + b"\n")
    finally:
        os.close(journal)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@app.job("ledger", backoff=QUICK)
async def ledger(payload: dict[str, Any], job: Job) -> None:
    """{"for": seconds}"""
    run = await book.start(job)
    await asyncio.sleep(payload["for"])
    await book.end(run)


@app.job("killers", backoff=QUICK)
async def killers(payload: dict[str, Any], job: Job) -> None:
    """{"exit": code} | {"signal": number} | {"for": seconds}"""
    run = await book.start(job)
    if "exit" in payload:
        os._exit(payload["exit"])
    if "signal" in payload:
        os.kill(os.getpid(), payload["signal"])
    await asyncio.sleep(payload["for"])
    await book.end(run)


@app.job("diary", backoff=QUICK)
async def diary(payload: dict[str, Any], job: Job) -> None:
    """{"for": seconds}: needs no database."""
    note("start", job)
    await asyncio.sleep(payload["for"])
    note("end", job)


@app.job("fickle", max_attempts=2, backoff=QUICK)
async def fickle(payload: dict[str, Any], job: Job) -> None:
    """{"while": path}: fails while that file exists."""
    note("start", job)
    if Path(payload["while"]).exists():
        raise ValueError("template missing")


@app.job("alone", backoff=QUICK, single_flight=True, concurrency=1)
async def alone(payload: dict[str, Any], job: Job) -> None:
    """{"for": seconds}: of all processes one works on this queue, on one job at a time."""
    run = await book.start(job)
    await asyncio.sleep(payload["for"])
    await book.end(run)


@app.job("gate")
async def gate(payload: dict[str, Any], job: Job) -> object:
    """Blocks the event loop until the file NAME.ATTEMPT exists, then {"then": what} on the first attempt."""
    note("start", job)
    door = Path(f"{payload['gate']}.{job.attempt}")
    while not door.exists():
        time.sleep(0.02)
    then = payload["then"] if job.attempt == 1 else "done"
    match then:
        case "raise":
            raise ValueError("too late to matter")
        case "snooze":
            return Snooze(0)
        case "reject":
            return Reject("too late to matter")
        case "extend":
            try:
                await job.extend(1000)
            except BaseException as error:
                note(type(error).__name__, job)
                raise
        case "wait":
            await asyncio.sleep(60)
        case _:
            pass
    note("end", job)
    return None


@app.job("once", max_attempts=1)
async def once(payload: dict[str, Any], job: Job) -> None:
    note("start", job)
    die()


@app.job("effects", backoff=QUICK)
async def effects(payload: dict[str, Any], job: Job) -> None:
    """{"name": effect, "die": where}: on its first attempt it is killed there."""
    note("start", job)
    doomed = payload["die"] if job.attempt == 1 else None
    if doomed == "before it begins":
        die()
    async with job.transaction() as connection:
        if doomed == "begun":
            die()
        await connection.execute("insert into effect values (%s, %s)", (payload["name"], os.getpid()))
        if doomed == "worked":
            die()
    if doomed == "committed":
        die()
    note("end", job)


@app.job("blocking_effects", backoff=QUICK)
def blocking_effects(payload: dict[str, Any], job: SyncJob) -> None:
    """The same in a thread."""
    note("start", job)
    doomed = payload["die"] if job.attempt == 1 else None
    if doomed == "before it begins":
        die()
    with job.transaction() as connection:
        if doomed == "begun":
            die()
        connection.execute("insert into effect values (%s, %s)", (payload["name"], os.getpid()))
        if doomed == "worked":
            die()
    if doomed == "committed":
        die()
    note("end", job)


@app.job("own_effects", backoff=QUICK)
async def own_effects(payload: dict[str, Any], job: Job) -> None:
    """The same with `job.complete` in a transaction of the handler's own."""
    note("start", job)
    doomed = payload["die"] if job.attempt == 1 else None
    if doomed == "before it begins":
        die()
    async with await psycopg.AsyncConnection.connect(os.environ["REDRIVE_TEST_BOOK"]) as connection:
        await connection.execute("insert into effect values (%s, %s)", (payload["name"], os.getpid()))
        if doomed == "begun":
            die()
        await job.complete(connection=connection)
        if doomed == "worked":
            die()
    if doomed == "committed":
        die()
    note("end", job)
