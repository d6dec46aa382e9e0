"""extend, the heartbeat: what a worker owns stays its own, never for a shorter time, nothing holds it up."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.support.contract import (
    Connection,
    Contract,
    Report,
    done,
    extend,
    retry,
    settle,
    snooze,
)
from tests.support.layouts import newest_only, with_headers


def test_a_beat_moves_the_visibility_timeout_of_what_is_owned(sql: Contract) -> None:
    sql.create()
    for n in range(3):
        sql.send({"n": n})
    held = sql.claim(vt=60)
    now = sql.clock.move(20)
    assert sql.extend(*held[:2], vt=60.5) == [1, 2]
    until = now + timedelta(seconds=60.5)
    assert sql.column("select vt from pgmq.q_jobs order by msg_id") == [until, until, held[2].vt]
    assert sql.live(1).read_ct == 1


def test_a_beat_never_shortens_what_the_handler_bought(sql: Contract) -> None:
    sql.create()
    sql.send({})
    held = sql.claim_one(vt=60)
    assert sql.extend(held, vt=600) == [1]
    bought = sql.live(1).vt
    assert sql.extend(held, vt=60) == [1]
    assert sql.live(1).vt == bought


def test_a_beat_after_the_timeout_still_owns_what_nobody_claimed(sql: Contract) -> None:
    sql.create()
    sql.send({})
    held = sql.claim_one(vt=60)
    sql.clock.move(600)
    assert sql.extend(held, vt=60) == [1]
    assert sql.claim() == []


def test_what_was_claimed_settled_or_is_gone_is_not_owned(sql: Contract) -> None:
    sql.create()
    for n in range(4):
        sql.send({"n": n})
    a, b, c, d = sorted(sql.claim(vt=60))
    sql.settle(done(a), retry(b, delay=0))
    sql.extend(d, vt=600)
    sql.clock.move(61)
    assert len(sql.claim(vt=60)) == 2
    before = sql("select msg_id, vt from pgmq.q_jobs order by 1")
    assert sql.extend(a, b, c, d, Report(99, 1, ""), vt=300) == [4]
    assert sql("select msg_id, vt from pgmq.q_jobs where msg_id < 4 order by 1") == before[:-1]


@with_headers
def test_what_was_given_back_is_not_owned_and_stays_where_it_is(sql: Contract) -> None:
    sql.create()
    for n in range(3):
        sql.send({"n": n})
    a, b, c = sorted(sql.claim())
    sql.release(a)
    sql.settle(snooze(b, 5), retry(c, delay=5))
    before = sql("select * from pgmq.q_jobs order by 1")
    assert sql.extend(a, b, c, vt=600) == []
    assert sql("select * from pgmq.q_jobs order by 1") == before


def test_a_beat_keeps_the_key_as_long_as_the_message(sql: Contract) -> None:
    sql.create()
    sql.send({"idempotency_key": "k"})
    held = sql.claim_one(vt=60)
    now = sql.clock.move(30)
    sql.extend(held, vt=60)
    assert sql.key("k").lease_until == now + timedelta(seconds=60)
    sql.extend(held, vt=10)
    assert sql.key("k").lease_until == now + timedelta(seconds=60)


def test_a_beat_leaves_a_key_that_another_message_took_over(sql: Contract) -> None:
    sql.create()
    sql.send({"idempotency_key": "k"})
    held = sql.claim_one(vt=60)
    sql.clock.move(61)
    sql("update pgmq.q_jobs set vt = vt + interval '1 hour'")
    sql.send({"idempotency_key": "k"})
    other = sql.claim_one(vt=60)
    lease = sql.key("k").lease_until
    assert sql.extend(held, vt=6000) == [1]
    assert (sql.key("k").owner_msg, sql.key("k").lease_until) == (other.msg_id, lease)


class TestLockedRow:
    def test_a_row_locked_by_its_own_handler_counts_as_owned_and_delays_no_other_beat(
        self, sql: Contract
    ) -> None:
        sql.create()
        for n in range(3):
            sql.send({"n": n})
        held = sql.claim(vt=60)
        handler = sql.connect()
        handler.execute("begin")
        assert settle(handler, done(held[1])) == ["ok"]
        now = sql.clock.move(20)
        sql("set lock_timeout = '100ms'")
        assert sql.extend(*held, vt=60) == [1, 2, 3]
        assert sql.live(1).vt == sql.live(3).vt == now + timedelta(seconds=60)

    def test_its_key_is_kept_all_the_same(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        held = sql.claim_one(vt=60)
        handler = sql.connect()
        handler.execute("begin")
        handler.execute("select from pgmq.q_jobs for update")
        for _ in range(6):
            now = sql.clock.move(20)
            assert sql.extend(held, vt=60) == [1]
            assert sql.key("k").lease_until > now + timedelta(seconds=20), "there is a beat every 20 s"

        sql.send({"idempotency_key": "k"})
        assert sql.claim() == [], "the handler is at work with this key"

    def test_a_locked_row_of_somebody_elses_delivery_is_not_owned(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        first = sql.claim_one(vt=60)
        sql.clock.move(61)
        second = sql.claim_one(vt=60)
        handler = sql.connect()
        handler.execute("begin")
        handler.execute("select from pgmq.q_jobs for update")
        assert sql.extend(first) == []
        assert sql.extend(second) == [1]


@newest_only
def test_two_beats_of_the_same_messages_at_once_both_own_them(sql: Contract) -> None:
    """A handler's own extend meets the heartbeat on one row at any moment; neither may see it lost."""
    sql.create()
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 50))))")
    held = sql.claim(50)

    def beat(session: Connection, place: int) -> int:
        return min(len(extend(session, *held, vt=60 + n + place)) for n in range(100))

    assert sql.at_once(4, beat) == [50] * 4


@pytest.mark.parametrize("vt", ["0", "0.9", "-1", "null", "'NaN'", "'Infinity'"])
@newest_only
def test_a_time_that_is_none_is_refused(sql: Contract, vt: str) -> None:
    sql.create()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="visibility timeout >= 1 second"):
        sql(f"select redrive.extend('jobs', array[1], array[1], {vt})")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="as many read_cts as message ids"):
        sql("select redrive.extend('jobs', array[1, 2], array[1], 60)")
