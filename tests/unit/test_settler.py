"""What has ended is kept until the store has taken it."""

from __future__ import annotations

import logging

import pytest

from redrive.worker.held import Held
from redrive.worker.lane import Lane
from redrive.worker.outcome import DONE, RELEASE, Decision
from redrive.worker.protocol import Answer, Delivery
from redrive.worker.settler import Settler
from redrive.worker.stats import Stats


class Desk:
    def __init__(self) -> None:
        self.stats = Stats()
        self.forgotten: list[int] = []
        self.settler = Settler(self.stats, lambda held: self.forgotten.append(held.delivery.msg_id))

    def end(self, msg_id: int, decision: Decision = DONE) -> None:
        delivery = Delivery("mail", msg_id, 1, 1, 0.0, 0.0, "{}", None, None, False)
        self.settler.add(Held(delivery, Lane("mail", 2.0), 0.0), decision, 0.1)

    def sent(self, now: float = 0.0) -> list[int]:
        reports, _ = self.settler.take(now)
        return [report.msg_id for batch in reports.values() for report in batch]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_report_is_forgotten_only_when_the_store_has_judged_it(desk: Desk) -> None:
    desk.end(1)
    assert desk.sent() == [1]
    assert desk.forgotten == [] and desk.settler.unsettled == 1
    desk.settler.settled(Answer(), 0.0)
    assert desk.forgotten == [1] and desk.settler.unsettled == 0


def test_what_may_not_have_arrived_is_sent_again_before_what_ended_later(desk: Desk) -> None:
    desk.end(1)
    desk.end(2, RELEASE)
    desk.settler.take(0.0)
    desk.end(3)
    desk.settler.failed()
    reports, releases = desk.settler.take(0.0)
    assert [r.msg_id for r in reports["mail"]] == [1, 3]
    assert [d.msg_id for d in releases["mail"]] == [2]


def test_a_locked_one_is_sent_again_after_a_pause_until_it_is_taken(desk: Desk) -> None:
    desk.end(1)
    now = 0.0
    for _ in range(4):
        reports, _ = desk.settler.take(now)
        desk.settler.settled(Answer(verdicts=[(reports["mail"][0], "locked")]), now)
        assert desk.sent(now) == [] and desk.settler.unsettled == 1
        pause = desk.settler.locked_in(now)
        assert pause is not None and pause > 0
        desk.settler.failed()
        now += pause
    assert desk.sent(now) == [1]
    desk.settler.settled(Answer(), now)
    assert desk.forgotten == [1] and desk.settler.locked_in(now) is None


def test_a_lost_one_is_counted_and_said(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.end(1, Decision("retry", None, "ValueError", "x"))
    reports, _ = desk.settler.take(0.0)
    with caplog.at_level(logging.INFO, "redrive.worker"):
        desk.settler.settled(Answer(verdicts=[(reports["mail"][0], "lost")]), 0.0)
    assert desk.stats.lost == 1 and desk.forgotten == [1]
    assert [record.__dict__["event"] for record in caplog.records] == ["job_lost"]


def test_one_that_can_never_be_taken_is_dropped_and_said(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.end(1)
    reports, _ = desk.settler.take(0.0)
    with caplog.at_level(logging.INFO, "redrive.worker"):
        desk.settler.settled(Answer(dropped=[(reports["mail"][0], ValueError("bad"))]), 0.0)
    assert desk.stats.dropped == 1 and desk.settler.unsettled == 0
    assert [record.__dict__["event"] for record in caplog.records] == ["report_dropped"]


def test_nothing_to_report_frees_the_message_at_once(desk: Desk) -> None:
    desk.end(1, Decision("nothing"))
    assert desk.forgotten == [1] and desk.settler.unsettled == 0


def test_a_release_whose_row_is_locked_is_tried_again_and_then_left_to_its_timeout_as_lost(
    desk: Desk,
) -> None:
    desk.end(1, RELEASE)
    now, sent = 0.0, 0
    while desk.settler.unsettled:
        _, releases = desk.settler.take(now)
        sent += len(releases)
        desk.settler.settled(Answer(unreleased=releases.get("mail", [])), now)
        now += desk.settler.locked_in(now) or 0.0
    assert sent == 4 and desk.forgotten == [1]
    assert desk.stats.released == 0 and desk.stats.lost == 1


def test_a_release_that_succeeds_at_the_second_try_counts(desk: Desk) -> None:
    desk.end(1, RELEASE)
    _, releases = desk.settler.take(0.0)
    desk.settler.settled(Answer(unreleased=releases["mail"]), 0.0)
    _, releases = desk.settler.take(1.0)
    assert [d.msg_id for d in releases["mail"]] == [1]
    desk.settler.settled(Answer(), 1.0)
    assert desk.stats.released == 1 and desk.settler.unsettled == 0
