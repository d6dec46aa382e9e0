"""What a worker holds it keeps alive, and what it has lost it lets go."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, LiteralString

import psycopg
import pytest

from redrive import Backoff, Job, Lost, Redrive, Reject, SyncJob
from tests.support.working import count, fetch, make_queue, send, until, working

Db = psycopg.Connection[Any]
QUICK = Backoff(base=0.02, factor=1, jitter=0)


def done(db: Db) -> int:
    return count(db, "a_mail", "outcome = 'done'")


def steal(db: Db, msg_id: int) -> Any:
    """Another worker claims the message, as if its visibility timeout had passed."""
    # In one transaction: the worker under test must not be the one that claims it.
    with db.transaction():
        db.execute("update pgmq.q_mail set vt = clock_timestamp() where msg_id = %s", (msg_id,))
        [row] = fetch(db, "select * from redrive.claim('mail', 60, 1, 'other')")
    assert row.msg_id == msg_id
    return row


async def test_a_job_three_times_longer_than_its_visibility_timeout_runs_once(
    db: Db, database_url: str
) -> None:
    make_queue(db, "mail")
    app = Redrive()
    starts: list[int] = []

    @app.job("mail", visibility_timeout=1)
    async def handle(payload: Any, job: Job) -> None:
        starts.append(job.read_ct)
        await asyncio.sleep(3)

    async with working(app, database_url), working(app, database_url):
        send(db, "mail", {})
        await until(lambda: done(db) == 1)
    assert starts == [1]


async def test_a_handler_that_blocks_the_loop_is_kept_alive_with_those_behind_it(
    db: Db, database_url: str
) -> None:
    make_queue(db, "mail")
    app = Redrive()
    starts: list[int] = []

    @app.job("mail", visibility_timeout=1)
    async def handle(payload: Any, job: Job) -> None:
        starts.append(job.msg_id)
        if payload == "block":
            time.sleep(3)

    first = send(db, "mail", "block")
    behind = [send(db, "mail", n) for n in range(5)]
    async with working(app, database_url):
        await until(lambda: done(db) == 6)
    assert sorted(starts) == [first, *behind]
    assert count(db, "a_mail", "read_ct > 1") == 0


async def test_a_young_message_costs_no_beat(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail", visibility_timeout=30)
    async def handle(payload: Any) -> None:
        await asyncio.sleep(0.5)

    async with working(app, database_url) as worker:
        send(db, "mail", {})
        await until(lambda: done(db) == 1)
        assert worker.stats.beats == 0


async def test_the_heartbeat_never_shortens_what_extend_bought(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()
    extended = asyncio.Event()
    left: list[float] = []

    @app.job("mail", visibility_timeout=1)
    async def handle(payload: Any, job: Job) -> None:
        await job.extend(100)
        extended.set()
        await asyncio.sleep(1.5)
        [row] = fetch(db, "select extract(epoch from vt - clock_timestamp())::float from pgmq.q_mail")
        left.append(row[0])

    async with working(app, database_url) as worker:
        send(db, "mail", {})
        await until(lambda: done(db) == 1)
        assert worker.stats.beats > 0
    assert left[0] > 95


async def test_a_beat_ends_by_itself_when_timeout_and_grace_are_over(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.worker.held.GRACE", 0.5)
    make_queue(db, "mail")
    app = Redrive()
    vts: list[float] = []

    @app.job("mail", visibility_timeout=1, timeout=0.5)
    async def handle(payload: Any, job: Job) -> None:
        if job.read_ct == 1:
            # Even the worker's own loop is stuck: only the beat's own limit can end it.
            time.sleep(3.5)
            [row] = fetch(db, "select extract(epoch from vt - clock_timestamp())::float from pgmq.q_mail")
            vts.append(row[0])

    async with working(app, database_url):
        send(db, "mail", {})
        await until(lambda: len(vts) == 1)
    assert vts[0] < 0


class TestAMessageClaimedByAnother:
    async def test_has_its_handler_cancelled_its_outcome_dropped_and_is_told(
        self, db: Db, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_queue(db, "mail")
        app = Redrive()
        started, cancelled = asyncio.Event(), asyncio.Event()

        @app.job("mail", visibility_timeout=1)
        async def handle(payload: Any) -> None:
            started.set()
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                cancelled.set()
                raise

        with caplog.at_level(logging.INFO, "redrive.worker"):
            async with working(app, database_url) as worker:
                msg_id = send(db, "mail", {})
                await asyncio.wait_for(started.wait(), 10)
                other = steal(db, msg_id)
                await asyncio.wait_for(cancelled.wait(), 10)
                await until(lambda: worker.runner.running == 0)
                assert worker.stats.lost == 1
                [now] = fetch(db, "select vt, read_ct from pgmq.q_mail")
                assert (now.vt, now.read_ct) == (other.vt, other.read_ct)
        [told] = [r.__dict__ for r in caplog.records if r.__dict__.get("event") == "job_lost"]
        assert told["msg_id"] == msg_id

    async def test_is_not_disturbed_by_the_first_ones_failure(
        self, db: Db, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_queue(db, "mail")
        app = Redrive()
        started, go = asyncio.Event(), asyncio.Event()

        @app.job("mail", visibility_timeout=60)
        async def handle(payload: Any) -> None:
            started.set()
            await go.wait()
            raise ValueError("too late to matter")

        with caplog.at_level(logging.INFO, "redrive.worker"):
            async with working(app, database_url) as worker:
                msg_id = send(db, "mail", {})
                await asyncio.wait_for(started.wait(), 10)
                other = steal(db, msg_id)
                go.set()
                await until(lambda: worker.stats.lost == 1)
                [now] = fetch(db, "select vt, read_ct from pgmq.q_mail")
                assert (now.vt, now.read_ct) == (other.vt, other.read_ct)
        assert fetch(db, "select * from redrive.attempt where error_type = 'ValueError'") == []
        assert "job_lost" in [r.__dict__.get("event") for r in caplog.records]

    async def test_is_done_when_the_first_one_is_and_the_others_done_is_lost(
        self, db: Db, database_url: str
    ) -> None:
        make_queue(db, "mail")
        app = Redrive()
        started, go = asyncio.Event(), asyncio.Event()

        @app.job("mail", visibility_timeout=60)
        async def handle(payload: Any) -> None:
            started.set()
            await go.wait()

        async with working(app, database_url) as worker:
            msg_id = send(db, "mail", {})
            await asyncio.wait_for(started.wait(), 10)
            other = steal(db, msg_id)
            go.set()
            await until(lambda: worker.stats.late == 1)
        [verdict] = fetch(
            db,
            "select verdict from redrive.settle('mail', array[%s::bigint], array[%s::integer], '{done}')",
            msg_id,
            other.read_ct,
        )
        assert verdict[0] == "lost"
        assert count(db, "a_mail") == 1 and count(db, "q_mail") == 0

    async def test_cannot_be_extended_any_more(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app = Redrive()
        refused: list[str] = []

        @app.job("mail")
        async def handle(payload: Any, job: Job) -> None:
            if job.read_ct == 1:
                steal(db, job.msg_id)
                try:
                    await job.extend(60)
                except Lost as error:
                    refused.append(str(error))

        async with working(app, database_url):
            send(db, "mail", {})
            await until(lambda: len(refused) == 1)
        assert "no longer this delivery's" in refused[0]


class TestADefHandler:
    async def test_can_extend_and_complete_without_await(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        db.execute("create table effects (name text)")
        app = Redrive()

        @app.job("mail", visibility_timeout=1)
        def handle(payload: str, job: SyncJob) -> None:
            job.extend(30)
            with job.transaction() as connection:
                connection.execute("insert into effects values (%s)", (payload,))
            raise ValueError("only logged: it is done")

        async with working(app, database_url) as worker:
            send(db, "mail", "once")
            await until(lambda: done(db) == 1)
            await until(lambda: worker.runner.running == 0)
        assert fetch(db, "select name from effects") == [("once",)]
        assert fetch(db, "select * from redrive.attempt") == []

    async def test_learns_that_its_message_was_lost(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app = Redrive()
        started, heard = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        @app.job("mail", visibility_timeout=1)
        def handle(payload: Any, job: SyncJob) -> None:
            if job.read_ct == 1:
                loop.call_soon_threadsafe(started.set)
                if job.cancelled.wait(20):
                    loop.call_soon_threadsafe(heard.set)

        async with working(app, database_url) as worker:
            msg_id = send(db, "mail", {})
            await asyncio.wait_for(started.wait(), 10)
            steal(db, msg_id)
            await asyncio.wait_for(heard.wait(), 10)
            await until(lambda: worker.runner.running == 0)
            assert worker.stats.lost == 1


class TestAJobsOwnTransaction:
    @pytest.fixture(autouse=True)
    def effects(self, db: Db) -> None:
        make_queue(db, "mail")
        db.execute("create table effects (name text)")

    async def test_commits_effect_and_completion_together(self, db: Db, database_url: str) -> None:
        app = Redrive()

        @app.job("mail")
        async def handle(payload: str, job: Job) -> None:
            async with job.transaction() as connection:
                await connection.execute("insert into effects values (%s)", (payload,))

        async with working(app, database_url) as worker:
            send(db, "mail", "once")
            await until(lambda: done(db) == 1)
            await until(lambda: worker.runner.running == 0)
            assert (worker.stats.lost, worker.stats.retried) == (0, 0)
        assert fetch(db, "select name from effects") == [("once",)]

    async def test_leaves_nothing_when_it_fails(self, db: Db, database_url: str) -> None:
        app = Redrive()

        @app.job("mail", max_attempts=2, backoff=QUICK)
        async def handle(payload: str, job: Job) -> None:
            async with job.transaction() as connection:
                await connection.execute("insert into effects values (%s)", (payload,))
                raise ValueError("after all")

        async with working(app, database_url):
            send(db, "mail", "never")
            await until(lambda: count(db, "q_mail_dlq") == 1)
        assert fetch(db, "select name from effects") == []

    async def test_says_so_when_the_outcome_it_returned_came_too_late(
        self, db: Db, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        app = Redrive()

        @app.job("mail")
        async def handle(payload: str, job: Job) -> Reject:
            async with job.transaction():
                return Reject("blocked")

        async with working(app, database_url) as worker:
            send(db, "mail", "once")
            await until(lambda: worker.stats.done == 1)
        [told] = [r for r in caplog.records if r.__dict__.get("event") == "job_returned_late"]
        assert told.levelno == logging.ERROR
        assert "returned Reject(reason='blocked') after its transaction had completed it" in told.getMessage()
        assert done(db) == 1

    @pytest.mark.parametrize("ended_by", ["rollback", "commit"])
    @pytest.mark.parametrize("kind", ["async def", "def"])
    async def test_fails_when_the_handler_ended_the_transaction_itself(
        self, db: Db, database_url: str, kind: str, ended_by: LiteralString
    ) -> None:
        app = Redrive()

        async def handle(payload: str, job: Job) -> None:
            async with job.transaction() as connection:
                await connection.execute(ended_by)

        def handle_blocking(payload: str, job: SyncJob) -> None:
            with job.transaction() as connection:
                connection.execute(ended_by)

        app.job("mail", max_attempts=1)(handle if kind == "async def" else handle_blocking)
        async with working(app, database_url):
            send(db, "mail", "never")
            await until(lambda: count(db, "q_mail_dlq") == 1)
        [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
        assert dead.reason == "failed"
        assert "was ended inside its transaction() block" in dead.error
        assert done(db) == 0

    async def test_leaves_nothing_when_the_message_was_lost(self, db: Db, database_url: str) -> None:
        app = Redrive()
        outcome: list[str] = []

        @app.job("mail")
        async def handle(payload: str, job: Job) -> None:
            try:
                async with job.transaction() as connection:
                    await connection.execute("insert into effects values (%s)", (payload,))
                    other = steal(db, job.msg_id)
                    db.execute(
                        "select redrive.settle('mail', array[%s::bigint], array[%s], '{done}')",
                        (job.msg_id, other.read_ct),
                    )
            except Lost:
                outcome.append("lost")
                raise

        async with working(app, database_url):
            send(db, "mail", "never")
            await until(lambda: outcome == ["lost"])
        assert fetch(db, "select name from effects") == []
        assert count(db, "a_mail") == 1

    async def test_is_no_loss_to_the_heartbeat_however_long_it_goes_on_afterwards(
        self, db: Db, database_url: str
    ) -> None:
        app = Redrive()

        @app.job("mail", visibility_timeout=1)
        async def handle(payload: str, job: Job) -> None:
            async with job.transaction() as connection:
                await connection.execute("insert into effects values (%s)", (payload,))
            await asyncio.sleep(1.5)

        async with working(app, database_url) as worker:
            send(db, "mail", "once")
            await until(lambda: done(db) == 1)
            await until(lambda: worker.runner.running == 0)
            assert worker.stats.lost == 0

    async def test_delays_no_beat_of_others_however_long_it_is_open(self, db: Db, database_url: str) -> None:
        app = Redrive()
        starts: list[str] = []

        @app.job("mail", visibility_timeout=1)
        async def handle(payload: str, job: Job) -> None:
            starts.append(payload)
            if payload == "long":
                async with job.transaction() as connection:
                    await connection.execute(
                        "update pgmq.q_mail set message = message where msg_id = %s", (job.msg_id,)
                    )
                    await asyncio.sleep(3)
            else:
                await asyncio.sleep(2.5)

        async with working(app, database_url):
            for name in ("long", "a", "b"):
                send(db, "mail", name)
            await until(lambda: done(db) == 3)
        assert sorted(starts) == ["a", "b", "long"]


async def test_a_report_whose_row_somebody_holds_is_sent_again_until_it_is_taken(
    db: Db, database_url: str
) -> None:
    make_queue(db, "mail")
    app = Redrive()
    started, go = asyncio.Event(), asyncio.Event()

    @app.job("mail")
    async def handle(payload: Any) -> None:
        started.set()
        await go.wait()

    async with working(app, database_url) as worker:
        msg_id = send(db, "mail", {})
        await asyncio.wait_for(started.wait(), 10)
        with psycopg.connect(database_url) as holder:
            holder.execute("select from pgmq.q_mail where msg_id = %s for update", (msg_id,))
            go.set()
            await until(lambda: worker.stats.locked >= 3)
            assert done(db) == 0
        await until(lambda: done(db) == 1)
