"""release: a delivery given back costs nothing, stands where it stood, and is its worker's no more."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.contract import Contract, Report, done, ids, reject, retry, snooze
from tests.support.layouts import newest_only, with_headers, without_headers


@with_headers
def test_a_released_message_is_due_at_once_at_no_charge(sql: Contract) -> None:
    sql.create(max_attempts=1)
    sql.send({})
    for n in range(1, 6):
        delivery = sql.claim_one()
        assert (delivery.read_ct, delivery.attempt) == (n, 1)
        assert sql.release(delivery) == [1]
    assert sql.attempts(1) == []
    assert sql.settle(done(sql.claim_one())) == ["ok"]


def test_a_released_message_stands_before_all_that_came_later(sql: Contract) -> None:
    sql.create()
    for n in range(4):
        sql.send({"n": n})
        sql.clock.move(1)
    first = sorted(sql.claim(2))
    assert sql.release(*first, due=[d.due_at for d in first]) == [1, 2]
    assert [sql.live(n).vt for n in (1, 2)] == [d.due_at for d in first]
    assert ids(sql.claim(2)) == [1, 2]


def test_without_a_due_time_it_stands_where_it_was_sent(sql: Contract) -> None:
    sql.create()
    sql.send({}, delay=100)
    sql.clock.move(101)
    delivery = sql.claim_one()
    assert sql.release(delivery) == [1]
    assert sql.live(1).vt == delivery.enqueued_at


def test_a_release_never_makes_a_message_due_later_than_now(sql: Contract) -> None:
    sql.create()
    sql.send({})
    delivery = sql.claim_one()
    now = sql.clock.stop()
    assert sql.release(delivery, due=[now.replace(year=now.year + 1)]) == [1]
    assert sql.live(1).vt == now
    assert ids(sql.claim()) == [1]


def test_a_release_frees_the_key(sql: Contract) -> None:
    sql.create()
    sql.send({"idempotency_key": "k"})
    sql.release(sql.claim_one())
    assert sql.key("k") is None
    assert sql.claim_one().key == "k"


@with_headers
def test_a_read_count_never_goes_down_so_that_no_fence_matches_again(sql: Contract) -> None:
    sql.create()
    sql.send({})
    first = sql.claim_one()
    sql.release(first)
    assert sql.live(1).read_ct == 1
    second = sql.claim_one()
    assert second.read_ct == 2
    before = sql.live(1)

    for said in (retry(first), snooze(first, 9), reject(first), done(first)):
        assert sql.settle(said) == ["repeat"]
    assert sql.extend(first) == []
    assert sql.release(first) == []
    assert sql.live(1) == before
    assert sql.settle(done(second)) == ["ok"]


@with_headers
def test_a_release_sent_twice_gives_back_once(sql: Contract) -> None:
    sql.create(max_attempts=2)
    sql.send({})
    delivery = sql.claim_one()
    assert sql.release(delivery) == [1]
    assert sql.release(delivery) == []
    sql.settle(retry(sql.claim_one(), delay=0))
    assert sql.claim_one().attempt == 2


def test_what_was_claimed_settled_or_is_gone_is_not_released(sql: Contract) -> None:
    sql.create()
    for n in range(3):
        sql.send({"n": n})
    a, b, c = sorted(sql.claim())
    sql.settle(done(a))
    sql.extend(c, vt=600)
    sql.clock.move(61)
    again = sql.claim_one()
    assert again.msg_id == b.msg_id
    before = sql.live(b.msg_id)
    assert sql.release(a, b, c, Report(99, 1, "")) == [c.msg_id]
    assert sql.live(b.msg_id) == before


def test_a_locked_row_is_left_and_not_waited_for(sql: Contract) -> None:
    sql.create()
    sql.send({"n": 1})
    sql.send({"n": 2})
    held = sql.claim()
    handler = sql.connect()
    handler.execute("begin")
    handler.execute("select from pgmq.q_jobs where msg_id = 1 for update")
    sql("set lock_timeout = '100ms'")
    assert sql.release(*held) == [2]


@without_headers
def test_without_headers_a_release_is_visible_at_once_and_charged(sql: Contract) -> None:
    sql.create()
    sql.send({})
    assert sql.release(sql.claim_one()) == [1]
    assert sql.claim_one().attempt == 2


@newest_only
def test_arrays_of_different_lengths_are_refused(sql: Contract) -> None:
    sql.create()
    for arguments in ("array[1, 2], array[1]", "array[1], array[1], array[now(), now()]", "array[1], null"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="as many read_cts"):
            sql(f"select redrive.release('jobs', {arguments})")


def test_a_release_wakes_a_waiting_worker(sql: Contract) -> None:
    sql.create()
    sql.send({})
    held = sql.claim_one(worker="busy")
    assert sql.claim(worker="idle") == []
    sql("listen redrive")
    sql.release(held)
    assert [n.payload for n in sql.connection.notifies(timeout=5, stop_after=1)] == ["jobs"]
