"""The statements of `store.events`, on the pool and on a caller's own connection of another driver."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import psycopg
import pytest

from redrive.errors import InvalidArgument, QueueMissing
from redrive.store import adapters, events
from redrive.store.database import Database
from tests.support.connections import parts
from tests.support.layouts import NEWEST

BYTES = bytes(range(256))


@pytest.fixture
def layout() -> str:
    """What differs by pgmq is in SQL, and tested there."""
    return NEWEST


@pytest.fixture(autouse=True)
def queue(db: psycopg.Connection) -> None:
    db.execute("select redrive.create_queue('jobs', '{\"max_attempts\": 1}')")


async def test_what_was_received_is_loaded_as_it_was(database: Database) -> None:
    headers = {"content-type": "application/json", "x-two": ["1", "é"]}
    got = await database.run(
        events.receive("stripe", "evt_1", "a.b", '{"n": 1}', BYTES, headers, "jobs", resource="r")
    )
    assert (got.duplicate, got.conflict) == (False, False)
    event = await database.run(events.load(got.id))
    assert event is not None
    assert (event.id, event.source, event.event_id, event.type) == (got.id, "stripe", "evt_1", "a.b")
    assert (event.payload, event.raw, event.headers) == ('{"n": 1}', BYTES, headers)
    assert (event.resource, event.msg_id, event.queue, event.origin) == ("r", got.msg_id, "jobs", "webhook")
    assert await database.run(events.load(str(uuid4()))) is None


async def test_a_body_without_payload_and_the_options(database: Database) -> None:
    got = await database.run(events.receive("s", "e", "unknown", None, b"", {}, "jobs", origin="reconcile"))
    event = await database.run(events.load(got.id))
    assert event is not None
    assert (event.payload, event.raw, event.origin) == (None, b"", "reconcile")
    first = await database.run(events.receive("s", "v", "t", '{"a": 1}', b"1", {}, "jobs"))
    volatile = events.receive("s", "v", "t", '{"a": 2}', b"2", {}, "jobs", volatile=["a", 'b"\\,{}'])
    assert await database.run(volatile) == first._replace(duplicate=True)
    derived = events.receive("s", "v", "t", '{"a": 3}', b"3", {}, "jobs", derived=True)
    assert await database.run(derived) == first._replace(duplicate=True)
    conflict = events.receive("s", "v", "t", '{"a": 3}', b"3", {}, "jobs")
    assert await database.run(conflict) == first._replace(duplicate=True, conflict=True)


async def test_a_payload_that_jsonb_cannot_hold_is_an_invalid_argument(database: Database) -> None:
    for text in ('"\\u0000"', '"\\ud800"', "1e200000", "no json"):
        with pytest.raises(InvalidArgument):
            await database.run(events.receive("s", "e", "t", text, b"", {}, "jobs"))
    with pytest.raises(psycopg.errors.StatementTooComplex):
        await database.run(events.receive("s", "e", "t", "[" * 100_000 + "]" * 100_000, b"", {}, "jobs"))
    with pytest.raises(QueueMissing):
        await database.run(events.receive("s", "e", "t", "{}", b"", {}, "nowhere"))


async def test_bytes_travel_by_another_driver(database: Database, database_url: str) -> None:
    connection = await asyncpg.connect(**parts(database_url))
    try:
        got = await adapters.run(events.receive("s", "e", "t", "{}", BYTES, {}, "jobs"), connection)
        event = await adapters.run(events.load(got.id), connection)
    finally:
        await connection.close()
    assert event is not None
    assert event.raw == BYTES
    assert event == await database.run(events.load(got.id))


async def test_pages_replays_and_counts(database: Database) -> None:
    before = await database.run(events.now())
    got = [
        await database.run(events.receive("ab"[n % 2], str(n), f"t.{n}", "{}", b"", {}, "jobs"))
        for n in range(4)
    ]
    page = await database.run(events.page(limit=3))
    assert [each.event_id for each in page] == ["3", "2", "1"]
    rest = await database.run(events.page(after=page[-1].id, limit=3))
    assert [(each.id, each.source, each.msg_id) for each in rest] == [(got[0].id, "a", got[0].msg_id)]
    after = await database.run(events.now())
    assert len(await database.run(events.page(since=before, until=after, type="t.*", status="received"))) == 4
    assert await database.run(events.page(until=before)) == []
    assert await database.run(events.page(resource="r", source="a")) == []
    replayed = await database.run(events.replay([got[0].id]))
    assert replayed == [events.Replayed(got[0].id, got[0].msg_id, "live")]
    a, b = await database.run(events.status())
    assert (a.source, a.received, a.waiting, a.more, a.refused) == ("a", 2, 2, False, {})
    assert await database.run(events.status("b")) == [b]


async def test_refusals_go_in_and_come_out(database: Database) -> None:
    sample = {"detail": "d", "headers": {"h": "é"}, "body_base64": "AP8=", "size": 2}
    await database.run(
        events.note_refusals([{"source": "s", "reason": "stale", "count": 2, "samples": [sample]}])
    )
    [kept] = await database.run(events.refusals("s"))
    assert (kept.reason, kept.detail, kept.headers, kept.body, kept.size) == (
        "stale",
        "d",
        {"h": "é"},
        b"\0\xff",
        2,
    )
    [status] = await database.run(events.status("s"))
    assert (status.received, status.refused) == (0, {"stale": 2})


@pytest.mark.parametrize(
    "at",
    [
        "infinity",
        "-infinity",
        "0044-03-15 BC",
        "1969-12-31T23:59:59Z",
        "294276-01-01",
        "9999-12-31",
        "soon",
        "",
    ],
)
async def test_a_refusal_at_no_time_a_clock_has_is_one_of_now(database: Database, at: str) -> None:
    before = await database.run(events.now())
    said = [{"source": "s", "reason": "stale", "count": 1, "samples": [{"at": at}]}]
    await database.run(events.note_refusals(said))
    [kept] = await database.run(events.refusals("s"))
    assert before <= kept.at <= await database.run(events.now())


async def test_a_refusal_keeps_the_time_of_its_receiver(database: Database) -> None:
    at = await database.run(events.now()) - timedelta(seconds=3)
    said = [{"source": "s", "reason": "stale", "count": 1, "samples": [{"at": at.isoformat()}]}]
    await database.run(events.note_refusals(said))
    assert [each.at for each in await database.run(events.refusals("s"))] == [at]


async def test_a_refusal_that_was_kept_with_such_a_time_can_be_read(
    database: Database, db: psycopg.Connection
) -> None:
    db.execute("insert into redrive.webhook_refused (source, at, reason) values ('s', 'infinity', 'stale')")
    [kept] = await database.run(events.refusals("s"))
    assert kept.at <= await database.run(events.now())


async def test_an_older_answer_is_not_written(database: Database) -> None:
    now = await database.run(events.now())
    assert await database.run(events.note_fetch("s", "r", now))
    assert not await database.run(events.note_fetch("s", "r", now - timedelta(microseconds=1)))


@pytest.mark.parametrize("id", ["", "x", "1", 7, "665c16a9-7741-4027-b84b-7352d5dc8f9"])
def test_what_is_no_uuid_is_refused_before_any_sql(id: str) -> None:
    for statement in (lambda: events.load(id), lambda: events.replay([id]), lambda: events.page(after=id)):
        with pytest.raises(InvalidArgument, match="is no uuid"):
            statement()


def test_a_page_that_can_never_be_is_refused_before_any_sql() -> None:
    with pytest.raises(InvalidArgument, match="status 'new' is unknown"):
        events.page(status="new")
    with pytest.raises(InvalidArgument, match="has no time zone"):
        events.page(since=datetime(2026, 1, 1))
    with pytest.raises(InvalidArgument, match="limit is 0"):
        events.page(limit=0)
    assert events.page(since=datetime(2026, 1, 1, tzinfo=UTC)).params[4] == "2026-01-01T00:00:00+00:00"
