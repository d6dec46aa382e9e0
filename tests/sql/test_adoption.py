"""An existing pgmq queue is taken over as it is, or refused with the reason."""

from __future__ import annotations

import os

import psycopg
import pytest

from tests.support.contract import Contract, done, reject
from tests.support.layouts import newest_only


def test_an_adopted_queue_keeps_its_messages_row_security_and_settings(sql: Contract) -> None:
    sql("select pgmq.create('mails')")
    sql("select pgmq.send('mails', '{\"n\": 1}'::jsonb)")
    sql("alter table pgmq.q_mails set (fillfactor = 70)")
    sql("select redrive.adopt_queue('mails')")

    assert sql(
        "select relname, relrowsecurity, reloptions from pg_class where oid in ('pgmq.q_mails'::regclass, "
        "'pgmq.a_mails'::regclass) order by 1"
    ) == [("a_mails", False, None), ("q_mails", False, ["fillfactor=70"])]
    delivery = sql.claim_one(queue="mails")
    assert (delivery.message, delivery.attempt) == ({"n": 1}, 1)
    assert sql.settle(done(delivery, duration=2.5), queue="mails") == ["ok"]
    assert sql("select outcome, duration from pgmq.a_mails") == [("done", 2.5)]


def test_an_adopted_queue_uses_the_dead_letter_queue_that_is_there(sql: Contract) -> None:
    sql("select pgmq.create('mails')")
    sql("select pgmq.create('mails_dlq')")
    sql("select pgmq.send('mails_dlq', '{\"original_msg_id\": 7, \"payload\": {}}'::jsonb)")
    sql("select redrive.adopt_queue('mails')")
    sql("select pgmq.send('mails', '{}'::jsonb)")
    assert sql.settle(reject(sql.claim_one(queue="mails")), queue="mails") == ["dead"]

    assert [letter.original_msg_id for letter in sql.letters(queue="mails")] == [7, 1]


def test_adopting_twice_changes_nothing(sql: Contract) -> None:
    sql("select pgmq.create('mails')")
    sql("select redrive.adopt_queue('mails')")
    sql("select redrive.set_policy('mails', '{\"max_attempts\": 2}')")
    sql("select redrive.adopt_queue('mails')")

    assert sql("select queue, adopted, max_attempts from redrive.queue") == [("mails", True, 2)]


def test_a_hyphen_is_fine_in_an_adopted_name(sql: Contract) -> None:
    sql("select pgmq.create('my-mails')")
    sql("select redrive.adopt_queue('my-mails')")
    sent = sql.send({"n": 1}, queue="my-mails")
    assert sql.settle(reject(sql.claim_one(queue="my-mails")), queue="my-mails") == ["dead"]

    assert [letter.original_msg_id for letter in sql.letters(queue="my-mails")] == [sent]
    [(_, new_id, status)] = sql.redrive(1, queue="my-mails")
    assert (new_id, status) == (2, "redriven")
    assert sql.metrics("my-mails").ready == 1


def test_a_foreign_queue_is_not_created_over_but_named_for_adoption(sql: Contract) -> None:
    sql("select pgmq.create('mails')")
    with pytest.raises(
        psycopg.Error, match="exists in pgmq but redrive has not adopted it; run: redrive queue adopt mails"
    ) as caught:
        sql.create("mails")
    assert caught.value.sqlstate == "RD001"
    with pytest.raises(psycopg.Error, match="redrive queue adopt mails"):
        sql.send({}, queue="mails")
    assert sql("select from redrive.queue") == []


@newest_only
def test_a_queue_that_is_not_there_cannot_be_adopted(sql: Contract) -> None:
    with pytest.raises(
        psycopg.Error, match="queue mails does not exist in pgmq; run: redrive queue create mails"
    ):
        sql("select redrive.adopt_queue('mails')")


@pytest.mark.parametrize("name", ["a b", 'a"b', "mails_dlq", "q" * 44, "1st", ""])
@newest_only
def test_a_foreign_name_outside_the_rule_is_refused_by_name(sql: Contract, name: str) -> None:
    sql("select pgmq.create(%s)", name)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="cannot be adopted; its name must be"):
        sql("select redrive.adopt_queue(%s)", name)


def test_twins_that_differ_by_case_are_refused_whichever_is_named(sql: Contract) -> None:
    sql("select pgmq.create('mails')")
    sql("select pgmq.create('Mails')")
    assert sql.column("select queue_name from pgmq.meta order by 1") == ["Mails", "mails"]

    with pytest.raises(psycopg.errors.InvalidParameterValue, match="twin that differs by case"):
        sql("select redrive.adopt_queue('mails')")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="lower-case"):
        sql("select redrive.adopt_queue('Mails')")


def test_a_queue_whose_registered_name_has_capitals_leads_to_no_circle_of_advice(sql: Contract) -> None:
    sql("select pgmq.create('Mails')")

    with pytest.raises(psycopg.Error, match="run: redrive queue adopt mails"):
        sql.create("mails")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="pgmq lists queue Mails"):
        sql("select redrive.adopt_queue('mails')")
    assert sql("select from redrive.queue") == []


def test_an_unlogged_queue_is_refused(sql: Contract) -> None:
    sql("select pgmq.create_unlogged('mails')")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="unlogged"):
        sql("select redrive.adopt_queue('mails')")


@pytest.mark.parametrize("table", ["q_mails", "q_mails_dlq"])
@newest_only
def test_a_table_made_unlogged_later_is_refused_too(sql: Contract, table: str) -> None:
    sql("select pgmq.create('mails')")
    sql("select pgmq.create('mails_dlq')")
    sql(f"alter table pgmq.{table} set unlogged")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="unlogged"):
        sql("select redrive.adopt_queue('mails')")


@newest_only
def test_a_partitioned_queue_is_refused(sql: Contract) -> None:
    sql("select pgmq.create('mails')")
    sql("update pgmq.meta set is_partitioned = true")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="partitioned"):
        sql("select redrive.adopt_queue('mails')")
    sql("update pgmq.meta set is_partitioned = false")
    sql("create table public.more () inherits (pgmq.q_mails)")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="in several tables"):
        sql("select redrive.adopt_queue('mails')")
    sql("drop table public.more")


def test_a_queue_whose_tables_are_somebody_elses_is_refused(sql: Contract) -> None:
    sql("select pgmq.create('mails')")
    role = f"redrive_test_{os.getpid()}"
    owner = sql.value(
        "select proowner::regrole::text from pg_proc where oid = 'redrive.adopt_queue'::regproc"
    )
    sql(f"drop role if exists {role}")
    sql(f"create role {role}")
    sql(f"grant usage, create on schema redrive to {role}; grant usage on schema pgmq to {role}")
    sql(f"grant select on pgmq.meta to {role}")
    sql(f"grant execute on all functions in schema redrive to {role}")
    sql(f"grant select, insert, update on all tables in schema redrive to {role}")
    try:
        sql(f"alter function redrive.adopt_queue(text) owner to {role}")
        with pytest.raises(psycopg.Error, match="neither owns the tables of queue mails") as caught:
            sql("select redrive.adopt_queue('mails')")
        assert caught.value.sqlstate == "RD002"
    finally:
        sql(f"alter function redrive.adopt_queue(text) owner to {owner}")
        sql(f"drop owned by {role}")
        sql(f"drop role {role}")


def test_everything_else_is_listed_and_left_alone(sql: Contract) -> None:
    sql.create()
    sql("select pgmq.create('mails')")
    sql("select pgmq.create('Odd One')")
    sql("select redrive.adopt_queue('mails')")
    sql("select pgmq.create('other')")
    sql.create("gone")
    sql("select pgmq.drop_queue(name) from unnest(array['gone', 'gone_dlq']) name")

    listed = sql("select queue, kind from redrive.list_queues() order by 1")
    assert listed == [
        ("Odd One", "foreign"),
        ("gone", "missing"),
        ("jobs", "created"),
        ("mails", "adopted"),
        ("other", "foreign"),
    ]
