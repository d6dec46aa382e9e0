"""Whatever a value does, whoever is silent or away: each sink hears firing, reminders, resolved, in turn."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sql.test_alerts import check, declare, delayed, deliver, only, states, told
from tests.support.contract import Contract
from tests.support.layouts import NEWEST

_THRESHOLD, _CLEAR, _FOR, _REMIND = 2, 1, 60, 300


@pytest.fixture
def layout() -> str:
    """The states do not depend on pgmq."""
    return NEWEST


@pytest.fixture
def rule(sql: Contract) -> Generator[Contract]:
    sql.create()
    yield sql


@dataclass
class Model:
    """The states in a few lines: what the SQL has to agree with."""

    state: str = "ok"
    since: float = 0
    now: float = 0

    def step(self, seconds: float, value: int) -> None:
        self.now += seconds
        over = value > (_CLEAR if self.state == "firing" else _THRESHOLD)
        if not over:
            self.state = "resolved" if self.state in ("firing", "resolved") else "ok"
        elif self.state in ("ok", "resolved"):
            self.state, self.since = "pending", self.now
        if self.state == "pending" and self.now - self.since >= _FOR:
            self.state = "firing"


_steps = st.lists(
    st.tuples(
        st.sampled_from([20, 61, 400]),
        st.integers(0, 4),
        st.sampled_from(["", "", "", "silence", "unsilence", "ops fails", "new sink"]),
    ),
    min_size=1,
    max_size=14,
)


@pytest.mark.once
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=_steps)
def test_firing_and_resolved_take_turns(rule: Contract, steps: list[tuple[int, int, str]]) -> None:
    for table in ("alert", "alert_delivery", "alert_sink", "silence"):
        rule(f"delete from redrive.{table}")
    only(
        rule,
        "backlog",
        gauge="delayed",
        threshold=_THRESHOLD,
        clear_at=_CLEAR,
        for_sec=_FOR,
        remind_sec=_REMIND,
    )
    rule.clock.stop()
    declare(rule, "ops")
    model = Model()
    for seconds, value, event in steps:
        if event == "silence":
            rule("select redrive.silence_alert('backlog', null, 200)")
        elif event == "unsilence":
            rule("select redrive.unsilence(p_all => true)")
        elif event == "new sink":
            declare(rule, "ops", "late")
        delayed(rule, value)
        changed = check(rule, seconds)
        before, _ = model.state, model.step(seconds, value)
        assert [c[2] for c in changed] == ([model.state] if _tells(before, model.state) else [])
        assert states(rule) == ([] if model.state == "ok" else [("jobs", model.state)])
        check(rule)
        deliver(rule, "ops", error="503" if event == "ops fails" else None)
    for sink in ("ops", "late"):
        _take_turns(told(rule, sink))


def _tells(before: str, after: str) -> bool:
    return before != after and (after == "firing" or (before == "firing" and after == "resolved"))


def _take_turns(events: list[str]) -> None:
    last = "resolved"
    for event in events:
        assert (last, event) in {
            ("resolved", "firing"),
            ("firing", "reminder"),
            ("reminder", "reminder"),
            ("firing", "resolved"),
            ("reminder", "resolved"),
        }, events
        last = event
