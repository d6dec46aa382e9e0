"""A webhook event goes where its message goes, whoever settles that, and only its newest message moves it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from tests.support.contract import Contract, done, reject, report, retry, snooze
from tests.support.inbox import event, receive, replay, state
from tests.support.layouts import with_headers

pytestmark = with_headers


@pytest.fixture
def got(sql: Contract) -> Any:
    """An event that was received into `jobs`, on a clock that stands."""
    sql.create(max_attempts=3)
    sql.clock.stop()
    return receive(sql)


def settled_at(sql: Contract, got: Any) -> datetime | None:
    return event(sql, got.id).settled_at


class TestItsEnd:
    def test_done(self, sql: Contract, got: Any) -> None:
        assert sql.settle(done(sql.claim_one())) == ["ok"]
        assert state(sql, got) == ("processed", 1, None)
        assert settled_at(sql, got) == sql.clock.now()

    def test_done_after_a_failure_forgets_its_error(self, sql: Contract, got: Any) -> None:
        sql.settle(retry(sql.claim_one(), error_type="E", error="boom", delay=0))
        assert state(sql, got) == ("received", 1, "E: boom")
        assert settled_at(sql, got) is None
        sql.settle(done(sql.claim_one()))
        assert state(sql, got) == ("processed", 2, None)

    def test_ignored(self, sql: Contract, got: Any) -> None:
        assert sql.settle(report(sql.claim_one(), "ignored", duration=0.5)) == ["ok"]
        assert state(sql, got) == ("ignored", 1, None)
        kept = sql.archived(got.msg_id)
        assert (kept.outcome, kept.duration) == ("ignored", 0.5)

    def test_ignored_after_a_failure(self, sql: Contract, got: Any) -> None:
        sql.settle(retry(sql.claim_one(), delay=0))
        assert sql.settle(report(sql.claim_one(), "ignored")) == ["ok"]
        assert state(sql, got) == ("ignored", 2, None)
        assert sql.archived(got.msg_id).outcome == "ignored"

    def test_done_and_ignored_in_one_call_each_as_it_was_reported(self, sql: Contract) -> None:
        sql.create()
        got = [receive(sql, event_id=str(n)) for n in range(8)]
        first = sql.claim(4)
        sql.settle(*(retry(d, delay=0) for d in first))
        held = sorted(sql.claim(8))
        outcomes = ["done", "ignored"] * 4
        assert sql.settle(*(report(d, o) for d, o in zip(held, outcomes, strict=True))) == ["ok"] * 8
        assert [state(sql, each)[0] for each in got] == ["processed", "ignored"] * 4
        assert [sql.archived(each.msg_id).outcome for each in got] == outcomes
        assert sql.settle(*(report(d, o) for d, o in zip(held, outcomes, strict=True))) == ["repeat"] * 8

    def test_a_queue_that_keeps_no_archive_moves_it_too(self, sql: Contract) -> None:
        sql.create(archive=False, max_attempts=1)
        got = [receive(sql, event_id=str(n)) for n in range(3)]
        a, b, c = sorted(sql.claim(3))
        sql.settle(done(a), report(b, "ignored"), retry(c, error="x"))
        assert [state(sql, each)[0] for each in got] == ["processed", "ignored", "failed"]

    def test_a_failing_attempt_leaves_its_error(self, sql: Contract, got: Any) -> None:
        for n in (1, 2):
            assert sql.settle(retry(sql.claim_one(), error_type="E", error=str(n), delay=0)) == ["ok"]
            assert state(sql, got) == ("received", n, f"E: {n}")
        assert sql.settle(retry(sql.claim_one(), error_type="E", error="3")) == ["dead"]
        assert state(sql, got) == ("failed", 3, "E: 3")
        assert settled_at(sql, got) == sql.clock.now()

    @pytest.mark.parametrize(("outcome", "name"), [("reject", "reject"), ("malformed", "malformed")])
    def test_dead_at_once(self, sql: Contract, got: Any, outcome: str, name: str) -> None:
        assert sql.settle(report(sql.claim_one(), outcome, error="no")) == ["dead"]
        assert state(sql, got) == ("failed", 1, f"{name}: no")

    def test_a_snooze_leaves_it(self, sql: Contract, got: Any) -> None:
        sql.settle(snooze(sql.claim_one(), 0))
        assert state(sql, got) == ("received", 0, None)
        sql.settle(retry(sql.claim_one(), error="boom", delay=0))
        sql.settle(snooze(sql.claim_one(), 0))
        assert state(sql, got) == ("received", 1, "retry: boom")
        sql.settle(done(sql.claim_one()))
        assert state(sql, got) == ("processed", 2, None)

    def test_a_release_leaves_it(self, sql: Contract, got: Any) -> None:
        assert sql.release(sql.claim_one()) == [got.msg_id]
        assert state(sql, got) == ("received", 0, None)

    def test_a_crash_stands_on_it_and_three_are_its_death(self, sql: Contract, got: Any) -> None:
        for crashes in range(3):
            sql.claim_one()
            sql.clock.move(61)
            if crashes:
                assert state(sql, got)[:2] == ("received", crashes)
                assert (state(sql, got)[2] or "").startswith("crashed: the delivery ended without a report")
        assert sql.claim() == []
        assert state(sql, got)[:2] == ("failed", 3)
        assert (state(sql, got)[2] or "").startswith("crashed:")

    def test_cancelled(self, sql: Contract, got: Any) -> None:
        assert sql.cancel(got.msg_id) == [got.msg_id]
        assert state(sql, got) == ("ignored", 0, "cancelled")

    def test_archived_by_hand(self, sql: Contract, got: Any) -> None:
        [read] = sql.read()
        assert sql.value("select redrive.queue_archive('jobs', %s, %s)", read.msg_id, read.read_ct)
        assert state(sql, got) == ("processed", 1, None)

    def test_diverted_by_read_with_dlq(self, sql: Contract, got: Any) -> None:
        assert len(sql.read(vt=0, most=1)) == 1
        assert sql.read(vt=0, most=1) == []
        assert state(sql, got) == (
            "failed",
            1,
            "its attempts are used up, and nobody reported why they failed",
        )

    def test_parked_for_want_of_a_dead_letter_queue_is_received_still(self, sql: Contract, got: Any) -> None:
        sql("select pgmq.drop_queue(queue_name => 'jobs_dlq')")
        sql.settle(reject(sql.claim_one(), error="no"))
        assert state(sql, got) == ("received", 1, "reject: no")

    def test_a_repeat_of_a_key_of_the_callers_own_is_processed(self, sql: Contract, got: Any) -> None:
        """Somebody gave an event's message a key by hand: a key that is done ends it as a duplicate."""
        sql.send(1, key="k")
        sql("update pgmq.q_jobs set vt = vt + interval '1 s' where msg_id = %s", got.msg_id)
        sql.settle(done(sql.claim_one()))
        sql('update pgmq.q_jobs set headers = headers || \'{"x-redrive-key": "k"}\'')
        sql.clock.move(2)
        assert sql.claim() == []
        assert sql.archived(got.msg_id).outcome == "duplicate"
        assert state(sql, got) == ("processed", 0, None)

    def test_a_transaction_that_is_rolled_back_moves_nothing(self, sql: Contract, got: Any) -> None:
        held = sql.claim_one()
        sql("begin")
        sql.settle(done(held))
        sql("rollback")
        assert state(sql, got) == ("received", 0, None)

    def test_its_queue_was_dropped(self, sql: Contract, got: Any) -> None:
        other = receive(sql, event_id="evt_2")
        sql.settle(done(sql.claim_one()))
        settled, waiting = sorted((got, other), key=lambda each: event(sql, each.id).status)
        sql("select redrive.drop_queue('jobs')")
        assert state(sql, waiting) == ("failed", 0, "its queue was dropped")
        assert state(sql, settled) == ("processed", 1, None)

    def test_its_queue_was_dropped_past_redrive_and_made_again(self, sql: Contract, got: Any) -> None:
        sql("select pgmq.drop_queue(queue_name => 'jobs')")
        sql.create()
        assert state(sql, got) == ("failed", 0, "its queue was dropped")


class TestOnlyItsNewestMessageMovesIt:
    def test_a_late_report_of_an_older_delivery(self, sql: Contract, got: Any) -> None:
        first = sql.claim_one()
        sql.clock.move(61)
        second = sql.claim_one()
        assert sql.settle(retry(first, error="late")) == ["lost"]
        assert (state(sql, got)[2] or "").startswith("crashed:")
        assert sql.settle(done(first)) == ["late"]
        assert state(sql, got) == ("processed", 2, None)
        assert sql.settle(retry(second, error="too late")) == ["lost"]
        assert state(sql, got) == ("processed", 2, None)

    def test_a_report_of_the_generation_before(self, sql: Contract, got: Any) -> None:
        first = sql.claim_one()
        sql.settle(done(first))
        [again] = replay(sql, got)
        assert sql.settle(done(first)) == ["repeat"]
        assert sql.settle(retry(first, error="x")) == ["repeat"]
        assert state(sql, got) == ("received", 0, None)
        assert event(sql, got.id).msg_id == again.msg_id

    def test_a_message_of_the_same_id_in_a_queue_made_anew(self, sql: Contract, got: Any) -> None:
        sql("select redrive.drop_queue('jobs')")
        sql.create()
        other = receive(sql, event_id="evt_2")
        assert other.msg_id == got.msg_id
        sql.settle(done(sql.claim_one()))
        assert state(sql, got)[0] == "failed"
        assert state(sql, other)[0] == "processed"

    def test_a_letter_of_the_generation_before(self, sql: Contract, got: Any) -> None:
        """Sent again past the record, it still runs, and the record stays with the newer message."""
        sql.kill(got.msg_id)
        letter = sql.value("select to_jsonb(d) from pgmq.q_jobs_dlq d")
        [again] = replay(sql, got)
        assert (again.status, sql.letters()) == ("replayed", [])
        sql("insert into pgmq.q_jobs_dlq (vt, message) values (now(), %s)", json.dumps(letter["message"]))
        [row] = sql.redrive()
        assert row.status == "redriven"
        assert event(sql, got.id).msg_id == again.msg_id
        for delivery in sorted(sql.claim(2), key=lambda d: -d.msg_id):
            sql.settle(done(delivery))
            assert (state(sql, got)[0] == "processed") is (delivery.msg_id == again.msg_id)

    @pytest.mark.parametrize(
        "headers",
        [
            "null",
            "[1]",
            '"x"',
            "{}",
            '{"x-redrive-event": null}',
            '{"x-redrive-event": 7}',
            '{"x-redrive-event": {"a": 1}}',
            '{"x-redrive-event": "not a uuid"}',
            '{"x-redrive-event": "00000000-0000-0000-0000-000000000000"}',
            '{"x-redrive-event": "{665c16a9-7741-4027-b84b-7352d5dc8f9c}"}',
            '{"x-redrive-event": "665C16A9-7741-4027-B84B-7352D5DC8F9C"}',
            '{"x-redrive-large": 5}',
        ],
    )
    def test_foreign_headers_break_no_end(self, sql: Contract, got: Any, headers: str) -> None:
        for outcome in ("done", "ignored", "retry", "reject", "snooze"):
            message = sql.send({"foreign": outcome})
            sql(
                "update pgmq.q_jobs set headers = %s::jsonb, vt = vt - interval '1 s' where msg_id = %s",
                headers,
                message,
            )
            first = sql.claim_one()
            assert first.msg_id == message
            sql.settle(retry(first, delay=0, error="once"))
            sql("update pgmq.q_jobs set vt = vt - interval '1 s' where msg_id = %s", message)
            delivery = sql.claim_one()
            assert delivery.msg_id == message
            assert sql.settle(report(delivery, outcome, delay=3600)) in (["ok"], ["dead"])
        sql.redrive()
        assert state(sql, got) == ("received", 0, None)

    def test_the_header_of_another_messages_event(self, sql: Contract, got: Any) -> None:
        thief = sql.send(1)
        sql(
            "update pgmq.q_jobs set headers = jsonb_build_object('x-redrive-event', %s::text) "
            "where msg_id = %s",
            str(got.id),
            thief,
        )
        held = {d.msg_id: d for d in sql.claim(2)}
        assert sql.settle(done(held[thief])) == ["ok"]
        assert state(sql, got) == ("received", 0, None)
