"""The hand-written layouts are what they claim to be, and a queue lives on each of them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.layouts import with_headers

Connection = psycopg.Connection[Any]

COLUMNS = {
    "1.13.0": "msg_id read_ct enqueued_at last_read_at vt message headers",
    "1.5.1": "msg_id read_ct enqueued_at vt message headers",
    "1.5.1+last_read_at": "msg_id read_ct enqueued_at vt message headers last_read_at",
    "1.4.4": "msg_id read_ct enqueued_at vt message",
}


def columns(db: Connection, relation: str) -> str:
    found = db.execute(
        "select string_agg(attname, ' ' order by attnum) from pg_attribute "
        "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
        (relation,),
    ).fetchone()
    assert found
    return found[0]


def test_a_queue_has_the_columns_of_its_version(db: Connection, layout: str) -> None:
    db.execute("select pgmq.create('mails')")

    assert columns(db, "pgmq.q_mails") == COLUMNS[layout]
    archive = COLUMNS[layout].replace(" vt", " archived_at vt")
    assert columns(db, "pgmq.a_mails") == archive


def test_message_record_has_last_read_at_in_its_middle_where_it_has_it(db: Connection, layout: str) -> None:
    expected = COLUMNS["1.13.0"] if "last_read_at" in layout else COLUMNS[layout]
    assert columns(db, "pgmq.message_record") == expected


def test_a_queue_has_the_indexes_of_every_version(db: Connection) -> None:
    db.execute("select pgmq.create('mails')")
    names = db.execute(
        "select indexname from pg_indexes "
        "where schemaname = 'pgmq' and tablename in ('q_mails', 'a_mails') order by 1"
    ).fetchall()
    assert [name for (name,) in names] == [
        "a_mails_pkey",
        "archived_at_idx_mails",
        "q_mails_pkey",
        "q_mails_vt_idx",
    ]


def test_a_message_is_sent_read_postponed_and_archived(db: Connection) -> None:
    db.execute("select pgmq.create('mails')")
    [(first,)] = db.execute("select pgmq.send('mails', '{\"n\": 1}'::jsonb)").fetchall()
    [(second,)] = db.execute("select pgmq.send('mails', '{\"n\": 2}'::jsonb, 60)").fetchall()

    [read] = db.execute("select msg_id, read_ct, message from pgmq.read('mails', 30, 10)").fetchall()
    assert (read.msg_id, read.read_ct, read.message) == (first, 1, {"n": 1})
    assert db.execute("select msg_id from pgmq.set_vt('mails', %s, 0)", (second,)).fetchall() == [(second,)]
    assert db.execute("select msg_id from pgmq.pop('mails')").fetchall() == [(second,)]
    assert db.execute("select pgmq.archive('mails', %s::bigint)", (first,)).fetchall() == [(True,)]
    assert db.execute("select pgmq.delete('mails', %s::bigint)", (first,)).fetchall() == [(False,)]
    assert db.execute("select message from pgmq.a_mails").fetchall() == [({"n": 1},)]


@with_headers
def test_headers_travel_where_there_are_any(db: Connection) -> None:
    db.execute("select pgmq.create('mails')")
    db.execute("select pgmq.send('mails', '{}'::jsonb, '{\"trace\": \"a\"}'::jsonb, 0)")
    assert db.execute("select headers from pgmq.read('mails', 30, 1)").fetchall() == [({"trace": "a"},)]


def test_a_queue_name_of_48_characters_is_refused(db: Connection) -> None:
    with pytest.raises(psycopg.errors.RaiseException, match="maximum length"):
        db.execute("select pgmq.create(%s)", ("q" * 48,))


def test_metrics_count_and_drop_queue_leaves_nothing(db: Connection) -> None:
    db.execute("select pgmq.create('mails')")
    db.execute("select pgmq.send_batch('mails', array['1', '2']::jsonb[])")

    [metrics] = db.execute("select queue_length, total_messages from pgmq.metrics('mails')").fetchall()
    assert metrics == (2, 2)
    assert db.execute("select pgmq.purge_queue('mails')").fetchall() == [(2,)]
    assert db.execute("select pgmq.drop_queue('mails')").fetchall() == [(True,)]
    assert db.execute("select queue_name from pgmq.list_queues()").fetchall() == []
    assert db.execute(
        "select to_regclass('pgmq.q_mails') as q, to_regclass('pgmq.a_mails') as a"
    ).fetchall() == [(None, None)]
