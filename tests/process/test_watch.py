"""What runs beside every worker: rules are evaluated, alerts delivered once, against a real database."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from redrive.settings import SinkSetting
from redrive.store import alerts
from redrive.store.database import Database
from redrive.testing.clock import Clock
from redrive.watch.delivery import Delivery
from redrive.watch.heartbeat import Heartbeat
from redrive.watch.sinks.sink import Alert, Undelivered
from redrive.watch.sinks.webhook import Webhook
from redrive.watch.watch import Watch, described
from tests.support.network import Network
from tests.support.server import with_database
from tests.support.sink_server import SinkServer
from tests.support.working import fetch, make_queue, until

Db = psycopg.Connection[Any]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver() -> Iterator[SinkServer]:
    with SinkServer() as started:
        yield started


def webhook(receiver: SinkServer, name: str = "ops", timeout: float = 5.0) -> Webhook:
    setting = SinkSetting(name, f"REDRIVE_ALERTS_{name.upper()}", receiver.url, SECRET)
    return Webhook.of(setting, timeout=timeout)


def bury(db: Db, queue: str = "mail", count: int = 1) -> None:
    """Dead letters."""
    make_queue(db, queue, max_attempts=1)
    for _ in range(count):
        db.execute("select redrive.send(%s, '{}')", (queue,))
    db.execute(
        "select redrive.settle(%s, array_agg(c.msg_id), array_agg(c.read_ct), array_agg('reject'::text))"
        " from redrive.claim(%s, 30, 100, 'test') c",
        (queue, queue),
    )


@asynccontextmanager
async def watching(url: str, *sinks: Any, **more: Any) -> AsyncGenerator[Watch]:
    watch = Watch(url, check_every=1, sinks=sinks, **more)
    await watch.start()
    try:
        yield watch
    finally:
        await watch.stop()


class Stub:
    """A sink that says what it was given, and fails as `then` says."""

    kind = "stub"

    def __init__(self, name: str, *, groups: bool = True) -> None:
        self.name = name
        self.groups = groups
        self.taken: list[list[Alert]] = []
        self.then: list[Exception | float] = []
        """What becomes of the next tries: an error, or seconds they take."""

    async def send(self, alerts: Any) -> None:
        if self.then:
            become = self.then.pop(0)
            if isinstance(become, Exception):
                raise become
            await asyncio.sleep(become)
        self.taken.append(list(alerts))

    @property
    def told(self) -> list[tuple[str, str, str]]:
        return [(each.rule, each.subject, each.event) for batch in self.taken for each in batch]


def declare(db: Db, *sinks: Stub) -> None:
    db.execute(
        "select redrive.declare_sinks(%s, %s)",
        ([each.name for each in sinks], [each.kind for each in sinks]),
    )


def evaluate(db: Db) -> None:
    db.execute("select redrive.check_queue_health()")


async def test_an_alert_goes_out_once_and_its_end_once_whoever_watches(
    database_url: str, db: Db, receiver: SinkServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redrive.watch")
    bury(db, count=3)
    async with (
        watching(database_url, webhook(receiver)),
        watching(database_url, webhook(receiver)),
        watching(database_url, webhook(receiver)),
    ):
        await until(lambda: len(receiver.posted) == 1)
        db.execute("select redrive.discard('mail', array(select msg_id from pgmq.q_mail_dlq))")
        await until(lambda: len(receiver.posted) == 2)
    assert [(each["rule"], each["subject"], each["event"]) for each in receiver.alerts()] == [
        ("dead_letters", "mail", "firing"),
        ("dead_letters", "mail", "resolved"),
    ]
    assert receiver.alerts()[0]["database"] == described(database_url)
    firing, over = (
        record
        for record in caplog.records
        if getattr(record, "event", "").startswith("alert_")
        and getattr(record, "event", "") in ("alert_firing", "alert_resolved")
    )
    assert (firing.levelname, firing.event, firing.rule) == ("WARNING", "alert_firing", "dead_letters")  # type: ignore[attr-defined]
    assert (over.levelname, over.event, over.subject) == ("INFO", "alert_resolved", "mail")  # type: ignore[attr-defined]
    assert "t0p5ecret" not in caplog.text


async def test_a_clock_that_is_an_hour_off_changes_nothing(
    database_url: str, db: Db, receiver: SinkServer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock(database_url)
    clock.advance(3600)
    bury(db)
    async with watching(database_url, webhook(receiver), heartbeat_url=receiver.url + "/beat"):
        await until(lambda: len(receiver.posted) == 2)
    [posted] = [each for each in receiver.posted if each.body]
    # The receiver's clock is right, as the database's is.
    assert abs(float(posted.headers["webhook-timestamp"]) - clock.now().timestamp()) < 10
    [row] = fetch(db, "select * from redrive.alert_deliveries()")
    assert (row.state, row.attempts) == ("delivered", 0)


class TestDelivery:
    @pytest.fixture
    async def database(self, database_url: str) -> AsyncGenerator[Database]:
        opened = Database(database_url, size=2)
        yield opened
        await opened.close()

    async def test_what_is_due_at_once_is_one_message_where_the_sink_can(
        self, database: Database, db: Db
    ) -> None:
        together, apart = Stub("together"), Stub("apart", groups=False)
        declare(db, together, apart)
        for queue in ("one", "two", "three"):
            bury(db, queue)
        evaluate(db)
        await Delivery(database, [together, apart], where="h/d").finish()
        assert [len(batch) for batch in together.taken] == [3]
        assert [len(batch) for batch in apart.taken] == [1, 1, 1]
        assert sorted(together.told) == sorted(apart.told)
        assert together.taken[0][0].database == "h/d"

    async def test_one_that_fails_is_tried_again_later_and_says_why(
        self, database: Database, database_url: str, db: Db, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "redrive.watch")
        clock = Clock(database_url)
        sink = Stub("ops")
        declare(db, sink)
        bury(db)
        evaluate(db)
        delivery = Delivery(database, [sink], where="h/d")
        for _ in range(2):
            sink.then = [Undelivered("answered 500")]
            await delivery.finish()
            clock.advance(30)
        assert sink.taken == []
        [row] = fetch(db, "select * from redrive.alert_deliveries()")
        assert (row.state, row.attempts, row.error) == ("failing", 2, "answered 500")
        state = await database.run(alerts.state())
        assert (state.undelivered, state.delivery_failures) == (1, 2)
        await delivery.finish()
        assert sink.told == [("dead_letters", "mail", "firing")]
        said = [record.getMessage() for record in caplog.records]
        assert said.count("telling ops fails: answered 500") == 1
        assert "telling ops works again" in said and "told ops: dead_letters firing" in said

    async def test_a_sink_may_ask_for_a_pause(self, database: Database, database_url: str, db: Db) -> None:
        clock = Clock(database_url)
        sink = Stub("ops")
        declare(db, sink)
        bury(db)
        evaluate(db)
        sink.then = [Undelivered("answered 429", retry_after=120)]
        delivery = Delivery(database, [sink], where="h/d")
        await delivery.finish()
        clock.advance(60)
        await delivery.finish()
        assert sink.taken == []
        clock.advance(61)
        await delivery.finish()
        assert len(sink.taken) == 1

    async def test_a_sink_that_wants_no_more_is_given_up_at_once(self, database: Database, db: Db) -> None:
        sink = Stub("ops")
        declare(db, sink)
        bury(db)
        evaluate(db)
        sink.then = [Undelivered("answered 410 Gone, which means it wants no more", gone=True)]
        await Delivery(database, [sink], where="h/d").finish()
        [row] = fetch(db, "select * from redrive.alert_deliveries()")
        assert (row.state, row.error) == ("given up", "answered 410 Gone, which means it wants no more")

    async def test_a_sink_that_hangs_holds_up_no_other(self, database: Database, db: Db) -> None:
        slow, quick = Stub("slow"), Stub("quick")
        declare(db, slow, quick)
        bury(db)
        evaluate(db)
        slow.then = [60.0]
        delivery = Delivery(database, [slow, quick], where="h/d")
        await delivery.deliver()
        await until(lambda: len(quick.taken) == 1)
        bury(db, "other")
        evaluate(db)
        await delivery.deliver()
        await until(lambda: len(quick.taken) == 2)
        # One try at a time: the slow one was not asked again.
        assert (slow.taken, slow.then) == ([], [])
        began = time.monotonic()
        await delivery.stop()
        assert time.monotonic() - began < 1.5

    async def test_what_one_did_not_take_it_is_not_asked_about_again_and_again(
        self, database: Database, db: Db
    ) -> None:
        sink = Stub("pager", groups=False)
        declare(db, sink)
        for number in range(5):
            bury(db, f"queue_{number}")
        evaluate(db)
        sink.then = [Undelivered("no answer within 10 s")]
        await Delivery(database, [sink], where="h/d").finish()
        rows = fetch(db, "select state, error from redrive.alert_deliveries()")
        assert {tuple(row) for row in rows} == {("failing", "no answer within 10 s")} and len(rows) == 5
        assert sink.taken == []

    async def test_an_unforeseen_error_shows_its_kind_alone(
        self, database: Database, db: Db, caplog: pytest.LogCaptureFixture
    ) -> None:
        sink = Stub("ops")
        declare(db, sink)
        bury(db)
        evaluate(db)
        sink.then = [RuntimeError("https://h/t0p5ecret")]
        await Delivery(database, [sink], where="h/d").finish()
        [row] = fetch(db, "select * from redrive.alert_deliveries()")
        assert row.error == "could not be sent (RuntimeError)"
        assert "t0p5ecret" not in caplog.text

    async def test_several_processes_deliver_each_once(self, database: Database, db: Db) -> None:
        sinks = [Stub("ops", groups=False) for _ in range(3)]
        declare(db, sinks[0])
        for number in range(12):
            bury(db, f"queue_{number}")
        evaluate(db)
        for sink in sinks:
            sink.then = [0.05] * 12
        await asyncio.gather(*(Delivery(database, [sink], where="").finish() for sink in sinks))
        told = [each for sink in sinks for each in sink.told]
        assert len(told) == len(set(told)) == 12


class TestSecrets:
    async def test_no_part_of_a_url_or_key_is_in_log_or_tables(
        self, database_url: str, db: Db, receiver: SinkServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG, "redrive")
        receiver.status = 500
        bury(db)
        async with watching(database_url, webhook(receiver), heartbeat_url=receiver.url):
            await until(
                lambda: bool(fetch(db, "select from redrive.alert_deliveries() where error is not null"))
            )
        assert "answered 500" in caplog.text
        rows: list[Any] = []
        for table in ("alert", "alert_delivery", "alert_sink", "watch", "rule"):
            rows += fetch(db, f"select t::text from redrive.{table} t")
        for part in ("t0p5ecret", "hooks/", SECRET, SECRET.removeprefix("whsec_"), receiver.host):
            assert part not in caplog.text and not [row for row in rows if part in row[0]], part


class TestHeartbeat:
    async def test_it_beats_while_health_is_checked_whoever_does_and_one_process_at_a_time(
        self, database_url: str, database: Database, db: Db, receiver: SinkServer
    ) -> None:
        clock = Clock(database_url)
        beats = [Heartbeat(database, receiver.url, check_every=60) for _ in range(3)]
        for each in beats:
            await each.beat()
        assert receiver.posted == []  # nobody has ever checked

        evaluate(db)
        for each in beats:
            await each.beat()
        assert len(receiver.posted) == 1
        clock.advance(60)
        await beats[1].beat()
        assert len(receiver.posted) == 2
        clock.advance(100)
        await beats[0].beat()
        assert len(receiver.posted) == 2  # 160 s without a check
        evaluate(db)
        await beats[0].beat()
        assert len(receiver.posted) == 3

    async def test_one_that_fails_is_a_line_and_another_when_it_works_again(
        self,
        database_url: str,
        database: Database,
        db: Db,
        receiver: SinkServer,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.INFO, "redrive.watch")
        clock = Clock(database_url)
        heart = Heartbeat(database, receiver.url, check_every=60)
        for status in (500, 500, 500, 200):
            receiver.status = status
            evaluate(db)
            await heart.beat()
            clock.advance(60)
        assert [record.getMessage() for record in caplog.records] == [
            "sending the heartbeat fails: answered 500 Internal Server Error",
            "sending the heartbeat works again",
        ]


async def test_a_database_out_of_reach_is_one_line_and_one_when_it_is_back(
    database_url: str, server_tcp_url: str, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redrive.watch")
    name = str(conninfo_to_dict(database_url)["dbname"])
    async with Network(with_database(server_tcp_url, name)) as network:
        async with watching(network.url):
            await until(lambda: bool(fetch(db, "select from redrive.watch where checked_at is not null")))
            network.cut()
            await until(lambda: "checking health fails:" in caplog.text)
            await asyncio.sleep(1.5)
            assert caplog.text.count("checking health fails:") == 1
            network.mend()
            await until(lambda: "checking health works again" in caplog.text)
        # A stop while nothing answers takes no longer.
        stuck = Watch(network.url, check_every=1)
        await stuck.start()
        await asyncio.sleep(0)
        network.swallow()
        began = time.monotonic()
        await stuck.stop()
        assert time.monotonic() - began < 3.5


async def test_a_role_without_rights_is_one_line_or_none_where_that_is_no_news(
    database_url: str, db: Db, roles: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redrive.watch")
    url = roles.url(db.info, roles.create("nobody", "login"))
    async with watching(url, quiet=True):
        await asyncio.sleep(1.5)
    assert caplog.text == ""
    async with watching(url):
        await until(lambda: "checking health fails: permission denied" in caplog.text)
        await asyncio.sleep(1.0)
    assert caplog.text.count("permission denied") == 1
    # The line that no sink is configured aside, nothing else.
    assert len(caplog.records) == 2
