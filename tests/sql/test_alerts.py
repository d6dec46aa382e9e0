"""Alerts: pending, firing once, reminded, over; silenced; and whatever cannot be read changes nothing."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import psycopg
import pytest

from tests.support.contract import Contract
from tests.support.layouts import NEWEST

_CHECK = "select * from redrive.check_queue_health()"


@pytest.fixture
def layout() -> str:
    """The states do not depend on pgmq."""
    return NEWEST


@pytest.fixture
def rule(sql: Contract) -> Contract:
    """One rule that the test moves by hand: how many messages of queue jobs are delayed; and a sink."""
    only(sql, "backlog", gauge="delayed", threshold=2, for_sec=120, remind_sec=3600)
    sql.create()
    declare(sql, "ops")
    sql.clock.stop()
    return sql


def only(sql: Contract, name: str, **fields: Any) -> None:
    """This rule of our own, and none of the others."""
    for other in sql.column("select name from redrive.rules() where builtin"):
        sql("select redrive.set_rule(%s, %s)", other, '{"enabled": false}')
    sql("select redrive.set_rule(%s, %s)", name, json.dumps(fields))


def declare(sql: Contract, *sinks: str) -> None:
    sql("select redrive.declare_sinks(%s::text[], %s::text[])", list(sinks), ["webhook"] * len(sinks))


def delayed(sql: Contract, count: int, queue: str = "jobs") -> None:
    """So many messages wait in `queue`, and nothing else."""
    sql(f"delete from pgmq.q_{queue}")
    for _ in range(count):
        sql.send({}, queue=queue, delay=1_000_000_000)


def check(sql: Contract, after: float = 0) -> list[tuple[str, str, str]]:
    sql.clock.move(after)
    return [(c.rule, c.subject, c.state) for c in sql(_CHECK)]


def states(sql: Contract) -> list[tuple[str, str]]:
    return [(a.subject, a.state) for a in sql("select * from redrive.alerts(true) order by subject")]


def told(sql: Contract, sink: str = "ops") -> list[str]:
    """The events written for a sink, in their order."""
    return sql.column("select event from redrive.alert_delivery where sink = %s order by id", sink)


def deliver(sql: Contract, *sinks: str, error: str | None = None) -> list[str]:
    """Claim what is due for the sinks and say how it went; the events."""
    due = sql("select * from redrive.claim_alerts(%s::text[]) order by id", list(sinks or ("ops",)))
    counted = sql.value(
        "select redrive.settle_alerts(%s::bigint[], %s::bigint[], %s::text[])",
        [d.id for d in due],
        [d.token for d in due],
        [error] * len(due),
    )
    assert counted == len(due)
    return [d.event for d in due]


class TestTheStates:
    def test_it_waits_for_its_duration_then_fires_once_then_is_over(self, rule: Contract) -> None:
        delayed(rule, 3)
        assert check(rule) == []
        assert states(rule) == [("jobs", "pending")]
        assert check(rule, 119) == []
        assert check(rule, 2) == [("backlog", "jobs", "firing")]
        for _ in range(20):
            assert check(rule, 60) == []
        assert told(rule) == ["firing"]
        delayed(rule, 0)
        assert check(rule, 60) == [("backlog", "jobs", "resolved")]
        assert check(rule, 60) == []
        assert states(rule) == [("jobs", "resolved")]
        assert told(rule) == ["firing", "resolved"]

    def test_what_is_over_before_its_duration_was_nothing(self, rule: Contract) -> None:
        delayed(rule, 3)
        check(rule)
        delayed(rule, 2)
        assert check(rule, 60) == []
        delayed(rule, 3)
        assert check(rule, 90) == []
        assert check(rule, 119) == []
        assert (states(rule), told(rule)) == ([("jobs", "pending")], [])

    def test_it_fires_again_after_it_was_over(self, rule: Contract) -> None:
        for _ in range(2):
            delayed(rule, 3)
            check(rule, 60)
            assert check(rule, 120) == [("backlog", "jobs", "firing")]
            delayed(rule, 0)
            assert check(rule, 60) == [("backlog", "jobs", "resolved")]
        assert told(rule) == ["firing", "resolved"] * 2

    def test_a_value_about_the_limit_does_not_flap(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0, "clear_at": 1}')
        delayed(rule, 3)
        assert check(rule) == [("backlog", "jobs", "firing")]
        for count in (2, 3, 2, 3):
            delayed(rule, count)
            assert check(rule, 60) == []
        delayed(rule, 1)
        assert check(rule, 60) == [("backlog", "jobs", "resolved")]

    def test_each_queue_has_its_own(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')
        rule.create("other")
        delayed(rule, 3)
        delayed(rule, 3, "other")
        assert [c[1] for c in check(rule)] == ["jobs", "other"]
        delayed(rule, 0)
        assert check(rule, 60) == [("backlog", "jobs", "resolved")]

    def test_a_dropped_queue_ends_it(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')
        delayed(rule, 3)
        check(rule)
        rule("select redrive.drop_queue('jobs')")
        assert check(rule, 60) == [("backlog", "jobs", "resolved")]
        assert told(rule) == ["firing", "resolved"]

    @pytest.mark.parametrize(
        "ended",
        [
            "select redrive.set_rule('backlog', '{\"enabled\": false}')",
            "select redrive.set_rule('backlog', '{\"queue_pattern\": \"mail*\"}')",
            "select redrive.drop_rule('backlog')",
        ],
    )
    def test_a_rule_that_no_longer_holds_ends_it(self, rule: Contract, ended: str) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')
        delayed(rule, 3)
        check(rule)
        rule(ended)
        assert check(rule, 60) == [("backlog", "jobs", "resolved")]

    def test_a_queue_that_cannot_be_read_keeps_the_state_it_has(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')
        rule.create("other")
        delayed(rule, 3)
        check(rule)
        rule("alter table pgmq.q_jobs rename to q_gone")
        try:
            delayed(rule, 3, "other")
            assert check(rule, 60) == [("backlog", "other", "firing")]
            assert ("jobs", "firing") in states(rule)
        finally:
            rule("alter table pgmq.q_gone rename to q_jobs")
        delayed(rule, 0)
        assert check(rule, 60) == [("backlog", "jobs", "resolved")]

    def test_a_family_of_gauges_that_fails_takes_no_other_with_it(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')
        rule(
            "select redrive.set_rule('held', %s)",
            '{"gauge": "xmin_held_sec", "operator": ">=", "threshold": 0}',
        )
        delayed(rule, 3)
        assert check(rule) == [("backlog", "jobs", "firing"), ("held", "", "firing")]
        with rule.connection.transaction(force_rollback=True):
            rule("drop function redrive.holders()")
            delayed(rule, 0)
            assert check(rule, 60) == [("backlog", "jobs", "resolved")]
            assert ("", "firing") in states(rule)
            [problem] = rule.value("select problems from redrive.watch_state()")
            assert problem["gauge"] == "xmin_held_sec"
            assert "redrive.holders" in problem["problem"]

    def test_a_locked_queue_is_not_waited_for(self, rule: Contract) -> None:
        rule("select redrive.set_rule('queue_unreadable', %s)", '{"enabled": true}')
        other = rule.connect()
        with other.transaction(force_rollback=True):
            other.execute("lock table pgmq.q_jobs in access exclusive mode")
            assert check(rule) == [] and check(rule, 200) == []
        assert (
            rule.value("select problems -> 0 ->> 'gauge' from redrive.watch_state()") == "unreadable of jobs"
        )


class TestSeveralCheckers:
    def test_three_at_once_tell_it_once(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')
        delayed(rule, 3)
        answers = rule.at_once(3, lambda session, _: session.execute(_CHECK).fetchall())
        assert sorted(map(len, answers)) == [0, 0, 1]
        assert told(rule) == ["firing"]

    def test_within_the_interval_only_the_first_evaluates(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')
        delayed(rule, 3)
        every = "select count(*) from redrive.check_queue_health(p_every => 60)"
        assert rule.value(every) == 1
        delayed(rule, 0)
        assert rule.value(every) == 0
        assert states(rule) == [("jobs", "firing")]
        rule.clock.move(55)
        assert rule.value(every) == 1
        assert states(rule) == [("jobs", "resolved")]

    def test_without_one_it_always_does(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')
        rule("select redrive.check_queue_health(p_every => 60)")
        delayed(rule, 3)
        assert check(rule) == [("backlog", "jobs", "firing")]

    def test_an_interval_that_cannot_be_is_refused(self, rule: Contract) -> None:
        with pytest.raises(psycopg.Error, match="p_every is -1; it must be seconds from 0"):
            rule("select redrive.check_queue_health(p_every => -1)")


class TestTelling:
    @pytest.fixture(autouse=True)
    def at_once(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')

    def test_each_sink_is_told(self, rule: Contract) -> None:
        declare(rule, "ops", "pager")
        delayed(rule, 3)
        check(rule)
        assert (told(rule), told(rule, "pager")) == (["firing"], ["firing"])

    def test_it_reminds_after_its_interval_where_the_last_word_has_left(self, rule: Contract) -> None:
        declare(rule, "ops", "dead")
        delayed(rule, 3)
        check(rule)
        deliver(rule, "ops")
        check(rule, 3599)
        assert told(rule) == ["firing"]
        check(rule, 1)
        check(rule, 60)
        assert (told(rule), told(rule, "dead")) == (["firing", "reminder"], ["firing"])
        deliver(rule, "ops")
        check(rule, 3600)
        assert told(rule) == ["firing", "reminder", "reminder"]

    def test_a_rule_without_reminders_has_none(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"remind_sec": null}')
        delayed(rule, 3)
        check(rule)
        deliver(rule)
        check(rule, 1_000_000)
        assert told(rule) == ["firing"]

    def test_a_new_sink_hears_of_what_fires(self, rule: Contract) -> None:
        delayed(rule, 3)
        check(rule)
        declare(rule, "late")
        check(rule, 60)
        check(rule, 60)
        assert (told(rule), told(rule, "late")) == (["firing"], ["firing"])

    def test_without_any_sink_it_still_changes_state(self, rule: Contract) -> None:
        rule("delete from redrive.alert_sink")
        delayed(rule, 3)
        assert check(rule) == [("backlog", "jobs", "firing")]
        assert told(rule) == []

    def test_what_a_sink_is_told_has_the_figures_and_the_command(self, rule: Contract) -> None:
        rule(
            "select redrive.set_rule('backlog', %s)",
            json.dumps({"summary": "{value} of {subject}, over {limit}", "command": "redrive status"}),
        )
        delayed(rule, 3)
        now = rule.clock.now()
        check(rule)
        [due] = rule("select * from redrive.claim_alerts(array['ops'])")
        assert due.body | {"database": None, "since": None} == {
            "rule": "backlog",
            "subject": "jobs",
            "event": "firing",
            "severity": "warning",
            "value": 3,
            "threshold": 2,
            "summary": "3 of jobs, over 2",
            "command": "redrive status",
            "database": None,
            "since": None,
        }
        assert due.body["database"] == rule.value("select current_database()")
        assert datetime.fromisoformat(due.body["since"]) == now

    def test_that_it_is_over_is_told_only_where_it_was_told_that_it_fires(self, rule: Contract) -> None:
        delayed(rule, 3)
        check(rule)
        declare(rule, "late")
        delayed(rule, 0)
        check(rule, 60)
        assert (told(rule), told(rule, "late")) == (["firing", "resolved"], [])


class TestSilences:
    @pytest.fixture(autouse=True)
    def at_once(self, rule: Contract) -> None:
        rule("select redrive.set_rule('backlog', %s)", '{"for_sec": 0}')

    @pytest.mark.parametrize("what", [("backlog", "jobs"), ("backlog", None), (None, "jobs"), (None, None)])
    def test_it_stops_deliveries_and_not_states_and_what_still_fires_is_told_at_its_end(
        self, rule: Contract, what: tuple[str | None, str | None]
    ) -> None:
        rule("select redrive.silence_alert(%s, %s, 600, 'deploy')", *what)
        delayed(rule, 3)
        assert check(rule) == [("backlog", "jobs", "firing")]
        [alert] = rule("select * from redrive.alerts()")
        assert (alert.silence_reason, alert.undelivered) == ("deploy", 0)
        check(rule, 599)
        assert told(rule) == []
        check(rule, 1)
        check(rule, 60)
        assert told(rule) == ["firing"]

    def test_what_came_and_went_in_it_is_never_told(self, rule: Contract) -> None:
        rule("select redrive.silence_alert('backlog')")
        delayed(rule, 3)
        check(rule)
        delayed(rule, 0)
        assert check(rule, 60) == [("backlog", "jobs", "resolved")]
        check(rule, 3600)
        assert told(rule) == []

    def test_of_another_subject_it_does_nothing(self, rule: Contract) -> None:
        rule("select redrive.silence_alert('backlog', 'mail')")
        rule("select redrive.silence_alert('dead_letters')")
        delayed(rule, 3)
        check(rule)
        assert told(rule) == ["firing"]

    def test_whoever_heard_that_it_fires_hears_that_it_is_over(self, rule: Contract) -> None:
        delayed(rule, 3)
        check(rule)
        deliver(rule)
        rule("select redrive.silence_alert('backlog')")
        delayed(rule, 0)
        check(rule, 60)
        assert deliver(rule) == ["resolved"]

    def test_it_holds_back_what_has_not_left(self, rule: Contract) -> None:
        delayed(rule, 3)
        check(rule)
        [silence] = rule.column("select redrive.silence_alert('backlog')")
        assert deliver(rule) == []
        assert rule.value("select redrive.unsilence(%s::bigint)", silence) == 1
        assert deliver(rule) == ["firing"]

    def test_what_it_held_back_until_it_was_over_is_not_told(self, rule: Contract) -> None:
        delayed(rule, 3)
        check(rule)
        rule("select redrive.silence_alert('backlog')")
        delayed(rule, 0)
        check(rule, 60)
        assert told(rule) == []

    def test_nor_is_it_where_a_try_had_failed_before_or_it_was_over_before(self, rule: Contract) -> None:
        declare(rule, "ops", "two", "late")
        delayed(rule, 3)
        check(rule)
        deliver(rule, error="500")
        deliver(rule, "two")
        rule("select redrive.silence_alert('backlog', 'jo*')")
        listed = rule("select sink, state from redrive.alert_deliveries() order by sink")
        assert [tuple(d) for d in listed] == [
            ("late", "held back"),
            ("ops", "held back"),
            ("two", "delivered"),
        ]
        delayed(rule, 0)
        check(rule, 60)
        assert (told(rule), told(rule, "late"), told(rule, "two")) == ([], [], ["firing", "resolved"])
        [due] = rule("select * from redrive.claim_alerts(array['two'])")
        assert due.body["summary"] == "over after 60 s: backlog: jobs is 3 (limit > 2)"

    def test_there_are_no_reminders_in_it(self, rule: Contract) -> None:
        delayed(rule, 3)
        check(rule)
        deliver(rule)
        rule("select redrive.silence_alert('backlog', null, 7200)")
        check(rule, 3600)
        assert told(rule) == ["firing"]
        check(rule, 3600)
        assert told(rule) == ["firing", "reminder"]

    def test_they_are_listed_and_ended(self, rule: Contract) -> None:
        rule("select redrive.silence_alert('backlog', 'jobs', 60, 'deploy')")
        rule("select redrive.silence_alert()")
        rule("select redrive.silence_alert('backlog', 'email_*', 4000)")
        listed = rule("select rule, subject, reason, known from redrive.silences()")
        assert [tuple(s) for s in listed] == [
            ("backlog", "jobs", "deploy", True),
            (None, None, None, True),
            ("backlog", "email_*", None, False),
        ]
        assert rule.value("select redrive.unsilence(p_subject => 'email_*')") == 1
        assert rule.value("select redrive.unsilence(p_subject => 'jobs')") == 1
        assert rule.value("select redrive.unsilence(p_all => true)") == 1
        assert rule("select * from redrive.silences()") == []

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            ("silence_alert('nothing')", "rule nothing is unknown; the rules are alerts_undelivered, "),
            ("silence_alert(null, null, 0)", "silence seconds is 0; it must be above 0"),
            ("unsilence()", "unsilence takes the id of a silence, a rule or a subject"),
            ("silence_alert(null, null, null)", "silence seconds is null"),
        ],
    )
    def test_what_cannot_be_is_refused(self, rule: Contract, call: str, said: str) -> None:
        with pytest.raises(psycopg.Error, match=said):
            rule(f"select redrive.{call}")
