"""What a worker makes of each way a handler can end."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Literal
from uuid import uuid4

import psycopg
import pytest
from pydantic import BaseModel

from redrive import Backoff, Job, Redrive, Reject, Retry, Snooze, SyncJob
from redrive.worker.engine import PostgresEngine
from redrive.worker.held import Held
from redrive.worker.lane import Lane
from redrive.worker.outcome import Decision
from redrive.worker.protocol import Want
from redrive.worker.runner import tell
from tests.support.working import count, fetch, make_queue, send, until, working

Db = psycopg.Connection[Any]
QUICK = Backoff(base=0.02, factor=1, jitter=0)


def done(db: Db) -> int:
    return count(db, "a_mail", "outcome = 'done'")


class Email(BaseModel):
    template: Literal["welcome", "digest"]


async def test_a_job_that_returns_is_archived_with_its_duration(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail")
    async def handle(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0.05)

    async with working(app, database_url):
        msg_id = send(db, "mail", {"a": 1})
        await until(lambda: done(db) == 1)
    [row] = fetch(db, "select redrive.message('mail', %s)", msg_id)
    assert row[0]["message"] == {"a": 1}
    assert row[0]["outcome"] == "done"
    assert float(row[0]["duration"]) >= 0.05


async def test_a_poison_message_starts_exactly_max_attempts_times(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()
    starts: list[int] = []

    @app.job("mail", max_attempts=5, backoff=QUICK)
    async def handle(payload: Any, job: Job) -> None:
        starts.append(job.attempt)
        raise ValueError(f"template missing, attempt {job.attempt}")

    async with working(app, database_url) as worker:
        send(db, "mail", {"template": None})
        await until(lambda: worker.stats.dead == 1)
    assert starts == [1, 2, 3, 4, 5]
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert (dead.attempts, dead.reason) == (5, "failed")
    assert [f["error"] for f in dead.failures] == [f"template missing, attempt {n}" for n in range(1, 6)]
    assert count(db, "q_mail") == 0 and done(db) == 0


async def test_a_payload_that_does_not_fit_is_dead_at_once_without_a_start(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()
    starts: list[Email] = []

    @app.job("mail")
    async def handle(email: Email) -> None:
        starts.append(email)

    async with working(app, database_url):
        send(db, "mail", {"template": "s3cret"})
        await until(lambda: count(db, "q_mail_dlq") == 1)
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert (dead.reason, dead.attempts, starts) == ("malformed", 1, [])
    assert "template" in dead.error and "s3cret" not in dead.error


@pytest.mark.parametrize("raising", [True, False])
async def test_retry_snooze_and_reject_count_returned_and_raised(
    db: Db, database_url: str, raising: bool
) -> None:
    make_queue(db, "mail")
    app = Redrive()
    attempts: dict[str, list[int]] = {"retry": [], "snooze": [], "reject": []}

    @app.job("mail", backoff=QUICK)
    async def handle(payload: str, job: Job) -> object:
        seen = attempts[payload]
        seen.append(job.attempt)
        if len(seen) == 3:
            return None
        answer = {"retry": Retry(0.01), "snooze": Snooze(0.01), "reject": Reject("never")}[payload]
        if raising:
            raise answer
        return answer

    async with working(app, database_url):
        for payload in attempts:
            send(db, "mail", payload)
        await until(lambda: done(db) == 2 and count(db, "q_mail_dlq") == 1)
    # A snooze costs no attempt; a reject is the end.
    assert attempts == {"retry": [1, 2, 3], "snooze": [1, 1, 1], "reject": [1]}
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert (dead.reason, dead.error) == ("rejected", "Reject: never")


async def test_an_unknown_outcome_is_an_error_and_no_success(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail", max_attempts=1)
    async def handle(payload: Any) -> object:
        return "done!"

    async with working(app, database_url):
        send(db, "mail", {})
        await until(lambda: count(db, "q_mail_dlq") == 1)
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert "returned a str" in dead.error and "done!" not in dead.error


async def test_an_error_that_postgres_could_not_store_is_stored_all_the_same(
    db: Db, database_url: str
) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail", max_attempts=1)
    async def handle(payload: Any) -> None:
        raise ValueError("nul \x00, surrogate \ud800, " + "x" * 100_000)

    async with working(app, database_url) as worker:
        send(db, "mail", {})
        await until(lambda: count(db, "q_mail_dlq") == 1)
        assert worker.stats.dropped == 0
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert dead.error.startswith("ValueError: nul ␀, surrogate ?") and len(dead.error) < 2100


async def test_a_handler_past_its_timeout_is_cancelled_and_charged(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()
    cancelled: list[bool] = []

    @app.job("mail", max_attempts=2, timeout=0.2, backoff=QUICK)
    async def handle(payload: Any, job: Job) -> None:
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.append(bool(job.cancelled))

    async with working(app, database_url) as worker:
        send(db, "mail", {})
        await until(lambda: count(db, "q_mail_dlq") == 1)
        assert worker.stats.timeouts == 2
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert cancelled == [True, True]
    assert "timeout of 0.2 s" in dead.error


async def test_a_handler_that_answers_its_timeout_with_snooze_is_charged_all_the_same(
    db: Db, database_url: str
) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail", max_attempts=2, timeout=0.1, backoff=QUICK)
    async def handle(payload: Any) -> Snooze | None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return Snooze(0.01)

    async with working(app, database_url):
        send(db, "mail", {})
        await until(lambda: count(db, "q_mail_dlq") == 1)
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert (dead.reason, dead.attempts) == ("failed", 2)
    assert dead.error.startswith("Timeout: ") and "Snooze" in dead.error


async def test_a_handler_that_raises_generator_exit_has_failed_and_frees_its_slot(
    db: Db, database_url: str
) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail", max_attempts=2, backoff=QUICK)
    async def handle(payload: Any) -> None:
        raise GeneratorExit

    async with working(app, database_url) as worker:
        send(db, "mail", {})
        await until(lambda: count(db, "q_mail_dlq") == 1)
        assert worker.runner.running == 0
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert (dead.reason, dead.attempts) == ("failed", 2)
    assert dead.error.startswith("GeneratorExit")


async def test_a_job_done_in_a_process_of_its_own_is_not_said_to_have_been_called_off(
    db: Db, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_queue(db, "mail")
    send(db, "mail", {})
    engine = PostgresEngine(database_url, "test")
    [delivery] = (await engine.turn({}, {}, [Want("mail", 60, 1)])).claimed["mail"]
    await engine.close()
    held = Held(delivery, Lane("mail", 5.0), 0.0)
    with caplog.at_level(logging.INFO, "redrive.worker"):
        tell(held, Decision("done"), 0.1)
        held.called_off = "drain"
        tell(held, Decision("done"), 0.1)
    assert [r.getMessage() for r in caplog.records] == [
        "done, in a process of its own",
        "done, although it was called off",
    ]


async def test_a_def_handler_runs_in_a_thread_and_learns_of_its_timeout(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()
    ends: list[bool] = []

    @app.job("mail", max_attempts=1, timeout=0.2)
    def handle(payload: Any, job: SyncJob) -> None:
        # Returns like one that has finished; having been told to stop, it does not count as such.
        ends.append(job.cancelled.wait(10))

    async with working(app, database_url):
        send(db, "mail", {})
        await until(lambda: count(db, "q_mail_dlq") == 1)
    [dead] = fetch(db, "select * from redrive.dead_letters('mail')")
    assert ends == [True] and "timeout of 0.2 s" in dead.error


async def test_a_def_handler_that_ends_late_without_having_looked_is_done(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail", max_attempts=1, timeout=0.2)
    def handle(payload: Any) -> None:
        import time

        time.sleep(0.5)

    async with working(app, database_url):
        send(db, "mail", {})
        await until(lambda: done(db) == 1)
    assert count(db, "q_mail_dlq") == 0


async def test_integers_of_any_size_and_null_reach_the_handler(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()
    seen: list[Any] = []

    @app.job("mail")
    async def handle(payload: Any) -> None:
        seen.append(payload)

    big = 10**5000
    async with working(app, database_url):
        db.execute("select redrive.send('mail', %s::jsonb)", ('{"n": 1' + "0" * 5000 + "}",))
        db.execute("select redrive.send('mail', 'null')")
        await until(lambda: done(db) == 2)
    assert {"n": big} in seen and None in seen


async def test_what_one_job_leaves_in_the_context_is_not_seen_by_another(db: Db, database_url: str) -> None:
    import contextvars

    make_queue(db, "mail")
    app = Redrive()
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
    seen: list[str] = []

    @app.job("mail")
    async def handle(payload: str) -> None:
        seen.append(tenant.get())
        tenant.set(payload)

    for n in range(20):
        send(db, "mail", f"tenant {n}")
    async with working(app, database_url):
        await until(lambda: done(db) == 20)
    assert seen == ["nobody"] * 20


async def test_a_job_that_cancels_its_own_task_harms_no_other(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail", max_attempts=1)
    async def handle(payload: str) -> None:
        if payload == "odd":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    for n in range(20):
        send(db, "mail", "odd" if n % 5 == 0 else "even")
    async with working(app, database_url):
        await until(lambda: count(db, "q_mail") == 0)
    assert done(db) == 20


async def test_waiting_jobs_run_side_by_side(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()
    gate = asyncio.Barrier(8)

    @app.job("mail")
    async def handle(payload: Any) -> None:
        async with asyncio.timeout(10):
            await gate.wait()

    for _ in range(8):
        send(db, "mail", {})
    async with working(app, database_url, concurrency=8):
        await until(lambda: done(db) == 8)


async def test_the_log_has_a_line_for_each_failed_attempt(
    db: Db, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_queue(db, "mail")
    app = Redrive()

    @app.job("mail", max_attempts=2, backoff=QUICK)
    async def handle(payload: Any) -> None:
        raise ValueError("no luck")

    with caplog.at_level(logging.INFO, "redrive.worker"):
        async with working(app, database_url):
            msg_id = send(db, "mail", {"id": str(uuid4())})
            await until(lambda: count(db, "q_mail_dlq") == 1)
    told = [r.__dict__ for r in caplog.records if r.__dict__.get("msg_id") == msg_id]
    assert [(r["event"], r["queue"], r.get("attempt")) for r in told] == [
        ("job_retry", "mail", 1),
        ("job_retry", "mail", 2),
        ("job_dead", "mail", None),
    ]
