"""How a worker gets on with its store: waiting, being told, sharing, and the store going away."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import psycopg
import pytest

from redrive import Backoff, Job, QueueMissing, Redrive
from redrive.errors import ConfigError
from redrive.store import grants
from redrive.store.database import connect
from redrive.store.migrations import migrate
from redrive.worker.engine import PostgresEngine
from redrive.worker.listener import Listener
from redrive.worker.protocol import Report, Want
from tests.support.databases import Databases
from tests.support.layouts import NEWEST, scripts
from tests.support.network import Network
from tests.support.working import count, fetch, make_queue, send, until, working

Db = psycopg.Connection[Any]
QUICK = Backoff(base=0.02, factor=1, jitter=0)


def done(db: Db, queue: str = "mail") -> int:
    return count(db, f"a_{queue}", "outcome = 'done'")


def sleeper(queue: str, seconds: float, **policy: Any) -> tuple[Redrive, list[int]]:
    """An app whose one job sleeps, and the read_cts it was started with."""
    app = Redrive()
    starts: list[int] = []

    @app.job(queue, **policy)
    async def handle(payload: Any, job: Job) -> None:
        starts.append(job.read_ct)
        await asyncio.sleep(seconds)

    return app, starts


def refused(caplog: pytest.LogCaptureFixture) -> bool:
    return any(r.__dict__.get("event") == "claim_refused" for r in caplog.records)


class TestPickingUp:
    async def test_a_waiting_worker_is_woken_by_a_send(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app, _ = sleeper("mail", 0)
        async with working(app, database_url, poll=60) as worker:
            await until(lambda: worker.listener.state == "listening")
            await idle(worker)
            turns = worker.stats.turns
            await asyncio.to_thread(send, db, "mail", {})
            await until(lambda: done(db) == 1, within=5)
            assert worker.stats.turns > turns

    async def test_a_deaf_worker_polls_all_the_same(
        self, db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def swallowed(self: PostgresEngine, channel: str) -> None:
            pass

        monkeypatch.setattr(PostgresEngine, "call", swallowed)
        monkeypatch.setattr("redrive.worker.listener._HEARS_WITHIN", 0.2)
        make_queue(db, "mail", notify=False)
        app, _ = sleeper("mail", 0, notify=False)
        with caplog.at_level(logging.INFO, "redrive.worker"):
            async with working(app, database_url, poll=0.3) as worker:
                await until(lambda: worker.listener.state == "deaf")
                send(db, "mail", {})
                await until(lambda: done(db) == 1, within=5)
        assert "notify: deaf, polling" in [record.getMessage() for record in caplog.records]

    async def test_a_delayed_message_starts_when_it_is_due(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app = Redrive()
        started: list[float] = []

        @app.job("mail")
        async def handle(payload: Any) -> None:
            started.append(time.monotonic())

        async with working(app, database_url, poll=60) as worker:
            await until(lambda: worker.listener.state == "listening")
            await idle(worker)
            sent = time.monotonic()
            send(db, "mail", {}, delay=1.0)
            # Another one, at once: the claim that finds it tells when the delayed one is due.
            send(db, "mail", {})
            await until(lambda: len(started) == 2, within=10)
        assert 0.9 <= started[1] - sent <= 3

    async def test_a_listener_that_lost_its_connection_hears_again(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app, _ = sleeper("mail", 0)
        async with working(app, database_url, poll=60) as worker:
            await until(lambda: worker.listener.state == "listening")
            terminate(db, "redrive % listen")
            await until(lambda: worker.listener.state == "away")
            await until(lambda: worker.listener.state == "listening")
            await idle(worker)
            send(db, "mail", {})
            await until(lambda: done(db) == 1, within=5)

    async def test_a_listener_that_hears_only_itself_counts_as_deaf(self, database_url: str) -> None:
        heard: list[str] = []

        async def call(channel: str) -> None:
            pass

        listener = Listener(database_url, "test", heard.append, call)
        await listener.start()
        await until(lambda: listener.state == "deaf", within=10)
        await listener.stop()
        await listener.stop()
        assert heard == []


class TestSharing:
    async def test_claims_are_only_for_free_slots(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app, starts = sleeper("mail", 30)
        for _ in range(10):
            send(db, "mail", {})
        async with working(app, database_url, concurrency=4, drain_timeout=0.0) as worker:
            await until(lambda: len(starts) == 4)
            await idle(worker, turns=2, within=1.0)
            assert count(db, "q_mail", "read_ct > 0") == 4

    async def test_a_jobs_concurrency_caps_it_and_leaves_the_slots_to_others(
        self, db: Db, database_url: str
    ) -> None:
        make_queue(db, "mail")
        make_queue(db, "video")
        app, mails = sleeper("mail", 30)

        @app.job("video", concurrency=1)
        async def video(payload: Any) -> None:
            await asyncio.sleep(30)

        for _ in range(10):
            send(db, "mail", {})
            send(db, "video", {})
        async with working(app, database_url, concurrency=6, drain_timeout=0.0) as worker:
            await until(lambda: worker.runner.running == 6)
            assert len(mails) == 5
            assert count(db, "q_video", "read_ct > 0") == 1

    async def test_no_queue_starves_behind_a_full_one(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        make_queue(db, "video")
        app, _ = sleeper("mail", 0.01)
        order: list[str] = []

        @app.job("video")
        async def video(payload: Any) -> None:
            order.append("video")

        db.execute("select redrive.send_batch('mail', (select jsonb_agg(g) from generate_series(1, 500) g))")
        send(db, "video", {})
        async with working(app, database_url, concurrency=1):
            await until(lambda: order == ["video"])
            assert done(db) < 100

    async def test_only_the_queues_that_were_asked_for_are_worked(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        make_queue(db, "video")
        app, _ = sleeper("mail", 0)

        @app.job("video")
        async def video(payload: Any) -> None: ...

        send(db, "mail", {})
        send(db, "video", {})
        async with working(app, database_url, queues=("video",)):
            await until(lambda: done(db, "video") == 1)
        assert count(db, "q_mail", "read_ct = 0") == 1
        with pytest.raises(ConfigError, match="queue nothing has no job in this app; it has: mail, video"):
            async with working(app, database_url, queues=("nothing",)):
                pass

    async def test_single_flight_lets_one_process_claim_and_the_next_after_it(
        self, db: Db, database_url: str
    ) -> None:
        make_queue(db, "mail", single_flight=True)
        app, _ = sleeper("mail", 0.05, single_flight=True, visibility_timeout=30)
        db.execute("select redrive.send_batch('mail', (select jsonb_agg(g) from generate_series(1, 30) g))")
        async with working(app, database_url, concurrency=2, poll=0.1) as one:
            await until(lambda: one.stats.claimed > 0)
            async with working(app, database_url, concurrency=2, poll=0.1) as two:
                await until(lambda: done(db) == 30)
                assert two.stats.claimed == 0
                await one.drain()
                # Its lease is dropped at drain, not when it would have ended.
                send(db, "mail", {})
                await until(lambda: two.stats.claimed == 1, within=5)

    async def test_pause_hands_nothing_out_until_resume(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app, starts = sleeper("mail", 0)
        async with working(app, database_url, poll=0.1) as worker:
            db.execute("select redrive.pause_queue('mail')")
            send(db, "mail", {})
            await idle(worker, turns=3)
            assert starts == []
            db.execute("select redrive.resume_queue('mail')")
            await until(lambda: done(db) == 1)


class TestStarting:
    async def test_creates_the_queue_where_its_role_may(self, db: Db, database_url: str) -> None:
        app, _ = sleeper("mail", 0, max_attempts=7)
        async with working(app, database_url):
            send(db, "mail", {})
            await until(lambda: done(db) == 1)
        assert fetch(db, "select redrive.queue_policy('mail') -> 'max_attempts'") == [(7,)]

    async def test_says_which_queue_is_missing_where_its_role_may_not(
        self, db: Db, database_url: str
    ) -> None:
        role = f"limited_{time.monotonic_ns()}"
        db.execute(f"create role {role} login".encode())
        try:
            grants.grant(db, role, "work")
            limited = database_url.replace("postgres@", f"{role}@")
            app, _ = sleeper("mail", 0)
            with pytest.raises(QueueMissing, match="mail"):
                async with working(app, limited):
                    pass
        finally:
            db.execute(f"drop owned by {role}".encode())
            db.execute(f"drop role {role}".encode())

    async def test_says_what_an_operators_override_hides(
        self, db: Db, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_queue(db, "mail")
        db.execute("""select redrive.set_policy('mail', '{"max_attempts": 2}')""")
        app, _ = sleeper("mail", 0, max_attempts=7)
        with caplog.at_level(logging.INFO, "redrive.worker"):
            async with working(app, database_url):
                pass
        [told] = [r.getMessage() for r in caplog.records if r.__dict__.get("event") == "policy_overridden"]
        assert "max_attempts is 7 in the code, but an operator has set 2" in told
        assert "redrive queue policy mail --reset max_attempts" in told


class TestAQueueDroppedUnderIt:
    async def test_is_said_once_and_stops_no_other(
        self, db: Db, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_queue(db, "mail")
        make_queue(db, "video")
        app, _ = sleeper("mail", 0)
        gate = asyncio.Event()

        @app.job("video")
        async def video(payload: Any) -> None:
            await gate.wait()

        with caplog.at_level(logging.INFO, "redrive.worker"):
            async with working(app, database_url, poll=0.1) as worker:
                send(db, "video", {})
                await until(lambda: worker.runner.running == 1)
                db.execute("select pgmq.drop_queue('video')")
                gate.set()
                await until(lambda: worker.stats.dropped == 1)
                for _ in range(5):
                    send(db, "mail", {})
                    await idle(worker)
                await until(lambda: done(db) == 5)
        told = [r for r in caplog.records if r.__dict__.get("event") == "claim_refused"]
        assert len(told) == 1 and "video" in told[0].getMessage()

    async def test_has_the_declared_policy_again_when_it_comes_back(
        self, db: Db, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_queue(db, "mail")
        app = Redrive()
        starts: list[int] = []

        @app.job("mail", max_attempts=1, backoff=QUICK)
        async def handle(payload: Any, job: Job) -> None:
            starts.append(job.max_attempts)
            raise ValueError("charged the card, then failed")

        async with working(app, database_url, poll=0.05):
            db.execute("select redrive.drop_queue('mail')")
            await until(lambda: refused(caplog))
            with db.transaction():
                make_queue(db, "mail")
                send(db, "mail", {})
            await until(lambda: count(db, "q_mail") == 0)
        assert starts == [1]
        assert count(db, "q_mail_dlq") == 1
        assert fetch(db, "select redrive.queue_policy('mail')->>'max_attempts'") == [("1",)]

    async def test_is_not_created_again_by_the_worker(
        self, db: Db, database_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_queue(db, "mail")
        app, _ = sleeper("mail", 0)
        async with working(app, database_url, poll=0.05) as worker:
            db.execute("select redrive.drop_queue('mail')")
            await until(lambda: refused(caplog))
            turns = worker.stats.turns
            await until(lambda: worker.stats.turns > turns + 1)
            assert fetch(db, "select count(*) from redrive.list_queues()") == [(0,)]


class TestTheStoreGoingAway:
    async def test_finished_work_is_kept_until_it_can_be_reported(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app, starts = sleeper("mail", 0.5, visibility_timeout=60)
        async with Network(database_url) as network, working(app, network.url) as worker:
            for _ in range(5):
                send(db, "mail", {})
            await until(lambda: worker.runner.running == 5)
            network.cut()
            await until(lambda: worker.runner.running == 0)
            await until(lambda: worker.stats.outages == 1)
            assert done(db) == 0
            network.mend()
            await until(lambda: done(db) == 5)
            assert starts == [1] * 5

    async def test_backends_that_are_terminated_cost_no_job(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        app, starts = sleeper("mail", 0.02, visibility_timeout=30)
        db.execute("select redrive.send_batch('mail', (select jsonb_agg(g) from generate_series(1, 300) g))")
        async with working(app, database_url, concurrency=10) as worker:
            for n in range(1, 6):
                await until(lambda enough=n * 40: len(starts) >= enough)
                terminate(db, "redrive %")
            # Claims whose answer was lost come back by their timeout: bring that forward.
            await until(lambda: worker.runner.running == 0 and worker.stats.turns > 20)
            db.execute(
                "update pgmq.q_mail set vt = clock_timestamp() where vt > clock_timestamp() + interval '1 s'"
            )
            await until(lambda: done(db) == 300)
        assert count(db, "q_mail_dlq") == 0 and count(db, "a_mail") == 300

    @pytest.mark.timeout(90)
    async def test_a_network_that_swallows_every_byte_is_left_within_30_s(
        self, db: Db, database_url: str
    ) -> None:
        make_queue(db, "mail")
        # A claim whose answer was swallowed comes back by its timeout.
        app, _ = sleeper("mail", 0, visibility_timeout=3)
        async with Network(database_url) as network, working(app, network.url, poll=0.2) as worker:
            await until(lambda: worker.listener.state == "listening")
            send(db, "mail", {})
            await until(lambda: done(db) == 1)
            # Half-open: what is connected hears nothing any more; new connections would be fine.
            network.swallow()
            began = time.monotonic()
            send(db, "mail", {})
            await until(lambda: done(db) == 2, within=30)
            assert time.monotonic() - began < 30


class TestLeavingAStoreThatIsAway:
    @pytest.mark.parametrize("deaf", [True, False])
    async def test_takes_no_longer_than_leaving_another(
        self, db: Db, database_url: str, deaf: bool, caplog: pytest.LogCaptureFixture
    ) -> None:
        make_queue(db, "mail")
        app, starts = sleeper("mail", 1.0)
        async with Network(database_url) as network:
            with caplog.at_level(logging.INFO, "redrive.worker"):
                async with working(app, network.url) as worker:
                    send(db, "mail", {})
                    await until(lambda: len(starts) == 1)
                    network.swallow() if deaf else network.cut()
                    began = time.monotonic()
            # The job's second, five for its report, five for the goodbye, and what the cutting off takes.
            assert time.monotonic() - began < 14
        [told] = [r.getMessage() for r in caplog.records if r.__dict__.get("event") == "worker_ended"]
        # New connections pass by the deaf ones; where there are none, the report is left to the timeout.
        assert told.endswith("1 done, 0 unsettled" if deaf else "1 done, 1 unsettled")
        assert worker.stats.done == 1


class TestTheEngine:
    async def test_takes_the_good_reports_when_one_of_them_is_bad(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        engine = PostgresEngine(database_url, "test")
        try:
            for _ in range(3):
                send(db, "mail", {})
            answer = await engine.turn({}, {}, [Want("mail", 60, 10)])
            first, second, third = answer.claimed["mail"]
            reports = [
                Report("mail", first.msg_id, first.read_ct, "done"),
                Report("mail", second.msg_id, second.read_ct, "snooze", -5.0),
                Report("mail", third.msg_id, third.read_ct, "done"),
            ]
            answer = await engine.turn({"mail": reports}, {}, [])
            assert [report.msg_id for report, _ in answer.dropped] == [second.msg_id]
            assert done(db) == 2
        finally:
            await engine.close()
            await engine.close()

    async def test_names_the_queue_that_refuses_and_answers_for_the_others(
        self, db: Db, database_url: str
    ) -> None:
        make_queue(db, "mail")
        engine = PostgresEngine(database_url, "test")
        msg_id = send(db, "mail", {})
        answer = await engine.turn({}, {}, [Want("gone", 60, 1), Want("mail", 60, 1)])
        assert isinstance(answer.refused["gone"], QueueMissing)
        assert [each.msg_id for each in answer.claimed["mail"]] == [msg_id]
        await engine.close()

    async def test_reports_an_error_in_characters_the_database_does_not_have(
        self, databases: Databases
    ) -> None:
        url = databases.latin1()
        engine = PostgresEngine(url, "test")
        with connect(url) as db:
            for script in scripts(NEWEST):
                db.execute(script.encode())
            migrate(db)
            make_queue(db, "mail")
            for _ in range(2):
                send(db, "mail", {})
            first, second = (await engine.turn({}, {}, [Want("mail", 60, 2)])).claimed["mail"]
            reports = [
                Report("mail", first.msg_id, first.read_ct, "done"),
                Report(
                    "mail",
                    second.msg_id,
                    second.read_ct,
                    "reject",
                    None,
                    "Reject",
                    "no \u201cM\u00fcller\u201d",
                ),
            ]
            answer = await engine.turn({"mail": reports}, {}, [])
            assert answer.dropped == []
            assert answer.verdicts == [(reports[1], "dead")]
            [(error,)] = db.execute("select error from redrive.dead_letters('mail')").fetchall()
            assert error == r"Reject: no \u201cM\xfcller\u201d"
        await engine.close()
        databases.drop(url)

    async def test_commits_settle_and_claim_together(self, db: Db, database_url: str) -> None:
        make_queue(db, "mail")
        engine = PostgresEngine(database_url, "test")
        send(db, "mail", {})
        [delivery] = (await engine.turn({}, {}, [Want("mail", 60, 1)])).claimed["mail"]
        send(db, "mail", {})
        db.execute("""
            create table seen (xid xid8);
            create function see() returns trigger language plpgsql as
                'begin insert into public.seen values (pg_current_xact_id()); return null; end';
            create trigger see after insert on pgmq.a_mail for each row execute function see();
            create trigger see after update on pgmq.q_mail for each row execute function see()""")
        report = Report("mail", delivery.msg_id, delivery.read_ct, "done")
        answer = await engine.turn({"mail": [report]}, {}, [Want("mail", 60, 1)])
        assert len(answer.claimed["mail"]) == 1 and answer.verdicts == []
        assert fetch(db, "select count(*), count(distinct xid) as xids from seen") == [(2, 1)]
        await engine.close()

    async def test_knows_only_the_newest_delivery_of_a_message_as_its_own(
        self, db: Db, database_url: str
    ) -> None:
        make_queue(db, "mail")
        engine = PostgresEngine(database_url, "test")
        msg_id = send(db, "mail", {})
        await engine.turn({}, {}, [Want("mail", 60, 1)])
        db.execute("update pgmq.q_mail set vt = clock_timestamp()")
        await engine.turn({}, {}, [Want("mail", 60, 1)])
        assert await engine.extend("mail", [(msg_id, 2), (msg_id, 1)], 60) == {(msg_id, 2)}
        await engine.close()


def terminate(db: Db, name: str) -> None:
    db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name like %s", (name,)
    )


async def idle(worker: Any, turns: int = 1, within: float = 10.0) -> None:
    """Until the worker has taken a few more turns, or has nothing to take one for."""
    signal = worker.claimer.turned.watch()
    for _ in range(turns):
        try:
            await signal.next(within)
        except TimeoutError:
            return
