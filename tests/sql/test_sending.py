"""Sending through every kind of connection: in the caller's transaction, and by redrive's own pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Literal

import psycopg
import pytest
import sqlalchemy
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from redrive import InvalidArgument, PayloadError, QueueMissing, Redrive, Sent, SetupError, Unavailable
from redrive.payload import decode
from redrive.store import messages
from tests.support.connections import (
    BLOCKING,
    EVERYWHERE,
    django_,
    django_connection,
    finished,
    psycopg_async,
    transaction,
)
from tests.support.layouts import newest_only, with_headers
from tests.support.values import json_values, shape

pytestmark = pytest.mark.once

Connection = psycopg.Connection[Any]


class Email(BaseModel):
    template: Literal["welcome", "weekly_digest"]
    n: int = 0


@pytest.fixture
async def app(database_url: str) -> AsyncGenerator[Redrive]:
    made = Redrive(database_url)
    yield made
    await made.close()


@pytest.fixture(autouse=True)
def mails(db: Connection) -> None:
    db.execute("select redrive.create_queue('mails')")


def stored(db: Connection) -> list[Any]:
    rows = db.execute("select message::text from pgmq.q_mails order by msg_id").fetchall()
    return [decode(row[0]) for row in rows]


HOSTILE = {
    "big": 2**70,
    "text": "é ␀ \U0001f600 % %s ' \" \\ :name $1 \\u0000",
    "float": 1e23,
    "none": None,
    "list": [1, [True, {}]],
}


@newest_only
class TestTheCallersTransaction:
    @pytest.mark.parametrize("kind", BLOCKING)
    def test_blocking_code_commits_or_rolls_back_what_it_sent(
        self, app: Redrive, db: Connection, database_url: str, kind: Any
    ) -> None:
        with kind(database_url) as t:
            sent = app.sync.send(
                "mails", HOSTILE, key="a", delay=0.5, headers={"h": 1}, connection=t.connection
            )
            many = app.sync.send_many("mails", [1, "two", {"three": 3}], connection=t.connection)
            assert t.fetch("select count(*)::int as v from pgmq.q_mails") == 4
            assert stored(db) == []
            t.commit()
            assert stored(db) == [HOSTILE, 1, "two", {"three": 3}]
            assert [sent.id, *(each.id for each in many)] == [1, 2, 3, 4]
            app.sync.send("mails", "never", connection=t.connection)
            app.sync.cancel("mails", [1], connection=t.connection)
            t.rollback()
            assert stored(db) == [HOSTILE, 1, "two", {"three": 3}]

    @pytest.mark.parametrize("kind", EVERYWHERE)
    async def test_async_code_commits_or_rolls_back_what_it_sent(
        self, app: Redrive, db: Connection, database_url: str, kind: Any
    ) -> None:
        # A blocking connection is taken as well: it is the caller's choice to wait for it.
        async with transaction(kind, database_url) as t:
            sent = await app.send(
                "mails", HOSTILE, key="a", delay=0.5, headers={"h": 1}, connection=t.connection
            )
            many = await app.send_many("mails", [1, "two", {"three": 3}], connection=t.connection)
            assert await finished(t.fetch("select count(*)::int as v from pgmq.q_mails")) == 4
            assert stored(db) == []
            await finished(t.commit())
        assert stored(db) == [HOSTILE, 1, "two", {"three": 3}]
        assert [sent.id, *(each.id for each in many)] == [1, 2, 3, 4]
        async with transaction(kind, database_url) as t:
            await app.send("mails", "never", connection=t.connection)
            await app.cancel("mails", key="a", connection=t.connection)
            await finished(t.rollback())
        assert stored(db) == [HOSTILE, 1, "two", {"three": 3}]

    @pytest.mark.parametrize("kind", EVERYWHERE)
    async def test_a_fault_is_the_same_redrive_error_whichever_driver_met_it(
        self, app: Redrive, database_url: str, kind: Any
    ) -> None:
        async with transaction(kind, database_url) as t:
            with pytest.raises(QueueMissing) as caught:
                await app.send("nowhere", 1, connection=t.connection)
            assert str(caught.value) == "queue nowhere does not exist; run: redrive queue create nowhere"
            assert caught.value.__cause__ is not None
            await finished(t.rollback())

    def test_a_fault_through_django_is_the_same_error(self, app: Redrive, database_url: str) -> None:
        with django_(database_url) as t, pytest.raises(QueueMissing, match=r"^queue nowhere does not exist"):
            app.sync.send("nowhere", 1, connection=t.connection)

    def test_a_connection_that_cannot_take_the_text_is_said_to_be(
        self, app: Redrive, db: Connection, database_url: str
    ) -> None:
        with psycopg.connect(database_url, client_encoding="latin1") as connection:
            app.sync.send("mails", "é", connection=connection)
            with pytest.raises(InvalidArgument, match="client_encoding cannot take '本'; set it to UTF8"):
                app.sync.send("mails", "本", connection=connection)
        assert stored(db) == ["é"]

    def test_autocommit_is_the_callers_choice_too(
        self, app: Redrive, db: Connection, database_url: str
    ) -> None:
        app.sync.send("mails", 1, connection=db)
        handler = django_connection(database_url)
        app.sync.send("mails", 2, connection=handler["default"])
        handler.close_all()
        assert stored(db) == [1, 2]

    async def test_an_unknown_connection_is_refused_with_what_is_taken(self, app: Redrive) -> None:
        for strange, kind in [
            (SimpleNamespace(), "types.SimpleNamespace"),
            ("postgresql://h", "builtins.str"),
            (sqlalchemy.create_engine("postgresql+psycopg://h/d"), "sqlalchemy.engine.base.Engine"),
        ]:
            with pytest.raises(
                InvalidArgument, match=f"connection is a {kind}; send takes a psycopg Connection"
            ):
                await app.send("mails", 1, connection=strange)
            with pytest.raises(InvalidArgument, match=f"connection is a {kind}"):
                app.sync.send("mails", 1, connection=strange)

    async def test_blocking_code_refuses_an_async_connection(self, app: Redrive, database_url: str) -> None:
        async with psycopg_async(database_url) as t:
            with pytest.raises(
                InvalidArgument, match=r"AsyncConnection of psycopg is async; await app\.send"
            ):
                app.sync.send("mails", 1, connection=t.connection)


class TestSending:
    async def test_what_is_sent_is_what_the_queue_holds(self, app: Redrive, db: Connection) -> None:
        payload = {"digits": 10**5000 + 1, "price": Decimal("1.10"), "f": 1e23, "t": "é\U0001f600"}
        await app.send("mails", payload)
        (back,) = stored(db)
        assert back == {**payload, "price": 1.1}
        assert isinstance(back["f"], float)

    @newest_only
    def test_any_json_comes_back_equal_from_the_database(self, app: Redrive, db: Connection) -> None:
        @settings(max_examples=25, deadline=None)
        @given(st.lists(json_values, min_size=1, max_size=30))
        def comes_back(values: list[Any]) -> None:
            db.execute("truncate pgmq.q_mails")
            app.sync.send_many("mails", values, connection=db)
            app.sync.send("mails", values, connection=db)
            assert shape(stored(db)) == shape([*values, values])

        comes_back()

    async def test_blocking_code_needs_no_connection(self, app: Redrive, db: Connection) -> None:
        # Called on a thread whose event loop is running, which must not matter.
        assert app.sync.send("mails", 1) == Sent(1, False)
        assert app.sync.send_many("mails", [2, 3]) == [Sent(2, False), Sent(3, False)]
        assert app.sync.cancel("mails", [2]) == [2]
        assert app.sync.reschedule("mails", [3], 60) == [3]
        assert stored(db) == [1, 3]

    async def test_many_are_sent_in_order_or_not_at_all(
        self, app: Redrive, db: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(messages, "CHUNK", 10)
        sent = await app.send_many("mails", ({"n": n} for n in range(25)))
        assert [each.id for each in sent] == list(range(1, 26))
        assert stored(db) == [{"n": n} for n in range(25)]
        assert await app.send_many("mails", []) == []
        # The database refuses the last chunk only: the others of the call go with it.
        db.execute("alter table pgmq.q_mails add check (message <> '\"bad\"')")
        with pytest.raises(psycopg.errors.CheckViolation):
            await app.send_many("mails", [*range(20), "bad"])
        with pytest.raises(psycopg.errors.CheckViolation):
            app.sync.send_many("mails", [*range(20), "bad"])
        assert len(stored(db)) == 25

    async def test_a_delay_is_seconds_or_a_moment(self, app: Redrive, db: Connection) -> None:
        at = datetime(2040, 7, 7, 12, tzinfo=UTC)
        await app.send("mails", 1, delay=3600)
        await app.send("mails", 2, delay=at)
        await app.send_many("mails", [3], delay=at.astimezone())
        await app.send("mails", 4)
        due = [row[0] for row in db.execute("select vt from pgmq.q_mails order by msg_id").fetchall()]
        now = datetime.now(UTC)
        assert timedelta(seconds=3590) < due[0] - now <= timedelta(seconds=3600)
        assert due[1:3] == [at, at]
        assert due[3] <= now

    @with_headers
    async def test_key_and_headers_travel_beside_the_payload(self, app: Redrive, db: Connection) -> None:
        await app.send("mails", 1, key='k "\\{},é', headers={"trace": "abc"})
        await app.send_many("mails", [2, 3], keys=['a,"b', None], headers={"trace": "abc"})
        rows = db.execute("select headers from pgmq.q_mails order by msg_id").fetchall()
        assert [row[0] for row in rows] == [
            {"trace": "abc", "x-redrive-key": 'k "\\{},é'},
            {"trace": "abc", "x-redrive-key": 'a,"b'},
            {"trace": "abc"},
        ]

    @with_headers
    async def test_a_unique_key_sends_once_and_answers_with_the_first(
        self, app: Redrive, db: Connection
    ) -> None:
        assert await app.send("mails", 1, key="k", unique=True) == Sent(1, False)
        assert await app.send("mails", 2, key="k", unique=True) == Sent(1, True)
        assert app.sync.send("mails", 3, key="k", unique=True) == Sent(1, True)
        many = await app.send_many("mails", [4, 5, 6], keys=["k", "l", "l"], unique=True)
        assert many[0] == Sent(1, True)
        assert not many[1].duplicate
        assert many[2] == Sent(many[1].id, True)
        assert stored(db) == [1, 5]

    @newest_only
    async def test_fifty_at_once_with_one_unique_key_send_one_message(
        self, app: Redrive, db: Connection
    ) -> None:
        sent = await asyncio.gather(*(app.send("mails", n, key="k", unique=True) for n in range(50)))
        assert sorted(each.duplicate for each in sent) == [False] + [True] * 49
        assert len({each.id for each in sent}) == len(stored(db)) == 1

    async def test_a_key_in_the_payload_is_a_key(self, app: Redrive, db: Connection) -> None:
        first = await app.send("mails", {"idempotency_key": "k"}, unique=True)
        assert await app.send("mails", {"idempotency_key": "k"}, unique=True) == Sent(first.id, True)

    async def test_a_key_taken_by_hand_belongs_to_no_message(self, app: Redrive, db: Connection) -> None:
        db.execute("select redrive.begin_job('k', 'me', 60, 'mails')")
        assert await app.send("mails", {"idempotency_key": "k"}, unique=True) == Sent(0, True)

    async def test_a_typed_job_sends_what_fits_its_type(self, app: Redrive, db: Connection) -> None:
        @app.job("mails")
        async def mail(email: Email) -> None: ...

        await mail.send(Email(template="welcome"))
        mail.sync.send(Email(template="weekly_digest", n=1))
        await mail.send_many([Email(template="welcome", n=2)])
        mail.sync.send_many([Email(template="welcome", n=3)])
        bad: Any = {"template": "bogus"}
        with pytest.raises(PayloadError, match=r"^\$\.template: Input should be"):
            await mail.send(bad)
        with pytest.raises(PayloadError, match=r"^message 1: \$\.template: Input should be"):
            await mail.send_many([Email(template="welcome"), bad])
        assert [each["n"] for each in stored(db)] == [0, 1, 2, 3]


class TestCancellingAndRescheduling:
    async def test_a_cancelled_message_is_archived_and_its_key_is_free(
        self, app: Redrive, db: Connection
    ) -> None:
        ids = [each.id for each in await app.send_many("mails", [1, 2, {"idempotency_key": "k"}])]
        assert await app.cancel("mails", [ids[0], 999]) == [ids[0]]
        assert await app.cancel("mails", key="k") == [ids[2]]
        assert await app.cancel("mails", key="k") == []
        assert stored(db) == [2]
        assert not (await app.send("mails", {"idempotency_key": "k"}, unique=True)).duplicate

    async def test_a_rescheduled_message_is_due_when_it_is_told(self, app: Redrive, db: Connection) -> None:
        sent = await app.send("mails", 1, delay=3600)
        assert await app.reschedule("mails", [sent.id], 0) == [sent.id]
        (visible,) = db.execute("select vt <= clock_timestamp() from pgmq.q_mails").fetchall()
        assert visible[0]


class TestTheDatabase:
    async def test_without_a_database_the_error_says_what_to_set(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("REDRIVE_DATABASE_URL", "DATABASE_URL"):
            monkeypatch.delenv(name, raising=False)
        from redrive import ConfigError

        with pytest.raises(ConfigError, match="no database is named; set REDRIVE_DATABASE_URL"):
            await Redrive().send("mails", 1)

    @newest_only
    async def test_the_environment_names_the_database(
        self, monkeypatch: pytest.MonkeyPatch, database_url: str, db: Connection
    ) -> None:
        monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
        app = Redrive()
        await app.send("mails", 1)
        await app.close()
        assert stored(db) == [1]

    @newest_only
    async def test_a_database_out_of_reach_is_unavailable(self) -> None:
        app = Redrive("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")
        for send in (app.send, app.sync.send):
            with pytest.raises(Unavailable):
                await finished(send("mails", 1))
        await app.close()

    @newest_only
    async def test_a_database_without_redrive_names_the_command(self, empty_database_url: str) -> None:
        app = Redrive(empty_database_url)
        with pytest.raises(SetupError, match="redrive migrate"):
            await app.send("mails", 1)
        with psycopg.connect(empty_database_url) as connection, pytest.raises(SetupError, match="migrate"):
            await app.send("mails", 1, connection=connection)
        await app.close()

    @newest_only
    async def test_close_may_be_called_twice_and_before_anything(self, app: Redrive, db: Connection) -> None:
        await app.close()
        app.sync.send("mails", 1)
        await app.send("mails", 2)
        await app.close()
        await app.close()
        await app.send("mails", 3)
        assert stored(db) == [1, 2, 3]
