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


class TestTheStatistics:
    """What is not counted but known: on every layout."""

    def test_archive_dead_rows_and_workers(self, sql: Contract) -> None:
        sql.create()
        empty = sql.metrics()
        for n in range(30):
            sql.send({"n": n, "padding": "x" * 1000})
        sql.settle(*map(done, sql.claim(30, worker="a")), worker="a")
        sql("select redrive.claim('jobs', 60, 1, 'b')")
        sql("analyze pgmq.a_jobs, pgmq.q_jobs")
        m = sql.metrics()
        assert (m.archive_rows, m.workers) == (30, 2)
        assert m.archive_bytes > empty.archive_bytes
        assert m.dead_tuples is not None
        assert [m.inflow_per_sec, m.outflow_per_sec, m.failure_rate, m.drain_sec] == [None] * 4

    def test_rates_come_from_the_samples_of_the_evaluations(self, sql: Contract) -> None:
        sql.create(max_attempts=50)
        sql.clock.stop()
        sql("select redrive.check_queue_health()")
        for _ in range(24):
            sql.send({})
        claimed = sql.claim(12)
        sql.settle(*map(done, claimed[:9]), *(retry(each, delay=500) for each in claimed[9:]))
        sql.clock.move(60)
        m = sql.metrics()
        assert (m.inflow_per_sec, m.outflow_per_sec) == (pytest.approx(0.4), pytest.approx(0.15))
        assert (m.failure_rate, m.drain_sec) == (pytest.approx(0.25), None)


@newest_only
def test_a_locked_queue_is_not_waited_for(sql: Contract) -> None:
    sql.create("a")
    sql.create("b")
    other = sql.connect()
    with other.transaction(force_rollback=True):
        other.execute("lock table pgmq.q_a in access exclusive mode")
        found = {m.queue_name: m.problem for m in sql("select * from redrive.metrics()")}
    assert found == {"a": "another session has locked its tables", "b": None}
    assert sql.value("show lock_timeout") == "0"


@newest_only
def test_an_archive_without_outcomes_is_not_searched(sql: Contract) -> None:
    sql.create()
    sql(
        "insert into pgmq.a_jobs (msg_id, read_ct, enqueued_at, archived_at, vt, message, outcome) "
        "select n, 1, now(), now() - make_interval(secs => 20001 - n), now(), '{}', "
        "case when n = 1 then 'done' end from generate_series(1, 20000) n"
    )
    assert sql.metrics().last_done_at is None


@newest_only
def test_who_works_where(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    sql.send({})
    sql.settle(done(sql.claim_one(worker="host:1:a")), worker="host:1:a")
    # The row a connection of this worker's counted into, while a handler's transaction held the first one.
    sql(
        "insert into redrive.worker (queue, worker, started_at, last_seen, done) "
        "values ('jobs', 'host:1:a#77', redrive.clock(), redrive.clock(), 2)"
    )
    sql.clock.move(30)
    sql.claim(1, worker="host:2:b")
    sql.clock.move(31)
    rows = sql("select worker, alive, done, age_sec from redrive.workers()")
    assert [tuple(row) for row in rows] == [("host:1:a", False, 3, 61), ("host:2:b", True, 0, 31)]
    assert sql.metrics().workers == 1
    sql("select redrive.worker_stop('host:1:a')")
    assert [tuple(row) for row in sql("select worker, alive, done from redrive.workers()")] == [
        ("", False, 3),
        ("host:2:b", True, 0),
    ]
