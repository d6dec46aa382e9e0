"""Who may claim at all: nobody while a queue is paused, one process of a single-flight queue."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.contract import Connection, Contract, done, ids
from tests.support.layouts import newest_only


def test_a_paused_queue_hands_nothing_out_while_sends_go_on_and_running_jobs_finish(sql: Contract) -> None:
    sql.create()
    sql.send({"n": 1})
    running = sql.claim_one()
    assert sql.value("select redrive.pause_queue('jobs')") is True
    assert sql.value("select redrive.pause_queue('jobs')") is False

    sent = sql.send({"n": 2})
    assert sql.claim() == []
    assert sql.read() == []
    assert sql.extend(running) == [running.msg_id]
    assert sql.settle(done(running)) == ["ok"]

    assert sql.value("select redrive.resume_queue('jobs')") is True
    assert sql.value("select redrive.resume_queue('jobs')") is False
    assert ids(sql.claim()) == [sent]


def test_a_pause_costs_no_attempt(sql: Contract) -> None:
    sql.create(max_attempts=1, paused=True)
    sql.send({})
    for _ in range(3):
        sql.claim()
    sql("select redrive.resume_queue('jobs')")
    assert sql.claim_one().attempt == 1


def test_pausing_wakes_nobody_and_resuming_wakes_the_waiting(sql: Contract) -> None:
    sql.create()
    sql.connection.execute("listen redrive")
    sql("select redrive.pause_queue('jobs')")
    sql("select redrive.resume_queue('jobs')")
    assert [n.payload for n in sql.connection.notifies(timeout=5, stop_after=1)] == ["jobs"]


def test_only_one_worker_claims_from_a_single_flight_queue(sql: Contract) -> None:
    sql.create(single_flight=True)
    for n in range(5):
        sql.send({"n": n})

    assert ids(sql.claim(2, worker="a")) == [1, 2]
    assert sql.claim(2, worker="b") == []
    assert ids(sql.claim(2, worker="a")) == [3, 4]


def test_of_many_that_claim_at_once_one_flies(sql: Contract) -> None:
    sql.create(single_flight=True)
    sql("select redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 100))))")

    def claim(session: Connection, place: int) -> int:
        return len(
            session.execute("select * from redrive.claim('jobs', 60, 1, %s)", (f"w{place}",)).fetchall()
        )

    assert sorted(sql.at_once(20, claim)) == [0] * 19 + [1]


def test_the_flight_ends_with_the_visibility_timeout_of_what_it_holds_not_before(sql: Contract) -> None:
    sql.create(single_flight=True)
    sql.send({})
    sql.send({})
    sql.clock.stop()
    [held] = sql.claim(1, vt=60, worker="a")
    sql.claim(1, vt=5, worker="a")
    sql.clock.move(6)
    sql.send({})
    assert sql.claim(worker="b") == [], "the first message is held for 60 s"

    sql.clock.move(30)
    assert sql.extend(held, vt=60) == [held.msg_id]
    sql.clock.move(40)
    assert sql.claim(worker="b") == [], "its heartbeat bought 60 s more"
    sql.clock.move(21)
    assert ids(sql.claim(worker="b")) == [1, 2, 3]
    assert sql.claim(worker="a") == []


def test_an_idle_holder_keeps_the_flight_by_asking(sql: Contract) -> None:
    sql.create(single_flight=True)
    sql.clock.stop()
    assert sql.claim(vt=10, worker="a") == []
    sql.clock.move(8)
    assert sql.claim(vt=10, worker="a") == []
    sql.clock.move(8)
    sql.send({})
    assert sql.claim(vt=10, worker="b") == []
    assert ids(sql.claim(vt=10, worker="a")) == [1]


def test_a_worker_that_has_drained_gives_the_flight_away_at_once(sql: Contract) -> None:
    sql.create(single_flight=True)
    sql.send({})
    assert sql.settle(done(sql.claim_one(worker="a")), worker="a") == ["ok"]
    sql("select redrive.worker_stop('a')")

    sql.send({})
    assert ids(sql.claim(worker="b")) == [2]


def test_a_worker_that_stops_ends_nobody_elses_flight(sql: Contract) -> None:
    sql.create(single_flight=True)
    sql.send({})
    sql.claim_one(worker="a")
    sql("select redrive.worker_stop('b')")
    sql.send({})
    assert sql.claim(worker="c") == []


@newest_only
def test_a_single_flight_queue_needs_to_know_who_claims(sql: Contract) -> None:
    sql.create(single_flight=True)
    with pytest.raises(
        psycopg.errors.InvalidParameterValue,
        match="queue jobs is single flight; claim from it with a worker name",
    ):
        sql.claim(worker=None)


def test_a_claim_never_waits_for_the_flights_row(sql: Contract) -> None:
    sql.create(single_flight=True)
    sql.send({})
    sql.send({})
    held = sql.claim_one(worker="a")
    other = sql.connect()
    other.execute("begin")
    other.execute("select * from redrive.lease for update")

    sql("set lock_timeout = '100ms'")
    assert sql.claim(worker="a") == []
    assert sql.claim(worker="b") == []
    assert sql.extend(held) == [held.msg_id]
