"""Schedules in SQL: a tick is fired once, in one transaction with its message, by the database's clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.contract import Contract, done
from tests.support.layouts import newest_only

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def declare(sql: Contract, name: str = "report", **more: Any) -> list[tuple[str, str]]:
    plain = {"name": name, "queue": "jobs", "every_sec": 10, "tz": "UTC", "missed": "one", "overlap": "allow"}
    return [tuple(row) for row in sql("select * from redrive.declare_schedules(%s)", Jsonb([plain | more]))]


def fire(sql: Contract, *ticks: float, name: str = "report", upto: float | None = None, **more: Any) -> Any:
    """The outcomes, in the order of the ticks."""
    missed = [at(each) for each in more.pop("missed", ())]
    rows = sql(
        "select * from redrive.fire_schedule(%s, %s::timestamptz[], %s, %s, %s::timestamptz[])",
        name,
        [at(each) for each in ticks],
        None if upto is None else at(upto),
        more.pop("revision", None),
        missed,
    )
    return [row.outcome for row in rows]


def row(sql: Contract, name: str = "report") -> Any:
    [found] = sql("select * from redrive.schedules() where name = %s", name)
    return found


def ticks(sql: Contract, name: str = "report") -> list[tuple[float, str]]:
    rows = sql("select * from redrive.schedule_ticks(%s, 100)", name)
    return [((each.tick - T0).total_seconds(), each.outcome) for each in reversed(rows)]


@pytest.fixture
def begun(sql: Contract) -> Contract:
    """A queue, at noon of a day."""
    sql.create()
    sql.clock.set(T0)
    return sql


def test_a_tick_is_a_message_that_names_schedule_and_tick(begun: Contract) -> None:
    sql = begun
    assert declare(sql) == [("report", "new")]
    assert declare(sql) == []
    sql.clock.set(at(10.5))
    assert fire(sql, 10, upto=20) == ["sent"]
    [message] = sql.claim()
    assert message.message == {"schedule": "report", "tick": "2026-03-01T12:00:10Z"}
    found = row(sql)
    assert (found.next_at, found.last_tick, found.last_outcome) == (at(20), at(10), "sent")
    assert (found.last_msg_id, found.lag_sec, found.queue) == (message.msg_id, None, "jobs")


@newest_only
def test_a_job_gets_its_payload_as_it_is(begun: Contract) -> None:
    sql = begun
    declare(sql, payload={"of": [1, None]})
    sql.clock.set(at(10))
    fire(sql, 10)
    assert sql.claim_one().message == {"of": [1, None]}
    # Null is a payload, too.
    declare(sql, "nothing", payload=None)
    sql.clock.set(at(20))
    fire(sql, 20, name="nothing")
    assert sql.claim_one().message is None


@newest_only
def test_fractions_of_a_second_stay_in_the_tick(begun: Contract) -> None:
    sql = begun
    declare(sql, every_sec=1.5)
    sql.clock.set(at(1.5))
    fire(sql, 1.5)
    assert sql.claim_one().message["tick"] == "2026-03-01T12:00:01.500000Z"


def test_the_same_tick_from_many_schedulers_is_one_message(begun: Contract) -> None:
    sql = begun
    declare(sql)
    sql.clock.set(at(30))

    def each(session: psycopg.Connection[Any], place: int) -> int:
        found = session.execute(
            "select * from redrive.fire_schedule('report', %s::timestamptz[], %s)",
            ([at(10), at(20), at(30)], at(40)),
        ).fetchall()
        return len(found)

    answers = sql.at_once(10, each)
    assert sorted(answers) == [0] * 9 + [3]
    assert len(sql.waiting()) == 3
    assert fire(sql, 10, 20, 30) == []


@newest_only
def test_what_is_rolled_back_is_fired_again(begun: Contract) -> None:
    sql = begun
    declare(sql)
    sql.clock.set(at(10))
    with psycopg.connect(sql.url) as other:
        other.execute("select * from redrive.fire_schedule('report', array[%s], %s)", (at(10), at(20)))
        other.rollback()
    assert row(sql).next_at is None
    assert fire(sql, 10, upto=20) == ["sent"]


@newest_only
def test_next_at_only_moves_forward(begun: Contract) -> None:
    sql = begun
    declare(sql)
    fire(sql, upto=10)
    fire(sql, upto=5)
    assert row(sql).next_at == at(10)


@newest_only
@pytest.mark.parametrize("when", [{}, {"every_sec": None, "cron": "0 3 * * *"}])
def test_no_next_tick_is_taken_that_never_comes(begun: Contract, when: dict[str, Any]) -> None:
    sql = begun
    declare(sql, **when)
    for never in ("infinity", "2999-01-01", "12000-01-01", "-infinity"):
        with pytest.raises(psycopg.Error, match="schedule report: its next tick cannot be"):
            sql("select redrive.fire_schedule('report', '{}', %s::timestamptz)", never)
    # Written by somebody's hand, it is as if nobody had computed it; and is mended by whoever fires.
    sql("update redrive.schedule set next_at = 'infinity'")
    [due] = sql("select * from redrive.due_schedules(array['report'])")
    assert (due.next_at, row(sql).next_at) == (None, None)
    fire(sql, upto=10)
    assert row(sql).next_at == at(10)


@newest_only
def test_no_tick_of_the_future_and_none_from_before_the_declaration(begun: Contract) -> None:
    sql = begun
    declare(sql)
    with pytest.raises(psycopg.Error, match="lies in the future of this database"):
        fire(sql, 10)
    assert fire(sql, 0, -10) == []
    assert sql.waiting() == []


@newest_only
def test_a_changed_time_counts_from_now(begun: Contract) -> None:
    sql = begun
    declare(sql)
    fire(sql, upto=10)
    sql.clock.set(at(35))
    assert declare(sql, every_sec=7) == [("report", "changed")]
    [due] = sql("select * from redrive.due_schedules(array['report'])")
    assert (due.next_at, due.base_at, due.now, due.revision) == (None, at(35), at(35), 2)
    # A scheduler that has read the old times.
    assert fire(sql, 30, upto=40, revision=1) == []
    assert row(sql).next_at is None
    assert fire(sql, upto=42, revision=2) == []
    assert row(sql).next_at == at(42)
    # Another payload moves no tick.
    assert declare(sql, every_sec=7, payload={}) == [("report", "changed")]
    assert row(sql).next_at == at(42)


@newest_only
def test_of_two_declarations_the_one_that_lives_on_has_its_way(begun: Contract) -> None:
    sql = begun

    def again(**more: Any) -> Any:
        plain = {"name": "report", "queue": "jobs", "tz": "UTC", "missed": "one", "overlap": "allow"}
        return sql.column(
            "select status from redrive.declare_schedules(%s, p_again => true)", Jsonb([plain | more])
        )

    assert again(every_sec=10) == []  # nothing new: what is dropped stays dropped
    assert sql("select * from redrive.schedules()") == []
    declare(sql, every_sec=20)
    declare(sql, every_sec=10)  # the old version's child starts again
    for second in range(10, 100, 10):
        sql.clock.set(at(second))
        assert again(every_sec=10) == []
        assert again(every_sec=20) == ["other"]
    sql.clock.set(at(121))
    assert again(every_sec=20) == ["changed"]
    assert again(every_sec=10) == ["other"]
    assert row(sql).every_sec == 20


@newest_only
def test_missed_ticks_are_noted_and_not_sent(begun: Contract) -> None:
    sql = begun
    declare(sql)
    sql.clock.set(at(55))
    assert fire(sql, 50, upto=60, missed=(10, 20, 30, 40)) == ["missed"] * 4 + ["sent"]
    assert ticks(sql) == [(10, "missed"), (20, "missed"), (30, "missed"), (40, "missed"), (50, "sent")]
    assert fire(sql, 40) == []
    assert fire(sql, missed=(10, 20)) == []  # told by whoever wrote it
    assert row(sql).last_outcome == "sent"


def test_overlap_skip_lets_a_tick_go_while_the_one_before_is_not_over(begun: Contract) -> None:
    sql = begun
    declare(sql, overlap="skip")
    sql.clock.set(at(30))
    assert fire(sql, 10) == ["sent"]
    assert fire(sql, 20) == ["skipped"]
    [running] = sql.claim()
    assert fire(sql, 25) == ["skipped"]
    sql.settle(done(running))
    assert fire(sql, 30) == ["sent"]
    assert ticks(sql) == [(10, "sent"), (20, "skipped"), (25, "skipped"), (30, "sent")]


@newest_only
def test_overlap_queue_sends_in_order_when_the_one_before_has_ended(begun: Contract) -> None:
    sql = begun
    declare(sql, overlap="queue")
    sql.clock.set(at(30))
    assert fire(sql, 10, 20, 30) == ["sent", "waiting", "waiting"]
    [due] = sql("select * from redrive.due_schedules(array['report'])")
    assert due.waiting
    assert fire(sql) == []
    assert row(sql).last_outcome == "waiting"
    for tick in ("12:00:10", "12:00:20", "12:00:30"):
        [message] = sql.claim()
        assert message.message["tick"] == f"2026-03-01T{tick}Z"
        sql.settle(done(message))
        fire(sql)
    assert ticks(sql) == [(10, "sent"), (20, "sent"), (30, "sent")]
    assert (sql.waiting(), row(sql).last_outcome) == ([], "sent")


@newest_only
@pytest.mark.parametrize(("overlap", "meanwhile"), [("skip", "skipped"), ("queue", "waiting")])
def test_a_retry_of_the_one_before_is_not_its_end_and_a_dead_letter_is(
    begun: Contract, overlap: str, meanwhile: str
) -> None:
    sql = begun
    declare(sql, overlap=overlap)
    sql.clock.set(at(10))
    fire(sql, 10)
    [first] = sql.claim()
    sql("select * from redrive.settle('jobs', array[%s], array[%s], array['retry'], array[1])", *first[:2])
    sql.clock.set(at(20))
    assert fire(sql, 20) == [meanwhile]
    sql.kill(first.msg_id)
    sql.clock.set(at(30))
    assert fire(sql, 30) == {"skip": ["sent"], "queue": ["sent", "waiting"]}[overlap]


@newest_only
def test_a_pause_makes_up_nothing(begun: Contract) -> None:
    sql = begun
    declare(sql)
    fire(sql, upto=10)
    assert sql.column("select redrive.pause_schedule('report')") == [True]
    assert sql.column("select redrive.pause_schedule('report')") == [False]
    sql.clock.set(at(35))
    assert sql("select * from redrive.due_schedules(array['report'])") == []
    assert fire(sql, 10, 20, 30, upto=40) == []
    assert row(sql).lag_sec is None
    assert sql.column("select redrive.resume_schedule('report')") == [True]
    assert sql.column("select redrive.resume_schedule('report')") == [False]
    assert fire(sql, 10, 20, 30, upto=40) == []
    sql.clock.set(at(40))
    assert fire(sql, 40, upto=50) == ["sent"]


@newest_only
def test_lag_is_what_nobody_has_fired(begun: Contract) -> None:
    sql = begun
    declare(sql)
    assert row(sql).lag_sec is None
    sql.clock.set(at(7))
    assert row(sql).lag_sec == 7  # nobody has computed when it is due
    fire(sql, upto=10)
    assert row(sql).lag_sec is None
    sql.clock.set(at(210))
    assert row(sql).lag_sec == 200
    fire(sql, 210, upto=220)
    assert row(sql).lag_sec is None


@newest_only
def test_who_looks_after_it_is_noted(begun: Contract) -> None:
    sql = begun
    declare(sql)
    assert row(sql).seen_at is None
    sql("select * from redrive.due_schedules(array['report', 'nothing'])")
    assert row(sql).seen_at == T0


@newest_only
def test_by_hand_a_tick_is_sent_at_once_also_while_it_is_paused(begun: Contract) -> None:
    sql = begun
    declare(sql, overlap="skip")
    sql("select redrive.pause_schedule('report')")
    sql.clock.set(at(3))
    sent = sql.value("select redrive.run_schedule('report')")
    assert sql.claim_one().msg_id == sent
    assert ticks(sql) == [(3, "sent")]
    sql("select redrive.resume_schedule('report')")
    sql.clock.set(at(10))
    assert fire(sql, 10) == ["skipped"]  # what was sent by hand is not over


@newest_only
def test_work_of_redrives_own_has_no_message_and_one_who_does_it(begun: Contract) -> None:
    sql = begun
    declare(sql, "redrive.own", queue=None)
    sql.clock.set(at(10))
    assert fire(sql, 10, name="redrive.own", upto=20) == ["sent"]
    assert fire(sql, 10, name="redrive.own", upto=20) == []
    assert sql.value("select redrive.run_schedule('redrive.own')") is None
    assert row(sql, "redrive.own").next_at == at(10)
    sql.clock.set(at(12))
    fire(sql, name="redrive.own", upto=20)
    assert row(sql, "redrive.own").next_at == at(20)
    sql("select redrive.run_schedule('redrive.own')")
    assert row(sql, "redrive.own").next_at == at(12)
    sql("select redrive.pause_schedule('redrive.own')")
    with pytest.raises(psycopg.Error, match="schedule resume redrive"):
        sql("select redrive.run_schedule('redrive.own')")


@newest_only
def test_a_dropped_schedule_is_forgotten_and_what_it_sent_is_not(begun: Contract) -> None:
    sql = begun
    declare(sql)
    sql.clock.set(at(10))
    fire(sql, 10)
    sql("select redrive.drop_schedule('report')")
    assert sql("select * from redrive.schedules()") == []
    assert sql.value("select count(*) from redrive.schedule_tick") == 0
    assert len(sql.waiting()) == 1
    for call in ("drop_schedule", "pause_schedule", "resume_schedule", "run_schedule", "schedule_ticks"):
        with pytest.raises(psycopg.Error, match="there is no schedule report here"):
            sql(f"select redrive.{call}('report')")
    with pytest.raises(psycopg.Error, match="there is no schedule report here"):
        fire(sql, 10)


@newest_only
def test_a_queue_that_is_gone_is_named_and_nothing_is_lost(begun: Contract) -> None:
    sql = begun
    declare(sql)
    sql("select redrive.drop_queue('jobs')")
    sql.clock.set(at(10))
    with pytest.raises(psycopg.Error, match="queue jobs does not exist"):
        fire(sql, 10, upto=20)
    sql.create()
    assert fire(sql, 10, upto=20) == ["sent"]


@newest_only
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": ""}, "a schedule needs a name"),
        ({"queue": None}, "a schedule has a queue"),
        ({"name": "redrive.x"}, "its name does not begin with redrive."),
        ({"cron": "* * * * *"}, "a cron text or every_sec, one of the two"),
        ({"every_sec": 0.5}, "every_sec is 0.5; it must be a number of seconds, at least 1"),
        ({"every_sec": "x"}, "every_sec is x; it must be a number"),
        ({"missed": "some"}, "it needs a tz, missed"),
        ({"overlap": None}, "it needs a tz, missed"),
        ({"tz": ""}, "it needs a tz"),
    ],
)
def test_a_wrong_declaration_is_refused(begun: Contract, wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(psycopg.Error, match=sentence) as caught:
        declare(begun, **wrong) if "name" not in wrong else declare(begun, wrong["name"], **{})
    assert caught.value.sqlstate == "22023"
