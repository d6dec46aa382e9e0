"""The budget: a message that has used it up ends without another run, and stands in nobody's way."""

from __future__ import annotations

import pytest

from tests.support.contract import Contract, done, ids, reject, report, retry, snooze
from tests.support.layouts import newest_only, with_headers, without_headers


def fill(sql: Contract, count: int) -> None:
    call = "select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, %s))))"
    sql(call, count)


def spend(sql: Contract, *, reads: int) -> None:
    """All due messages are claimed `reads` times, and nobody reports."""
    for _ in range(reads):
        sql("select count(*) from redrive.claim('jobs', 60, 1000000, null)")
        sql.clock.move(61)


def test_a_message_starts_max_attempts_times_and_is_then_dead_without_a_run(sql: Contract) -> None:
    sql.create(max_attempts=5)
    sql.send({"poison": True})
    for attempt in range(1, 6):
        delivery = sql.claim_one()
        assert delivery.attempt == attempt
        verdict = sql.settle(retry(delivery, delay=0, error_type="ValueError", error=f"boom {attempt}"))
        assert verdict == ["dead" if attempt == 5 else "ok"]

    assert sql.claim() == []
    [letter] = sql.letters()
    assert (letter.attempts, letter.reason, letter.error) == (5, "failed", "ValueError: boom 5")
    assert [f["error"] for f in letter.failures] == [f"boom {n}" for n in range(1, 6)]
    assert sql.waiting() == []
    assert sql.archived(1).outcome == "dead"


@with_headers
def test_a_message_nobody_ever_reports_starts_max_attempts_times_and_is_dead_as_crashed(
    sql: Contract,
) -> None:
    sql.create(max_attempts=3)
    sql.send({"poison": True})
    for attempt in (1, 2, 3):
        assert sql.claim_one().attempt == attempt
        sql.clock.move(61)
    assert sql.claim() == []
    [letter] = sql.letters()
    assert (letter.attempts, letter.reason, len(letter.failures)) == (3, "crashed", 3)
    assert {f["error_type"] for f in letter.failures} == {"crashed"}


@without_headers
def test_without_headers_an_unreported_last_delivery_is_dead_as_failed(sql: Contract) -> None:
    sql.create(max_attempts=2)
    sql.send({"poison": True})
    spend(sql, reads=2)
    assert sql.claim() == []
    [letter] = sql.letters()
    assert (letter.attempts, letter.reason) == (2, "failed")


@without_headers
def test_without_headers_every_delivery_is_an_attempt(sql: Contract) -> None:
    sql.create(max_attempts=3)
    sql.send({})
    sql.release(sql.claim_one())
    assert sql.settle(snooze(sql.claim_one(), 0)) == ["ok"]
    assert sql.claim_one().attempt == 3


@with_headers
def test_a_reported_failure_whose_budget_is_lowered_later_is_dead_as_failed(sql: Contract) -> None:
    sql.create(max_attempts=5)
    sql.send({})
    sql.settle(retry(sql.claim_one(), delay=0, error="boom"))
    sql("select redrive.set_policy('jobs', '{\"max_attempts\": 1}')")
    assert sql.claim() == []
    assert [(letter.reason, letter.error) for letter in sql.letters()] == [("failed", "retry: boom")]


@with_headers
def test_snooze_release_and_pause_spend_nothing_however_often(sql: Contract) -> None:
    sql.create(max_attempts=1)
    sql.send({})
    for _ in range(20):
        assert sql.claim_one().attempt == 1
        sql.clock.move(0)
        [live] = sql("select * from pgmq.q_jobs")
        assert sql.release(live) == [1]
        assert sql.settle(snooze(sql.claim_one(), 0)) == ["ok"]
    last = sql.claim_one()
    assert (last.read_ct, last.attempt) == (41, 1)
    assert sql.settle(done(last)) == ["ok"]


def test_the_spent_do_not_shrink_a_batch(sql: Contract) -> None:
    sql.create(max_attempts=1)
    for n in range(5):
        sql.send({"poison": n})
    spend(sql, reads=1)
    for n in range(3):
        sql.send({"healthy": n})
    assert ids(sql.claim(5)) == [6, 7, 8]
    assert [letter.original_msg_id for letter in sql.letters()] == [1, 2, 3, 4, 5]


@pytest.mark.once
@newest_only
def test_20000_poison_messages_ahead_do_not_shrink_a_batch_and_are_cleared_a_thousand_at_a_time(
    sql: Contract,
) -> None:
    sql.create(max_attempts=1)
    fill(sql, 20000)
    spend(sql, reads=1)
    fill(sql, 300)

    healthy: list[int] = []
    for call in range(1, 4):
        batch = ids(sql.claim(100))
        assert len(batch) == 100
        healthy += batch
        assert 1000 * call <= sql.value("select count(*) from pgmq.q_jobs_dlq") <= 1100 * call + 100
    assert healthy == list(range(20001, 20301))
    while sql.value("select count(*) from pgmq.q_jobs where msg_id <= 20000"):
        before = sql.value("select count(*) from pgmq.q_jobs_dlq")
        assert sql.claim(100) == []
        assert sql.value("select count(*) from pgmq.q_jobs_dlq") > before
    assert sql(
        "select count(distinct message -> 'original_msg_id'), min(message ->> 'reason'), "
        "max(message ->> 'reason'), sum(jsonb_array_length(message -> 'failures')) from pgmq.q_jobs_dlq"
    ) == [(20000, "crashed", "crashed", 20000)]


def test_poison_and_a_key_that_is_done_and_one_that_is_busy_do_not_shrink_a_batch_either(
    sql: Contract,
) -> None:
    sql.create(max_attempts=1)
    for key in ("done", "busy"):
        sql.send({"idempotency_key": key})
    first, _ = sorted(sql.claim(2, vt=1000))
    assert sql.settle(done(first)) == ["ok"]
    sql.send({"poison": True})
    sql.claim_one()
    sql.clock.move(61)
    for message in ({"idempotency_key": "done"}, {"idempotency_key": "busy"}, {"n": 1}, {"n": 2}, {"n": 3}):
        sql.send(message)

    assert ids(sql.claim(3)) == [6, 7, 8]
    assert sql.archived(4).outcome == "duplicate"
    assert [letter.original_msg_id for letter in sql.letters()] == [3]
    assert sql.live(5).read_ct == 0


@pytest.mark.parametrize("state", ["done", "busy"])
def test_hundreds_of_messages_of_one_key_ahead_hold_up_no_slot(sql: Contract, state: str) -> None:
    sql.create()
    sql.send({"idempotency_key": "k"})
    first = sql.claim_one(vt=1000)
    if state == "done":
        sql.settle(done(first))
    for _ in range(300):
        sql.send({"idempotency_key": "k"})
    healthy = sql.send({"healthy": True})
    assert ids(sql.claim(1)) == [healthy]
    assert len(sql.waiting()) == (1 if state == "done" else 302)


class TestMissingDeadLetterQueue:
    def test_the_spent_are_parked_for_five_minutes_and_block_nobody(self, sql: Contract) -> None:
        sql.create(max_attempts=1)
        for n in range(3):
            sql.send({"poison": n})
        spend(sql, reads=1)
        sql("select pgmq.drop_queue('jobs_dlq')")
        for n in range(2):
            sql.send({"healthy": n})

        now = sql.clock.stop()
        healthy = sql.claim(2)
        assert ids(healthy) == [4, 5]
        assert (
            sql.column("select extract(epoch from vt - %s) from pgmq.q_jobs where msg_id < 4", now)
            == [300] * 3
        )
        assert sql.settle(*(done(d) for d in healthy)) == ["ok", "ok"]

        sql.clock.move(299)
        assert sql.claim() == []
        sql.clock.move(2)
        later = sql.clock.now()
        assert sql.claim() == []
        assert sql.column("select extract(epoch from vt - %s) from pgmq.q_jobs", later) == [300] * 3

    def test_with_the_dead_letter_queue_back_they_are_dead_with_their_reason(
        self, sql: Contract, layout: str
    ) -> None:
        sql.create(max_attempts=1)
        sql.send({"crashes": True})
        sql.send({"fails": True})
        crashes, fails = sorted(sql.claim())
        sql("select pgmq.drop_queue('jobs_dlq')")
        assert sql.settle(retry(fails, error="boom")) == ["dead"]
        sql.clock.move(61)
        assert sql.claim() == []
        assert sql.waiting() == [crashes.msg_id, fails.msg_id]

        sql.create()
        sql("select redrive.set_policy('jobs', '{\"max_attempts\": 1}')")
        sql.clock.move(301)
        assert sql.claim() == []
        assert [(letter.original_msg_id, letter.reason) for letter in sql.letters()] == [
            (1, "failed" if layout == "1.4.4" else "crashed"),
            (2, "failed"),
        ]
        assert sql.waiting() == []

    def test_a_rejected_message_without_a_place_to_go_is_kept(self, sql: Contract) -> None:
        sql.create()
        sql.send({"n": 1})
        sql("select pgmq.drop_queue('jobs_dlq')")
        assert sql.settle(reject(sql.claim_one(), error="no")) == ["dead"]
        assert sql.waiting() == [1]
        sql.create()
        sql.clock.move(301)
        assert sql.settle(reject(sql.claim_one(), error="no")) == ["dead"]
        assert [letter.reason for letter in sql.letters()] == ["rejected"]

    def test_thousands_of_parked_ones_leave_every_batch_full(self, sql: Contract) -> None:
        sql.create(max_attempts=1)
        fill(sql, 3000)
        spend(sql, reads=1)
        sql("select pgmq.drop_queue('jobs_dlq')")
        fill(sql, 30)
        for _ in range(3):
            assert len(sql.claim(10)) == 10


@with_headers
def test_an_isolated_child_that_dies_spends_the_budget_and_is_dead_as_crashed(sql: Contract) -> None:
    sql.create(max_attempts=3)
    sql.send({})
    spend(sql, reads=2)
    delivery = sql.claim_one()
    assert (delivery.attempt, delivery.isolated) == (3, True)
    assert sql.settle(report(delivery, "crashed", error_type="crashed", error="exit signal 9")) == ["dead"]
    [letter] = sql.letters()
    assert (letter.reason, letter.error, letter.attempts) == ("crashed", "crashed: exit signal 9", 3)
