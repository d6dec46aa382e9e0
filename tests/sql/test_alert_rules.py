"""Rules are rows: changed, reset, made and dropped by hand; what cannot be right is refused."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.contract import Contract
from tests.support.layouts import newest_only


@newest_only
class TestSettingRules:
    def test_a_change_holds_until_it_is_reset(self, sql: Contract) -> None:
        said = sql.value(
            'select redrive.set_rule(\'dead_letters\', \'{"threshold": 5, "severity": "info"}\')'
        )
        assert (said["threshold"], said["severity"], said["gauge"]) == (5, "info", "dead")
        [rule] = sql("select * from redrive.rules() where changed is not null")
        assert (rule.name, rule.builtin, rule.changed) == (
            "dead_letters",
            True,
            {"threshold": 5, "severity": "info"},
        )
        assert sql.value("select redrive.reset_rule('dead_letters')") is True
        assert sql.value("select redrive.reset_rule('dead_letters')") is False
        assert sql("select * from redrive.rules() where changed is not null") == []

    def test_a_clear_at_that_no_longer_fits_goes(self, sql: Contract) -> None:
        said = sql.value("select redrive.set_rule('oldest_ready', '{\"threshold\": 60}')")
        assert said["clear_at"] is None
        assert sql.value("select redrive.set_rule('oldest_ready', '{\"clear_at\": 30}')")["clear_at"] == 30

    def test_one_of_our_own_comes_and_goes(self, sql: Contract) -> None:
        said = sql.value('select redrive.set_rule(\'big\', \'{"gauge": "archive_bytes", "threshold": 1e9}\')')
        assert (said["operator"], said["for_sec"], said["remind_sec"], said["builtin"]) == (
            ">",
            0,
            14400,
            False,
        )
        assert sql.value("select redrive.drop_rule('big')") is True
        with pytest.raises(psycopg.Error, match="rule big is unknown"):
            sql("select redrive.drop_rule('big')")

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (
                "set_rule('big', '{\"threshold\": 1}')",
                "rule big is not there yet; a new rule needs at least gauge",
            ),
            ("set_rule('Big one', '{}')", "rule name 'Big one' is refused"),
            ("set_rule('test', '{}')", "and not test"),
            ("set_rule(null, '{}')", "rule name null is refused"),
            ("set_rule('parked', null)", "rule fields must be a JSON object"),
            ("set_rule('parked', '{}')", "with at least one field"),
            ("set_rule('parked', '[1]')", "rule fields must be a JSON object"),
            ("set_rule('parked', '{\"limit\": 1}')", "rule field limit is unknown; the fields are gauge, "),
            (
                "set_rule('parked', '{\"threshold\": \"1\"}')",
                'rule field threshold is "1"; it must be a number',
            ),
            ("set_rule('parked', '{\"threshold\": null}')", "threshold is null; it must be a number"),
            ("set_rule('parked', '{\"for_sec\": -1}')", "for_sec is -1; it must be seconds, a year at most"),
            ("set_rule('parked', '{\"remind_sec\": 0}')", "or null for no reminder"),
            ("set_rule('parked', '{\"operator\": \"=\"}')", 'operator is "="; it must be one of'),
            ("set_rule('parked', '{\"severity\": \"bad\"}')", 'severity is "bad"; it must be one of'),
            (
                "set_rule('parked', '{\"gauge\": \"depth\"}')",
                'gauge "depth" is unknown; the gauges are archive_bytes, ',
            ),
            ("set_rule('parked', '{\"enabled\": 1}')", "enabled is 1; it must be true or false"),
            ("set_rule('parked', '{\"summary\": \"\"}')", "a text of 1 to 500 characters"),
            ("set_rule('parked', '{\"clear_at\": 2}')", "on the quiet side of the threshold"),
            ("reset_rule('mine')", "rule mine is unknown; the rules are alerts_undelivered, "),
            ("drop_rule('parked')", "rule parked comes with redrive; turn it off instead"),
        ],
    )
    def test_what_cannot_be_is_refused_and_changes_nothing(self, sql: Contract, call: str, said: str) -> None:
        with pytest.raises(psycopg.Error, match=said):
            sql(f"select redrive.{call}")
        assert sql("select * from redrive.rules() where changed is not null") == []
