"""redrive sends dead letters again, whole and once; discard ends them."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.sql.test_dead_letters import ARTICLE
from tests.support.contract import Connection, Contract, done, ids, reject, retry
from tests.support.layouts import newest_only, with_headers


def discard(sql: Contract, *dead: int, queue: str = "jobs") -> list[int]:
    return sorted(sql.column("select redrive.discard(%s, %s::bigint[])", queue, list(dead)))


def test_a_redriven_message_is_the_bare_payload_with_a_new_id_and_budget(sql: Contract) -> None:
    sql.create(max_attempts=1)
    sql.send({"n": 1})
    sql.settle(retry(sql.claim_one(), error="boom"))
    now = sql.clock.move(5)
    assert sql.redrive(1) == [(1, 2, "redriven")]

    assert sql.letters() == []
    assert (sql.live(2).message, sql.live(2).read_ct, sql.live(2).vt) == ({"n": 1}, 0, now)
    delivery = sql.claim_one()
    assert (delivery.attempt, delivery.message) == (1, {"n": 1})
    assert sql("select msg_id, outcome, message -> 'payload' from pgmq.a_jobs_dlq") == [
        (1, "redriven", {"n": 1})
    ]


@with_headers
def test_headers_key_and_origin_are_kept_and_the_generation_counts(sql: Contract) -> None:
    sql.create()
    sql.send({"n": 1}, key="k", headers={"trace": "abc"})
    for generation in (1, 2, 3):
        sql.settle(reject(sql.claim_one()))
        [(dead_id, new_id, _)] = sql.redrive()
        assert (dead_id, new_id) == (generation, generation + 1)
        assert sql.live(new_id).headers == {
            "trace": "abc",
            "x-redrive-key": "k",
            "x-redrive-origin": 1,
            "x-redrive-generation": generation,
        }
    sql.settle(reject(sql.claim_one()))
    [letter] = sql.letters()
    assert (letter.generation, letter.origin, letter.original_msg_id, letter.key) == (3, 1, 4, "k")


@with_headers
def test_what_the_dead_life_left_in_the_headers_is_not_inherited(sql: Contract) -> None:
    sql.create(max_attempts=3)
    sql.send({})
    sql.release(sql.claim_one())
    for _ in range(3):
        sql.claim_one()
        sql.clock.move(61)
    assert sql.claim() == []
    assert sql.letters()[0].headers["x-redrive-isolated"] is True
    sql.redrive()
    delivery = sql.claim_one()
    assert (delivery.read_ct, delivery.attempt, delivery.isolated) == (1, 1, False)
    assert sql.settle(retry(delivery, delay=0)) == ["ok"]
    assert sql.settle(retry(sql.claim_one(), delay=0)) == ["ok"]
    assert sql.settle(retry(sql.claim_one(), delay=0)) == ["dead"], "three attempts, as the first time"


def test_without_ids_the_oldest_up_to_the_limit_go(sql: Contract) -> None:
    sql.create()
    for n in range(5):
        sql.send({"n": n})
        sql.kill(n + 1)
    assert [(r.dead_id, r.status) for r in sql.redrive(limit=2)] == [(1, "redriven"), (2, "redriven")]
    assert [letter.dead_id for letter in sql.letters()] == [3, 4, 5]
    assert len(sql.redrive()) == 3
    assert sql.redrive() == []


def test_ids_are_answered_each(sql: Contract) -> None:
    sql.create()
    for n in range(3):
        sql.send({"n": n})
        sql.kill(n + 1)
    other = sql.connect()
    other.execute("begin")
    other.execute("select from pgmq.q_jobs_dlq where msg_id = 2 for update")
    sql("set lock_timeout = '100ms'")
    assert [(r.dead_id, r.status) for r in sql.redrive(1, 2, 3, 99)] == [
        (1, "redriven"),
        (2, "locked"),
        (3, "redriven"),
        (99, "missing"),
    ]
    other.execute("rollback")
    assert [r.status for r in sql.redrive(1, 2)] == ["missing", "redriven"]


@newest_only
def test_two_at_once_over_500_letters_make_one_copy_of_each(sql: Contract) -> None:
    sql.create()
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 500))))")
    sql.settle(*(reject(d) for d in sql.claim(500)))
    assert sql.value("select count(*) from pgmq.q_jobs_dlq") == 500

    def again(session: Connection, place: int) -> list[int]:
        got: list[int] = []
        for _ in range(30):
            rows = session.execute("select * from redrive.redrive('jobs', p_limit => 40)").fetchall()
            got += [r.dead_id for r in rows if r.status == "redriven"]
        return got

    answers = sql.at_once(4, again)
    assert sorted(n for answer in answers for n in answer) == list(range(1, 501))
    assert sql.value("select count(*) from pgmq.q_jobs_dlq") == 0
    assert sorted(sql.column("select message::text::integer from pgmq.q_jobs")) == list(range(1, 501))


def test_a_patch_goes_over_the_payload(sql: Contract) -> None:
    sql.create()
    sql.send({"template": None, "user": 7})
    sql.kill(1)
    sql.redrive(patch={"template": "welcome"})
    assert sql.live(2).message == {"template": "welcome", "user": 7}


@newest_only
def test_a_patch_that_cannot_be_applied_is_refused_and_nothing_is_sent(sql: Contract) -> None:
    sql.create()
    for message in ({"n": 1}, [1]):
        sql.send(message)
        sql.kill(sql.value("select max(msg_id) from pgmq.q_jobs"))
    for patch in ("[]", "5", '"x"', "null"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="patch must be a JSON object"):
            sql("select * from redrive.redrive('jobs', p_patch => %s)", patch)
    with pytest.raises(
        psycopg.errors.InvalidParameterValue, match="dead letter 2 has a payload that is no JSON object"
    ):
        sql.redrive(patch={"a": 1})
    assert sql.waiting() == []
    assert [r.status for r in sql.redrive()] == ["redriven", "redriven"]


class TestDoneKey:
    def test_a_letter_whose_key_was_done_meanwhile_stays_dead_and_says_so(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        sql.kill(1)
        sql.send({"idempotency_key": "k"})
        sql.settle(done(sql.claim_one()))
        sql.send({"n": 1})
        sql.kill(3)

        assert sql.redrive() == [(1, None, "key done"), (2, 4, "redriven")]
        assert [letter.dead_id for letter in sql.letters()] == [1]
        assert sql.waiting() == [4]

    def test_force_frees_the_key_and_runs_it_again(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        sql.kill(1)
        sql.send({"idempotency_key": "k"})
        sql.settle(done(sql.claim_one()))
        assert [r.status for r in sql.redrive(1, force=True)] == ["redriven"]
        delivery = sql.claim_one()
        assert delivery.msg_id == 3
        assert sql.settle(done(delivery)) == ["ok"]

    def test_an_envelope_written_by_hand_has_its_key_in_the_payload(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        sql.settle(done(sql.claim_one()))
        envelope = {"original_msg_id": 9, "payload": {"idempotency_key": "k"}}
        sql("select pgmq.send('jobs_dlq', %s::jsonb)", json.dumps(envelope))
        assert [r.status for r in sql.redrive()] == ["key done"]
        assert len(sql.letters()) == 1
        assert [r.status for r in sql.redrive(force=True)] == ["redriven"]

    def test_a_patch_may_bring_another_key(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        sql.kill(1)
        sql.send({"idempotency_key": "k"})
        sql.settle(done(sql.claim_one()))
        assert [r.status for r in sql.redrive(patch={"idempotency_key": "k2"})] == ["redriven"]
        assert sql.send({"idempotency_key": "k2"}, unique=True) == 3
        assert sql.claim_one().key == "k2"

    def test_a_done_key_that_has_expired_does_not_count(self, sql: Contract) -> None:
        sql.create(key_retention=100)
        sql.send({"idempotency_key": "k"})
        sql.kill(1)
        sql.send({"idempotency_key": "k"})
        sql.settle(done(sql.claim_one()))
        sql.clock.move(101)
        assert [r.status for r in sql.redrive()] == ["redriven"]

    def test_a_redriven_key_is_queued_again(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        sql.kill(1)
        sql.redrive()
        assert sql.send({"idempotency_key": "k"}, unique=True) == 2


@newest_only
def test_a_redrive_and_a_completion_of_its_key_at_once_do_the_job_once(sql: Contract) -> None:
    sql.create()
    for round_ in range(10):
        key = {"idempotency_key": f"k{round_}"}
        sql.send(key)
        sql.settle(reject(sql.claim_one()))
        sql.send(key)
        running = sql.claim_one()

        def work(session: Connection, place: int, running: object = running) -> None:
            if place:
                session.execute("select * from redrive.redrive('jobs')")
            else:
                args = (running.msg_id, running.read_ct)  # type: ignore[attr-defined]
                session.execute(
                    "select redrive.settle('jobs', array[%s::bigint], array[%s::int], array['done'])", args
                )

        assert sql.at_once(2, work) == [None, None]
        sql.clock.move(6)
        assert sql.claim() == []
    assert sql("select count(*) from pgmq.a_jobs where outcome = 'done'") == [(10,)]


def test_the_articles_own_envelope_is_redriven(sql: Contract) -> None:
    sql.create()
    sql(ARTICLE)
    assert sql.redrive() == [(1, 1, "redriven")]
    delivery = sql.claim_one()
    assert (delivery.message, delivery.attempt) == ({"template": "welcome"}, 1)


@pytest.mark.parametrize("foreign", [{"n": 1}, [1], "text", None])
def test_a_row_without_a_payload_is_not_sent_as_nothing(sql: Contract, foreign: object) -> None:
    sql.create()
    sql("select pgmq.send('jobs_dlq', %s::jsonb)", json.dumps(foreign))
    sql.send({"n": 2})
    sql.kill(1)
    assert {(r.dead_id, r.status) for r in sql.redrive()} == {(1, "no payload"), (2, "redriven")}
    assert sql.column("select message from pgmq.q_jobs_dlq") == [foreign]
    assert sql.waiting() == [2]


def test_a_redrive_that_is_rolled_back_has_moved_nothing(sql: Contract) -> None:
    sql.create()
    sql.send({})
    sql.kill(1)
    other = sql.connect()
    other.execute("begin")
    assert len(other.execute("select * from redrive.redrive('jobs')").fetchall()) == 1
    other.execute("rollback")
    assert [letter.dead_id for letter in sql.letters()] == [1]
    assert sql.waiting() == []


@newest_only
def test_a_missing_queue_loses_nothing(sql: Contract) -> None:
    sql.create()
    sql.send({})
    sql.kill(1)
    with pytest.raises(psycopg.Error, match="queue nothing does not exist"):
        sql.redrive(queue="nothing")
    for limit in (0, -1):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="limit is"):
            sql.redrive(limit=limit)
    sql("select pgmq.drop_queue('jobs')")
    with pytest.raises(psycopg.Error, match="queue jobs does not exist"):
        sql.redrive()
    assert sql.value("select count(*) from pgmq.q_jobs_dlq") == 1
    sql.create()
    assert [r.status for r in sql.redrive()] == ["redriven"]


@newest_only
def test_a_missing_dead_letter_queue_is_named_with_the_way_out(sql: Contract) -> None:
    sql.create()
    sql("select pgmq.drop_queue('jobs_dlq')")
    for call in ("redrive.redrive('jobs')", "redrive.discard('jobs', array[1])"):
        with pytest.raises(
            psycopg.Error, match="the dead-letter queue of jobs is missing; run: redrive queue create jobs"
        ) as caught:
            sql(f"select {call}")
        assert caught.value.sqlstate == "RD002"


def test_redriving_wakes_a_waiting_worker(sql: Contract) -> None:
    sql.create()
    sql.send({})
    sql.kill(1)
    assert sql.claim() == []
    sql("listen redrive")
    sql.redrive()
    assert [n.payload for n in sql.connection.notifies(timeout=5, stop_after=1)] == ["jobs"]
    assert ids(sql.claim()) == [2]


class TestDiscard:
    def test_a_discarded_letter_is_kept_in_the_dead_letter_archive(self, sql: Contract) -> None:
        sql.create(archive=False)
        for n in range(3):
            sql.send({"n": n})
            sql.kill(n + 1)
        now = sql.clock.stop()
        assert discard(sql, 1, 3, 99) == [1, 3]
        assert sql(
            "select msg_id, outcome, archived_at, message -> 'payload' from pgmq.a_jobs_dlq order by 1"
        ) == [
            (1, "discarded", now, {"n": 0}),
            (3, "discarded", now, {"n": 2}),
        ]
        assert [letter.dead_id for letter in sql.letters()] == [2]
        assert discard(sql, 1) == []
        assert sql.redrive(1) == [(1, None, "missing")]

    def test_a_locked_letter_is_left(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql.kill(1)
        other = sql.connect()
        other.execute("begin")
        other.execute("select * from redrive.redrive('jobs')")
        sql("set lock_timeout = '100ms'")
        assert discard(sql, 1) == []
        other.execute("commit")
        assert sql.waiting() == [2]
