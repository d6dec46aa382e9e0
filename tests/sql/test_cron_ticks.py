"""A job of pg_cron's fires the ticks that workers would: the same ones, each once, whoever comes first."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from redrive.watch.scheduler import Plan
from redrive.watch.times import Times
from tests.support.contract import Contract, done
from tests.support.layouts import newest_only

_TEXTS = (
    "* * * * *",
    "*/15 * * * *",
    "7,37 */2 * * *",
    "30 2 * * *",
    "0 2,3 * * *",
    "15 1-3 * * *",
    "20/20 * * * *",
    "0 0 * * 0",
    "0 12 * * MON-FRI",
    "0 12 1-7 * 1",
    "0 12 */2 * 7",
    "5 4 L,15 * *",
    "5 4 LW * *",
    "5 4 * * 5#3",
    "5 4 * * 5L",
    "5 4 * JAN,jul *",
    "0 0 29 2 *",
    "0 0 13 * 5",
)
_ZONES = ("UTC", "Europe/Berlin", "America/Havana")
_FROM = (
    datetime(2026, 3, 27, 23, 59, tzinfo=UTC),
    datetime(2026, 10, 24, 12, 0, 30, tzinfo=UTC),
)
_START = datetime(2026, 12, 1, 10, 0, 20, tzinfo=UTC)


def declare(sql: Contract, when: str | float, **more: Any) -> None:
    """Schedule `nightly` into queue `jobs`, declared at `_START`."""
    plain: dict[str, Any] = {
        "name": "nightly",
        "queue": "jobs",
        "tz": "UTC",
        "missed": "one",
        "overlap": "allow",
    }
    plain["cron" if isinstance(when, str) else "every_sec"] = when
    sql.create()
    sql.clock.set(_START)
    sql("select redrive.declare_schedules(%s)", json.dumps([plain | more]))


def tick(sql: Contract, at: datetime | None = None, name: str = "nightly") -> list[tuple[str, str]]:
    """What a job of pg_cron's does at this time: the ticks, and what became of them."""
    if at is not None:
        sql.clock.set(at)
    return [
        (f"{row.tick:%d %H:%M:%S}", row.outcome) for row in sql("select * from redrive.cron_tick(%s)", name)
    ]


def later(seconds: float) -> datetime:
    return _START + timedelta(seconds=seconds)


@newest_only
class TestTicks:
    @pytest.mark.parametrize("zone", _ZONES)
    def test_are_those_that_python_computes(self, sql: Contract, zone: str) -> None:
        for text in _TEXTS:
            times = Times.of(text, zone)
            for since in _FROM:
                until = since + timedelta(days=2500)
                ours = sql.column(
                    "select redrive._cron_ticks(%s, %s, %s, %s, 40)", times.cron, zone, since, until
                )
                stream = times.after(since)
                assert len(ours) == 40 or text == "0 0 29 2 *"
                assert ours == [next(stream) for _ in ours], (text, zone, since)

    @pytest.mark.parametrize("every", [1, 10, 90, 3600, 86400, 12.345678])
    def test_of_an_interval_are_its_multiples(self, sql: Contract, every: float) -> None:
        declare(sql, every)
        times = Times.of(every, "UTC")
        ours = sql.column(
            "select redrive._ticks(s, %s, 'infinity', 20) from redrive.schedule s where name = 'nightly'",
            _START,
        )
        stream = times.after(_START)
        assert ours == [next(stream) for _ in range(20)]

    @pytest.mark.parametrize(
        "text",
        [
            "61 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "* * * * 8",
            "*/0 * * * *",
            "5-1 * * * *",
            "x * * * *",
        ],
    )
    def test_of_what_is_no_cron_text_are_refused(self, sql: Contract, text: str) -> None:
        with pytest.raises(psycopg.Error, match="of a cron text cannot be"):
            sql("select redrive._cron_ticks(%s, 'UTC', now(), now() + '1 day', 1)", text)


@newest_only
class TestCronTick:
    def test_sends_the_tick_that_is_due_and_knows_the_next(self, sql: Contract) -> None:
        declare(sql, "* * * * *")
        assert tick(sql, later(40.5)) == [("01 10:01:00", "sent")]
        [schedule] = sql("select * from redrive.schedules()")
        assert schedule.next_at == datetime(2026, 12, 1, 10, 2, tzinfo=UTC)
        [message] = sql("select message from pgmq.q_jobs")
        assert message.message == {"schedule": "nightly", "tick": "2026-12-01T10:01:00Z"}

    def test_fires_a_tick_once_however_often_it_runs(self, sql: Contract) -> None:
        declare(sql, "* * * * *")
        tick(sql, later(41))
        assert [tick(sql, later(41 + each)) for each in (0, 5, 58)] == [[], [], []]

    def test_fires_nothing_before_its_time(self, sql: Contract) -> None:
        declare(sql, "0 3 * * *")
        assert tick(sql, later(3600)) == []
        [schedule] = sql("select * from redrive.schedules()")
        assert (schedule.lag_sec, schedule.next_at) == (None, datetime(2026, 12, 2, 3, tzinfo=UTC))

    def test_leaves_nothing_for_workers_nor_they_for_it(self, sql: Contract) -> None:
        """A worker's plan, before and after the job's run at the same tick."""
        declare(sql, 10)
        tick(sql, later(0.5))
        assert tick(sql, later(20.5)) == [("01 10:00:30", "missed"), ("01 10:00:40", "sent")]
        [due] = sql("select * from redrive.due_schedules(array['nightly'])")
        plan = Plan(due)
        assert (plan.ticks, plan.missed, plan.next_at) == ([], [], due.next_at)
        sql.clock.set(later(30.5))
        [due] = sql("select * from redrive.due_schedules(array['nightly'])")
        plan = Plan(due)
        fired = sql(
            "select * from redrive.fire_schedule('nightly', %s, %s, %s, %s)",
            plan.ticks,
            plan.next_at,
            due.revision,
            plan.missed,
        )
        assert [row.outcome for row in fired] == ["sent"]
        assert tick(sql) == []
        assert len(sql.waiting()) == 2

    def test_one_message_a_tick_when_job_and_workers_run_at_once(self, sql: Contract) -> None:
        declare(sql, "* * * * *")
        sql.clock.set(later(41))

        def fire(session: Any, place: int) -> Any:
            if place % 2:
                return session.execute("select * from redrive.cron_tick('nightly')").fetchall()
            due = session.execute("select * from redrive.due_schedules(array['nightly'])").fetchall()[0]
            plan = Plan(due)
            return session.execute(
                "select * from redrive.fire_schedule('nightly', %s, %s, %s, %s)",
                (plan.ticks, plan.next_at, due.revision, plan.missed),
            ).fetchall()

        for _ in range(3):
            answers = sql.at_once(8, fire)
            assert not [each for each in answers if isinstance(each, Exception)]
            sql.clock.move(60)
        tick(sql)
        ticks = [row.message["tick"] for row in sql("select message from pgmq.q_jobs")]
        assert len(ticks) == len(set(ticks)) >= 3

    @pytest.mark.parametrize(
        ("missed", "outcomes"),
        [
            ("one", ["missed"] * 4 + ["sent"]),
            ("all", ["sent"] * 5),
            ("skip", ["missed"] * 5),
        ],
    )
    def test_makes_up_what_was_missed_as_declared(
        self, sql: Contract, missed: str, outcomes: list[str]
    ) -> None:
        declare(sql, "0 * * * *", missed=missed)
        tick(sql, later(1))
        assert [outcome for _, outcome in tick(sql, later(5 * 3600 + 120))] == outcomes
        [schedule] = sql("select * from redrive.schedules()")
        assert schedule.next_at == datetime(2026, 12, 1, 16, tzinfo=UTC)

    def test_a_tick_of_skip_that_a_job_comes_to_within_its_minute_is_sent(self, sql: Contract) -> None:
        declare(sql, 3600, missed="skip")
        tick(sql, later(1))
        assert tick(sql, later(3600 - 20 + 61)) == [("01 11:00:00", "sent")]

    def test_what_was_due_long_ago_is_its_last_tick(self, sql: Contract) -> None:
        declare(sql, "0 0 2 12 *")
        tick(sql, later(1))
        assert tick(sql, later(200 * 86400)) == [("02 00:00:00", "sent")]

    def test_a_paused_one_is_let_be(self, sql: Contract) -> None:
        declare(sql, "* * * * *")
        sql("select redrive.pause_schedule('nightly')")
        assert tick(sql, later(41)) == []

    def test_overlap_is_honoured(self, sql: Contract) -> None:
        declare(sql, "* * * * *", overlap="skip")
        assert tick(sql, later(41)) == [("01 10:01:00", "sent")]
        assert tick(sql, later(101)) == [("01 10:02:00", "skipped")]
        sql.settle(*[done(each) for each in sql.claim()])
        assert tick(sql, later(161)) == [("01 10:03:00", "sent")]

    def test_one_that_waits_is_sent_when_the_one_before_is_over(self, sql: Contract) -> None:
        declare(sql, "* * * * *", overlap="queue")
        tick(sql, later(41))
        assert tick(sql, later(101)) == [("01 10:02:00", "waiting")]
        sql.settle(*[done(each) for each in sql.claim()])
        assert tick(sql, later(110)) == [("01 10:02:00", "sent")]

    def test_who_looks_after_it_is_noted(self, sql: Contract) -> None:
        declare(sql, "0 3 * * *")
        tick(sql, later(60))
        assert sql.value("select seen_at from redrive.schedules()") == later(60)

    def test_of_a_schedule_that_there_is_not_fails(self, sql: Contract) -> None:
        with pytest.raises(psycopg.Error, match="there is no schedule gone here"):
            sql("select redrive.cron_tick('gone')")
