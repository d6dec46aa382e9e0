"""What was refused is gathered in bounded memory, and told to the database when it is there."""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import Any, cast

import pytest

from redrive import InvalidArgument, Unavailable
from redrive.inbox import refusals as module
from redrive.inbox.refusals import Refusals
from redrive.store.database import Database
from tests.support.receiving import Recording
from tests.support.working import until

HEADERS = [(b"x-hub-signature-256", b"sha256=00"), (b"authorization", b"Bearer secret")]


class Noted:
    def __init__(self) -> None:
        self.database = Recording()
        self.refusals = Refusals(lambda: cast("Database", self.database), lambda: 1_764_500_000.0)

    def note(self, reason: str = "mismatch", body: bytes = b"{}", source: str = "github") -> None:
        self.refusals.note(source, reason, "does not fit", HEADERS, body, len(body))

    @property
    def told(self) -> list[tuple[str, int, int]]:
        return [(each["reason"], each["count"], len(each["samples"])) for each in self.database.refusals]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_EVERY", 0.01)


async def test_one_is_told_with_what_an_operator_needs_and_no_credential() -> None:
    noted = Noted()
    noted.note(body=b"x" * 10_000)
    await noted.refusals.flush()
    [told] = noted.database.refusals
    [sample] = told.pop("samples")
    assert told == {"source": "github", "reason": "mismatch", "count": 1}
    assert base64.b64decode(sample.pop("body_base64")) == b"x" * 4_096
    assert sample == {
        "at": "2025-11-30T10:53:20+00:00",
        "detail": "does not fit",
        "headers": {"x-hub-signature-256": "sha256=00"},
        "size": 10_000,
        "event_id": None,
    }


async def test_a_million_are_counted_and_ten_kept_the_newest() -> None:
    noted = Noted()
    for n in range(50_000):
        noted.note(body=b"%d" % n)
        noted.note("stale")
    await noted.refusals.flush()
    assert noted.told == [("mismatch", 50_000, 10), ("stale", 50_000, 10)]
    newest = noted.database.refusals[0]["samples"][-1]
    assert base64.b64decode(newest["body_base64"]) == b"49999"


@pytest.mark.usefixtures("quick")
async def test_they_are_told_by_themselves_and_then_nothing_runs_any_more() -> None:
    noted = Noted()
    for round in (1, 2):
        noted.note()
        await until(lambda told=round: len(noted.told) == told)
    await until(lambda: "redrive-refusals" not in {each.get_name() for each in asyncio.all_tasks()})
    assert noted.refusals.waiting == 0


@pytest.mark.usefixtures("quick")
async def test_while_the_database_is_away_they_wait_and_one_line_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "redrive.inbox")
    noted = Noted()
    noted.database.down = True
    noted.note()
    await until(lambda: "refusals wait" in caplog.text)
    for _ in range(30):
        noted.note()
        await asyncio.sleep(0.002)
    assert noted.refusals.waiting == 31 and noted.told == []
    noted.database.down = False
    await until(lambda: bool(noted.told))
    assert sum(count for _, count, _ in noted.told) == 31 and noted.told[0][2] == 10
    assert caplog.text.count("refusals wait") == 1


async def test_what_came_while_telling_failed_is_added() -> None:
    noted = Noted()

    async def fail() -> None:
        noted.note(body=b"newer")
        raise Unavailable("gone")

    noted.database.then = [fail]
    noted.note(body=b"older")
    with pytest.raises(Unavailable):
        await noted.refusals.flush()
    await noted.refusals.flush()
    assert noted.told == [("mismatch", 2, 2)]
    bodies = [base64.b64decode(each["body_base64"]) for each in noted.database.refusals[0]["samples"]]
    assert bodies == [b"older", b"newer"]


async def test_samples_that_the_database_cannot_hold_do_not_hold_up_the_counts() -> None:
    noted = Noted()
    noted.database.then = [InvalidArgument("no such character")]
    noted.note()
    await noted.refusals.flush()
    assert noted.told == [("mismatch", 1, 0)]


async def test_the_end_tells_what_is_left_and_waits_for_no_database() -> None:
    noted = Noted()
    noted.note()
    await noted.refusals.close(1)
    assert noted.told == [("mismatch", 1, 1)]
    noted.note()
    noted.database.then = [cast("Any", asyncio.Event().wait)]
    await noted.refusals.close(0.02)
    assert noted.refusals.waiting == 1


def test_another_event_loop_goes_on_where_the_first_ended() -> None:
    noted = Noted()

    async def refuse() -> None:
        noted.note()

    asyncio.run(refuse())
    asyncio.run(refuse())
    asyncio.run(noted.refusals.flush())
    assert noted.told == [("mismatch", 2, 2)]
