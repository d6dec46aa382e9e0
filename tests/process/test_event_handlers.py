"""Events and their handlers in a real worker: which one runs, what it is given, and how its end is told."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from redrive import Backoff, Event, Job, Redrive, Reject, Retry, Snooze, SyncJob
from redrive.worker.worker import Worker
from tests.support import inbox_app
from tests.support.working import (
    Journal,
    WorkerProcess,
    count,
    make_queue,
    send,
    until,
    until_blocking,
    working,
)

Db = psycopg.Connection[Any]
QUICK = Backoff(base=0.05, factor=1, jitter=0)


@pytest.fixture
async def app(database_url: str, db: Db) -> AsyncGenerator[Redrive]:
    make_queue(db, "hooks")
    made = Redrive(database_url)
    made.inbox("github", provider="github", secret="x", queue="hooks", max_attempts=3, backoff=QUICK)
    yield made
    await made.close()


def arrive(
    db: Db, type: str, payload: Any = None, *, source: str = "github", id: str = "1", raw: bytes | None = None
) -> str:
    """An event as a receiver records it; its id. `raw`: a body that is no JSON."""
    text = None if raw is not None else json.dumps(payload if payload is not None else {})
    row = db.execute(
        "select id::text from redrive.receive_event(%s, %s, %s, %s::jsonb, %s, %s::jsonb, 'hooks', "
        "'acme/shop')",
        (source, id, type, text, raw or (text or "").encode(), '{"x-github-event": "push"}'),
    ).fetchone()
    assert row is not None
    return row.id


def record(db: Db, id: str) -> Any:
    return db.execute("select * from redrive.webhook_event where id = %s::uuid", (id,)).fetchone()


async def ended(db: Db, id: str, status: str) -> Any:
    await until(lambda: record(db, id).status == status)
    return record(db, id)


class TestAHandler:
    async def test_is_given_the_event_as_it_was_recorded(
        self, app: Redrive, db: Db, database_url: str
    ) -> None:
        seen: list[tuple[Event, Job]] = []

        @app.on("github", "pull_request.opened")
        async def opened(event: Event, job: Job) -> None:
            seen.append((event, job))

        id = arrive(db, "pull_request", {"action": "opened", "number": 7})
        async with working(app, database_url):
            row = await ended(db, id, "processed")
        [(event, job)] = seen
        assert (event.id, event.source, event.event_id, event.type) == (id, "github", "1", "pull_request")
        assert (event.action, event.name) == ("opened", "pull_request.opened")
        assert (event.payload, event.raw) == (
            {"action": "opened", "number": 7},
            b'{"action": "opened", "number": 7}',
        )
        assert (event.resource, event.origin, event.generation, event.attempts) == (
            "acme/shop",
            "webhook",
            0,
            0,
        )
        assert event.headers == {"x-github-event": "push"} and event.received_at == row.received_at
        assert (job.event, job.key, job.queue) == (id, None, "hooks") and job.headers == {}

    async def test_reads_raw_what_is_no_json(self, app: Redrive, db: Db, database_url: str) -> None:
        seen: list[Event] = []

        @app.on("github", "*")
        async def anything(event: Event) -> None:
            seen.append(event)

        id = arrive(db, "push", raw=b"\xff\x00")
        async with working(app, database_url):
            await ended(db, id, "processed")
        assert (seen[0].payload, seen[0].raw, seen[0].event_id) == (None, b"\xff\x00", "1")

    async def test_may_be_a_function_in_a_thread_and_complete_its_job_itself(
        self, app: Redrive, db: Db, database_url: str
    ) -> None:
        db.execute("create table effect (name text)")
        threads: list[str] = []

        @app.on("github", "push")
        def pushed(event: Event, job: SyncJob) -> None:
            threads.append(threading.current_thread().name)
            with job.transaction() as connection:
                connection.execute("insert into effect values (%s)", (event.event_id,))

        id = arrive(db, "push")
        async with working(app, database_url) as worker:
            await ended(db, id, "processed")
            await until(lambda: worker.stats.done == 1)
            assert worker.stats.lost == worker.stats.retried == 0
        assert threads == ["redrive-handler"]
        assert [row.name for row in db.execute("select name from effect").fetchall()] == ["1"]

    async def test_and_its_job_log_with_the_id_of_the_event(
        self, app: Redrive, db: Db, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        @app.on("github", "push")
        async def pushed(event: Event, job: Job) -> None:
            job.logger.info("told by the handler")
            raise Reject("no such shop")

        with caplog.at_level(logging.INFO, "redrive"):
            id = arrive(db, "push")
            async with working(app, database_url):
                await ended(db, id, "failed")
        told = {r.message: r.__dict__.get("webhook") for r in caplog.records if "msg_id" in r.__dict__}
        assert told["told by the handler"] == id and told["reject: no such shop"] == id

    @pytest.mark.parametrize("blocking", [False, True])
    async def test_that_fails_is_tried_again_and_its_error_stands_on_the_event_meanwhile(
        self, blocking: bool, app: Redrive, db: Db, database_url: str
    ) -> None:
        attempts: list[int] = []
        again = threading.Event()

        def fail(event: Event) -> None:
            attempts.append(event.attempts)
            if len(attempts) == 1:
                raise ValueError("not yet")
            again.wait(10)

        async def fail_too(event: Event) -> None:
            await asyncio.to_thread(fail, event)

        app.on("github", "push")(fail if blocking else fail_too)
        id = arrive(db, "push")
        async with working(app, database_url):
            await until(lambda: len(attempts) == 2)
            row = record(db, id)
            assert (row.status, row.attempts) == ("received", 1) and "not yet" in row.last_error
            again.set()
            row = await ended(db, id, "processed")
            assert (row.last_error, row.attempts) == (None, 2)
        assert attempts == [0, 1]
        failure = db.execute("select traceback from redrive.attempt").fetchone()
        assert (
            failure is not None and "redrive/inbox" not in failure.traceback and "fail" in failure.traceback
        )

    async def test_ends_as_it_says(self, app: Redrive, db: Db, database_url: str) -> None:
        said: dict[str, object] = {
            "reject": Reject("no such invoice"),
            "retry": Retry(0, "busy"),
            "snooze": Snooze(3600),
            "odd": 5,
        }

        @app.on("github", "*")
        async def as_said(event: Event) -> object:
            return said[event.type]

        ids = {type: arrive(db, type, id=type) for type in said}
        async with working(app, database_url) as worker:
            for type in ("reject", "retry", "odd"):
                assert (await ended(db, ids[type], "failed")).last_error
            assert "no such invoice" in record(db, ids["reject"]).last_error
            assert record(db, ids["snooze"]).status == "received"
            # The worker counts after its commit, which is what was waited for.
            stats = worker.stats
            await until(lambda: (stats.rejected, stats.snoozed, stats.dead) == (1, 1, 3))
        assert count(db, "q_hooks_dlq") == 3

    async def test_nobody_has_for_this_event_leaves_it_ignored(
        self, app: Redrive, db: Db, database_url: str
    ) -> None:
        @app.on("github", "push")
        async def pushed(event: Event) -> None: ...

        id = arrive(db, "star")
        async with working(app, database_url) as worker:
            row = await ended(db, id, "ignored")
            await until(lambda: worker.stats.ignored == 1)
        assert row.last_error is None and count(db, "q_hooks_dlq") == 0
        archived = db.execute("select outcome from pgmq.a_hooks").fetchone()
        assert archived is not None and archived.outcome == "ignored"

    async def test_sees_what_an_operator_patched(self, app: Redrive, db: Db, database_url: str) -> None:
        seen: list[Any] = []

        @app.on("github", "push")
        async def pushed(event: Event) -> object:
            seen.append((event.payload, event.generation))
            return None if event.payload["ok"] else Reject("broken")

        id = arrive(db, "push", {"ok": False, "n": 1})
        async with working(app, database_url):
            await ended(db, id, "failed")
            dead = db.execute(
                "select * from redrive.redrive('hooks', p_patch => '{\"ok\": true}')"
            ).fetchall()
            assert len(dead) == 1
            await ended(db, id, "processed")
        assert seen == [({"ok": False, "n": 1}, 0), ({"ok": True, "n": 1}, 1)]
        assert record(db, id).payload == {"ok": False, "n": 1}


class TestCalledOff:
    """A function in a thread is told through its job, and is waited for."""

    async def test_one_that_heeds_a_timeout_has_failed(self, app: Redrive, db: Db, database_url: str) -> None:
        app.inbox("slow", provider="github", secret="x", queue="hooks", timeout=0.2)
        heeded: list[bool] = []

        @app.on("github", "push")
        def pushed(event: Event, job: SyncJob) -> None:
            heeded.append(job.cancelled.wait(10))

        id = arrive(db, "push")
        async with working(app, database_url) as worker:
            row = await ended(db, id, "failed")
            assert worker.stats.stuck == 0
        assert heeded == [True] * 3 and "did not finish within its timeout of 0.2 s" in row.last_error

    async def test_one_that_finishes_without_looking_is_done(
        self, app: Redrive, db: Db, database_url: str
    ) -> None:
        app.inbox("slow", provider="github", secret="x", queue="hooks", timeout=0.2)
        late = threading.Event()

        @app.on("github", "push")
        def pushed(event: Event) -> None:
            late.wait(10)

        id = arrive(db, "push")
        async with working(app, database_url) as worker:
            await until(lambda: worker.stats.timeouts == 1)
            late.set()
            await ended(db, id, "processed")
            assert worker.stats.retried == 0

    async def test_one_that_a_drain_stops_is_given_back_without_charge(
        self, app: Redrive, db: Db, database_url: str
    ) -> None:
        began = threading.Event()

        @app.on("github", "push")
        def pushed(event: Event, job: SyncJob) -> None:
            began.set()
            job.cancelled.wait(10)

        id = arrive(db, "push")
        async with working(app, database_url, drain_timeout=0.1):
            await until(began.is_set)
        assert record(db, id).status == "received" and record(db, id).attempts == 0
        row = db.execute("select attempt from redrive.claim('hooks', 60, 1, 'w')").fetchone()
        assert row is not None and row.attempt == 1

    async def test_one_that_never_ends_is_given_up(self, app: Redrive, db: Db, database_url: str) -> None:
        from redrive.worker import held

        app.inbox("slow", provider="github", secret="x", queue="hooks", timeout=0.2)
        never = threading.Event()

        @app.on("github", "push")
        def pushed(event: Event) -> None:
            never.wait(30)

        id = arrive(db, "push")
        before, held.GRACE = held.GRACE, 0.2
        try:
            async with working(app, database_url) as worker:
                await until(lambda: worker.stats.stuck == 1)
                await until(lambda: record(db, id).attempts == 1)
        finally:
            held.GRACE = before
            never.set()
        assert "its process is replaced" in record(db, id).last_error


class TestOddMessages:
    async def test_one_sent_by_hand_is_the_payload_of_the_only_inbox(
        self, app: Redrive, db: Db, database_url: str
    ) -> None:
        seen: list[Event] = []

        @app.on("github", "*")
        async def anything(event: Event) -> None:
            seen.append(event)

        send(db, "hooks", {"action": "opened", "repository": {"full_name": "acme/shop"}})
        async with working(app, database_url) as worker:
            await until(lambda: worker.stats.done == 1)
        [event] = seen
        assert (event.id, event.type, event.action, event.resource) == (
            None,
            "unknown",
            "opened",
            "acme/shop",
        )

    @pytest.mark.parametrize(
        ("prepare", "why"),
        [
            ("two inboxes", "inboxes github, stripe: nobody can tell of which it is"),
            ("no record", "no record (any more)"),
            ("another source", "source 'paddle', and this app's inboxes on queue hooks are: github"),
        ],
    )
    async def test_one_that_is_nobody_s_is_rejected_with_a_clear_reason(
        self, prepare: str, why: str, app: Redrive, db: Db, database_url: str
    ) -> None:
        @app.on("github", "*")
        async def anything(event: Event) -> None: ...

        if prepare == "two inboxes":
            app.inbox("stripe", provider="stripe", secret="x", queue="hooks")
            send(db, "hooks", {"id": "evt_1"})
        else:
            arrive(db, "push", source="paddle" if prepare == "another source" else "github")
        if prepare == "no record":
            db.execute("delete from redrive.webhook_event")
        async with working(app, database_url) as worker:
            await until(lambda: worker.stats.dead == 1)
        dead = db.execute("select reason, error from redrive.dead_letters('hooks')").fetchone()
        assert dead is not None and dead.reason == "rejected" and why in dead.error


async def test_many_threads_at_once_do_not_wait_for_each_other(
    app: Redrive, db: Db, database_url: str
) -> None:
    together = threading.Barrier(12, timeout=10)

    @app.on("github", "push")
    def pushed(event: Event) -> None:
        together.wait()

    for n in range(12):
        arrive(db, "push", id=str(n))
    worker: Worker
    async with working(app, database_url, concurrency=12) as worker:
        await until(lambda: worker.stats.done == 12)


def test_one_whose_handler_kills_its_process_ends_as_failed_and_spares_its_neighbours(
    db: Db, database_url: str, tmp_path: Path
) -> None:
    inbox_app.furnish(db)
    killer = arrive(db, "push", {"exit": 3}, id="killer")
    others = [arrive(db, "push", {"effect": str(n)}, id=str(n)) for n in range(3)]
    with WorkerProcess(database_url, Journal(tmp_path / "journal").path, app="tests.support.inbox_app:app"):
        until_blocking(lambda: record(db, killer).status == "failed", 60)
        until_blocking(lambda: {record(db, each).status for each in others} == {"processed"})
    assert "exit code 3" in record(db, killer).last_error
    assert len(db.execute("select from effect").fetchall()) == 3
