"""metrics: what is ready, delayed, in flight, dead and parked; and one broken queue breaks no other."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.contract import Contract, done, reject, retry, snooze
from tests.support.layouts import newest_only, with_headers


def numbers(sql: Contract, queue: str = "jobs") -> tuple[int, ...]:
    m = sql.metrics(queue)
    assert m.problem is None
    return m.ready, m.delayed, m.in_flight, m.dead, m.parked


def test_an_empty_queue_has_zeros_and_no_last_job(sql: Contract) -> None:
    sql.create()
    m = sql.metrics()
    assert numbers(sql) == (0, 0, 0, 0, 0)
    assert (m.queue_name, m.max_attempt, m.last_done_at, m.paused, m.more) == ("jobs", 0, None, False, False)
    assert m.oldest_ready_age_sec is None


@with_headers
def test_each_message_is_counted_where_it_stands(sql: Contract) -> None:
    sql.create()
    for n in range(6):
        sql.send({"n": n})
    sql.send({}, delay=1000)
    a, b, c, d, _, f = sorted(sql.claim(6, vt=600))
    now = sql.clock.move(10)
    sql.settle(done(a), retry(b, delay=1000), snooze(c, 1000), reject(d))
    sql.release(f)

    assert numbers(sql) == (1, 3, 1, 1, 0)
    assert (sql.metrics().max_attempt, sql.metrics().last_done_at) == (1, now)


def test_a_delayed_message_is_no_old_one(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    sql.send({}, delay=3600)
    sql.clock.move(1800)
    assert numbers(sql) == (0, 1, 0, 0, 0)
    assert sql.metrics().oldest_ready_age_sec is None
    sql.clock.move(1900)
    assert sql.metrics().ready == 1
    assert sql.metrics().oldest_ready_age_sec == pytest.approx(100)


def test_a_dead_letter_is_not_the_last_job_done(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    first, second = sql.send({}), sql.send({})
    a, b = sorted(sql.claim(2))
    assert (a.msg_id, b.msg_id) == (first, second)
    then = sql.clock.move(10)
    sql.settle(done(a))
    sql.clock.move(10)
    sql.settle(reject(b))
    assert sql.metrics().last_done_at == then


def test_a_message_at_work_is_no_old_one(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    sql.send({})
    sql.clock.move(50)
    assert sql.metrics().oldest_ready_age_sec == pytest.approx(50)
    sql.claim_one(vt=600)
    assert numbers(sql) == (0, 0, 1, 0, 0)
    assert sql.metrics().oldest_ready_age_sec is None
    sql.clock.move(601)
    assert sql.metrics().ready == 1
    assert sql.metrics().oldest_ready_age_sec == pytest.approx(1)


@with_headers
def test_parked_is_neither_delayed_nor_in_flight(sql: Contract) -> None:
    sql.create(max_attempts=1)
    sql.send({})
    sql.send({})
    sql.claim(2)
    sql.send({}, delay=5000)
    sql.clock.move(61)
    sql("select pgmq.drop_queue('jobs_dlq')")
    assert sql.claim() == []
    assert numbers(sql) == (0, 1, 0, 0, 2)


@with_headers
def test_the_highest_attempt_counts_attempts(sql: Contract) -> None:
    sql.create()
    sql.send({})
    for _ in range(3):
        sql.release(sql.claim_one())
        sql.settle(retry(sql.claim_one(), delay=0))
    assert sql.metrics().max_attempt == 3


def test_a_count_stops_at_ten_thousand_and_says_so(sql: Contract) -> None:
    sql.create()
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 10001))))")
    m = sql.metrics()
    assert (m.ready, m.more) == (10000, True)


def test_one_broken_queue_breaks_no_other(sql: Contract) -> None:
    for name in ("a", "b", "c", "d"):
        sql.create(name)
        sql.send({}, queue=name)
    sql("drop table pgmq.q_b")
    sql("drop table pgmq.a_c")
    rows = {m.queue_name: m for m in sql("select * from redrive.metrics()")}
    assert {name: m.ready for name, m in rows.items() if m.problem is None} == {"a": 1, "d": 1}
    assert "q_b" in rows["b"].problem
    assert "a_c" in rows["c"].problem
    assert rows["b"].ready is None


def test_a_pause_shows(sql: Contract) -> None:
    sql.create()
    sql("select redrive.pause_queue('jobs')")
    assert sql.metrics().paused is True


@newest_only
def test_an_unknown_queue_is_an_error_of_its_own(sql: Contract) -> None:
    with pytest.raises(psycopg.Error, match="queue nothing does not exist") as caught:
        sql.metrics("nothing")
    assert caught.value.sqlstate == "RD001"
    assert sql("select * from redrive.metrics()") == []
