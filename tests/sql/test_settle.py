"""settle: each outcome, each verdict, and what stands in queue, archive and history afterwards."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.support.contract import (
    Contract,
    Report,
    done,
    ids,
    reject,
    report,
    retry,
    settle,
    snooze,
)
from tests.support.layouts import newest_only, with_headers, without_headers

REFUSED = psycopg.errors.InvalidParameterValue


def test_done_moves_the_message_to_the_archive_with_outcome_and_duration(sql: Contract) -> None:
    sql.create()
    sent = sql.send({"n": 1})
    delivery = sql.claim_one()
    now = sql.clock.move(3)
    assert sql.settle(done(delivery, duration=2.25)) == ["ok"]

    assert sql.waiting() == []
    archived = sql.archived(sent)
    assert (archived.outcome, archived.duration, archived.read_ct) == ("done", 2.25, 1)
    assert (archived.message, archived.archived_at) == ({"n": 1}, now)
    assert archived.enqueued_at == delivery.enqueued_at
    assert sql.attempts(sent) == []


def test_done_after_a_failure_keeps_the_failure_in_the_history(sql: Contract) -> None:
    sql.create()
    sql.send({})
    sql.settle(retry(sql.claim_one(), delay=0, error="boom"))
    assert sql.settle(done(sql.claim_one(), duration=1)) == ["ok"]
    assert [(a.read_ct, a.error) for a in sql.attempts(1)] == [(1, "boom")]
    assert (sql.archived(1).outcome, sql.archived(1).duration) == ("done", 1.0)


def test_without_an_archive_done_deletes(sql: Contract) -> None:
    sql.create(archive=False)
    for n in range(2):
        sql.send({"idempotency_key": "k"} if n else {})
    assert sql.settle(*(done(d) for d in sql.claim())) == ["ok", "ok"]
    assert sql.waiting() == []
    assert sql("select from pgmq.a_jobs") == []
    assert sql.key("k").state == "done"


def test_retry_puts_the_message_back_with_its_delay_and_charges_it(sql: Contract) -> None:
    sql.create()
    sql.send({})
    delivery = sql.claim_one(worker="me")
    now = sql.clock.stop()
    said = retry(delivery, delay=12.5, error_type="ValueError", error="bad", traceback="line 1", duration=0.5)
    assert sql.settle(said, worker="me") == ["ok"]

    assert sql.live(1).vt == now + timedelta(seconds=12.5)
    [attempt] = sql.attempts(1)
    assert attempt == ("jobs", 1, 1, 1, now, "me", 0.5, "ValueError", "bad", "line 1")
    assert sql.claim() == []
    sql.clock.move(12.5)
    assert sql.claim_one().attempt == 2


def test_retry_without_a_delay_takes_the_policys_backoff(sql: Contract) -> None:
    sql.create(backoff={"base": 10, "factor": 3, "cap": 100, "jitter": 0})
    sql.send({})
    waits: list[float] = []
    for _ in range(4):
        delivery = sql.claim_one()
        now = sql.clock.stop()
        sql.settle(retry(delivery))
        waits.append((sql.live(1).vt - now).total_seconds())
        sql.clock.move(waits[-1])
    assert waits == [10, 30, 90, 100]


@with_headers
def test_backoff_counts_attempts_not_deliveries(sql: Contract) -> None:
    sql.create(backoff={"base": 10, "factor": 2, "cap": 1000, "jitter": 0})
    sql.send({})
    for _ in range(4):
        sql.release(sql.claim_one())
    delivery = sql.claim_one()
    now = sql.clock.stop()
    sql.settle(retry(delivery))
    assert sql.live(1).vt == now + timedelta(seconds=10)


@with_headers
def test_snooze_puts_the_message_back_at_no_charge_and_is_no_failure(sql: Contract) -> None:
    sql.create()
    sql.send({})
    delivery = sql.claim_one()
    now = sql.clock.stop()
    assert sql.settle(snooze(delivery, 100)) == ["ok"]
    assert sql.live(1).vt == now + timedelta(seconds=100)
    assert sql.attempts(1) == []
    sql.clock.move(100)
    again = sql.claim_one()
    assert (again.read_ct, again.attempt) == (2, 1)


@pytest.mark.parametrize(("outcome", "reason"), [("reject", "rejected"), ("malformed", "malformed")])
def test_reject_and_malformed_are_dead_at_once_with_their_reason(
    sql: Contract, outcome: str, reason: str
) -> None:
    sql.create()
    sql.send({"n": 1})
    said = report(sql.claim_one(), outcome, error_type="Wrong", error="no such template")
    assert sql.settle(said) == ["dead"]
    assert sql.waiting() == []
    [letter] = sql.letters()
    assert (letter.reason, letter.attempts, letter.error) == (reason, 1, "Wrong: no such template")
    assert [f["error"] for f in letter.failures] == ["no such template"]
    assert sql.archived(1).outcome == "dead"


def test_the_last_attempts_failure_is_dead(sql: Contract) -> None:
    sql.create(max_attempts=1)
    for outcome in ("retry", "crashed"):
        sql.send({})
        assert sql.settle(report(sql.claim_one(), outcome, error=outcome)) == ["dead"]
    assert [letter.reason for letter in sql.letters()] == ["failed", "crashed"]
    assert sql.waiting() == []


def test_snooze_on_the_last_attempt_is_no_death(sql: Contract) -> None:
    sql.create(max_attempts=1)
    sql.send({})
    assert sql.settle(snooze(sql.claim_one(), 0)) == ["ok"]
    assert sql.waiting() == [1]


def test_a_mixed_batch_gets_each_its_own_verdict_in_one_call(sql: Contract) -> None:
    sql.create(max_attempts=2)
    for n in range(8):
        sql.send({"n": n} if n % 2 else {"idempotency_key": f"k{n}"})
    d = sorted(sql.claim())
    late, lost = d[6], d[7]
    sql.clock.move(30)
    sql.extend(*d[:6], vt=600)
    sql.clock.move(31)
    assert ids(sql.claim(vt=600)) == [7, 8]

    verdicts = sql.settle(
        done(d[0], duration=1),
        done(d[1], duration=2),
        retry(d[2], delay=5),
        snooze(d[3], 5),
        reject(d[4]),
        report(d[5], "malformed"),
        done(late),
        retry(lost),
        Report(999, 1, "done"),
        Report(998, 1, "retry"),
        worker="w",
    )
    assert verdicts == ["ok", "ok", "ok", "ok", "dead", "dead", "late", "lost", "lost", "lost"]
    assert sql.waiting() == [3, 4, 8]
    assert sql("select msg_id, outcome, duration from pgmq.a_jobs order by 1") == [
        (1, "done", 1.0),
        (2, "done", 2.0),
        (5, "dead", None),
        (6, "dead", None),
        (7, "done", None),
    ]
    assert [letter.original_msg_id for letter in sql.letters()] == [5, 6]


def test_only_the_last_of_a_thousand_done_in_one_call_is_somebody_elses(sql: Contract) -> None:
    sql.create()
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 1000))))")
    batch = sql.claim(1000)
    sql("update pgmq.q_jobs set read_ct = 2 where msg_id = 1000")
    verdicts = sql.settle(
        *(retry(d, delay=0) if d.msg_id % 100 == 0 else done(d, duration=d.msg_id) for d in batch)
    )
    assert {v: verdicts.count(v) for v in set(verdicts)} == {"ok": 999, "lost": 1}
    assert len(sql.waiting()) == 10
    assert sql.value("select bool_and(duration = msg_id) from pgmq.a_jobs")


class TestFence:
    """A delivery's report counts exactly while nobody else has claimed and it has not been reported."""

    @pytest.mark.parametrize("outcome", ["retry", "snooze", "reject", "malformed", "crashed"])
    def test_a_late_report_other_than_done_changes_nothing(self, sql: Contract, outcome: str) -> None:
        sql.create()
        sql.send({})
        first = sql.claim_one()
        sql.clock.move(61)
        sql.claim_one()
        before = sql.live(1)
        assert sql.settle(report(first, outcome, delay=5, error="late")) == ["lost"]
        assert sql.live(1) == before
        assert all(a.error != "late" for a in sql.attempts(1))
        assert sql.letters() == []

    def test_a_report_after_the_timeout_counts_while_nobody_else_has_claimed(self, sql: Contract) -> None:
        sql.create()
        for _ in range(3):
            sql.send({})
        a, b, c = sql.claim()
        sql.clock.move(1000)
        assert sql.settle(done(a), retry(b, delay=5), reject(c)) == ["ok", "ok", "dead"]

    def test_a_late_done_counts_and_the_owners_own_done_is_lost(self, sql: Contract) -> None:
        sql.create()
        sql.send({"n": 1})
        a = sql.claim_one(worker="a")
        sql.clock.move(61)
        b = sql.claim_one(worker="b")
        assert (a.read_ct, b.read_ct) == (1, 2)

        assert sql.settle(done(a, duration=70), worker="a") == ["late"]
        archived = sql.archived(1)
        assert (archived.outcome, archived.duration) == ("done", 70.0)
        assert sql.settle(done(b, duration=5), worker="b") == ["lost"]
        assert sql.extend(b) == []
        assert sql.release(b) == []
        assert sql.archived(1) == archived
        assert sql("select count(*) from pgmq.a_jobs") == [(1,)]

    @with_headers
    def test_both_resends_are_answered_as_the_first_time(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        a = sql.claim_one()
        sql.clock.move(61)
        b = sql.claim_one()
        sql.settle(done(a))
        assert sql.settle(done(a)) == ["repeat"]
        assert sql.settle(done(b)) == ["lost"]

    def test_a_late_done_spares_a_message_the_retry_its_owner_asked_for(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        a = sql.claim_one()
        sql.clock.move(61)
        assert sql.settle(retry(sql.claim_one(), delay=100)) == ["ok"]
        assert sql.settle(done(a)) == ["late"]
        assert sql.waiting() == []

    def test_the_owners_done_first_makes_the_late_one_lost(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        a = sql.claim_one()
        sql.clock.move(61)
        b = sql.claim_one()
        assert sql.settle(done(b)) == ["ok"]
        assert sql.settle(done(a)) == ["lost"]
        assert sql.archived(1).read_ct == 2

    def test_a_done_for_a_delivery_that_never_was_is_lost(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql.claim_one()
        assert sql.settle(Report(1, 7, "done")) == ["lost"]
        assert sql.settle(Report(1, 7, "retry")) == ["lost"]
        assert sql.waiting() == [1]

    def test_a_message_that_was_never_claimed_cannot_be_settled(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        before = sql.live(1)
        for outcome in ("done", "retry", "reject"):
            assert sql.settle(Report(1, 1, outcome)) == ["lost"]
        if before._fields.count("headers"):
            assert sql.settle(Report(1, 0, "done")) != ["ok"]
        assert sql.live(1) == before

    def test_a_cancelled_message_is_lost_to_the_one_that_ran_it(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        delivery = sql.claim_one()
        sql.clock.move(61)
        assert sql.cancel(1) == [1]
        assert sql.settle(done(delivery)) == ["lost"]
        assert sql.archived(1).outcome == "cancelled"

    @with_headers
    def test_a_message_that_claim_buried_is_lost_to_the_one_that_ran_it(self, sql: Contract) -> None:
        sql.create(max_attempts=1)
        sql.send({})
        delivery = sql.claim_one()
        sql.clock.move(61)
        assert sql.claim() == []
        assert sql.settle(done(delivery)) == ["lost"]
        assert sql.archived(1).outcome == "dead"

    @with_headers
    def test_a_message_that_ended_as_a_duplicate_is_lost_to_the_one_that_ran_it(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        first = sql.claim_one()
        sql.clock.move(61)
        sql.send({"idempotency_key": "k"})
        sql("update pgmq.q_jobs set vt = vt + interval '1 hour' where msg_id = 1")
        assert sql.settle(done(sql.claim_one())) == ["ok"]
        sql.clock.move(3700)
        assert sql.claim() == []
        assert sql.archived(1).outcome == "duplicate"
        assert sql.settle(done(first)) == ["lost"]


@with_headers
class TestRepeat:
    """An answer may be lost with its connection: the same report again changes nothing and says so."""

    def test_a_resent_done_finds_its_own_archive_row(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        delivery = sql.claim_one()
        assert sql.settle(done(delivery, duration=1)) == ["ok"]
        assert sql.settle(done(delivery, duration=1)) == ["repeat"]
        assert sql.archived(1).duration == 1.0

    @pytest.mark.parametrize("outcome", ["retry", "snooze", "crashed"])
    def test_a_resent_report_of_a_message_that_waits_changes_nothing(
        self, sql: Contract, outcome: str
    ) -> None:
        sql.create()
        sql.send({})
        said = report(sql.claim_one(), outcome, delay=50, error="boom")
        assert sql.settle(said) == ["ok"]
        before = sql.live(1)
        sql.clock.move(20)
        assert sql.settle(said) == ["repeat"]
        assert sql.live(1) == before
        assert len(sql.attempts(1)) == (0 if outcome == "snooze" else 1)

    @pytest.mark.parametrize("outcome", ["retry", "reject", "malformed", "crashed"])
    def test_a_resent_last_failure_makes_no_second_dead_letter(self, sql: Contract, outcome: str) -> None:
        sql.create(max_attempts=1)
        sql.send({})
        said = report(sql.claim_one(), outcome, error="boom")
        assert sql.settle(said) == ["dead"]
        assert sql.settle(said) == ["repeat"]
        assert len(sql.letters()) == 1

    def test_a_second_and_different_report_of_one_delivery_changes_nothing(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        delivery = sql.claim_one()
        sql.settle(retry(delivery, delay=50))
        before = sql.live(1)
        assert sql.settle(done(delivery)) == ["repeat"]
        assert sql.settle(reject(delivery)) == ["repeat"]
        assert sql.live(1) == before

    def test_a_retry_that_was_claimed_again_meanwhile_is_lost_not_repeated(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        said = retry(sql.claim_one(), delay=0)
        sql.settle(said)
        sql.settle(snooze(sql.claim_one(), 0))
        assert sql.settle(said) == ["lost"]

    def test_a_report_after_its_own_release_changes_nothing(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        delivery = sql.claim_one()
        assert sql.release(delivery) == [1]
        before = sql.live(1)
        for said in (done(delivery), retry(delivery), snooze(delivery, 5), reject(delivery)):
            assert sql.settle(said) == ["repeat"]
        assert sql.live(1) == before


@without_headers
def test_without_headers_the_fence_is_the_read_count_alone(sql: Contract) -> None:
    sql.create()
    sql.send({})
    delivery = sql.claim_one()
    sql.settle(retry(delivery, delay=50))
    assert sql.settle(done(delivery)) == ["ok"]
    assert sql.settle(done(delivery)) == ["repeat"]


class TestLocked:
    def test_a_row_in_somebodys_transaction_is_answered_locked_and_may_be_sent_again(
        self, sql: Contract
    ) -> None:
        sql.create()
        for _ in range(4):
            sql.send({})
        a, b, c, d = sorted(sql.claim())
        other = sql.connect()
        other.execute("begin")
        other.execute("select from pgmq.q_jobs where msg_id in (1, 2, 3) for update")
        sql("set lock_timeout = '100ms'")
        said = (done(a), retry(b, delay=5), reject(c), done(d))
        assert sql.settle(*said) == ["locked", "locked", "locked", "ok"]
        assert sql.waiting() == [1, 2, 3]
        other.execute("rollback")
        assert sql.settle(*said[:3]) == ["ok", "ok", "dead"]

    def test_the_handlers_own_transaction_settles_and_its_rollback_undoes_it(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        delivery = sql.claim_one()
        handler = sql.connect()
        handler.execute("begin")
        assert settle(handler, done(delivery)) == ["ok"]
        assert sql.settle(done(delivery)) == ["locked"]
        handler.execute("rollback")
        assert sql.settle(done(delivery)) == ["ok"]

    def test_the_workers_report_finds_the_handlers_commit(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        delivery = sql.claim_one()
        handler = sql.connect()
        handler.execute("begin")
        assert settle(handler, done(delivery)) == ["ok"]
        handler.execute("commit")
        assert sql.settle(done(delivery)) == ["repeat"]


class TestTwice:
    def test_two_reports_of_one_message_in_a_call_are_judged_one_after_the_other(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql.send({})
        a, b = sorted(sql.claim())
        answers = sql(
            "select msg_id, verdict from redrive.settle('jobs', array[1, 2, 1], array[1, 1, 1], "
            "array['retry', 'done', 'done'], array[50, 0, 0]) order by msg_id, verdict"
        )
        assert answers == [(1, "locked"), (1, "ok"), (2, "ok")]
        assert sql.live(1) is not None
        assert (a.msg_id, b.msg_id) == (1, 2)

    def test_two_deliveries_of_one_message_in_a_call_settle_it_once(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        first = sql.claim_one()
        sql.clock.move(61)
        second = sql.claim_one()
        assert sql.settle(done(first), done(second)) == ["late", "locked"]
        assert sql.settle(done(second)) == ["lost"]
        assert sql("select count(*) from pgmq.a_jobs") == [(1,)]


class TestArchiveConflict:
    """After a restore, or TRUNCATE with RESTART IDENTITY, ids begin again and meet the archive's."""

    @pytest.mark.parametrize("how", ["first delivery", "second delivery", "dead", "cancelled", "by hand"])
    def test_an_id_that_is_archived_already_still_ends(self, sql: Contract, how: str) -> None:
        sql.create()
        for n in range(3):
            sql.send({"old": n})
        sql.settle(*(done(d) for d in sql.claim()))
        sql("alter table pgmq.q_jobs alter msg_id restart with 2")
        sent = sql.send({"new": True})
        assert sent == 2

        if how == "second delivery":
            sql.settle(retry(sql.claim_one(), delay=0))
        if how == "cancelled":
            assert sql.cancel(sent) == [sent]
        elif how == "by hand":
            assert sql.value("select redrive.queue_archive('jobs', %s)", sent)
        elif how == "dead":
            assert sql.settle(reject(sql.claim_one())) == ["dead"]
        else:
            assert sql.settle(done(sql.claim_one(), duration=3)) == ["ok"]

        archived = sql.archived(sent)
        expected = {"dead": "dead", "cancelled": "cancelled"}.get(how, "done")
        assert (archived.outcome, archived.message) == (expected, {"new": True})
        assert sql.waiting() == []
        assert sql("select count(*) from pgmq.a_jobs") == [(3,)]

    def test_neighbours_in_the_batch_end_as_usual(self, sql: Contract) -> None:
        sql.create()
        sql.send({"old": True})
        sql.settle(done(sql.claim_one()))
        sql("alter table pgmq.q_jobs alter msg_id restart with 1")
        for n in range(3):
            sql.send({"new": n})
        assert sql.settle(*(done(d, duration=d.msg_id) for d in sql.claim())) == ["ok"] * 3
        assert sql.column("select duration from pgmq.a_jobs order by msg_id") == [1.0, 2.0, 3.0]


class TestHistory:
    def test_error_texts_are_bounded(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        long = "é" * 100_000
        said = retry(sql.claim_one(), delay=0, error_type=long, error=long, traceback=long)
        assert sql.settle(said) == ["ok"]
        [attempt] = sql.attempts(1)
        assert [len(t) for t in (attempt.error_type, attempt.error, attempt.traceback)] == [200, 4000, 16000]

    def test_a_failure_without_a_word_says_at_least_its_outcome(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql.settle(retry(sql.claim_one(), delay=0), worker=None)
        [attempt] = sql.attempts(1)
        assert (attempt.error_type, attempt.error, attempt.worker, attempt.duration) == (
            "retry",
            None,
            None,
            None,
        )

    def test_one_row_a_failed_attempt_and_none_for_what_costs_nothing(self, sql: Contract) -> None:
        sql.create(max_attempts=9)
        sql.send({})
        for n in range(3):
            sql.settle(snooze(sql.claim_one(), 0))
            sql.settle(retry(sql.claim_one(), delay=0, error=str(n)))
        assert [a.error for a in sql.attempts(1)] == ["0", "1", "2"]

    def test_errors_with_quotes_and_braces_stay_as_they_are(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        hostile = 'a "quoted", {brace} \\ back\nslash %s \t é \U0001f600'
        sql.settle(reject(sql.claim_one(), error=hostile, traceback=hostile))
        [letter] = sql.letters()
        assert letter.failures[0]["error"] == letter.failures[0]["traceback"] == hostile
        assert letter.error.endswith(hostile)


@newest_only
class TestRefused:
    @pytest.fixture(autouse=True)
    def claimed(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql.claim_one()

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ("array[1], array[1, 2], array['done']", "arrays of one length"),
            ("array[1], array[1], array['done', 'done']", "arrays of one length"),
            ("null, array[1], array['done']", "arrays of one length"),
            ("array[1], null, array['done']", "arrays of one length"),
            ("array[1], array[1], null", "arrays of one length"),
            ("array[1], array[1], array['done'], array[1, 2]", "arrays of one length"),
            ("array[1], array[1], array['done'], p_errors => array['a', 'b']", "arrays of one length"),
            ("array[1], array[1], array['success']", "settle knows the outcomes"),
            ("array[1], array[1], array[null]::text[]", "settle knows the outcomes"),
            ("array[null]::bigint[], array[1], array['done']", "that is null"),
            ("array[1], array[null]::int[], array['done']", "that is null"),
            ("array[1], array[1], array['retry'], array[-1]", "delay"),
            ("array[1], array[1], array['retry'], array['NaN'::numeric]", "delay"),
            ("array[1], array[1], array['retry'], array['Infinity'::numeric]", "delay"),
            ("array[1], array[1], array['snooze']", "snooze needs a delay"),
        ],
    )
    def test_a_report_that_can_mean_nothing_is_refused_and_nothing_is_settled(
        self, sql: Contract, arguments: str, sentence: str
    ) -> None:
        before = sql.live(1)
        with pytest.raises(REFUSED, match=sentence):
            sql(f"select * from redrive.settle('jobs', {arguments})")
        assert sql.live(1) == before

    def test_no_reports_are_fine(self, sql: Contract) -> None:
        assert sql("select * from redrive.settle('jobs', '{}', '{}', '{}')") == []
