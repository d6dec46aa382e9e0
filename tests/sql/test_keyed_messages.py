"""A keyed job is completed once: a done key ends messages, a busy one makes them wait, a failure frees it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.support.contract import Connection, Contract, done, ids, reject, report, retry, settle, snooze
from tests.support.layouts import newest_only, with_headers

KEYED = {"idempotency_key": "k"}


def send_keyed(sql: Contract, count: int, key: str) -> None:
    """`count` messages, numbered n, whose key is the SQL expression `key`."""
    sql(
        "select count(*) from redrive.send_batch('jobs', (select jsonb_agg(jsonb_build_object("
        f"'idempotency_key', {key}) order by n) from generate_series(1, {count}) n))"
    )


def test_a_claimed_key_is_its_messages_until_its_visibility_timeout(sql: Contract) -> None:
    sql.create()
    sent = sql.send(KEYED)
    now = sql.clock.stop()
    delivery = sql.claim_one(vt=60)
    assert delivery.key == "k"
    key = sql.key("k")
    assert (key.state, key.owner_msg, key.lease_until) == ("running", sent, now + timedelta(seconds=60))


@with_headers
def test_the_header_wins_over_the_payload(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED, key="from the header")
    assert sql.claim_one().key == "from the header"


def test_a_done_key_is_remembered_for_its_retention_and_then_free(sql: Contract) -> None:
    sql.create(key_retention=1000)
    sql.send(KEYED)
    now = sql.clock.stop()
    assert sql.settle(done(sql.claim_one())) == ["ok"]
    key = sql.key("k")
    assert (key.state, key.done_at, key.expires_at) == ("done", now, now + timedelta(seconds=1000))

    sql.clock.move(999)
    second = sql.send(KEYED)
    assert sql.claim() == []
    assert (sql.archived(second).outcome, sql.archived(second).read_ct) == ("duplicate", 0)
    sql.clock.move(2)
    third = sql.send(KEYED)
    assert sql.claim_one().msg_id == third


def test_a_duplicate_is_archived_without_a_start_and_without_an_archive_it_is_gone(sql: Contract) -> None:
    sql.create(archive=False)
    for _ in range(3):
        sql.send(KEYED)
    assert sql.settle(done(sql.claim_one())) == ["ok"]
    sql.clock.move(10)
    assert sql.claim() == []
    assert sql.waiting() == []
    assert sql("select from pgmq.a_jobs") == []
    assert sql("select from redrive.sent_key") == []


def test_a_failure_frees_the_key_and_the_retry_takes_it_again(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED)
    assert sql.settle(retry(sql.claim_one(), delay=0, error="boom")) == ["ok"]
    assert sql.key("k") is None
    second = sql.claim_one()
    assert second.attempt == 2
    assert sql.settle(done(second)) == ["ok"]
    assert sql.key("k").state == "done"
    assert [a.outcome for a in sql("select outcome from pgmq.a_jobs")] == ["done"]


@pytest.mark.parametrize("end", ["retry", "snooze", "reject", "malformed", "release", "cancel", "claim"])
def test_whatever_ends_a_delivery_without_success_frees_the_key(sql: Contract, end: str) -> None:
    sql.create(max_attempts=1 if end == "claim" else 5)
    sql.send(KEYED)
    sql.send({"n": 1}, delay=1000)
    delivery = sql.claim_one()
    if end == "release":
        sql.release(delivery)
    elif end in ("cancel", "claim"):
        sql.clock.move(61)
        assert sql.cancel(1) == [1] if end == "cancel" else sql.claim() == []
    else:
        sql.settle(report(delivery, end, delay=600))
    assert sql.key("k") is None


def test_a_live_owner_makes_the_other_wait_at_no_charge_for_five_seconds_at_most(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED)
    now = sql.clock.stop()
    first = sql.claim_one(vt=60)
    second = sql.send(KEYED)
    assert sql.claim() == []
    assert (sql.live(second).read_ct, sql.live(second).vt) == (0, now + timedelta(seconds=5))

    now = sql.clock.move(57)
    assert sql.claim() == []
    assert sql.live(second).vt == now + timedelta(seconds=3), "the lease has three seconds left"
    assert sql.settle(done(first)) == ["ok"]
    sql.clock.move(3)
    assert sql.claim() == []
    assert sql.archived(second).outcome == "duplicate"


def test_waiting_for_a_key_costs_no_attempt_however_long(sql: Contract) -> None:
    sql.create(max_attempts=1)
    sql.send(KEYED)
    first = sql.claim_one(vt=1000)
    second = sql.send(KEYED)
    for _ in range(10):
        assert sql.claim() == []
        sql.clock.move(6)
    sql.settle(retry(first))
    delivery = sql.claim_one()
    assert (delivery.msg_id, delivery.attempt) == (second, 1)


def test_a_crash_frees_the_key_when_its_lease_ends(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED)
    sql.claim_one(vt=60)
    second = sql.send(KEYED, delay=30)
    sql.clock.move(59)
    assert sql.claim() == []
    sql.clock.move(10)
    [delivery] = sql.claim()
    assert delivery.msg_id in (1, second)
    assert sql.key("k").owner_msg == delivery.msg_id


def test_of_one_key_in_a_batch_one_message_runs_and_the_others_wait(sql: Contract) -> None:
    sql.create()
    for n in range(4):
        sql.send(KEYED if n < 3 else {"idempotency_key": "other"})
    assert ids(sql.claim()) == [1, 4]
    assert [sql.live(n).read_ct for n in (2, 3)] == [0, 0]


def test_the_owner_is_preferred_when_its_own_turn_comes_again(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED, delay=10)
    sql.send(KEYED)
    assert ids(sql.claim(vt=30)) == [2]
    sql.clock.move(31)
    assert ids(sql.claim()) == [2], "its lease is over, and it is its own to renew"


@newest_only
def test_fifty_workers_at_once_run_a_key_once(sql: Contract) -> None:
    sql.create()
    for _ in range(50):
        sql.send(KEYED)

    def claim(session: Connection, place: int) -> int:
        return len(
            session.execute("select * from redrive.claim('jobs', 60, 1, %s)", (f"w{place}",)).fetchall()
        )

    assert sum(sql.at_once(50, claim)) == 1
    assert sql("select count(*) from pgmq.q_jobs where read_ct = 1") == [(1,)]


@newest_only
def test_a_key_is_completed_once_under_many_workers(sql: Contract) -> None:
    sql.create()
    send_keyed(sql, 200, "n % 10")
    sql("select redrive.set_policy('jobs', '{\"backoff\": {\"base\": 0}}')")

    def work(session: Connection, place: int) -> list[str]:
        completed: list[str] = []
        for _ in range(40):
            rows = session.execute(
                "select * from redrive.claim('jobs', 60, 5, %s)", (f"w{place}",)
            ).fetchall()
            for n, row in enumerate(rows):
                said = done(row) if (n + place) % 3 else retry(row, delay=0)
                if settle(session, said) == ["ok"] and said.outcome == "done":
                    completed.append(row.key)
        return completed

    completed = [key for answer in sql.at_once(6, work) for key in answer]
    assert len(completed) == len(set(completed))
    assert sql("select count(*) from pgmq.a_jobs where outcome = 'done'") == [(len(completed),)]
    assert sql("select count(*) from redrive.key where state = 'done'") == [(len(completed),)]


@newest_only
def test_a_key_in_somebodys_open_transaction_is_busy_and_a_claim_does_not_wait(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED)
    sql.send({"n": 1})
    other = sql.connect()
    other.execute("begin")
    other.execute("select redrive.claim_job('k', 'jobs')")
    sql("set lock_timeout = '100ms'")
    unkeyed = sql.claim_one()
    assert unkeyed.msg_id == 2, "the key of the first is being taken"
    assert sql.settle(done(unkeyed)) == ["ok"]
    other.execute("rollback")

    sql.clock.move(6)
    delivery = sql.claim_one()
    assert delivery.msg_id == 1
    sql.send(KEYED)
    other.execute("begin")
    other.execute("select from redrive.key where key = 'k' for update")
    assert sql.claim() == []
    assert sql.extend(delivery) == [1]
    assert sql.settle(done(delivery)) == ["locked"], "the key decides, and it is not to be had"
    assert sql.release(delivery) == [1]
    other.execute("rollback")
    sql.clock.move(61)
    assert len(sql.claim()) == 1


def test_a_sender_in_an_open_transaction_holds_nobody_up(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED)
    sender = sql.connect()
    sender.execute("begin")
    sender.execute("select redrive.send('jobs', '{\"idempotency_key\": \"k\"}')")
    sql("set lock_timeout = '100ms'")
    delivery = sql.claim_one()
    assert sql.extend(delivery) == [1]
    assert sql.settle(done(delivery)) == ["ok"]
    sender.execute("commit")
    assert sql.claim() == []
    assert sql.archived(2).outcome == "duplicate"


class TestLateDone:
    """A keyed late done counts only while the key still names its message."""

    def test_it_counts_while_the_key_names_the_message(self, sql: Contract) -> None:
        sql.create()
        sql.send(KEYED)
        first = sql.claim_one()
        sql.clock.move(61)
        second = sql.claim_one()
        assert sql.settle(done(first)) == ["late"]
        assert sql.settle(done(second)) == ["lost"]
        assert (sql.key("k").state, sql.key("k").owner_msg) == ("done", 1)

    def test_it_is_lost_when_another_message_has_taken_the_key_over(self, sql: Contract) -> None:
        sql.create()
        sql.send(KEYED)
        first = sql.claim_one()
        sql.send(KEYED)
        sql.clock.move(61)
        sql("update pgmq.q_jobs set vt = vt + interval '1 minute' where msg_id = 1")
        second = sql.claim_one()
        assert second.msg_id == 2

        assert sql.settle(done(first)) == ["lost"]
        assert sql.waiting() == [1, 2]
        assert sql.settle(done(second)) == ["ok"]
        sql.clock.move(61)
        assert sql.claim() == []
        assert [r.outcome for r in sql("select outcome from pgmq.a_jobs order by msg_id")] == [
            "duplicate",
            "done",
        ]

    def test_it_is_lost_after_the_owner_failed_and_gave_the_key_up(self, sql: Contract) -> None:
        sql.create()
        sql.send(KEYED)
        first = sql.claim_one()
        sql.clock.move(61)
        sql.settle(retry(sql.claim_one(), delay=100))
        assert sql.settle(done(first)) == ["lost"]
        sql.clock.move(100)
        assert sql.settle(done(sql.claim_one())) == ["ok"]

    def test_an_owner_whose_key_was_freed_by_an_operator_still_completes_it(self, sql: Contract) -> None:
        sql.create()
        sql.send(KEYED)
        delivery = sql.claim_one()
        assert sql.value("select redrive.free_key('jobs', 'k')")
        assert sql.settle(done(delivery)) == ["ok"]
        assert sql.key("k").state == "done"


def test_a_done_of_hundreds_of_keys_with_one_locked_settles_the_others(sql: Contract) -> None:
    sql.create()
    send_keyed(sql, 300, "n")
    batch = sql.claim(300)
    assert len(batch) == 300
    other = sql.connect()
    other.execute("begin")
    other.execute("select from redrive.key where key = '77' for update")
    verdicts = sql.settle(*(done(d, duration=d.msg_id) for d in batch))
    assert {v: verdicts.count(v) for v in set(verdicts)} == {"ok": 299, "locked": 1}
    other.execute("rollback")
    assert sql.settle(*(done(d) for d in batch if d.msg_id == 77)) == ["ok"]
    assert sql("select count(*) from redrive.key where state = 'done'") == [(300,)]
    assert sql("select from redrive.sent_key") == []


def test_an_unkeyed_and_an_empty_key_are_no_key(sql: Contract) -> None:
    sql.create()
    for message in ({"idempotency_key": ""}, {"idempotency_key": None}, {}, "text", [1], 5, None):
        sql.send(message)
    assert [d.key for d in sql.claim()] == [None] * 7
    assert sql("select from redrive.key") == []


def test_the_same_key_in_two_queues_is_two_keys(sql: Contract) -> None:
    sql.create()
    sql.create("other")
    sql.send(KEYED)
    sql.send(KEYED, queue="other")
    assert sql.settle(done(sql.claim_one())) == ["ok"]
    assert sql.settle(done(sql.claim_one(queue="other")), queue="other") == ["ok"]


@with_headers
def test_with_one_attempt_a_crash_leaves_a_dead_letter_and_never_a_second_start(sql: Contract) -> None:
    sql.create(max_attempts=1)
    sql.send(KEYED)
    sql.claim_one()
    sql.clock.move(61)
    assert sql.claim() == []
    assert [(letter.reason, letter.key) for letter in sql.letters()] == [("crashed", "k")]
    again = sql.send(KEYED, unique=True)
    assert sql.claim_one().msg_id == again


def test_a_snoozed_message_gives_its_key_to_the_next(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED)
    sql.settle(snooze(sql.claim_one(), 100))
    second = sql.send(KEYED)
    assert sql.settle(done(sql.claim_one())) == ["ok"]
    sql.clock.move(101)
    assert sql.claim() == []
    assert (sql.archived(1).outcome, sql.archived(second).outcome) == ("duplicate", "done")


def test_a_dead_letter_holds_no_key(sql: Contract) -> None:
    sql.create()
    sql.send(KEYED, unique=True)
    sql.settle(reject(sql.claim_one()))
    assert sql.send(KEYED, unique=True) == 2
    assert sql.settle(done(sql.claim_one())) == ["ok"]


@pytest.mark.parametrize("end", ["cancel", "reject", "release"])
def test_a_message_that_ends_leaves_a_key_that_another_holds(sql: Contract, end: str) -> None:
    sql.create()
    sql.send(KEYED)
    sql.send(KEYED)
    first = sql.claim_one(vt=60)
    if end != "cancel":
        sql.clock.move(61)
        sql("update pgmq.q_jobs set vt = vt + interval '1 hour' where msg_id = %s", first.msg_id)
        second = sql.claim_one(vt=600)
        assert (
            sql.settle(reject(first)) == ["dead"] if end == "reject" else sql.release(first) == [first.msg_id]
        )
        assert sql.key("k").owner_msg == second.msg_id
    else:
        assert len(sql.cancel(1, 2)) == 1
        assert sql.key("k").owner_msg == first.msg_id


def test_an_operator_sees_and_frees_a_key(sql: Contract) -> None:
    sql.create()
    assert sql.value("select redrive.show_key('jobs', 'k')") is None
    sql.send(KEYED)
    assert sql.value("select redrive.show_key('jobs', 'k')") == {"queue": "jobs", "key": "k", "queued": [1]}
    sql.settle(done(sql.claim_one()))
    shown = sql.value("select redrive.show_key('jobs', 'k')")
    assert (shown["state"], shown["message"]) == ("done", 1)
    assert sql.value("select redrive.free_key('jobs', 'k')") is True
    assert sql.value("select redrive.free_key('jobs', 'k')") is False
    second = sql.send(KEYED)
    assert sql.claim_one().msg_id == second
