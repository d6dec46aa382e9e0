"""Deliveries: each claimed by one, in order, tried ever later, given up after a day, and never unseen."""

from __future__ import annotations

import psycopg
import pytest

from tests.sql.test_alerts import check, declare, delayed, deliver, only, told
from tests.support.contract import Contract, seconds
from tests.support.layouts import NEWEST


@pytest.fixture
def layout() -> str:
    """Deliveries do not depend on pgmq."""
    return NEWEST


@pytest.fixture
def firing(sql: Contract) -> Contract:
    """An alert of queue jobs has just fired, and sink ops has to be told."""
    only(sql, "backlog", gauge="delayed", threshold=0, remind_sec=None)
    sql.create()
    declare(sql, "ops")
    sql.clock.stop()
    delayed(sql, 1)
    check(sql)
    return sql


def row(sql: Contract) -> object:
    [found] = sql("select * from redrive.alert_deliveries()")
    return found


def test_it_is_claimed_by_one_of_many(firing: Contract) -> None:
    claim = "select id from redrive.claim_alerts(array['ops'])"
    answers = firing.at_once(4, lambda session, _: session.execute(claim).fetchall())
    assert sorted(map(len, answers)) == [0, 0, 0, 1]


def test_a_claim_ends_and_its_token_with_it(firing: Contract) -> None:
    [first] = firing("select * from redrive.claim_alerts(array['ops'], p_hold => 60)")
    firing.clock.move(61)
    [second] = firing("select * from redrive.claim_alerts(array['ops'])")
    assert (second.id, second.age_sec) == (first.id, 61)
    settle = "select redrive.settle_alerts(array[%s]::bigint[], array[%s]::bigint[], array[null]::text[])"
    assert firing.value(settle, first.id, first.token) == 0
    assert firing.value(settle, second.id, second.token) == 1
    assert firing.value(settle, second.id, second.token) == 0
    assert deliver(firing) == []


def test_what_was_written_while_the_clock_was_ahead_is_told_now(firing: Contract) -> None:
    firing.clock.move(-86400)
    declare(firing, "ops")
    assert deliver(firing) == ["firing"]


def test_another_sink_gets_nothing(firing: Contract) -> None:
    assert firing("select * from redrive.claim_alerts(array['pager'])") == []


def test_a_failed_one_is_tried_ever_later_and_given_up_after_a_day(firing: Contract) -> None:
    waits: list[float] = []
    began = firing.clock.now()
    while True:
        assert deliver(firing, error="503 from ops") == ["firing"]
        found = firing("select * from redrive.alert_deliveries()")[0]
        if found.gave_up_at:
            break
        assert (found.state, found.error, found.attempts) == ("failing", "503 from ops", len(waits) + 1)
        waits.append(seconds(found.next_at, firing.clock.now()))
        firing.clock.set(found.next_at)
    assert waits[:8] == [10, 20, 40, 80, 160, 320, 640, 900]
    assert max(waits) == 900
    assert 86400 <= seconds(firing.clock.now(), began) < 86400 + 900
    assert (found.state, found.next_at) == ("given up", None)
    firing.clock.move(10_000)
    assert deliver(firing) == []


def test_a_sink_that_was_away_for_ten_minutes_is_told_once(firing: Contract) -> None:
    for _ in range(10):
        deliver(firing, error="no route")
        check(firing, 60)
    firing.clock.move(900)
    assert deliver(firing) == ["firing"]
    assert deliver(firing) == []


def test_a_sink_that_says_when_is_obeyed(firing: Contract) -> None:
    [due] = firing("select * from redrive.claim_alerts(array['ops'])")
    firing(
        "select redrive.settle_alerts(array[%s]::bigint[], array[%s]::bigint[], array['429'], array[120])",
        due.id,
        due.token,
    )
    firing.clock.move(119)
    assert deliver(firing) == []
    firing.clock.move(1)
    assert deliver(firing) == ["firing"]


def test_those_of_one_alert_leave_in_their_order(firing: Contract) -> None:
    delayed(firing, 0)
    check(firing, 60)
    assert deliver(firing, error="503") == ["firing"]
    assert deliver(firing) == []
    firing.clock.move(10)
    assert deliver(firing) == ["firing"]
    assert deliver(firing) == ["resolved"]


def test_who_was_never_told_that_it_fires_is_not_told_that_it_is_over(firing: Contract) -> None:
    deliver(firing, error="503")
    delayed(firing, 0)
    check(firing, 60)
    assert told(firing) == ["firing", "resolved"]
    firing.clock.move(86400)
    deliver(firing, error="503")
    assert deliver(firing) == []
    declare(firing, "ops")
    delayed(firing, 1)
    check(firing, 60)
    assert deliver(firing) == ["firing"]


def test_a_test_goes_before_what_waits(firing: Contract) -> None:
    deliver(firing, error="503")
    [one] = firing.column("select redrive.test_alert('ops')")
    [due] = firing("select * from redrive.claim_alerts(array['ops'])")
    assert (due.id, due.event, due.body["summary"][:15]) == (one, "test", "This is a test:")


def test_a_test_of_an_unknown_sink_names_those_there_are(firing: Contract) -> None:
    with pytest.raises(
        psycopg.Error, match="sink pager is unknown; the sinks that processes have named are: ops"
    ):
        firing("select redrive.test_alert('pager')")


def test_counts_of_what_left_and_what_failed(firing: Contract) -> None:
    deliver(firing, error="503")
    firing.clock.move(10)
    deliver(firing, error="503")
    state = firing("select * from redrive.watch_state()")[0]
    assert (state.firing, state.undelivered, state.delivery_failures) == (1, 1, 2)
    firing.clock.move(20)
    deliver(firing)
    [sink] = firing("select * from redrive.alert_sinks()")
    assert (sink.delivered, sink.failures, sink.open, sink.last_error) == (1, 2, 0, None)
    assert firing("select undelivered from redrive.alerts()")[0].undelivered == 0


class TestASinkInTrouble:
    """Rule alerts_undelivered: an alert that does not leave is an alert of its own."""

    @pytest.fixture(autouse=True)
    def watched(self, firing: Contract) -> None:
        firing("select redrive.reset_rule('alerts_undelivered')")
        declare(firing, "ops", "pager")

    def test_what_does_not_leave_for_five_minutes_is_told_elsewhere(self, firing: Contract) -> None:
        assert check(firing, 300) == []
        declare(firing, "ops", "pager")
        deliver(firing, "pager")
        assert check(firing, 1) == [("alerts_undelivered", "ops", "firing")]
        [alert] = firing("select * from redrive.alerts() where rule = 'alerts_undelivered'")
        assert "Alerts do not reach sink ops: 1 delivery waits, the oldest for 5 min" in alert.summary
        # The sink itself is not told: it would only wait behind.
        events = firing.column("select sink from redrive.alert_delivery where rule = 'alerts_undelivered'")
        assert events == ["pager"]
        deliver(firing, "ops")
        assert check(firing, 60) == [("alerts_undelivered", "ops", "resolved")]

    def test_three_failed_tries_are_enough(self, firing: Contract) -> None:
        for wait in (10, 20, 40):
            deliver(firing, error="404 no such webhook")
            firing.clock.move(wait)
        assert check(firing) == [("alerts_undelivered", "ops", "firing")]
        [alert] = firing("select * from redrive.alerts() where rule = 'alerts_undelivered'")
        assert "404 no such webhook" in alert.summary

    def test_one_given_up_is_remembered_for_a_day(self, firing: Contract) -> None:
        deliver(firing, error="503")
        firing.clock.move(86400)
        deliver(firing, error="503")
        declare(firing, "ops")
        assert ("alerts_undelivered", "ops", "firing") in check(firing)
        firing.clock.move(86000)
        declare(firing, "ops", "pager")
        deliver(firing, "ops", "pager")
        assert ("alerts_undelivered", "ops", "resolved") not in check(firing)
        deliver(firing, "ops", "pager")
        assert ("alerts_undelivered", "ops", "resolved") in check(firing, 401)

    def test_a_sink_no_process_has_any_more_is_one(self, firing: Contract) -> None:
        deliver(firing)
        check(firing, 599)
        deliver(firing, "pager")
        assert check(firing, 2) == [
            ("alerts_undelivered", "ops", "firing"),
            ("alerts_undelivered", "pager", "firing"),
        ]

    def test_what_a_silence_holds_back_is_not_in_trouble(self, firing: Contract) -> None:
        firing("select redrive.silence_alert('backlog')")
        declare(firing, "ops")
        check(firing, 400)
        declare(firing, "ops")
        assert check(firing, 0) == []

    def test_a_sink_may_be_forgotten_at_once(self, firing: Contract) -> None:
        check(firing, 601)
        deliver(firing, "pager")
        commands = firing.column("select command from redrive.alerts() where rule = 'alerts_undelivered'")
        assert "redrive alerts forget ops" in commands
        forget = "select redrive.forget_sink('ops')"
        assert [firing.value(forget) for _ in range(2)] == [True, False]
        declare(firing, "pager")
        check(firing, 60)
        assert deliver(firing, "ops") == [] and "resolved" in told(firing, "pager")

    def test_a_sink_unseen_for_a_day_is_forgotten(self, firing: Contract) -> None:
        deliver(firing)
        check(firing)
        deliver(firing, "pager")
        firing.clock.move(86401)
        check(firing)
        assert firing("select * from redrive.alert_sinks()") == []
        assert firing("select * from redrive.alert_deliveries() where delivered_at is null") == []
        assert firing("select * from redrive.alerts() where rule = 'alerts_undelivered'") != []
        check(firing, 60)
        assert firing("select * from redrive.alerts() where rule = 'alerts_undelivered'") == []


def test_what_ended_long_ago_is_forgotten(firing: Contract) -> None:
    deliver(firing)
    delayed(firing, 0)
    check(firing, 60)
    deliver(firing)
    firing.clock.move(8 * 86400)
    check(firing)
    assert told(firing) == []
    assert len(firing("select * from redrive.alerts(true)")) == 1
    check(firing, 30 * 86400)
    assert firing("select * from redrive.alerts(true)") == []


def test_what_still_fires_is_remembered_to_be_told(firing: Contract) -> None:
    deliver(firing)
    for _ in range(3):
        declare(firing, "ops")
        check(firing, 8 * 86400)
    assert told(firing) == ["firing"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("declare_sinks(array['A b'], array['x'])", "sink name 'A b' is refused; the rule is: lower-case"),
        ("declare_sinks(array['pg_net'], array['x'])", "not pg_net"),
        ("declare_sinks(array['a', 'b'], array['x'])", "two arrays of the same length"),
        ("claim_alerts(array['ops'], 0)", "a limit of at least 1"),
        ("claim_alerts(array['ops'], p_hold => 0)", "a hold above 0"),
        ("settle_alerts(array[1], array[1, 2], array[null])", "of the same length"),
        ("settle_alerts(null, null, null)", "of the same length"),
        ("alert_deliveries(0)", "limit is 0; it must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(sql: Contract, call: str, said: str) -> None:
    with pytest.raises(psycopg.Error, match=said):
        sql(f"select redrive.{call}")
