"""Arguments of sending that cannot be right: one clear sentence each, and nothing is sent."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Generator
from datetime import datetime
from typing import Any

import psycopg
import pytest

from redrive import InvalidArgument, PayloadError, QueueMissing, Redrive
from tests.support.connections import finished
from tests.support.layouts import newest_only

pytestmark = pytest.mark.once

Connection = psycopg.Connection[Any]


@pytest.fixture
async def app(database_url: str) -> AsyncGenerator[Redrive]:
    made = Redrive(database_url)
    yield made
    await made.close()


@newest_only
class TestBadInput:
    @pytest.fixture(autouse=True)
    def nothing_is_sent(self, db: Connection) -> Generator[None]:
        db.execute("select redrive.create_queue('mails')")
        yield
        assert db.execute("select count(*) from pgmq.q_mails").fetchone() == (0,)

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"delay": -5}, "delay is -5; it must be a finite number >= 0"),
            ({"delay": math.nan}, "delay is nan"),
            ({"delay": math.inf}, "delay is inf"),
            ({"delay": None}, "delay must be a number of seconds, not None"),
            ({"delay": "30"}, "delay must be a number of seconds, not '30'"),
            ({"delay": True}, "delay must be a number of seconds, not True"),
            ({"delay": False}, "delay must be a number of seconds, not False"),
            ({"delay": 1e10}, "it must be at most 3155760000 seconds"),
            ({"delay": datetime(2026, 7, 7)}, "has no time zone; add one, such as tzinfo=UTC"),
            ({"key": ""}, "key is 0 characters; it must have 1 to 512"),
            ({"key": "k" * 513}, "key is 513 characters; it must have 1 to 512"),
            ({"key": 7}, "key must be text, not int"),
            ({"key": "a\0"}, "key holds a NUL character"),
            ({"headers": [1]}, "headers must be a dict, not list"),
            ({"headers": {"x-redrive-key": "k"}}, "header 'x-redrive-key' is refused"),
            ({"headers": {"a": math.nan}}, "headers.a: nan is no JSON number"),
            ({"unique": True}, "unique needs a key; give one"),
        ],
    )
    async def test_options_that_cannot_be_right(self, app: Redrive, options: Any, problem: str) -> None:
        for send in (app.send, app.sync.send):
            with pytest.raises(InvalidArgument) as caught:
                await finished(send("mails", 1, **options))
            assert problem in str(caught.value)

    @pytest.mark.parametrize("queue", ["", "a b", "a--b'", "mails_dlq", "1st", "a" * 44, "a\0", None, 3])
    async def test_names_that_no_queue_has(self, app: Redrive, queue: Any) -> None:
        for send in (app.send, app.sync.send):
            with pytest.raises(InvalidArgument, match=r"queue name .* is refused; the rule is"):
                await finished(send(queue, 1))

    async def test_a_queue_that_does_not_exist_names_the_command(self, app: Redrive) -> None:
        with pytest.raises(
            QueueMissing, match="queue nowhere does not exist; run: redrive queue create nowhere"
        ):
            await app.send("nowhere", 1)
        with pytest.raises(QueueMissing, match="nowhere"):
            app.sync.send_many("nowhere", [1])

    @pytest.mark.parametrize(
        ("payload", "path"),
        [({"a": "x\0y"}, r"\$\.a"), ("\ud800", r"\$"), ([math.nan], r"\$\[0\]"), ({"a": {1}}, r"\$\.a")],
    )
    async def test_a_payload_that_is_no_json_is_named_by_path_and_index(
        self, app: Redrive, payload: Any, path: str
    ) -> None:
        for send in (app.send, app.sync.send):
            with pytest.raises(PayloadError, match=f"^{path}: "):
                await finished(send("mails", payload))
        for send_many in (app.send_many, app.sync.send_many):
            with pytest.raises(PayloadError, match=f"^message 5000: {path}: "):
                await finished(send_many("mails", [*range(5000), payload]))

    async def test_a_payload_beyond_the_limit(self, database_url: str, app: Redrive) -> None:
        with pytest.raises(PayloadError, match=r"1,000,002 bytes of JSON; the limit is 1,000,000"):
            await app.send("mails", "a" * 1_000_000)
        small = Redrive(database_url, max_payload=10)
        with pytest.raises(PayloadError, match="11 bytes of JSON; the limit is 10"):
            await small.send("mails", "a" * 9)

    async def test_keys_that_do_not_match_the_messages(self, app: Redrive) -> None:
        with pytest.raises(InvalidArgument, match="there are 1 keys for 2 messages"):
            await app.send_many("mails", [1, 2], keys=["a"])
        with pytest.raises(InvalidArgument, match="message 1: key must be text, not int"):
            await app.send_many("mails", [1, 2], keys=["a", 7])  # type: ignore

    @pytest.mark.parametrize("ids", [[0], [-1], ["1"], [None], [2**63], 5, "12"])
    async def test_ids_that_are_none(self, app: Redrive, ids: Any) -> None:
        with pytest.raises(InvalidArgument, match="id"):
            await app.cancel("mails", ids)
        with pytest.raises(InvalidArgument, match="id"):
            await app.reschedule("mails", ids, 1)

    async def test_cancel_takes_ids_or_a_key(self, app: Redrive) -> None:
        for arguments in ({}, {"ids": [1], "key": "k"}):
            with pytest.raises(InvalidArgument, match="either the ids of messages or one key"):
                await app.cancel("mails", **arguments)

    async def test_a_misspelt_option_is_named(self, app: Redrive) -> None:
        with pytest.raises(TypeError, match="dely"):
            await app.send("mails", 1, dely=3)  # type: ignore
