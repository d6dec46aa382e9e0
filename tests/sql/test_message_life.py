"""A model of a message's life: every arrow of the state machine, walked in every order hypothesis thinks of.

    send ─▶ ready ──claim──▶ running ── done, ignored ──▶ archived
             ▲ ▲ ▲            │ │ │ │
             │ │ └─ release ──┘ │ │ └─ reject, or the last attempt failed ─▶ dead ─ redrive ─▶ ready
             │ └─ snooze ───────┘ │                                            └─ discard ─▶ archived
             └── retry ───────────┘                   ready ─ cancel ─▶ archived
    worker gone: the timeout ends ─▶ ready or, budget spent, dead at the next claim, without a run

The model knows nothing of SQL: it says what each call must answer and where the message must then be, and if
it is the job of a webhook event, what must be said of that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.support import contract
from tests.support.contract import Contract, Report
from tests.support.inbox import event, receive
from tests.support.layouts import NEWEST, with_headers

MOST = 3
VT = 60

# Failures more often than ends, or few lives would get far.
OUTCOMES = ["retry"] * 4 + ["crashed"] * 2 + ["snooze"] * 2 + ["done", "ignored", "reject", "malformed"]

FINISHED = ("done", "ignored")

# Of a webhook event, by the state of its message.
STATUS = {"live": "received", "done": "processed", "dead": "failed", "discarded": "ignored"}

# What happens next, likely things more often; what cannot be in the message's state is a claim instead.
STEPS = ["come due"] * 5 + ["report"] * 7 + ["claim", "report late", "report late", "release", "extend"]
STEPS += ["late done", "release", "extend", "cancel", "reschedule", "time passes"]

# The arrows that were walked, over all examples of a run: the test fails where one is missing.
walked: set[str] = set()


@dataclass
class Message:
    """What must be true of the newest message, and of the deliveries its workers may still speak of."""

    msg_id: int
    state: str = "ready"
    due_in: float = 0
    """Seconds until it may be claimed; of a running one, until its timeout."""
    read_ct: int = 0
    credit: int = 0
    reported: set[int] = field(default_factory=set)
    """Deliveries that were reported or given back."""
    done_by: int | None = None

    @property
    def attempts(self) -> int:
        return self.read_ct - self.credit

    @property
    def held(self) -> bool:
        """The newest delivery has not been reported."""
        return self.state == "live" and self.read_ct > 0 and self.read_ct not in self.reported


class Life(RuleBasedStateMachine):
    sql: Contract

    @initialize(kind=st.sampled_from(["plain", "keyed", "event"]))
    def send(self, kind: str) -> None:
        self.keyed = kind == "keyed"
        self.event: Any = None
        self.sql.reset()
        self.sql.clock.stop()
        self.sql.create(max_attempts=MOST)
        self.payload = {"n": 1} if kind == "plain" else {"idempotency_key": "k"}
        if kind == "event":
            self.event = receive(self.sql, self.payload)
        self.message = Message(self.event.msg_id if self.event else self.sql.send(self.payload), state="live")
        self.generation = 0
        self.ended: list[tuple[int, str]] = []
        self.isolated = False

    @rule(step=st.sampled_from(STEPS), outcome=st.sampled_from(OUTCOMES), back=st.integers(0, 2))
    def step(self, step: str, outcome: str, back: int) -> None:
        """`back`: how many deliveries ago the worker stands that speaks now."""
        m = self.message
        read_ct = max(1, m.read_ct - back)
        match step if m.state == "live" else "afterlife":
            case "afterlife" if m.state == "dead":
                self.discard() if step in ("cancel", "reschedule", "extend") else self.redrive()
            case "afterlife" if step in ("report late", "claim"):
                self.settle(read_ct, outcome) if step == "report late" and m.read_ct else self.claim()
            case "afterlife":
                self.send_again()
            case "come due":
                self.time_passes(max(1, int(m.due_in)))
                self.claim()
            case "report" if m.held:
                self.settle(m.read_ct, outcome)
            case "report late" if m.read_ct:
                self.settle(read_ct, outcome)
            case "late done" if m.read_ct:
                self.settle(max(1, m.read_ct - 1), "done")
            case "release" if m.read_ct:
                self.release(read_ct)
            case "extend" if m.read_ct:
                self.extend(read_ct)
            case "cancel":
                self.cancel()
            case "reschedule":
                self.reschedule(50 * back)
            case "time passes":
                self.time_passes(1 + 70 * back)
            case _:
                self.claim()

    def time_passes(self, seconds: int) -> None:
        self.sql.clock.move(seconds)
        self.message.due_in = max(0, self.message.due_in - seconds)

    # -- the worker's calls

    def claim(self) -> None:
        m = self.message
        crashed = m.held and m.due_in == 0
        got = self.sql.claim(5, vt=VT)
        if m.state != "live" or m.due_in > 0:
            assert got == []
        elif m.attempts >= MOST:
            assert got == [], "the budget is spent: no further run"
            walked.add("crash to dead")
            self._dies("crashed" if crashed else "failed")
        else:
            [d] = got
            assert (d.msg_id, d.read_ct, d.attempt) == (m.msg_id, m.read_ct + 1, m.attempts + 1)
            assert d.attempt <= MOST
            gaps = 0
            while m.read_ct - gaps > 0 and m.read_ct - gaps not in m.reported:
                gaps += 1
            self.isolated = self.isolated or gaps >= 2
            assert d.isolated is self.isolated
            assert d.message == self.payload
            walked.add("crash to ready" if crashed else "claim")
            m.read_ct += 1
            m.due_in = VT

    def settle(self, read_ct: int, outcome: str) -> None:
        m = self.message
        [verdict] = self.sql.settle(Report(m.msg_id, read_ct, outcome, delay=30, error="boom"))
        mine = m.held and read_ct == m.read_ct

        if m.state != "live":
            # A resend finds the delivery that ended it, or was reported before; all others come too late.
            known = read_ct == m.done_by or (m.done_by is None and read_ct == max(m.reported, default=0))
            assert verdict == ("repeat" if known else "lost")
        elif read_ct == max(m.reported, default=0):
            assert verdict == "repeat"
            walked.add("repeat")
        elif outcome in FINISHED and not self._may_end(read_ct):
            assert verdict == "lost"
        elif outcome in FINISHED:
            assert verdict == ("ok" if read_ct == m.read_ct else "late")
            walked.add(f"{outcome} {verdict}")
            m.done_by = read_ct
            self._ends(outcome)
        elif not mine:
            assert verdict == "lost"
            walked.add("lost")
        elif outcome in ("reject", "malformed") or (outcome in ("retry", "crashed") and m.attempts >= MOST):
            assert verdict == "dead"
            m.reported.add(read_ct)
            walked.add(outcome + " to dead")
            self._dies({"reject": "rejected", "retry": "failed"}.get(outcome, outcome))
        else:
            assert verdict == "ok"
            m.reported.add(read_ct)
            m.credit += outcome == "snooze"
            m.due_in = 30
            walked.add(outcome + " to ready")

    def release(self, read_ct: int) -> None:
        m = self.message
        mine = m.held and read_ct == m.read_ct
        assert self.sql.release(Report(m.msg_id, read_ct, "")) == ([m.msg_id] if mine else [])
        if mine:
            m.reported.add(read_ct)
            m.credit += 1
            m.due_in = 0
            walked.add("release")

    def extend(self, read_ct: int) -> None:
        m = self.message
        mine = m.held and read_ct == m.read_ct
        assert self.sql.extend(Report(m.msg_id, read_ct, ""), vt=VT) == ([m.msg_id] if mine else [])
        if mine:
            m.due_in = max(m.due_in, VT)
            walked.add("extend")

    # -- the operator's calls

    def cancel(self) -> None:
        m = self.message
        waits = m.state == "live" and (m.due_in == 0 or not m.held)
        assert self.sql.cancel(m.msg_id) == ([m.msg_id] if waits else [])
        if waits:
            walked.add("cancel")
            self._ends("cancelled")

    def reschedule(self, delay: int) -> None:
        m = self.message
        waits = m.state == "live" and (m.due_in == 0 or not m.held)
        answer = self.sql.column("select redrive.reschedule('jobs', array[%s::bigint], %s)", m.msg_id, delay)
        assert answer == ([m.msg_id] if waits else [])
        if waits:
            m.due_in = delay
            walked.add("reschedule")

    def redrive(self) -> None:
        [letter] = self.sql.letters()
        [(dead_id, new_id, status)] = self.sql.redrive()
        assert (dead_id, status) == (letter.dead_id, "redriven")
        assert new_id > self.message.msg_id
        self.message = Message(new_id, state="live")
        self.generation += 1
        self.isolated = False
        walked.add("redrive")

    def discard(self) -> None:
        [letter] = self.sql.letters()
        assert self.sql.column("select redrive.discard('jobs', array[%s::bigint])", letter.dead_id) == [
            letter.dead_id
        ]
        self.message.state = "discarded"
        walked.add("discard")

    def send_again(self) -> None:
        """Life goes on with the next message; of a done key it ends at the next claim."""
        if self.event:
            self.event = receive(self.sql, self.payload, event_id=f"after {self.message.msg_id}")
            sent = self.event.msg_id
        else:
            sent = self.sql.send(self.payload, unique=self.keyed)
        finished = [n for n, outcome in self.ended if outcome in FINISHED]
        if self.keyed and finished:
            assert sent in finished
            return
        self.message = Message(sent, state="live")
        self.generation = 0
        self.isolated = False

    # -- what must always hold

    @invariant()
    def it_is_in_one_place(self) -> None:
        m = self.message
        live, archived = self.sql.live(m.msg_id), self.sql.archived(m.msg_id)
        letters = self.sql.letters()
        if m.state == "live":
            assert archived is None
            assert letters == []
            assert live.read_ct == m.read_ct
            assert live.vt == self.sql.clock.now() + contract.timedelta(seconds=m.due_in) or m.due_in == 0
        else:
            assert live is None
            assert archived.outcome == ("dead" if m.state == "discarded" else m.state)
            assert len(letters) == (m.state == "dead")

    @invariant()
    def each_ended_once(self) -> None:
        assert self.sql("select msg_id, outcome from pgmq.a_jobs order by msg_id") == self.ended

    @invariant()
    def the_history_has_a_row_a_failed_attempt(self) -> None:
        rows = self.sql.attempts(self.message.msg_id)
        assert [r.attempt for r in rows] == sorted({r.attempt for r in rows})
        assert len(rows) <= MOST

    @invariant()
    def its_key_is_held_only_while_it_runs(self) -> None:
        if self.keyed:
            key = self.sql.key("k")
            m = self.message
            if key is None:
                assert not (m.held and m.due_in > 0)
            elif key.state == "running":
                assert (m.held, key.owner_msg) == (True, m.msg_id)
            else:
                assert key.owner_msg in [n for n, outcome in self.ended if outcome in FINISHED]
        else:
            assert self.sql.key("k") is None

    @invariant()
    def its_event_says_where_it_is(self) -> None:
        if self.event:
            m = self.message
            found = event(self.sql, self.event.id)
            assert found.status == STATUS.get(m.state, "ignored")
            assert (found.msg_id, found.generation) == (m.msg_id, self.generation)
            assert (found.settled_at is None) is (m.state == "live")
            assert m.state == "live" or found.attempts == m.attempts
            failed = [a.attempt for a in self.sql.attempts(m.msg_id)]
            assert m.state != "live" or found.attempts == max(failed, default=0)

    def _may_end(self, read_ct: int) -> bool:
        """Whether a done counts: with a key only while the key still names the message."""
        return not self.keyed or read_ct == self.message.read_ct or self.message.held

    def _ends(self, outcome: str) -> None:
        self.message.state = outcome
        self.ended.append((self.message.msg_id, outcome))

    def _dies(self, reason: str) -> None:
        self._ends("dead")
        [letter] = self.sql.letters()
        assert (letter.original_msg_id, letter.reason) == (self.message.msg_id, reason)
        assert letter.attempts == self.message.attempts <= MOST
        assert (letter.generation, letter.payload) == (self.generation, self.payload)


ARROWS = {
    "claim",
    "crash to ready",
    "crash to dead",
    "done ok",
    "done late",
    "ignored ok",
    "ignored late",
    "retry to ready",
    "retry to dead",
    "crashed to ready",
    "crashed to dead",
    "snooze to ready",
    "reject to dead",
    "malformed to dead",
    "release",
    "extend",
    "cancel",
    "reschedule",
    "redrive",
    "discard",
    "lost",
    "repeat",
}


@with_headers
@pytest.mark.once
def test_a_message_lives_as_drawn(sql: Contract, layout: str) -> None:
    walked.clear()
    whole = layout == NEWEST
    run_state_machine_as_test(
        type("Life", (Life,), {"sql": sql}),
        settings=settings(
            max_examples=40 if whole else 10,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    if whole:
        assert walked >= ARROWS, ARROWS - walked
