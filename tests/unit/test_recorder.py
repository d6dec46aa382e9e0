"""Recorder: events that arrive together go together, and what befalls one befalls no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from psycopg import OperationalError, errors

from redrive.errors import InvalidArgument, QueueMissing, Unavailable
from redrive.inbox import recorder as recording
from redrive.inbox.examine import Examined
from redrive.inbox.inbox import Inbox
from redrive.inbox.recorder import Recorder
from redrive.store.database import Database
from redrive.store.events import Received
from redrive.store.statement import Statement
from tests.support.working import until

Event = dict[str, Any]


def _alone(statement: Statement[Any]) -> Event:
    """The one event of a `receive`."""
    names = ("source", "event_id", "type", "payload", "raw", "headers", "queue")
    given = dict(zip(names, statement.params, strict=False))
    return {name: value for name, value in given.items() if value is not None}


class Held:
    """A database whose calls end when they are let."""

    def __init__(self) -> None:
        self.calls: list[list[Event]] = []
        self.gates: list[asyncio.Future[None]] = []
        self.open = True
        self.refuse: Callable[[list[Event]], Exception | None] = lambda events: None

    async def run(self, statement: Statement[Any], *, deadline: float) -> Any:
        together = "receive_events" in statement.sql
        given = json.loads(str(statement.params[0])) if together else [_alone(statement)]
        self.calls.append(given)
        if not self.open:
            self.gates.append(asyncio.get_running_loop().create_future())
            await self.gates[-1]
        if error := self.refuse(given):
            raise error
        answers = [Received(each["event_id"], 1, False, False) for each in given]
        return answers if together else answers[0]

    @property
    def sizes(self) -> list[int]:
        return [len(each) for each in self.calls]

    def let(self, n: int) -> None:
        self.gates[n].set_result(None)


@pytest.fixture
def database() -> Held:
    return Held()


@pytest.fixture
def recorder(database: Held) -> Recorder:
    return Recorder(lambda: cast("Database", database))


INBOX = Inbox.of(
    "github",
    provider="github",
    queue="hooks",
    secret="s",
    limit=1,
    tolerance=None,
    config=None,
    url=None,
    api=None,
)


def examined(event_id: str, raw: bytes = b"{}") -> Examined:
    return Examined(event_id, "push", None, False, "{}", raw, {})


async def settled() -> None:
    """Let everything that can run now run."""
    for _ in range(10):
        await asyncio.sleep(0)


def cannot_hold() -> Exception:
    return errors.UntranslatableCharacter("\\u0000 cannot be converted to text")


async def test_what_arrives_alone_waits_for_nobody(recorder: Recorder, database: Held) -> None:
    assert (await recorder.record(INBOX, examined("1"))).id == "1"
    assert database.sizes == [1]


async def test_what_arrives_while_calls_are_under_way_goes_with_the_next_one(
    recorder: Recorder, database: Held
) -> None:
    database.open = False
    answers = [recorder.record(INBOX, examined("a"))]
    await settled()
    answers.append(recorder.record(INBOX, examined("b")))
    await settled()
    answers += [recorder.record(INBOX, examined(str(n))) for n in range(10)]
    await settled()
    assert database.sizes == [1], "one at once, and no second"
    database.open = True
    database.let(0)
    assert [(await answer).id for answer in answers] == ["a", "b", *(str(n) for n in range(10))]
    assert database.sizes == [1, 11]


async def test_a_call_holds_so_many_events_and_so_many_bytes(recorder: Recorder, database: Held) -> None:
    database.open = False
    first = [recorder.record(INBOX, examined(each)) for each in "ab"]
    await settled()
    many = [recorder.record(INBOX, examined(str(n))) for n in range(100)]
    large = [recorder.record(INBOX, examined(f"L{n}", b"x" * 600_000)) for n in range(3)]
    huge = recorder.record(INBOX, examined("huge", b"x" * 5_000_000))
    await settled()
    database.open = True
    for n in range(len(database.gates)):
        database.let(n)
    await asyncio.gather(*first, *many, *large, huge)
    asked = [[event["event_id"] for event in call] for call in database.calls]
    assert max(map(len, asked)) == 64
    assert [call for call in asked if "huge" in call] == [["huge"]]
    assert all(sum(each.startswith("L") for each in call) <= 1 for call in asked)
    assert sum(map(len, asked)) == 106


async def test_large_events_go_one_at_a_time_and_small_ones_pass_them_by(
    recorder: Recorder, database: Held
) -> None:
    database.open = False
    large = [recorder.record(INBOX, examined(f"L{n}", b"x" * 2_000_000)) for n in range(3)]
    await settled()
    assert database.sizes == [1]
    database.open = True
    small = [recorder.record(INBOX, examined(str(n))) for n in range(20)]
    assert [(await each).id for each in small] == [str(n) for n in range(20)]
    assert not any(each.done() for each in large)
    database.let(0)
    assert [(await each).id for each in large] == ["L0", "L1", "L2"]


async def test_a_call_that_hangs_lets_others_begin(database: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_MOMENT", 0.01)
    recorder = Recorder(lambda: cast("Database", database))
    database.open = False
    hanging = recorder.record(INBOX, examined("a"))
    await settled()
    database.open = True
    assert (await recorder.record(INBOX, examined("b"))).id == "b"
    assert not hanging.done()
    database.let(0)
    assert (await hanging).id == "a"


async def test_one_that_ends_late_is_not_counted_twice(
    database: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_MOMENT", 0.01)
    recorder = Recorder(lambda: cast("Database", database))
    database.open = False
    late = recorder.record(INBOX, examined("a"))
    await until(lambda: not recorder._small._counted)
    monkeypatch.setattr(recorder._small, "_moment", None)
    database.let(0)
    await late
    under_way = recorder.record(INBOX, examined("b"))
    await settled()
    waiting = recorder.record(INBOX, examined("c"))
    await settled()
    assert database.sizes == [1, 1], "the one that is under way counts, the late one no more"
    database.open = True
    database.let(1)
    assert [(await each).id for each in (under_way, waiting)] == ["b", "c"]


async def test_one_that_the_database_cannot_hold_is_recorded_raw_and_its_neighbours_as_they_are(
    recorder: Recorder, database: Held
) -> None:
    database.refuse = lambda events: (
        cannot_hold() if any(each["event_id"] == "bad" and "payload" in each for each in events) else None
    )
    answers = [recorder.record(INBOX, examined(each)) for each in ("good", "bad", "fine")]
    assert [(await answer).id for answer in answers] == ["good", "bad", "fine"]
    recorded = {call[0]["event_id"]: "payload" in call[0] for call in database.calls[1:]}
    assert recorded == {"good": True, "bad": False, "fine": True}


async def test_one_whose_queue_is_missing_fails_alone(recorder: Recorder, database: Held) -> None:
    lost = Inbox.of(
        "mux",
        provider="mux",
        queue="gone",
        secret="s",
        limit=1,
        tolerance=None,
        config=None,
        url=None,
        api=None,
    )
    database.refuse = lambda events: (
        QueueMissing("queue gone does not exist") if any(e["queue"] == "gone" for e in events) else None
    )
    answers = [recorder.record(INBOX, examined("a")), recorder.record(lost, examined("b"))]
    assert (await answers[0]).id == "a"
    with pytest.raises(QueueMissing):
        await answers[1]


async def test_an_unreachable_database_is_asked_once_for_all(recorder: Recorder, database: Held) -> None:
    database.refuse = lambda events: Unavailable("nobody listens")
    answers = [recorder.record(INBOX, examined(str(n))) for n in range(5)]
    for answer in answers:
        with pytest.raises(Unavailable):
            await answer
    assert database.sizes == [5]


async def test_whoever_has_gone_away_keeps_nothing_from_being_recorded(
    recorder: Recorder, database: Held
) -> None:
    database.open = False
    gone, there = (recorder.record(INBOX, examined(each)) for each in ("gone", "there"))
    await settled()
    gone.cancel()
    database.let(0)
    assert (await there).id == "there"
    assert [event["event_id"] for call in database.calls for event in call] == ["gone", "there"]


async def test_its_end_waits_for_what_is_under_way(recorder: Recorder, database: Held) -> None:
    database.open = False
    answer = recorder.record(INBOX, examined("1"))
    await settled()
    closing = asyncio.create_task(recorder.close(5))
    await settled()
    assert not closing.done()
    database.let(0)
    await closing
    assert answer.done()


def test_an_error_without_a_cause_is_not_the_sender_s() -> None:
    assert not recording._cannot_hold(InvalidArgument("queue name 'x y' is refused"))
    assert not recording._cannot_hold(OperationalError("gone"))
