"""Schedulers on a real database: one job a tick, whoever fires, by the database's clock."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from redrive import Redrive, Tick
from redrive.store import schedules
from redrive.store.database import Database
from redrive.watch.retention import NAME, Retention
from redrive.watch.scheduler import Scheduler
from tests.chaos.test_wrong_clocks import FAKETIME
from tests.support import contract
from tests.support.contract import Contract
from tests.support.working import count, make_queue, send, until, working

Db = psycopg.Connection[Any]
T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def still(database_url: str) -> Generator[Contract]:
    """The test's database with a clock that is moved, at noon."""
    contract.prepare(database_url)
    made = Contract(database_url)
    made.clock.set(T0)
    made.create("schedules")
    yield made
    made.close()


def declared(when: Any = 10, **more: Any) -> Redrive:
    app = Redrive("postgresql://nowhere/none")

    @app.schedule(when, **more)
    async def tidy(tick: Tick) -> None: ...

    return app


def ticks(sql: Contract) -> list[str]:
    return sql.column("select message ->> 'tick' from pgmq.q_schedules order by msg_id")


def outcomes(sql: Contract) -> list[str]:
    return sql.column("select outcome from redrive.schedule_tick order by tick")


@pytest.mark.parametrize(("missed", "sent"), [("skip", 0), ("one", 1), ("all", 5)])
async def test_a_scheduler_that_was_down_over_five_ticks(
    still: Contract, database: Database, missed: str, sent: int
) -> None:
    app = declared(60, missed=missed)
    await Scheduler(database, app.schedules).turn()
    still.clock.move(5 * 60 + 45)
    await Scheduler(database, app.schedules).turn()
    assert len(ticks(still)) == sent
    assert len(outcomes(still)) == 5
    assert sent == 0 or ticks(still)[-1] == "2026-03-01T12:05:00Z"


async def test_a_turn_says_when_to_look_again(still: Contract, database: Database) -> None:
    scheduler = Scheduler(database, declared(7).schedules)
    assert await scheduler.turn() == pytest.approx(0, abs=10)
    still.clock.move(3)
    assert await scheduler.turn() == pytest.approx(4, abs=0.5)  # aligned to 1970: 12:00:07
    still.clock.move(4)
    assert await scheduler.turn() == pytest.approx(7, abs=0.5)
    assert ticks(still) == ["2026-03-01T12:00:07Z"]
    # An hour away: others may change it meanwhile.
    assert await Scheduler(database, declared("0 13 * * *").schedules).turn() <= 10


async def test_daylight_saving_over_two_nights_of_berlin(still: Contract, database: Database) -> None:
    for start, expected in (
        (datetime(2026, 3, 28, 12, tzinfo=UTC), ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]),
        (datetime(2026, 10, 24, 12, tzinfo=UTC), ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]),
    ):
        still("truncate pgmq.q_schedules, redrive.schedule, redrive.schedule_tick")
        still.clock.set(start)
        scheduler = Scheduler(database, declared("30 2 * * *", tz="Europe/Berlin").schedules)
        await scheduler.turn()
        for _ in range(2 * 24 * 4):
            still.clock.move(900)
            await scheduler.turn()
        assert ticks(still) == expected


async def test_two_versions_of_an_app_fire_what_stands_in_the_database(
    still: Contract, database: Database
) -> None:
    old, new = Scheduler(database, declared(10).schedules), Scheduler(database, declared(15).schedules)
    await old.turn()
    still.clock.move(5)
    await new.turn()
    for _ in range(55):
        still.clock.move(1)
        await old.turn()
        await new.turn()
    assert [each[-4:] for each in ticks(still)] == [":15Z", ":30Z", ":45Z", ":00Z"]


async def test_an_old_versions_child_that_starts_again_is_outlived(
    still: Contract, database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.watch.scheduler._LONGEST_SLEEP", 0)
    new = Scheduler(database, declared(15).schedules)
    await new.turn()
    old = Scheduler(database, declared(10).schedules)
    with caplog.at_level(logging.INFO, "redrive.schedule"):
        for alive in (True, True, True, True, True, False, False, False, False):
            if alive:
                await old.turn()
            await new.turn()
            still.clock.move(10)
    [listed] = await database.run(schedules.listing())
    assert listed.every_sec == 15
    told = [each.getMessage() for each in caplog.records]
    assert [each.split()[:3] for each in told if "sent" not in each] == [
        ["schedule", "tidy", "is"],
        ["schedule", "tidy:", "another"],
        ["schedule", "tidy", "is"],
    ]


async def test_three_schedulers_of_sixty_seconds_and_one_tells_what_was_missed(
    still: Contract, database_url: str, database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    databases = [Database(database_url, size=1) for _ in range(2)]
    schedulers = [Scheduler(each, declared(1).schedules) for each in (database, *databases)]
    await asyncio.gather(*(each.turn() for each in schedulers))
    for _ in range(60):
        still.clock.move(1)
        await asyncio.gather(*(each.turn() for each in schedulers))
    assert ticks(still) == [f"2026-03-01T12:{n // 60:02}:{n % 60:02}Z" for n in range(1, 61)]
    caplog.clear()
    still.clock.move(5)
    await asyncio.gather(*(each.turn() for each in schedulers))
    for each in databases:
        await each.close()
    assert [each.getMessage().split(",")[0] for each in caplog.records if "missed" in each.getMessage()] == [
        "schedule tidy: 4 ticks were missed"
    ]


async def test_a_locked_queue_delays_its_own_schedule_alone(
    still: Contract, database_url: str, database: Database
) -> None:
    app = declared(10)
    still.create("busy")
    app.schedule(10, name="busy", queue="busy")(lambda: None)
    scheduler = Scheduler(database, app.schedules)
    await scheduler.turn()
    with psycopg.connect(database_url) as holder:
        holder.execute("lock table pgmq.q_busy in access exclusive mode")
        still.clock.move(10)
        assert await scheduler.turn() <= 1
        assert len(ticks(still)) == 1
        still.clock.move(10)
        began = asyncio.get_running_loop().time()
        await scheduler.turn()
        assert asyncio.get_running_loop().time() - began < 0.9  # it is let be for a second
        assert len(ticks(still)) == 2


async def test_one_schedule_that_cannot_be_sent_stops_no_other_and_says_so_once(
    still: Contract, database: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.watch.scheduler._PAUSES", (0.0,))
    app = declared(10)
    app.schedule(10, name="lost", queue="nowhere")(lambda: None)
    scheduler = Scheduler(database, app.schedules)
    with caplog.at_level(logging.INFO, "redrive.schedule"):
        await scheduler.turn()
        for _ in range(3):
            still.clock.move(10)
            await scheduler.turn()
        still.create("nowhere")
        still.clock.move(10)
        await scheduler.turn()
    assert len(ticks(still)) == 4
    told = [each.getMessage() for each in caplog.records if "lost" in each.getMessage()]
    assert told[1].startswith("schedule lost cannot be fired: queue nowhere does not exist")
    assert "3 ticks were missed" in told[2]
    assert told[3:] == ["schedule lost is fired again"]


async def test_a_tick_waits_for_the_end_of_the_one_before(still: Contract, database: Database) -> None:
    scheduler = Scheduler(database, declared(10, overlap="queue").schedules)
    await scheduler.turn()
    for _ in range(3):
        still.clock.move(10)
        assert await scheduler.turn() <= 1
    assert len(ticks(still)) == 1
    for tick in ("10", "20", "30"):
        [delivery] = still.claim(queue="schedules")
        assert delivery.message["tick"] == f"2026-03-01T12:00:{tick}Z"
        still.settle(contract.done(delivery), queue="schedules")
        await scheduler.turn()
    assert outcomes(still) == ["sent"] * 3


async def test_three_at_once_send_one_message_a_tick(db: Db, database_url: str) -> None:
    make_queue(db, "schedules")
    app = declared(1, missed="all")
    databases = [Database(database_url, size=1) for _ in range(3)]
    schedulers = [Scheduler(each, app.schedules) for each in databases]
    for each in schedulers:
        await each.start()
    await until(lambda: len(sent(db)) >= 4)
    for each in schedulers:
        await each.stop()
        await each.stop()
    for each in databases:
        await each.close()
    found = sent(db)
    assert len(set(found)) == len(found)
    assert [b - a for a, b in pairwise(found)] == [timedelta(seconds=1)] * (len(found) - 1)


def sent(db: Db) -> list[datetime]:
    rows = db.execute("select (message ->> 'tick')::timestamptz from pgmq.q_schedules order by 1")
    return [row[0] for row in rows]


_PROGRAM = """
import asyncio, sys
from redrive import Redrive
from redrive.store.database import Database
from redrive.watch.scheduler import Scheduler

app = Redrive("postgresql://nowhere/none")
app.schedule(1, name="tidy", missed="all")(lambda: None)

async def main():
    scheduler = Scheduler(Database(sys.argv[1], size=1), app.schedules)
    await scheduler.start()
    print("started", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(not FAKETIME, reason="libfaketime is missing: apt-get install libfaketime")
async def test_three_processes_with_wrong_clocks_fire_by_the_databases(db: Db, database_url: str) -> None:
    make_queue(db, "schedules")
    began = db.execute("select clock_timestamp()").fetchone()
    assert began is not None
    running: list[asyncio.subprocess.Process] = []
    try:
        for skew in ("+3600", "-3600", "+0"):
            environment = {
                **os.environ,
                "LD_PRELOAD": FAKETIME[0],
                "FAKETIME": skew,
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
            running.append(
                await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", _PROGRAM, database_url), env=environment, stdout=-1
                )
            )
        for each in running:
            assert each.stdout is not None and await each.stdout.readline() == b"started\n"
        await until(lambda: len(sent(db)) >= 2)
        running[2].kill()
        so_far = len(sent(db))
        await until(lambda: len(sent(db)) >= so_far + 2)
    finally:
        for each in running:
            if each.returncode is None:
                each.kill()
            await each.wait()
    found = sent(db)
    assert [b - a for a, b in pairwise(found)] == [timedelta(seconds=1)] * (len(found) - 1)
    assert timedelta(0) < found[0] - began[0] < timedelta(seconds=20)


async def test_a_worker_runs_the_function_of_each_tick(db: Db, database_url: str, database: Database) -> None:
    app = Redrive(database_url)
    seen: list[Tick] = []

    @app.schedule(3600)
    async def hourly(tick: Tick) -> None:
        seen.append(tick)

    @app.schedule(3600, payload={"of": "sales"})
    @app.job("reports")
    async def make(report: dict[str, str]) -> None:
        seen.append(report)  # type: ignore[arg-type]

    make_queue(db, "schedules")
    make_queue(db, "reports")
    await Scheduler(database, app.schedules).turn()
    async with working(app, database_url):
        await database.run(schedules.run("hourly"))
        await database.run(schedules.run("make"))
        await until(lambda: len(seen) == 2)
    assert {"of": "sales"} in seen
    [tick] = [each for each in seen if isinstance(each, Tick)]
    assert (tick.schedule, tick.at.tzinfo) == ("hourly", UTC)


async def test_a_function_that_fails_is_tried_again_and_its_error_names_no_frame_of_redrives(
    db: Db, database_url: str, database: Database
) -> None:
    app = Redrive(database_url)

    @app.schedule(3600, max_attempts=1)
    def hourly(tick: Tick) -> None:
        raise ValueError("not today")

    make_queue(db, "schedules")
    await Scheduler(database, app.schedules).turn()
    async with working(app, database_url):
        await database.run(schedules.run("hourly"))
        send(db, "schedules", {"schedule": "gone", "tick": "2026-03-28T02:00:00Z"})
        await until(lambda: count(db, "q_schedules_dlq") == 2)
    first, second = db.execute("select error_type, error, traceback from redrive.attempt order by msg_id")
    assert (first.error_type, first.error) == (
        "ValueError",
        "not today",
    ) and "src/redrive" not in first.traceback
    assert "schedule 'gone', which this app does not declare on queue schedules" in second.error


# --- retention ---


def archive(db: Db, rows: int, days: int) -> None:
    db.execute(
        "insert into pgmq.a_jobs (msg_id, read_ct, enqueued_at, vt, message, archived_at, outcome)"
        " select coalesce((select max(msg_id) from pgmq.a_jobs), 100000) + n, 1, now(), now(), '{}',"
        " clock_timestamp() - make_interval(days => %s), 'done' from generate_series(1, %s) n",
        (days, rows),
    )


def archived(db: Db) -> int:
    [row] = db.execute("select count(*) from pgmq.a_jobs")
    return row[0]


async def test_retention_is_done_by_one_of_many_and_is_a_schedule_like_any_other(
    db: Db, database_url: str, database: Database
) -> None:
    make_queue(db, "jobs")
    archive(db, 12_000, 31)
    archive(db, 10, 29)
    services = [Retention(Database(database_url, size=1), every=1) for _ in range(3)]
    for each in services:
        await each.start()
    await until(lambda: archived(db) == 10)
    for each in services:
        await each.stop()
        await each.stop()
    [listed] = [each for each in await database.run(schedules.listing()) if each.name == NAME]
    assert (listed.queue, listed.last_outcome) == (None, "sent")


async def test_a_retention_run_by_hand_is_done(db: Db, database: Database) -> None:
    make_queue(db, "jobs")
    retention = Retention(database, every=86400)
    await retention.turn()
    archive(db, 10, 31)
    await retention.turn()
    assert archived(db) == 10
    await database.run(schedules.run(NAME))
    await retention.turn()
    assert archived(db) == 0


async def test_a_paused_retention_deletes_nothing(db: Db, database: Database) -> None:
    make_queue(db, "jobs")
    archive(db, 10, 31)
    retention = Retention(database, every=1)
    await retention.turn()
    await database.run(schedules.pause(NAME))
    await retention.turn()
    assert archived(db) == 10


async def test_settles_go_on_while_an_archive_is_purged_and_killed_it_goes_on_where_it_was(
    db: Db, database_url: str, database: Database
) -> None:
    make_queue(db, "jobs")
    archive(db, 40_000, 31)
    archive(db, 500, 29)
    app = Redrive(database_url)

    @app.job("jobs")
    async def work() -> None: ...

    async with working(app, database_url, concurrency=20) as worker:
        for n in range(300):
            send(db, "jobs", {"n": n})
        async with asyncio.timeout(20):
            first = asyncio.create_task(Retention(database).run())
            await until(lambda: archived(db) < 38_000)
            first.cancel()  # as a kill: nothing is said, nothing is tidied up
            await asyncio.wait([first])
            left = archived(db)
            gone = await Retention(database).run()
            await until(lambda: worker.stats.done == 300)
    assert 0 < gone["archive"] <= left
    [row] = db.execute(
        "select count(*) filter (where archived_at < now() - interval '30 days') as old, count(*) as kept"
        " from pgmq.a_jobs"
    )
    assert (row.old, row.kept, count(db, "q_jobs")) == (0, 800, 0)


async def test_a_budget_that_is_spent_goes_on_after_a_breath(
    db: Db, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.watch.retention._BREATH", 0.01)
    make_queue(db, "jobs")
    archive(db, 11_000, 31)
    assert (await Retention(database, budget=0.02).run())["archive"] == 11_000


async def test_a_locked_table_is_told_once_and_keeps_nothing_else(
    db: Db,
    database_url: str,
    database: Database,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_queue(db, "jobs")
    make_queue(db, "other")
    archive(db, 10, 31)
    db.execute("insert into redrive.fetched values ('s', 'r', now() - interval '91 days')")
    with psycopg.connect(database_url) as holder:
        holder.execute("lock table pgmq.a_jobs in row exclusive mode")
        holder.execute("lock table pgmq.a_jobs in access exclusive mode")
        retention = Retention(database)
        with caplog.at_level(logging.WARNING, "redrive.retention"):
            gone = await retention.run()
            monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + 61)
            await retention.turn()
    assert gone == {"fetched": 1}
    [told] = [each.getMessage() for each in caplog.records]
    assert "a_jobs is locked by somebody else" in told
    assert archived(db) == 10
    monkeypatch.undo()
    monkeypatch.setattr(time, "monotonic", lambda now=time.monotonic: now() + 200)
    await retention.turn()  # before its next tick
    assert archived(db) == 0
