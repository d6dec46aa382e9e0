"""claim: what is due, longest due first, charged once and nobody else's until its time is over."""

from __future__ import annotations

import json
from datetime import timedelta

import psycopg
import pytest

from tests.support.contract import Connection, Contract, done, ids, report, retry, snooze
from tests.support.layouts import newest_only, with_headers

REFUSED = psycopg.errors.InvalidParameterValue


def test_a_claim_charges_one_delivery_and_hides_the_message_for_the_visibility_timeout(sql: Contract) -> None:
    sql.create()
    sent_at = sql.clock.stop()
    sent = sql.send({"n": 1})
    now = sql.clock.move(7)
    enqueued_at = sql.live(sent).enqueued_at

    [delivery] = sql.claim(vt=30.5)
    until = now + timedelta(seconds=30.5)
    assert delivery == (sent, 1, 1, enqueued_at, until, sent_at, {"n": 1}, None, None, False)
    assert sql("select read_ct, vt from pgmq.q_jobs") == [(1, until)]

    sql.clock.move(30.4)
    assert sql.claim() == []
    sql.clock.move(0.1)
    [again] = sql.claim()
    assert (again.read_ct, again.attempt, again.due_at) == (2, 2, until)


def test_the_longest_due_come_first_whatever_their_ids(sql: Contract) -> None:
    sql.create()
    for delay in (30, 10, 50, 20, 40, 60):
        sql.send({}, delay=delay)
    sql.clock.move(55)
    assert ids(sql.claim(2)) == [2, 4]
    assert ids(sql.claim(2)) == [1, 5]
    assert ids(sql.claim(2)) == [3]
    assert sql.claim(2) == []


def test_a_retry_that_has_been_due_longer_goes_before_fresh_messages(sql: Contract) -> None:
    sql.create()
    sql.send({"is": "old"})
    sql.settle(retry(sql.claim_one(), delay=10))
    sql.clock.move(20)
    for n in range(3):
        sql.send({"n": n})
    assert ids(sql.claim(2)) == [1, 2]
    assert ids(sql.claim(2)) == [3, 4]


def test_last_read_at_is_written_where_the_layout_has_it(sql: Contract, layout: str) -> None:
    sql.create()
    sql.send({"n": 1})
    now = sql.clock.stop()
    sql.settle(retry(sql.claim_one(), delay=0))
    if "last_read_at" in layout or layout == "1.13.0":
        assert sql.value("select last_read_at from pgmq.q_jobs") == now
        later = sql.clock.move(5)
        sql.claim_one()
        assert sql.value("select last_read_at from pgmq.q_jobs") == later
    else:
        assert sql.claim_one().attempt == 2


def test_no_more_than_asked_for_and_all_that_is_there(sql: Contract) -> None:
    sql.create()
    sql("select redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 25))))")
    assert [len(sql.claim(10)) for _ in range(4)] == [10, 10, 5, 0]


def test_many_at_once_get_every_message_exactly_once(sql: Contract) -> None:
    sql.create()
    sql("select redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 500))))")

    def claim(session: Connection, place: int) -> list[int]:
        got: list[int] = []
        while rows := session.execute(
            "select msg_id from redrive.claim('jobs', 60, 7, %s)", (f"w{place}",)
        ).fetchall():
            got += [row.msg_id for row in rows]
        return got

    taken = sorted(n for answer in sql.at_once(8, claim) for n in answer)
    assert taken == list(range(1, 501))


def test_a_message_in_somebodys_open_transaction_is_passed_over_without_waiting(sql: Contract) -> None:
    sql.create()
    for n in range(3):
        sql.send({"n": n})
    other = sql.connect()
    other.execute("begin")
    other.execute("select from pgmq.q_jobs where msg_id = 2 for update")
    sql("set lock_timeout = '100ms'")
    assert ids(sql.claim()) == [1, 3]
    other.execute("rollback")
    assert ids(sql.claim()) == [2]


def test_a_claim_that_is_rolled_back_has_claimed_nothing(sql: Contract) -> None:
    sql.create()
    sql.send({})
    other = sql.connect()
    other.execute("begin")
    assert len(other.execute("select * from redrive.claim('jobs', 60, 1, 'x')").fetchall()) == 1
    other.execute("rollback")
    assert sql.claim_one().read_ct == 1


def test_a_claim_sees_messages_sent_past_redrive(sql: Contract) -> None:
    sql.create()
    sql("select pgmq.send('jobs', '{\"idempotency_key\": \"k\"}'::jsonb)")
    delivery = sql.claim_one()
    assert (delivery.attempt, delivery.key) == (1, "k")


@with_headers
@pytest.mark.parametrize("headers", ["null", '"text"', "[1]", "5"])
def test_headers_that_are_no_object_neither_break_a_claim_nor_cost_a_given_back_delivery(
    sql: Contract, headers: str
) -> None:
    sql.create(max_attempts=2)
    sql("select pgmq.send('jobs', '{}'::jsonb, %s::jsonb, 0)", headers)
    for _ in range(3):
        delivery = sql.claim_one()
        assert delivery.attempt == 1
        assert sql.release(delivery) == [1]
        assert sql.settle(snooze(sql.claim_one(), 0)) == ["ok"]
    sql.settle(retry(sql.claim_one(), delay=0))
    assert sql.claim_one().attempt == 2


@newest_only
@pytest.mark.parametrize(
    "name", ["x-redrive-credit", "x-redrive-settled", "x-redrive-generation", "x-redrive-origin"]
)
@pytest.mark.parametrize("value", ["abc", 1.5, -3, {}, None, 10**40])
def test_nonsense_in_redrives_headers_blocks_nobody(sql: Contract, name: str, value: object) -> None:
    sql.create(max_attempts=1)
    sql("select pgmq.send('jobs', '{}'::jsonb, %s::jsonb, 0)", json.dumps({name: value}))
    sql("select pgmq.send('jobs', '{}'::jsonb)")
    assert [(d.msg_id, d.attempt) for d in sorted(sql.claim())] == [(1, 1), (2, 1)]
    sql.clock.move(61)
    assert sql.claim() == []
    assert [letter.original_msg_id for letter in sql.letters()] == [1, 2]


@with_headers
def test_a_foreign_key_too_long_for_any_index_counts_as_none(sql: Contract) -> None:
    sql.create()
    sql(
        "select pgmq.send('jobs', jsonb_build_object('idempotency_key', string_agg(md5(n::text), ''))) "
        "from generate_series(1, 400) n"
    )
    delivery = sql.claim_one()
    assert sql.settle(retry(delivery, delay=0)) == ["ok"]
    assert sql.settle(done(sql.claim_one())) == ["ok"]
    assert sql.archived(1).outcome == "done"
    assert sql("select from redrive.key") == []


@pytest.mark.parametrize("qty", ["0", "-1", "null"])
@newest_only
def test_a_count_below_one_is_refused(sql: Contract, qty: str) -> None:
    sql.create()
    sql.send({})
    with pytest.raises(REFUSED, match="claim takes a whole number of messages >= 1"):
        sql(f"select * from redrive.claim('jobs', 60, {qty}, 'w')")
    assert sql.live(1).read_ct == 0


@pytest.mark.parametrize("vt", ["0", "0.5", "-5", "null", "'NaN'", "'Infinity'", "1e20"])
@newest_only
def test_a_visibility_timeout_that_is_none_is_refused(sql: Contract, vt: str) -> None:
    sql.create()
    sql.send({})
    with pytest.raises(REFUSED, match="visibility timeout"):
        sql(f"select * from redrive.claim('jobs', {vt}, 1, 'w')")
    assert sql.live(1).read_ct == 0


@newest_only
def test_an_unknown_queue_is_an_error_of_its_own(sql: Contract) -> None:
    with pytest.raises(psycopg.Error, match="queue nothing does not exist") as caught:
        sql.claim(queue="nothing")
    assert caught.value.sqlstate == "RD001"


@with_headers
class TestIsolation:
    """A delivery that ended without a report is a gap; after two in a row the message runs apart for good."""

    def test_after_two_unreported_deliveries_a_message_is_isolated_for_good(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        for _ in range(2):
            assert sql.claim_one().isolated is False
            sql.clock.move(61)
        third = sql.claim_one()
        assert third.isolated is True
        assert sql.settle(report(third, "crashed", delay=0)) == ["ok"]
        assert sql.claim_one().isolated is True

    def test_a_report_between_two_gaps_keeps_a_message_in(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql.claim_one()
        sql.clock.move(61)
        sql.settle(retry(sql.claim_one(), delay=0))
        sql.claim_one()
        sql.clock.move(61)
        assert sql.claim_one().isolated is False
        sql.clock.move(61)
        assert sql.claim_one().isolated is True

    def test_a_delivery_given_back_is_no_gap(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        for _ in range(3):
            sql.release(sql.claim_one())
            sql.settle(snooze(sql.claim_one(), 0))
        assert (d := sql.claim_one()).isolated is False
        assert d.attempt == 1

    def test_each_gap_is_a_failed_attempt_in_the_history(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql.claim_one()
        now = sql.clock.move(61)
        sql.claim_one()
        [attempt] = sql.attempts(1)
        assert (attempt.read_ct, attempt.attempt, attempt.at, attempt.error_type) == (1, 1, now, "crashed")
        assert "without a report" in attempt.error

    def test_neighbours_of_a_gap_are_not_isolated(self, sql: Contract) -> None:
        sql.create()
        for n in range(3):
            sql.send({"n": n})
        sql.claim(2)
        sql.clock.move(61)
        second = {d.msg_id: d for d in sql.claim()}
        sql.settle(done(second[2]), retry(second[3], delay=0))
        sql.clock.move(61)
        assert {d.msg_id: d.isolated for d in sql.claim()} == {1: True, 3: False}


def test_next_due_says_how_long_there_is_nothing_to_claim(sql: Contract) -> None:
    sql.create()
    next_due = "select redrive.next_due('jobs')"
    sql.clock.stop()
    assert sql.value(next_due) is None
    sql.send({}, delay=90)
    assert sql.value(next_due) == 90
    sql.send({}, delay=2.5)
    assert sql.value(next_due) == 2.5
    sql.clock.move(3)
    assert sql.value(next_due) == 0
    sql.claim_one(vt=20)
    assert sql.value(next_due) == 20
    assert sql.value("select redrive.next_due('nothing')") is None
