"""send: many messages with their ids back, and one at a time, beside pgmq's own functions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.payload import payloads
from benchmarks.peers import bare
from benchmarks.place import Place
from benchmarks.result import Goal, Result
from benchmarks.rounds import Runs, interleaved
from redrive import Redrive

MANY = 20_000
MANY_ROUNDS = 5
SINGLES = 250
# Short and many: a commit's time depends on what else writes to the disk just then.
SINGLE_ROUNDS = 15
_BARE, _OURS = "bench_bare", "bench_send"


def run(place: Place) -> Result:
    messages = payloads(MANY)
    app = Redrive(place.url)
    with asyncio.Runner() as runner:
        # Each opens its connections before anything is timed.
        runner.run(app.send(place.fresh_queue(_OURS), {"warm": True}))
        many = interleaved(
            {
                "psycopg, pgmq.send_batch": lambda: _bare_many(place, messages),
                "redrive, await app.send_many": lambda: _timed_many(
                    place, lambda: len(runner.run(app.send_many(_OURS, messages)))
                ),
                "redrive, app.sync.send_many(connection=…)": lambda: _our_many(place, app, messages),
            },
            MANY_ROUNDS,
        )
        single = interleaved(
            {
                "psycopg, pgmq.send": lambda: _bare_single(place, messages),
                "redrive, app.sync.send(connection=…)": lambda: _our_single(place, app, messages),
                "async psycopg, pgmq.send": lambda: runner.run(_bare_async(place, messages)),
                "redrive, await app.send(connection=…)": lambda: runner.run(_our_async(place, app, messages)),
                "redrive, await app.send": lambda: runner.run(_our_pooled(place, app, messages)),
            },
            SINGLE_ROUNDS,
        )
        runner.run(app.close())
    return _result(many, single)


def _result(many: dict[str, Runs], single: dict[str, Runs]) -> Result:
    bare_many = many["psycopg, pgmq.send_batch"].median
    bare_single = single["psycopg, pgmq.send"].median
    bare_async = single["async psycopg, pgmq.send"].median
    base = {name: bare_async if "await" in name or "async" in name else bare_single for name in single}
    rows = [("many", name, runs.median, runs.spread, runs.median / bare_many) for name, runs in many.items()]
    rows += [
        ("one", name, runs.median, runs.spread, runs.median / base[name]) for name, runs in single.items()
    ]
    best_async = single["redrive, await app.send(connection=…)"].median
    return Result(
        "send",
        "messages a second",
        (
            f"many: {MANY:,} messages of 120 bytes, ids back, one transaction; bare: 1,000 Jsonb a call",
            f"one: {SINGLES} messages, one connection, a commit each, {SINGLE_ROUNDS} rounds",
            "ratios: to psycopg, async ones to async psycopg",
            "no worker is waiting, so redrive has nobody to notify",
        ),
        ("how", "sender", "messages/s", "runs", "ratio"),
        rows,
        (
            Goal("send_many to pgmq.send_batch", many["redrive, await app.send_many"].median / bare_many, 3),
            Goal(
                "send to pgmq.send, blocking",
                single["redrive, app.sync.send(connection=…)"].median / bare_single,
                0.9,
            ),
            Goal("send to pgmq.send, async", best_async / bare_async, 0.9),
        ),
    )


def _timed_many(place: Place, send: Callable[[], int]) -> float:
    place.fresh_queue(_OURS)
    began = time.perf_counter()
    sent = send()
    seconds = time.perf_counter() - began
    assert sent == MANY
    return MANY / seconds


def _bare_many(place: Place, messages: list[dict[str, Any]]) -> float:
    place.fresh_bare_queue(_BARE)
    with place.connect() as connection:
        began = time.perf_counter()
        sent = bare.send_batch(connection, _BARE, messages)
        seconds = time.perf_counter() - began
    assert len(sent) == MANY
    return MANY / seconds


def _our_many(place: Place, app: Redrive, messages: list[dict[str, Any]]) -> float:
    with place.connect() as connection:

        def send() -> int:
            with connection.transaction():
                return len(app.sync.send_many(_OURS, messages, connection=connection))

        return _timed_many(place, send)


def _bare_single(place: Place, messages: list[dict[str, Any]]) -> float:
    place.fresh_bare_queue(_BARE)
    with place.connect() as connection:
        began = time.perf_counter()
        for each in messages[:SINGLES]:
            connection.execute("select * from pgmq.send(%s, %s)", (_BARE, Jsonb(each))).fetchall()
        return SINGLES / (time.perf_counter() - began)


def _our_single(place: Place, app: Redrive, messages: list[dict[str, Any]]) -> float:
    place.fresh_queue(_OURS)
    with place.connect() as connection:
        began = time.perf_counter()
        for each in messages[:SINGLES]:
            app.sync.send(_OURS, each, connection=connection)
        return SINGLES / (time.perf_counter() - began)


async def _bare_async(place: Place, messages: list[dict[str, Any]]) -> float:
    place.fresh_bare_queue(_BARE)
    async with await psycopg.AsyncConnection.connect(place.url, autocommit=True) as connection:
        began = time.perf_counter()
        for each in messages[:SINGLES]:
            await (
                await connection.execute("select * from pgmq.send(%s, %s)", (_BARE, Jsonb(each)))
            ).fetchall()
        return SINGLES / (time.perf_counter() - began)


async def _our_async(place: Place, app: Redrive, messages: list[dict[str, Any]]) -> float:
    place.fresh_queue(_OURS)
    async with await psycopg.AsyncConnection.connect(place.url, autocommit=True) as connection:
        began = time.perf_counter()
        for each in messages[:SINGLES]:
            await app.send(_OURS, each, connection=connection)
        return SINGLES / (time.perf_counter() - began)


async def _our_pooled(place: Place, app: Redrive, messages: list[dict[str, Any]]) -> float:
    place.fresh_queue(_OURS)
    began = time.perf_counter()
    for each in messages[:SINGLES]:
        await app.send(_OURS, each)
    return SINGLES / (time.perf_counter() - began)
