"""Retry, Snooze and Reject: values and exceptions, refused when they cannot be right."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from redrive.errors import InvalidArgument
from redrive.job import Reject, Retry, Snooze


@pytest.mark.parametrize(
    "outcome",
    [
        Retry(),
        Retry(30),
        Retry(after=0, reason="rate limited"),
        Snooze(1.5),
        Snooze(seconds=2),
        Reject("no such user"),
    ],
)
def test_an_outcome_is_a_value_that_can_be_raised_compared_and_sent_to_another_process(outcome: Any) -> None:
    with pytest.raises(type(outcome)) as caught:
        raise outcome
    assert caught.value == outcome
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert len({outcome, pickle.loads(pickle.dumps(outcome))}) == 1


def test_outcomes_that_say_different_things_differ() -> None:
    assert len({Retry(), Retry(30), Retry(30, "slow"), Snooze(30), Reject("a"), Reject("b")}) == 6


def test_retry_may_be_raised_as_a_class() -> None:
    with pytest.raises(Retry) as caught:
        raise Retry
    assert caught.value == Retry(None, None)


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, "30", True, 3_155_760_001])
@pytest.mark.parametrize("outcome", [Retry, Snooze])
def test_a_delay_that_cannot_be_right_is_refused(outcome: Any, delay: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"{outcome.__name__}.* is|{outcome.__name__}.* must"):
        outcome(delay)


@pytest.mark.parametrize("reason", ["", None, 3])
def test_reject_needs_a_reason(reason: Any) -> None:
    with pytest.raises(InvalidArgument, match="must be a text that says why"):
        Reject(reason)
