"""cancel and reschedule: for messages that nobody is running."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.support.contract import Connection, Contract, done, ids, retry, snooze
from tests.support.layouts import newest_only, with_headers, without_headers

KEYED = {"idempotency_key": "k"}


def by_key(sql: Contract, key: str) -> list[int]:
    return sorted(sql.column("select redrive.cancel('jobs', p_key => %s)", key))


def reschedule(sql: Contract, delay: object, *messages: int) -> list[int]:
    return sorted(
        sql.column("select redrive.reschedule('jobs', %s::bigint[], %s::numeric)", list(messages), delay)
    )


def in_every_state(sql: Contract) -> None:
    """1 is ready, 2 delayed, 3 running; with headers also 4 waiting for a retry, 5 given back, 6 snoozed."""
    sql.create()
    sql.send({"is": "ready"})
    sql.send({"is": "delayed"}, delay=1000)
    for n in range(3, 7):
        sql.send({"n": n})
    ready, running, failed, released, snoozed = sorted(sql.claim(vt=600))
    sql.release(ready, released)
    sql.settle(retry(failed, delay=1000), snooze(snoozed, 1000))
    assert running.msg_id == 3


@with_headers
def test_everything_but_the_running_one_is_cancelled_and_archived(sql: Contract) -> None:
    in_every_state(sql)
    now = sql.clock.stop()
    assert sql.cancel(1, 2, 3, 4, 5, 6, 99) == [1, 2, 4, 5, 6]
    assert sql.waiting() == [3]
    assert set(sql("select outcome, duration, archived_at from pgmq.a_jobs")) == {("cancelled", None, now)}
    assert sql.cancel(1, 2) == []


@without_headers
def test_without_headers_what_was_read_and_is_not_due_counts_as_running(sql: Contract) -> None:
    in_every_state(sql)
    assert sql.cancel(1, 2, 3, 4, 5, 6) == [1, 2, 5]
    sql.clock.move(1001)
    assert sql.cancel(3, 4, 6) == [3, 4, 6]


def test_a_message_whose_worker_is_gone_can_be_cancelled(sql: Contract) -> None:
    sql.create()
    sql.send({})
    delivery = sql.claim_one()
    assert sql.cancel(1) == []
    sql.clock.move(61)
    assert sql.cancel(1) == [1]
    assert sql.extend(delivery) == []


def test_a_key_cancels_all_its_waiting_messages_and_is_free(sql: Contract) -> None:
    sql.create()
    for _ in range(3):
        sql.send(KEYED)
    sql.send({"idempotency_key": "another"})
    running = sql.claim_one()
    assert running.key == "k"
    assert by_key(sql, "k") == [n for n in (1, 2, 3) if n != running.msg_id]
    assert by_key(sql, "nobody's") == []
    assert sql.send(KEYED, unique=True) == running.msg_id

    sql.settle(retry(running, delay=0))
    assert by_key(sql, "k") == [running.msg_id]
    assert sql.key("k") is None
    assert sql.send(KEYED, unique=True) == 5


def test_a_key_finds_messages_sent_past_redrive(sql: Contract) -> None:
    sql.create()
    sql("select pgmq.send('jobs', '{\"idempotency_key\": \"k\"}'::jsonb)")
    assert by_key(sql, "k") == [1]


def test_a_locked_row_is_left_and_not_waited_for(sql: Contract) -> None:
    sql.create()
    sql.send({})
    sql.send({})
    other = sql.connect()
    other.execute("begin")
    other.execute("select from pgmq.q_jobs where msg_id = 1 for update")
    sql("set lock_timeout = '100ms'")
    assert sql.cancel(1, 2) == [2]
    assert reschedule(sql, 5, 1) == []


@newest_only
def test_a_cancel_and_a_claim_at_once_agree(sql: Contract) -> None:
    sql.create()
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 400))))")

    def work(session: Connection, place: int) -> list[int]:
        got: list[int] = []
        for start in range(1, 400, 20):
            if place % 2:
                rows = session.execute(
                    "select redrive.cancel('jobs', array(select generate_series(%s, 400)))", (start,)
                )
            else:
                rows = session.execute("select msg_id from redrive.claim('jobs', 60, 20, 'w')")
            got += [row[0] for row in rows]
        return got

    answers = sql.at_once(4, work)
    claimed, cancelled = sorted(answers[0] + answers[2]), sorted(answers[1] + answers[3])
    assert sorted(claimed + cancelled) == list(range(1, 401))
    assert sql.column("select msg_id from pgmq.a_jobs order by 1") == cancelled


@newest_only
def test_ids_or_a_key_not_both_and_not_neither(sql: Contract) -> None:
    sql.create()
    for arguments in ("'jobs'", "'jobs', array[1], 'k'"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="cancel takes message ids or a key"):
            sql(f"select redrive.cancel({arguments})")


@with_headers
def test_everything_but_the_running_one_is_rescheduled_at_no_charge(sql: Contract) -> None:
    in_every_state(sql)
    now = sql.clock.stop()
    assert reschedule(sql, 50, 1, 2, 3, 4, 5, 6, 99) == [1, 2, 4, 5, 6]
    assert set(sql.column("select vt from pgmq.q_jobs where msg_id <> 3")) == {now + timedelta(seconds=50)}
    assert sql.claim() == []
    assert reschedule(sql, 0, 2, 4) == [2, 4]
    assert [(d.msg_id, d.attempt) for d in sorted(sql.claim())] == [(2, 1), (4, 2)]


def test_now_wakes_a_waiting_worker(sql: Contract) -> None:
    sql.create()
    sql.send({}, delay=1000)
    assert sql.claim() == []
    sql("listen redrive")
    assert reschedule(sql, 0, 1) == [1]
    assert [n.payload for n in sql.connection.notifies(timeout=5, stop_after=1)] == ["jobs"]
    assert ids(sql.claim()) == [1]


@pytest.mark.parametrize("delay", [-1, None, "NaN", "Infinity"])
@newest_only
def test_a_delay_that_is_no_time_to_wait_is_refused(sql: Contract, delay: object) -> None:
    sql.create()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="delay is"):
        reschedule(sql, delay, 1)


def test_a_cancelled_message_without_an_archive_is_gone(sql: Contract) -> None:
    sql.create(archive=False)
    sql.send(KEYED)
    assert sql.cancel(1) == [1]
    assert sql("select from pgmq.a_jobs") == []
    assert sql("select from redrive.sent_key") == []


def test_a_message_is_found_wherever_it_is(sql: Contract) -> None:
    sql.create()
    for _ in range(3):
        sql.send(KEYED)
    state = "select redrive.message('jobs', %s) ->> 'state'"
    sql.send({}, delay=100)
    running = sql.claim_one()
    assert [sql.value(state, n) for n in (running.msg_id, 4)] == ["running", "delayed"]
    sql.settle(done(running))
    assert sql.value(state, running.msg_id) == "archived"
    other = next(n for n in (1, 2, 3) if n != running.msg_id)
    sql.clock.move(10)
    assert sql.value(state, other) == "ready"
    assert sql.value("select redrive.message('jobs', 99)") is None
