"""Queues come to exist once and whole, and are forgotten whole."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.contract import Connection, Contract, done
from tests.support.layouts import newest_only


def test_twenty_callers_at_once_make_one_queue(sql: Contract) -> None:
    def create(session: Connection, place: int) -> None:
        session.execute("select redrive.create_queue('jobs', %s)", (f'{{"max_attempts": {place + 1}}}',))

    assert sql.at_once(20, create) == [None] * 20

    assert sql.column("select queue_name from pgmq.meta order by 1") == ["jobs", "jobs_dlq"]
    assert sql.column("select queue from redrive.queue") == ["jobs"]
    assert sql.send({"n": 1}) == 1


def test_a_queue_comes_with_its_dead_letter_queue_and_row_security_on_all_four_tables(sql: Contract) -> None:
    sql.create()

    secured = sql(
        "select relname, relrowsecurity from pg_class where relnamespace = 'pgmq'::regnamespace "
        "and relname in ('q_jobs', 'a_jobs', 'q_jobs_dlq', 'a_jobs_dlq') order by 1"
    )
    assert secured == [("a_jobs", True), ("a_jobs_dlq", True), ("q_jobs", True), ("q_jobs_dlq", True)]


def test_no_column_is_ever_added_to_the_queue_table(sql: Contract) -> None:
    sql("select pgmq.create('plain')")
    sql.create()

    columns = (
        "select array_agg(attname order by attnum) from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0"
    )
    assert sql.value(columns, "pgmq.q_jobs") == sql.value(columns, "pgmq.q_plain")


def test_the_archive_has_outcome_and_duration_and_pgmq_can_still_archive_into_it(sql: Contract) -> None:
    sql.create()
    sent = sql.send({"n": 1})

    assert sql.value("select pgmq.archive('jobs', %s::bigint)", sent)
    assert sql("select outcome, duration from pgmq.a_jobs") == [(None, None)]


def test_creating_a_queue_again_keeps_its_messages_and_merges_what_is_declared(sql: Contract) -> None:
    sql.create(max_attempts=3, timeout=10)
    sql.send({"n": 1})
    sql.create(max_attempts=7)

    assert sql.waiting() == [1]
    assert sql.value("select declared from redrive.queue") == {"max_attempts": 7, "timeout": 10}
    assert sql("select max_attempts, timeout from redrive.queue") == [(7, 10)]


def test_creating_a_queue_again_waits_for_no_reader(sql: Contract) -> None:
    sql.create()
    reader = sql.connect()
    reader.execute("begin")
    reader.execute("select from pgmq.q_jobs, pgmq.a_jobs, pgmq.q_jobs_dlq, pgmq.a_jobs_dlq")

    sql("set lock_timeout = '100ms'")
    sql.create()


@pytest.mark.parametrize("name", ["a", "z9_", "q" * 43, "dlq", "jobs_dlq_2"])
@newest_only
def test_a_name_within_the_rule_makes_a_queue_that_works(sql: Contract, name: str) -> None:
    sql.create(name)
    sql.send({}, queue=name)
    [delivery] = sql.claim(queue=name)
    assert sql.column(
        "select redrive.settle(%s, array[%s::bigint], array[1], array['reject'])::text", name, delivery.msg_id
    )
    assert len(sql.letters(queue=name)) == 1


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Jobs",
        "1jobs",
        "_jobs",
        "a b",
        "a.b",
        'a"b',
        "a--b",
        "a-b",
        "a$b",
        "a'b",
        "a;b",
        "jobs_dlq",
        "jobs\n",
        "é",
    ],
)
@newest_only
def test_a_name_outside_the_rule_is_refused_with_the_rule_and_makes_nothing(sql: Contract, name: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="the rule is: a lower-case letter"):
        sql.create(name)
    assert sql("select from pgmq.meta") == []


@newest_only
def test_a_name_of_44_characters_is_refused_with_both_numbers(sql: Contract) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=r"is 44 characters; the limit is 43"):
        sql.create("q" * 44)


@newest_only
def test_no_name_is_refused(sql: Contract) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="queue name is null"):
        sql("select redrive.create_queue(null)")


def test_a_dropped_and_created_queue_remembers_nothing(sql: Contract) -> None:
    sql.create(max_attempts=1, single_flight=True)
    for message in ("fails", "is dead", "is done", "waits"):
        sql.send({"is": message, "idempotency_key": message})
    fails, dead, done, _ = sql.claim()
    sql("select redrive.settle('jobs', %s::bigint[], array[1], array['done'])", [done.msg_id])
    sql("select redrive.settle('jobs', %s::bigint[], array[1], array['reject'])", [dead.msg_id])
    sql(
        "select redrive.settle('jobs', %s::bigint[], array[1], array['retry'], p_errors => array['x'])",
        [fails.msg_id],
    )

    assert sql.value("select redrive.drop_queue('jobs')")

    for table in ("queue", "attempt", "key", "sent_key", "lease", "worker"):
        assert sql(f"select * from redrive.{table}") == [], table
    assert sql("select * from pgmq.meta") == []

    sql.create()
    assert sql.send({"idempotency_key": "is done"}) == 1
    assert sql.claim_one(worker="somebody else").attempt == 1
    assert sql.letters() == []


def test_a_queue_dropped_behind_redrives_back_is_refused_until_it_is_created_again(sql: Contract) -> None:
    sql.create(max_attempts=1)
    sql.send({"idempotency_key": "k"})
    [delivery] = sql.claim()
    sql("select pgmq.drop_queue('jobs')")

    for call in (
        "redrive.send('jobs', '{}')",
        "redrive.send_batch('jobs', '[]')",
        "redrive.claim('jobs', 30, 1, 'w')",
        "redrive.settle('jobs', '{1}', '{1}', '{done}')",
        "redrive.extend('jobs', '{1}', '{1}', 30)",
        "redrive.release('jobs', '{1}', '{1}')",
        "redrive.cancel('jobs', '{1}')",
        "redrive.reschedule('jobs', '{1}', 0)",
        "redrive.read_with_dlq('jobs')",
        "redrive.queue_archive('jobs', 1)",
        "redrive.redrive('jobs')",
    ):
        with pytest.raises(
            psycopg.Error, match="queue jobs does not exist; run: redrive queue create jobs"
        ) as caught:
            sql(f"select {call}")
        assert caught.value.sqlstate == "RD001", call

    sql.create()
    assert sql.send({"idempotency_key": "k"}) == 1
    assert sql.claim_one().attempt == 1
    assert sql.value("select max_attempts from redrive.queue") == 5
    assert delivery.msg_id == 1


def test_a_queue_dropped_and_made_again_by_pgmq_alone_goes_on(sql: Contract) -> None:
    sql.create()
    sql("select pgmq.drop_queue('jobs')")
    sql("select pgmq.create('jobs')")
    sql.send({"n": 1})
    assert sql.settle(done(sql.claim_one(), duration=1)) == ["ok"]
    assert sql("select outcome, duration from pgmq.a_jobs") == [("done", 1.0)]


def test_dropping_a_queue_that_is_not_there_says_so(sql: Contract) -> None:
    with pytest.raises(psycopg.Error, match="queue nothing does not exist"):
        sql("select redrive.drop_queue('nothing')")


@newest_only
def test_a_lost_dead_letter_queue_comes_back_with_create_queue(sql: Contract) -> None:
    sql.create()
    sql("select pgmq.drop_queue('jobs_dlq')")
    sql.create()

    sql.send({})
    sql.kill(1)
    assert [letter.original_msg_id for letter in sql.letters()] == [1]
