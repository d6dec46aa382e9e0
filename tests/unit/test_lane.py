"""When a queue is asked for more, and how free slots are dealt."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import QueueMissing
from redrive.worker.lane import Lane, share
from redrive.worker.protocol import Delivery


def lane(queue: str = "mail", *, limit: int | None = None, busy: int = 0, poll: float = 2.0) -> Lane:
    made = Lane(queue, poll)
    made.limit, made.busy = limit, busy
    return made


def deliveries(count: int) -> list[Delivery]:
    return [Delivery("mail", n, 1, 1, 0.0, 0.0, "{}", None, None, False) for n in range(count)]


def idle(asked: Lane, times: int, due: float | None = None) -> float:
    """How long the queue waits after so many claims that brought nothing."""
    for _ in range(times):
        asked.want(10)
        asked.answered([], 10, due, now=100.0)
    return asked.asks_in(100.0)


class TestAnIdleQueue:
    def test_is_asked_again_at_once_and_then_less_and_less(self) -> None:
        steps = [idle(lane(), n) for n in range(1, 9)]
        assert steps[0] == 0
        for got, about in zip(steps, [0, 0.01, 0.05, 0.25, 1, 2, 2, 2], strict=True):
            assert 0.8 * about <= got <= 1.2 * about + 1e-9

    def test_is_never_asked_less_often_than_the_poll(self) -> None:
        assert idle(lane(poll=0.1), 20) <= 0.12 + 1e-9

    def test_is_asked_when_its_next_message_is_due(self) -> None:
        assert idle(lane(), 20, due=0.3) == pytest.approx(0.3)

    def test_is_not_asked_without_pause_for_messages_it_does_not_hand_out(self) -> None:
        # Paused, or single flight elsewhere: due already, and yet not given.
        assert idle(lane(), 20, due=0.0) >= 1.6

    def test_is_asked_at_once_when_told_that_something_came(self) -> None:
        asked = lane()
        idle(asked, 20)
        asked.nudge()
        assert asked.asks_in(100.0) == 0

    def test_is_asked_again_when_told_while_a_claim_was_under_way(self) -> None:
        asked = lane()
        idle(asked, 20)
        asked.want(10)
        asked.nudge()
        asked.answered([], 10, None, now=100.0)
        assert asked.asks_in(100.0) == 0

    def test_starts_over_when_something_came(self) -> None:
        asked = lane()
        idle(asked, 20)
        asked.want(10)
        asked.answered(deliveries(1), 10, None, now=100.0)
        assert asked.asks_in(100.0) == 0
        assert idle(asked, 1) <= 0.012 + 1e-9


class TestAClaim:
    def test_looks_ahead_only_where_nothing_is_likely_to_come(self) -> None:
        asked = lane()
        assert asked.want(10).due
        asked.answered(deliveries(10), 10, None, now=100.0)
        assert not asked.want(10).due
        asked.answered(deliveries(3), 10, None, now=100.0)
        assert asked.want(10).due

    def test_that_was_told_of_something_does_not_look_ahead(self) -> None:
        asked = lane()
        asked.nudge()
        assert not asked.want(10).due
        assert asked.want(10).due


class TestAQueueThatRefuses:
    def test_is_asked_less_and_less_and_said_once(self, caplog: pytest.LogCaptureFixture) -> None:
        asked = lane()
        pauses: list[float] = []
        with caplog.at_level(logging.INFO, "redrive.worker"):
            for _ in range(8):
                asked.refused(QueueMissing("queue mail does not exist"), now=100.0)
                pauses.append(asked.asks_in(100.0))
            assert len(caplog.records) == 1
            asked.answered([], 10, None, now=100.0)
        assert pauses[0] < 1 and pauses[-1] > 20
        assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]

    def test_is_not_asked_sooner_by_notifications(self) -> None:
        asked = lane()
        asked.refused(QueueMissing("gone"), now=100.0)
        asked.nudge()
        assert asked.asks_in(100.0) > 0


class TestDealingSlots:
    def test_is_even_among_those_that_ask(self) -> None:
        lanes = [lane("a"), lane("b"), lane("c")]
        assert [qty for _, qty in share(lanes, 9, 0.0)] == [3, 3, 3]

    def test_begins_with_the_first_when_slots_are_few(self) -> None:
        lanes = [lane("a"), lane("b"), lane("c")]
        assert [each.queue for each, _ in share(lanes, 2, 0.0)] == ["a", "b"]

    def test_gives_what_one_cannot_use_to_the_others(self) -> None:
        assert [qty for _, qty in share([lane("a", limit=2), lane("b")], 10, 0.0)] == [2, 8]

    def test_leaves_out_a_queue_at_its_limit_and_one_that_does_not_ask(self) -> None:
        resting = lane("c")
        idle(resting, 20)
        dealt = share([lane("a", limit=2, busy=2), lane("b"), resting], 10, 100.0)
        assert [(each.queue, qty) for each, qty in dealt] == [("b", 10)]

    @given(
        st.lists(st.tuples(st.none() | st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8),
        st.integers(0, 100),
    )
    def test_never_deals_more_than_there_is_nor_less_than_can_be_used(
        self, shapes: list[tuple[int | None, int]], free: int
    ) -> None:
        lanes = [lane(f"q{n}", limit=limit, busy=busy) for n, (limit, busy) in enumerate(shapes)]
        dealt = share(lanes, free, 0.0)
        assert all(0 < qty <= each.room(free) for each, qty in dealt)
        assert sum(qty for _, qty in dealt) == min(free, sum(each.room(free) for each in lanes))
