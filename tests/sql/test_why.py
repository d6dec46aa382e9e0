"""why: each cause, made on a real queue, is named; a message's life is told from its origin to its end."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from redrive.store import why as statements
from redrive.watch.why import Why, explain
from tests.support.contract import Contract, done, reject, retry, snooze
from tests.support.layouts import newest_only, without_headers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def facts(sql: Contract, msg_id: int, queue: str = "jobs", *, dead: bool = False) -> dict[str, Any]:
    statement = statements.why(queue, msg_id, dead=dead)
    return statement.load(sql(statement.sql, *statement.params))


def why(sql: Contract, msg_id: int, queue: str = "jobs", *, dead: bool = False) -> Why:
    return explain(facts(sql, msg_id, queue, dead=dead))


def live(sql: Contract, worker: str = "w", *, held: list[int] | None = None, concurrency: int = 4) -> None:
    """A worker that is seen now."""
    ids = held or []
    sql(
        "select redrive.worker_beat(%s, '{jobs}', %s::integer[], %s::jsonb, %s)",
        worker,
        [len(ids)],
        json.dumps({"jobs": ids}),
        concurrency,
    )


@pytest.fixture
def jobs(sql: Contract) -> Contract:
    """Queue `jobs`, a living worker that is idle, and a clock that stands."""
    sql.create()
    sql.clock.stop()
    live(sql)
    return sql


class TestOneThatDoesNotRun:
    def test_because_it_is_delayed(self, jobs: Contract) -> None:
        one = jobs.send({}, delay=3600)
        found = why(jobs, one)
        assert found.cause == "delayed"
        assert found.answer.startswith(f"message {one} of queue jobs is delayed until ")
        assert "(in 1h 0m)" in found.answer
        assert f"redrive message now jobs {one}" in found.then
        assert found.also == []

    def test_because_it_is_backed_off(self, jobs: Contract) -> None:
        one = jobs.send({})
        failed = retry(
            jobs.claim_one(), delay=90, error_type="ValueError", error="no such user", duration=0.25
        )
        jobs.settle(failed)
        live(jobs)
        found = why(jobs, one)
        assert found.cause == "backed_off"
        assert "(in 1m 30s): attempt 1 of 5 failed after 0.25s: ValueError: no such user" in found.answer
        assert found.then.startswith("attempt 2 of 5 may begin")
        assert [what for _, what in found.life] == [
            "sent",
            "attempt 1 of 5 failed after 0.25s: ValueError: no such user (worker w)",
        ]

    @newest_only
    def test_because_its_handler_put_it_off(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs.settle(snooze(jobs.claim_one(), 600))
        found = why(jobs, one)
        assert (found.cause, "(in 10m)" in found.answer) == ("put_off", True)
        assert found.then.startswith("attempt 1 of 5")
        assert "given back 1 time without charge (shutdown, Snooze, or a release)" in [
            t for _, t in found.life
        ]

    @newest_only
    def test_because_the_queue_is_paused(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs("select redrive.pause_queue('jobs')")
        jobs.clock.move(125)
        live(jobs)
        found = why(jobs, one)
        assert found.cause == "paused"
        assert "queue jobs is paused since 20" in found.answer
        assert "(2m 5s ago), by an operator" in found.answer
        assert found.then == "redrive queue resume jobs hands out again"

    @newest_only
    def test_because_the_code_says_that_the_queue_is_paused(self, sql: Contract) -> None:
        sql.create(paused=True)
        assert "by the code that declares it" in why(sql, sql.send({})).answer

    def test_because_another_message_has_its_key(self, jobs: Contract) -> None:
        first = jobs.send({"idempotency_key": "k"})
        second = jobs.send({"idempotency_key": "k"})
        held = jobs.claim()
        assert [each.msg_id for each in held] == [first]
        live(jobs, held=[first])
        found = why(jobs, second)
        assert found.cause == "key_held"
        assert f"waits for its key 'k', which message {first} holds until" in found.answer
        assert f"redrive why jobs {first}" in found.then

    @newest_only
    def test_because_somebody_has_its_key_by_hand(self, jobs: Contract) -> None:
        jobs("select redrive.begin_job('k', 'nightly import', 300, 'jobs')")
        found = why(jobs, jobs.send({"idempotency_key": "k"}))
        assert found.cause == "key_held"
        assert "which nightly import holds by hand until" in found.answer
        assert "redrive key free jobs k" in found.then

    @newest_only
    def test_because_its_key_is_done(self, jobs: Contract) -> None:
        first = jobs.send({"idempotency_key": "k"})
        jobs.settle(done(jobs.claim_one()))
        second = jobs.send({"idempotency_key": "k"})
        found = why(jobs, second)
        assert (found.cause, f"message {first} has completed its key" in found.answer) == ("key_done", True)
        assert jobs.claim() == []
        found = why(jobs, second)
        assert found.cause == "duplicate"
        assert f"message {first} had completed its key 'k'" in found.answer
        # The key is another's since.
        jobs("update redrive.key set expires_at = redrive.clock()")
        jobs.clock.move(1)
        third = jobs.send({"idempotency_key": "k"})
        assert jobs.claim_one().msg_id == third
        assert "another message had completed its key 'k'" in why(jobs, second).answer
        jobs.clock.move(1)
        jobs("update redrive.key set state = 'done', done_at = redrive.clock()")
        assert "another message had completed its key 'k'" in why(jobs, second).answer

    @newest_only
    def test_because_of_single_flight(self, sql: Contract) -> None:
        sql.create(single_flight=True)
        sql.send({})
        second = sql.send({})
        assert len(sql.claim(1, worker="a")) == 1
        live(sql, "b")
        found = why(sql, second)
        assert found.cause == "single_flight"
        assert "nobody but worker a, which holds the single flight of queue jobs until" in found.answer

    @newest_only
    def test_because_no_worker_has_ever_taken_the_queue(self, sql: Contract) -> None:
        sql.create()
        found = why(sql, sql.send({}))
        assert found.cause == "no_worker"
        assert found.then == "start one: redrive worker --app MODULE:ATTR --queue jobs"

    @newest_only
    def test_because_its_worker_is_gone(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs.clock.move(7200)
        found = why(jobs, one)
        assert found.cause == "workers_gone"
        assert "the last, w, was seen at" in found.answer
        assert "(2h 0m ago)" in found.answer
        jobs("select redrive.worker_stop('w')")
        found = why(jobs, one)
        assert (found.cause, "(2h 0m ago)" in found.answer) == ("workers_gone", True)

    @newest_only
    def test_because_it_waits_behind_others(self, jobs: Contract) -> None:
        sent = [jobs.send({}) for _ in range(5)]
        for each in sent:
            jobs(
                "update pgmq.q_jobs set vt = redrive.clock() - interval '1 minute' * (10 - msg_id)"
                " where msg_id = %s",
                each,
            )
        held = [each.msg_id for each in jobs.claim(2)]
        assert held == sent[:2]
        live(jobs, held=held, concurrency=2)
        found = why(jobs, sent[4])
        assert found.cause == "waiting_behind"
        assert (
            "2 messages are due before it, and the 1 living worker of the queue runs 2 jobs" in found.answer
        )

    @newest_only
    def test_only_since_nobody_has_looked_yet(self, jobs: Contract) -> None:
        found = why(jobs, jobs.send({}))
        assert found.cause == "about_to_run"

    @newest_only
    def test_for_ever(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs("update pgmq.q_jobs set vt = 'infinity'")
        found = why(jobs, one)
        assert found.answer == f"message {one} of queue jobs is delayed for ever"
        assert found.then == f"nothing, until somebody reschedules it: redrive message now jobs {one}"
        jobs("select redrive.reschedule('jobs', array[%s::bigint], 0)", one)
        jobs.settle(retry(jobs.claim_one()))
        jobs("update pgmq.q_jobs set vt = '290000-01-01'")
        assert "is backed off for ever: attempt 1 of 5" in why(jobs, one).answer
        jobs("update pgmq.q_jobs set vt = '-infinity'")
        assert "is ready since ever" in why(jobs, one).answer

    @newest_only
    def test_until_somebody_reads_by_sql(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        sql("select redrive.read_with_dlq('jobs', 60, 1)")
        for _ in range(3):
            sql.send({})
            sql.clock.move(1)
        found = why(sql, 3)
        assert found.cause == "about_to_run"
        assert "2 messages are due before it" in found.answer
        assert found.then.endswith("next who reads or claims and has room: read_with_dlq")
        sql("select redrive.read_with_dlq('jobs', 60, 1)")
        sql("select redrive.pause_queue('jobs')")
        found = why(sql, 1)
        assert found.cause == "running"
        assert "(yet); read_with_dlq may have it, and does not say so" in found.answer
        assert len(found.also) == 1
        assert found.also[0].startswith(
            "does not run again, should it come back, because queue jobs is paused"
        )

    @newest_only
    def test_and_everything_that_stands_in_its_way_is_told(self, sql: Contract) -> None:
        sql.create()
        sql("select redrive.pause_queue('jobs')")
        found = why(sql, sql.send({}, delay=60))
        assert found.cause == "delayed"
        assert [each.partition(" because ")[0] for each in found.also] == ["does not run", "does not run"]


class TestOneThatRuns:
    def test_says_where(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs.claim()
        assert why(jobs, one).cause == "running"
        assert "no worker has said that it holds it" in why(jobs, one).answer
        live(jobs, "host:1:ab", held=[one])
        found = why(jobs, one)
        assert found.cause == "running"
        assert f"message {one} of queue jobs is at worker host:1:ab now, attempt 1 of 5" in found.answer

    @newest_only
    def test_and_whose_worker_is_gone(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs.claim(vt=300)
        live(jobs, "gone", held=[one])
        jobs.clock.move(120)
        live(jobs, "other")
        found = why(jobs, one)
        assert found.cause == "holder_gone"
        assert "was claimed by worker gone, which was last seen at" in found.answer
        assert "once you know that it is dead, and not only cut off from the database" in found.then
        assert f"redrive message release jobs {one}" in found.then
        # Somebody else claimed it since, and has not said so yet: the dead one has nothing to do with it.
        jobs.clock.move(300)
        jobs.claim(vt=300)
        found = why(jobs, one)
        assert (found.cause, "gone" in found.answer, "release" in found.then) == ("running", False, False)
        assert "no worker has said that it holds it (yet)" in found.answer
        # Where pgmq does not keep when it was claimed, nobody can be certain.
        live(jobs, "gone", held=[one])
        jobs("update pgmq.q_jobs set last_read_at = null, vt = redrive.clock() + interval '60 seconds'")
        jobs.clock.move(61)
        jobs("update pgmq.q_jobs set vt = redrive.clock() + interval '30 seconds'")
        assert why(jobs, one).cause == "running"
        jobs("update pgmq.q_jobs set vt = redrive.clock() - interval '1 second'")
        jobs.claim(vt=60)
        jobs("update pgmq.q_jobs set last_read_at = null")
        live(jobs, "other", held=[one])
        assert "is at worker other now" in why(jobs, one).answer

    @newest_only
    def test_is_at_the_worker_that_said_so_last(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs.claim()
        live(jobs, "gone", held=[one])
        jobs.clock.move(300)
        jobs.claim(vt=60)
        live(jobs, "now", held=[one])
        assert "is at worker now now, attempt 2 of 5" in why(jobs, one).answer


class TestOneThatEnded:
    def test_is_done_ignored_or_cancelled(self, jobs: Contract) -> None:
        first = jobs.send({})
        jobs.settle(done(jobs.claim_one(), duration=1.5))
        second = jobs.send({})
        jobs.cancel(second)
        jobs.clock.move(60)
        found = why(jobs, first)
        assert found.cause == "done"
        assert found.answer.endswith("(1m ago), with attempt 1, after 1.5s of work")
        assert [what for _, what in found.life] == ["sent", "done after 1.5s"]
        assert why(jobs, second).answer.endswith("(1m ago), before it ran")
        third = jobs.send({})
        jobs.settle(retry(jobs.claim_one(), error_type="ValueError", error="boom"))
        jobs.clock.move(3600)
        jobs.cancel(third)
        found = why(jobs, third)
        assert found.cause == "cancelled"
        assert found.answer.endswith("(0s ago), after 1 attempt: ValueError: boom")

    @newest_only
    def test_is_parked(self, sql: Contract) -> None:
        sql.create(max_attempts=1)
        one = sql.send({})
        sql.claim()
        sql("select pgmq.drop_queue('jobs_dlq')")
        sql.clock.move(61)
        assert why(sql, one).cause == "spent"
        sql.claim()
        found = why(sql, one)
        assert found.cause == "parked"
        assert (
            "has no dead-letter queue to go to: crashed: the delivery ended without a report" in found.answer
        )
        assert "redrive queue create jobs" in found.then

    def test_is_dead_and_found_by_its_letters_id_too(self, jobs: Contract) -> None:
        jobs.send({})
        jobs.settle(done(jobs.claim_one()))
        one = jobs.send({})
        jobs.settle(reject(jobs.claim_one(), error_type="Reject", error="no such address"))
        [letter] = jobs.letters()
        found = why(jobs, one)
        assert found.cause == "dead"
        assert f"is dead letter {letter.dead_id} at" in found.answer
        assert found.answer.endswith("rejected after 1 attempt: Reject: no such address")
        assert f"redrive dlq redrive jobs {letter.dead_id}" in found.then
        assert why(jobs, letter.dead_id, dead=True) == found
        assert why(jobs, 999, dead=True).cause == "unknown"

    @newest_only
    def test_is_dead_by_readers_that_never_report_or_by_hand(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs("select redrive.read_with_dlq('jobs', 0, 1, 1)")
        jobs("select redrive.read_with_dlq('jobs', 0, 1, 1)")
        found = why(jobs, one)
        assert (found.cause, found.answer.endswith("failed after 1 attempt")) == ("dead", True)
        for message in (
            '{"original_msg_id": 7, "read_ct": null, "attempts": null, "failures": null, "headers": null}',
            '{"original_msg_id": 7, "read_ct": 2, "generation": "x", "reason": 3,'
            ' "failures": [{"attempt": {}}, 1,'
            ' {"duration": "x", "at": 4, "error_type": 1, "error": [2], "worker": 5}], "payload": null}',
            '{"original_msg_id": 7, "failures": {}}',
            "[]",
            "null",
        ):
            [row] = jobs(
                "insert into pgmq.q_jobs_dlq (vt, message) values (now(), %s) returning msg_id", message
            )
            assert why(jobs, row.msg_id, dead=True).cause in ("dead", "unknown")
            assert why(jobs, row.msg_id, "jobs_dlq").cause in ("dead", "unknown")

    @newest_only
    def test_is_dead_in_a_queue_that_keeps_no_archive(self, sql: Contract) -> None:
        sql.create(archive=False)
        one = sql.send({})
        sql.settle(reject(sql.claim_one(), error="no"))
        sql("delete from redrive.attempt")
        found = why(sql, one)
        assert (found.cause, "rejected after 1 attempt" in found.answer) == ("dead", True)
        assert "attempt 1 of 5 failed: reject: no (worker w)" in [what for _, what in found.life]

    @newest_only
    def test_is_discarded(self, jobs: Contract) -> None:
        one = jobs.send({})
        jobs.settle(reject(jobs.claim_one()))
        jobs("select redrive.discard('jobs', array[1])")
        assert why(jobs, one).cause == "discarded"

    def test_was_never_sent_or_is_not_kept(self, jobs: Contract) -> None:
        assert "it has given none yet" in why(jobs, 1).answer
        one = jobs.send({})
        assert why(jobs, one + 5).cause == "never_sent"
        assert f"the last it gave is {one}" in why(jobs, one + 5).answer
        jobs("delete from pgmq.q_jobs")
        assert why(jobs, one).cause == "not_kept"


class TestItsLife:
    @newest_only
    def test_is_followed_through_redrives_from_either_end(self, jobs: Contract) -> None:
        first = jobs.send({}, headers={"TraceParent": f"00-{TRACE}-00f067aa0ba902b7-01"})
        ids = [first]
        for _ in range(2):
            jobs.clock.move(10)
            jobs.settle(reject(jobs.claim_one(), error="no"))
            jobs.clock.move(10)
            [again] = jobs.redrive()
            ids.append(again.new_id)
        found = why(jobs, first)
        assert found.cause == "redriven"
        assert found.answer.endswith(f"it was sent again as message {ids[2]}")
        assert found.then == f"see: redrive why jobs {ids[2]}"
        newest = why(jobs, ids[2])
        assert newest.cause == "about_to_run"
        assert [what for _, what in newest.life] == [
            f"began as message {ids[0]}, which died",
            f"went on as message {ids[1]}, which died",
            f"sent again from its dead letter, generation 2, trace {TRACE}",
        ]
        assert facts(jobs, ids[1])["redriven"]["from"][0]["msg_id"] == first

    @newest_only
    def test_tells_of_the_webhook_that_sent_it(self, jobs: Contract) -> None:
        [row] = jobs(
            "select * from redrive.receive_event(p_source => 'stripe', p_event_id => 'evt_1',"
            " p_type => 'invoice.paid', p_payload => '{}', p_raw => '{}', p_headers => null,"
            " p_queue => 'jobs')"
        )
        found = why(jobs, row.msg_id)
        assert [what for _, what in found.life] == [
            "sent by webhook invoice.paid of stripe, event evt_1 (received)"
        ]

    @newest_only
    def test_is_told_whatever_stands_in_its_headers(self, jobs: Contract) -> None:
        for headers in (
            "null",
            "[]",
            '"x"',
            '{"traceparent": 7}',
            '{"traceparent": null}',
            '{"x-redrive-event": 1}',
            '{"x-redrive-credit": 999999999, "x-redrive-settled": "99"}',
        ):
            [row] = jobs(
                "insert into pgmq.q_jobs (vt, message, headers) values (redrive.clock(), '{}', %s)"
                " returning msg_id",
                headers,
            )
            found = facts(jobs, row.msg_id)
            assert explain(found).life[-1][1] == "sent"
            assert found["message"]["attempts"] == 0
        jobs.claim(100)
        jobs.clock.move(90)
        assert {each.attempt for each in jobs.claim(100)} == {0, 2}


@without_headers
def test_where_pgmq_keeps_no_headers_a_claimed_one_is_told_from_a_failed_one(jobs: Contract) -> None:
    one = jobs.send({})
    delivery = jobs.claim_one()
    assert why(jobs, one).cause == "running"
    assert "or waits for its next attempt: this pgmq does not tell" in why(jobs, one).answer
    jobs.settle(retry(delivery, delay=60))
    assert why(jobs, one).cause == "backed_off"


@newest_only
def test_no_payload_is_told(jobs: Contract) -> None:
    one = jobs.send({"card": "4242"})
    assert "4242" not in json.dumps(facts(jobs, one))
    jobs.settle(reject(jobs.claim_one()))
    assert "4242" not in json.dumps(facts(jobs, one))


@newest_only
def test_a_queue_there_is_not_is_an_error_of_its_own(sql: Contract) -> None:
    with pytest.raises(psycopg.Error, match="queue nothing does not exist"):
        facts(sql, 1, "nothing")


@newest_only
def test_a_queue_that_is_not_adopted_is_told_of(sql: Contract) -> None:
    sql("select pgmq.create('loose')")
    sql("select pgmq.send('loose', '{}')")
    found = why(sql, 1, "loose")
    assert found.cause == "no_worker"
    assert "redrive queue adopt loose" in found.answer
