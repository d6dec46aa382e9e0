"""`redrive.testing`, as a user's test-suite has it."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from httpx import ASGITransport, AsyncClient
from pydantic import BaseModel

from redrive import (
    Backoff,
    ConfigError,
    Event,
    InvalidArgument,
    Job,
    QueueMissing,
    Redrive,
    Reject,
    Retry,
    Snooze,
    SyncJob,
    Tick,
)
from redrive.inbox.signing import sign
from redrive.testing import (
    Case,
    Clock,
    Ran,
    assert_sent,
    dead_letter_case,
    load_case,
    run_case,
    run_schedule,
    run_until_idle,
    sent,
    use_database,
)
from redrive.web import asgi

Use = Callable[[Redrive], Redrive]
EXACT = Backoff(base=30, factor=2, jitter=0)


class Order(BaseModel):
    id: UUID
    items: list[str] = []


@pytest.fixture(scope="session")
def redrive_server(server_url: str) -> str:
    """The server that the other tests have started already."""
    return server_url


class Shop:
    """An app whose handlers do as their payloads say, and what they started."""

    def __init__(self) -> None:
        self.app = app = Redrive()
        self.started: list[Any] = []

        @app.job("orders", max_attempts=2, backoff=EXACT)
        async def order(payload: dict[str, Any], job: Job) -> Any:
            self.started.append(payload)
            match payload.get("do"):
                case "fail":
                    raise ValueError("no stock")
                case "retry":
                    return Retry(after=0)
                case "snooze":
                    return Snooze(60)
                case "reject":
                    raise Reject("no such customer")
                case "send":
                    await app.send("mails", {"order": payload["id"]})
                case "again":
                    await app.send("orders", payload)
                case "hang":
                    await asyncio.Event().wait()
                case "transaction":
                    async with job.transaction() as connection:
                        await connection.execute("select 1")
                case _:
                    return None

        @app.job("mails")
        def mail(payload: dict[str, Any], job: SyncJob) -> None:
            self.started.append(payload)
            assert threading.current_thread() is not threading.main_thread()

        @app.job("typed")
        async def typed(order: Order) -> None:
            self.started.append(order)

        self.typed = typed


@pytest.fixture
def shop(redrive_use: Use) -> Shop:
    made = Shop()
    redrive_use(made.app)
    return made


class TestRunUntilIdle:
    async def test_runs_what_is_ready_and_what_that_sends(self, shop: Shop) -> None:
        await shop.app.send("orders", {"do": "send", "id": 7})
        await shop.app.send("typed", {"id": str(uuid4())})
        assert await run_until_idle(shop.app) == Ran(done=3)
        assert {"order": 7} in shop.started
        assert [each.state for each in sent("mails")] == ["archived"]

    async def test_of_an_idle_app_there_is_nothing_to_tell(self, shop: Shop) -> None:
        assert await run_until_idle(shop.app) == Ran()

    async def test_only_the_named_queues_are_worked(self, shop: Shop) -> None:
        await shop.app.send_many("orders", [{}, {}])
        await shop.app.send("mails", {})
        assert await run_until_idle(shop.app, queues=["orders"]) == Ran(done=2)
        assert [each.state for each in sent("mails")] == ["ready"]

    async def test_a_tick_of_a_schedule_is_sent_and_run(self, redrive_use: Use, redrive_clock: Clock) -> None:
        app = Redrive()
        seen: list[Tick] = []

        @app.schedule("0 3 * * *", tz="Europe/Berlin")
        async def nightly(tick: Tick) -> None:
            seen.append(tick)

        redrive_use(app)
        redrive_clock.set(datetime(2031, 1, 1, 2, 0, tzinfo=UTC))
        assert await run_schedule(app, "nightly") == Ran(done=1)
        assert seen[0].at.isoformat().startswith("2031-01-01T03:00:00")
        with pytest.raises(ConfigError, match=r"no schedule 'daily'; it has: nightly"):
            await run_schedule(app, "daily")

    async def test_webhooks_that_no_handler_takes_are_counted_as_ignored(self, redrive_use: Use) -> None:
        app = Redrive()
        app.inbox("stripe", provider="stripe", queue="hooks")

        @app.on("stripe", "invoice.*")
        async def invoice(event: Event) -> None: ...

        redrive_use(app)
        await app.send_many("hooks", [{"type": "invoice.paid"}, {"type": "customer.created"}])
        assert await run_until_idle(app) == Ran(done=1, ignored=1)

    async def test_a_failure_is_counted_and_waits_for_its_backoff(
        self, shop: Shop, redrive_clock: Clock, caplog: pytest.LogCaptureFixture
    ) -> None:
        await shop.app.send("orders", {"do": "fail"})
        ran = await run_until_idle(shop.app)
        assert ran == Ran(retried=1)
        assert ran.errors == ("orders 1, attempt 1: ValueError: no stock",)
        assert 'raise ValueError("no stock")' in caplog.text
        redrive_clock.advance(29)
        assert await run_until_idle(shop.app) == Ran()
        redrive_clock.advance(1)
        assert await run_until_idle(shop.app) == Ran(dead=1)
        assert len(shop.started) == 2
        [message] = sent("orders")
        assert (message.state, message.attempts, message.due_at) == ("dead", 2, None)

    async def test_a_retry_without_a_pause_runs_until_its_budget_is_spent(self, shop: Shop) -> None:
        await shop.app.send("orders", {"do": "retry"})
        assert await run_until_idle(shop.app) == Ran(retried=1, dead=1)
        assert len(shop.started) == 2

    async def test_each_outcome_is_counted_as_what_it_is(self, shop: Shop) -> None:
        for do in ("snooze", "reject", "transaction"):
            await shop.app.send("orders", {"do": do})
        await shop.app.send("typed", {"id": "no uuid"})
        ran = await run_until_idle(shop.app)
        assert ran == Ran(done=1, snoozed=1, dead=2)
        rejected, malformed = sorted(ran.errors)
        assert rejected == "orders 2, attempt 1: Reject: no such customer"
        assert malformed.startswith("typed 1, attempt 1: Malformed: the payload does not fit Order\n$.id:")

    async def test_a_delayed_message_stays_until_time_has_passed(
        self, shop: Shop, redrive_clock: Clock
    ) -> None:
        await shop.app.send("mails", {"n": 1}, delay=3600)
        assert await run_until_idle(shop.app) == Ran()
        assert [each.state for each in sent("mails")] == ["delayed"]
        redrive_clock.advance(3600)
        assert await run_until_idle(shop.app) == Ran(done=1)

    async def test_of_two_messages_with_one_key_one_runs(self, shop: Shop) -> None:
        await shop.app.send("mails", {"n": 1}, key="k")
        await shop.app.send("mails", {"n": 2}, key="k")
        assert await run_until_idle(shop.app) == Ran(done=1)
        assert shop.started == [{"n": 1}]
        assert [each.state for each in sent("mails")] == ["archived", "archived"]

    async def test_a_message_that_is_to_run_alone_runs_here(self, shop: Shop, redrive_database: str) -> None:
        await shop.app.send("orders", {"do": "suspect"})
        with psycopg.connect(redrive_database, autocommit=True) as db:
            # Two deliveries that nobody reported, both long ago; a third attempt to run in.
            db.execute("select redrive.set_policy('orders', '{\"max_attempts\": 5}')")
            db.execute("update pgmq.q_orders set read_ct = 2")
        assert await run_until_idle(shop.app) == Ran(done=1)
        assert shop.started == [{"do": "suspect"}]

    async def test_gives_up_on_a_handler_that_does_not_end_and_gives_its_message_back(
        self, shop: Shop
    ) -> None:
        await shop.app.send("orders", {"do": "hang"})
        with pytest.raises(
            TimeoutError, match=r"after 0.3 s: 0 .* message 1 of queue orders \(attempt 1\) still runs"
        ):
            await run_until_idle(shop.app, timeout=0.3)
        [message] = sent("orders")
        assert (message.state, message.attempts) == ("ready", 0)

    async def test_gives_up_on_a_job_that_sends_to_itself(self, shop: Shop) -> None:
        await shop.app.send("orders", {"do": "again"})
        with pytest.raises(TimeoutError, match=r"[1-9]\d* deliveries have ended .* a job send to itself"):
            await run_until_idle(shop.app, timeout=0.3)
        assert len(shop.started) > 1

    async def test_an_app_outside_a_test_is_not_worked(self, redrive_database: str) -> None:
        shop = Shop()
        with pytest.raises(ConfigError, match="not pointed at a test database"):
            await run_until_idle(shop.app)
        shop.app.database_url = "postgresql://somebody@production.example/shop"
        with pytest.raises(ConfigError, match="redrive_use"):
            await run_until_idle(shop.app)

    async def test_a_queue_without_a_job_and_a_wrong_timeout_are_refused(self, shop: Shop) -> None:
        with pytest.raises(ConfigError, match="queue letters has no job"):
            await run_until_idle(shop.app, queues=["letters"])
        with pytest.raises(InvalidArgument, match="timeout"):
            await run_until_idle(shop.app, timeout=-1)

    def test_a_test_without_an_event_loop_brings_one(self, shop: Shop) -> None:
        shop.app.sync.send("mails", {"n": 1})
        assert asyncio.run(run_until_idle(shop.app)) == Ran(done=1)
        shop.app.sync.send("orders", {"do": "send", "id": 1})
        assert asyncio.run(run_until_idle(shop.app)) == Ran(done=2)


class TestAssertSent:
    async def test_takes_a_part_of_the_payload_and_returns_the_message(self, shop: Shop) -> None:
        await shop.app.send("orders", {"id": 1, "to": {"city": "Bonn", "zip": "53111"}, "items": [{"n": 1}]})
        found = assert_sent("orders", {"to": {"city": "Bonn"}, "items": [{}]})
        assert (found.id, found.payload["to"]["zip"], found.state) == (1, "53111", "ready")

    async def test_finds_messages_wherever_they_are(self, shop: Shop) -> None:
        await shop.app.send("orders", {"n": 1, "do": "reject"})
        await shop.app.send("orders", {"n": 2})
        await run_until_idle(shop.app)
        await shop.app.send("orders", {"n": 3}, delay=60)
        await shop.app.send("orders", {"n": 4})
        states = [assert_sent("orders", {"n": n}).state for n in (1, 2, 3, 4)]
        assert states == ["dead", "archived", "delayed", "ready"]
        assert [each.payload["n"] for each in sent("orders")] == [1, 2, 3, 4]

    async def test_compares_models_and_uuids_as_the_json_they_become(self, shop: Shop) -> None:
        order = Order(id=uuid4(), items=["tea"])
        await shop.typed.send(order)
        assert_sent("typed", order)
        assert_sent("typed", {"id": order.id})

    async def test_compares_key_and_headers(self, shop: Shop) -> None:
        await shop.app.send("mails", {}, key="a", headers={"tenant": 1, "trace": "x"})
        await shop.app.send("mails", {}, key="b")
        found = assert_sent("mails", key="a", headers={"tenant": 1})
        assert (found.id, found.headers) == (1, {"tenant": 1, "trace": "x"})
        with pytest.raises(AssertionError, match="has key 'a' and headers"):
            assert_sent("mails", key="a", headers={"tenant": 2})

    @pytest.mark.parametrize(
        "wrong",
        [{"n": True}, {"n": "1"}, {"more": 1}, {"list": [1]}, {"list": [2, 1]}, {"list": {}}, [], 1, "text"],
    )
    async def test_refuses_what_differs(self, shop: Shop, wrong: object) -> None:
        await shop.app.send("mails", {"n": 1, "list": [1, 2]})
        with pytest.raises(AssertionError, match=r"sent were\n  1, ready: {"):
            assert_sent("mails", wrong)

    async def test_says_what_was_sent_when_it_was_something_else(
        self, shop: Shop, redrive_clock: Clock
    ) -> None:
        redrive_clock.set(datetime(2031, 5, 6, 7, 0, tzinfo=UTC))
        await shop.app.send("mails", {"to": "ann"}, key="k", headers={"tenant": 1})
        await shop.app.send("mails", {"to": "bob"}, delay=datetime(2031, 5, 6, 8, 9, 10, tzinfo=UTC))
        with pytest.raises(AssertionError) as failed:
            assert_sent("mails", {"to": "cleo"}, key="z")
        assert str(failed.value).splitlines() == [
            'no message of queue mails has payload {"to": "cleo"} and key \'z\'; sent were',
            '  1, ready, key \'k\', headers {"tenant": 1}: {"to": "ann"}',
            '  2, delayed until 2031-05-06 08:09:10 UTC: {"to": "bob"}',
        ]

    async def test_says_that_nothing_was_sent(self, shop: Shop) -> None:
        with pytest.raises(AssertionError, match="nothing was sent to queue mails"):
            assert_sent("mails")

    async def test_a_long_list_is_cut(self, shop: Shop) -> None:
        await shop.app.send_many("mails", [{"n": n} for n in range(25)])
        with pytest.raises(AssertionError, match=r"and 5 more$"):
            assert_sent("mails", {"n": 99})

    async def test_an_unknown_queue_is_no_empty_one(self, shop: Shop) -> None:
        with pytest.raises(QueueMissing):
            assert_sent("letters")


def test_nothing_can_be_asked_outside_a_test() -> None:
    with pytest.raises(ConfigError, match="no test database is in use"):
        sent("orders")


class TestUseDatabase:
    async def test_an_app_that_names_a_database_sends_to_the_test_for_its_time(
        self, redrive_database: str
    ) -> None:
        named = "postgresql://somebody@production.example/shop"
        shop = Shop()
        shop.app.database_url = named
        with use_database(shop.app, redrive_database) as app:
            assert app is shop.app
            await app.send("orders", {"n": 1})
            await asyncio.to_thread(app.sync.send, "orders", {"n": 2})
            assert len(sent("orders")) == 2
        assert shop.app.database_url == named

    async def test_two_apps_share_the_test(self, redrive_use: Use) -> None:
        first, second = Shop(), Redrive()

        @second.job("letters")
        async def letter(payload: dict[str, Any]) -> None:
            await first.app.send("mails", payload)

        redrive_use(first.app)
        redrive_use(second)
        await second.send("letters", {"n": 1})
        assert await run_until_idle(second) == Ran(done=1)
        assert_sent("mails", {"n": 1})

    async def test_its_blocking_connections_end_with_it(self, redrive_database: str) -> None:
        shop = Shop()
        with use_database(shop.app, redrive_database) as app:
            await asyncio.to_thread(app.sync.send, "orders", {})
            assert any(each.name == "redrive-sync" for each in threading.enumerate())
        assert not any(each.name == "redrive-sync" for each in threading.enumerate())


class TestClock:
    def test_goes_on_from_where_it_was_set(self, redrive_clock: Clock) -> None:
        birthday = datetime(2040, 2, 29, tzinfo=UTC)
        redrive_clock.set(birthday)
        redrive_clock.advance(86400)
        assert timedelta(days=1) <= redrive_clock.now() - birthday < timedelta(days=1, minutes=1)

    def test_goes_back_too(self, redrive_clock: Clock) -> None:
        redrive_clock.set(datetime(2001, 1, 1, tzinfo=UTC))
        assert redrive_clock.now().year == 2001

    def test_a_second_one_of_the_same_database_shows_the_same_time(
        self, redrive_clock: Clock, redrive_database: str
    ) -> None:
        redrive_clock.set(datetime(2040, 1, 1, tzinfo=UTC))
        assert Clock(redrive_database).now().year == 2040

    def test_the_next_test_has_the_real_time(self, redrive_database: str) -> None:
        with psycopg.connect(redrive_database) as db:
            [(apart,)] = db.execute("select redrive.clock() - clock_timestamp()").fetchall()
        assert abs(apart) < timedelta(seconds=1)

    def test_a_role_that_may_only_send_has_the_same_time(
        self, redrive_clock: Clock, redrive_database: str
    ) -> None:
        redrive_clock.set(datetime(2040, 1, 1, tzinfo=UTC))
        with psycopg.connect(redrive_database) as db:
            db.execute(
                "create role sender_of_this_test; grant usage on schema redrive to sender_of_this_test"
            )
            db.execute("grant execute on function redrive.clock() to sender_of_this_test")
            db.execute("set local role sender_of_this_test")
            [(year,)] = db.execute("select extract(year from redrive.clock())").fetchall()
            db.rollback()
        assert year == 2040

    def test_refuses_what_is_no_time(self, redrive_clock: Clock) -> None:
        with pytest.raises(InvalidArgument, match="advance"):
            redrive_clock.advance(-1)
        with pytest.raises(InvalidArgument, match="no time zone"):
            redrive_clock.set(datetime(2040, 1, 1))


class TestCase:
    async def test_a_dead_letter_fails_as_a_test_until_its_bug_is_fixed(
        self, shop: Shop, redrive_database: str, tmp_path: Path
    ) -> None:
        await shop.app.send("orders", {"do": "reject", "ä": 10**30}, key="k", headers={"tenant": 1})
        await run_until_idle(shop.app)
        case = dead_letter_case("orders", 1, redrive_database)
        file = case.save(tmp_path / "cases" / "customer.json")
        assert load_case(file) == case
        assert (case.payload, case.key, case.headers) == (
            {"do": "reject", "ä": 10**30},
            "k",
            {"tenant": 1},
        )
        assert (case.reason, case.attempts, case.error) == ("rejected", 1, "Reject: no such customer")
        assert [each["error_type"] for each in case.failures] == ["Reject"]

        ran = await run_case(shop.app, load_case(file))
        assert ran == Ran(dead=1)
        assert ran.errors == ("orders 2, attempt 1: Reject: no such customer",)
        assert_sent("orders", case.payload, key="k", headers={"tenant": 1})

        fixed = Redrive(redrive_database)

        @fixed.job("orders")
        async def order(payload: dict[str, Any]) -> None: ...

        assert await run_case(fixed, load_case(file)) == Ran(done=1)
        await fixed.close()

    async def test_the_settings_name_the_database_when_nobody_does(
        self, shop: Shop, redrive_database: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await shop.app.send("orders", {"do": "reject"})
        await run_until_idle(shop.app)
        monkeypatch.setenv("REDRIVE_DATABASE_URL", redrive_database)
        assert dead_letter_case("orders", 1).payload == {"do": "reject"}

    async def test_a_dead_letter_that_is_not_there_is_named(self, shop: Shop, redrive_database: str) -> None:
        for do in ("reject", "reject"):
            await shop.app.send("orders", {"do": do})
        await run_until_idle(shop.app)
        with psycopg.connect(redrive_database) as db:
            db.execute("select redrive.discard('orders', '{1}')")
        for missing in (1, 3):
            with pytest.raises(InvalidArgument, match=f"no dead letter {missing}; .*dlq list orders"):
                dead_letter_case("orders", missing, redrive_database)
        with pytest.raises(QueueMissing):
            dead_letter_case("letters", 1, redrive_database)

    @pytest.mark.parametrize("body", [b'{"ref": "main"}', b"no JSON"])
    async def test_a_webhook_is_its_event_again_also_where_inboxes_share_a_queue(
        self, redrive_use: Use, redrive_database: str, tmp_path: Path, body: bytes
    ) -> None:
        app, seen = Redrive(), list[Event]()
        for name in ("github", "stripe"):
            app.inbox(name, provider=name, secret="s3cret", queue="hooks", max_attempts=1)

        @app.on("github", "push")
        async def pushed(event: Event) -> None:
            seen.append(event)
            if len(seen) == 1:
                raise ValueError("a push nobody thought of")

        redrive_use(app)
        headers = sign("github", secret="s3cret", body=body, event_id="d-1", type="push")
        async with AsyncClient(transport=ASGITransport(asgi(app)), base_url="http://test") as github:
            assert (await github.post("/webhooks/github", content=body, headers=headers)).text == "ok\n"
        assert await run_until_idle(app) == Ran(dead=1)

        case = load_case(dead_letter_case("hooks", 1, redrive_database).save(tmp_path / "case.json"))
        with psycopg.connect(redrive_database) as db:
            db.execute("delete from redrive.webhook_event")
        for times in (2, 3):
            assert await run_case(app, case) == Ran(done=1)
            assert len(seen) == times
        first, again, replayed = seen
        for name in ("source", "event_id", "type", "resource", "payload", "raw", "headers", "origin"):
            assert getattr(again, name) == getattr(first, name)
        assert (again.generation, replayed.generation) == (0, 1)

    async def test_nothing_is_sent_where_the_app_is_not_pointed_at_a_test(
        self, shop: Shop, redrive_database: str
    ) -> None:
        elsewhere = Shop()
        elsewhere.app.database_url = f"{redrive_database}&application_name=not-the-tests"
        with pytest.raises(ConfigError, match="not pointed at a test database"):
            await run_case(elsewhere.app, Case("orders", {"n": 1}))
        await elsewhere.app.close()
        assert sent("orders") == []

    async def test_a_case_of_a_queue_without_a_job_is_refused(self, shop: Shop) -> None:
        with pytest.raises(ConfigError, match="queue letters has no job"):
            await run_case(shop.app, Case("letters", {}))

    @pytest.mark.parametrize(
        "text", ["", "[]", '{"queue": "orders"}', '{"queue": "q", "payload": 1, "x": 1}']
    )
    def test_a_file_that_is_no_case_is_refused_by_name(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "case.json"
        file.write_text(text)
        with pytest.raises(ConfigError, match=r"case\.json is no case: .*Case\.save"):
            load_case(file)

    def test_a_case_may_be_written_by_hand(self, tmp_path: Path) -> None:
        file = tmp_path / "case.json"
        file.write_text(json.dumps({"queue": "orders", "payload": {"n": 1}}))
        assert load_case(file) == Case("orders", {"n": 1})


def test_the_log_of_the_worker_is_not_silenced(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    shop.app.sync.send("orders", {"do": "fail"})
    asyncio.run(run_until_idle(shop.app))
    assert "attempt 1 of 2 failed: ValueError: no stock" in caplog.text
