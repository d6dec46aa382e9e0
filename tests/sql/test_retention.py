"""Retention in SQL: what is over goes in bounded batches, what lives stays, and nobody is waited for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.support.contract import Contract, done, reject, retry
from tests.support.layouts import newest_only

DAY = 86400


def ended(sql: Contract, count: int, queue: str = "jobs") -> list[int]:
    """Messages sent and done now."""
    sent = [sql.send({"n": n}, queue=queue) for n in range(count)]
    while found := sql.claim(100, queue=queue):
        sql.settle(*(done(each) for each in found), queue=queue)
    return sent


def archive(sql: Contract, queue: str = "jobs") -> list[int]:
    return sorted(sql.column(f"select msg_id from pgmq.a_{queue}"))


def due(sql: Contract, what: str, queue: str | None = None, batch: int = 5000) -> int:
    return sql.value("select redrive.purge_due(%s, %s, %s)", what, queue, batch)


def count(sql: Contract, table: str) -> int:
    return sql.value(f"select count(*) from {table}")


def kept(sql: Contract, what: str, queue: str | None = None) -> Any:
    [found] = sql(
        "select * from redrive.retention() where what = %s and queue is not distinct from %s", what, queue
    )
    return found


def policy(sql: Contract, **override: object) -> None:
    sql("select redrive.set_policy('jobs', %s)", Jsonb(override))


def test_an_archive_goes_by_age_in_batches_and_what_is_younger_stays(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    old = ended(sql, 7)
    sql.clock.move(20 * DAY)
    young = ended(sql, 3)
    live = sql.send({}, delay=1000 * DAY)
    assert due(sql, "archive", "jobs") == 0
    sql.clock.move(10 * DAY + 1)
    assert kept(sql, "archive", "jobs").overdue_sec == pytest.approx(1)
    assert due(sql, "archive", "jobs", 5) == 5
    assert due(sql, "archive", None, 5) == 2
    assert due(sql, "archive", "jobs", 5) == 0
    assert archive(sql) == young and old != young
    assert sql.waiting() == [live]


def test_an_operator_says_how_old(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    ended(sql, 3)
    sql.clock.move(3600)
    young = ended(sql, 2)
    assert sql.value("select redrive.purge_archive('jobs', '1 hour 1 second', 100)") == 0
    sql.clock.move(2)
    assert sql.value("select total from redrive.purge_count('archive', 'jobs', '1 hour')") == 3
    assert sql.value("select redrive.purge_archive('jobs', '1 hour', 2)") == 2
    assert sql.value("select redrive.purge_archive('jobs', '1 hour', 2)") == 1
    assert archive(sql) == young


@newest_only
def test_an_adopted_archive_stays_until_somebody_says_otherwise(sql: Contract) -> None:
    sql("select pgmq.create('jobs')")
    sql.clock.stop()
    sql("select redrive.adopt_queue('jobs')")
    ended(sql, 3)
    sql.clock.move(1000 * DAY)
    assert due(sql, "archive") == 0
    assert (kept(sql, "archive", "jobs").keep_sec, kept(sql, "archive", "jobs").overdue_sec) == (None, None)
    policy(sql, archive_retention=DAY)
    assert due(sql, "archive") == 3


@newest_only
def test_a_limit_of_rows_keeps_the_newest_and_never_deletes_one_too_many(sql: Contract) -> None:
    sql.create(archive_max_rows=4, archive_retention=None)
    sql.clock.stop()
    sent: list[int] = []
    for _ in range(6):
        sent += ended(sql, 1)
        sql.clock.move(1)
    sql("analyze pgmq.a_jobs")
    sql("select pg_stat_clear_snapshot()")
    # A worker's role declares the limit: whatever it is, the last hour stays.
    assert due(sql, "archive", "jobs") == 0
    sql.clock.move(3600)
    assert due(sql, "archive", "jobs", 1) == 1
    assert due(sql, "archive", "jobs") == 1
    assert due(sql, "archive", "jobs") == 0
    assert archive(sql) == sent[2:]


@newest_only
def test_rows_that_were_archived_in_one_moment_stay_together(sql: Contract) -> None:
    sql.create(archive_max_rows=4, archive_retention=None)
    sql.clock.stop()
    ended(sql, 3)
    sql.clock.move(1)
    ended(sql, 6)
    sql.clock.move(3601)
    sql("analyze pgmq.a_jobs")
    assert due(sql, "archive", "jobs") == 3
    assert due(sql, "archive", "jobs") == 0


@newest_only
def test_a_limit_of_bytes_is_one_of_rows_times_what_a_row_takes(sql: Contract) -> None:
    sql.create(archive_retention=None)
    sql.clock.stop()
    for n in range(20):
        sql("select redrive.send('jobs', jsonb_build_object('text', repeat('x', 900), 'n', %s::int))", n)
        sql.settle(done(sql.claim_one()))
        sql.clock.move(1)
    sql("analyze pgmq.a_jobs")
    found = kept(sql, "archive", "jobs")
    assert found.rows == 20 and 20 * 900 < found.bytes < 20 * 1300
    policy(sql, archive_max_bytes=found.bytes // 2)
    assert kept(sql, "archive", "jobs").overdue_sec == pytest.approx(10, abs=1)
    sql.clock.move(3601)
    assert due(sql, "archive", "jobs") == 10
    assert due(sql, "archive", "jobs") == 0


@newest_only
def test_failures_of_messages_that_have_ended_go_and_those_of_live_ones_stay(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    for _ in range(3):
        sql.send({})
    a, b, c = sorted(sql.claim())
    sql.settle(retry(a, delay=0), retry(b, delay=100 * DAY), reject(c))
    sql.settle(done(sql.claim_one()))
    assert count(sql, "redrive.attempt") == 3
    sql.clock.move(30 * DAY + 1)
    assert sql.value("select total from redrive.purge_count('failures')") == 2
    assert due(sql, "failures") == 2
    assert sql.column("select msg_id from redrive.attempt") == [b.msg_id]
    assert kept(sql, "failures").overdue_sec is None
    assert len(sql.letters()) == 1


@newest_only
def test_letters_that_were_sent_again_go_with_the_archive_and_dead_ones_stay(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    for _ in range(3):
        sql.kill(sql.send({}))
    first, second, third = (each.dead_id for each in sql.letters())
    [again] = sql.redrive(first)
    sql("select redrive.discard('jobs', array[%s::bigint])", second)
    sql.settle(done(sql.claim_one()))
    sql.clock.move(30 * DAY - 1)
    assert [due(sql, what) for what in ("letters", "failures")] == [0, 0]
    sql.clock.move(2)
    assert kept(sql, "letters", "jobs").overdue_sec == pytest.approx(1)
    assert due(sql, "letters") == 2
    assert [each.dead_id for each in sql.letters()] == [third]
    assert count(sql, "redrive.redriven") == 1 and again.new_id
    due(sql, "failures")
    assert count(sql, "redrive.redriven") == 0


@newest_only
def test_failures_of_a_queue_that_is_gone_go(sql: Contract) -> None:
    sql.create()
    sql(
        "insert into redrive.attempt (queue, msg_id, read_ct, attempt, at)"
        " select 'gone', n, 1, 1, now() - interval '40 days' from generate_series(1, 5) n"
    )
    assert due(sql, "failures", "jobs") == 0
    assert [due(sql, "failures", None, 3) for _ in range(3)] == [3, 2, 0]


@newest_only
def test_keys_go_when_their_own_time_is_over(sql: Contract) -> None:
    sql.create(key_retention=100)
    sql.clock.stop()
    sql.send({}, key="done")
    sql.settle(done(sql.claim_one()))
    sql.send({}, key="running")
    sql.claim_one(vt=1000)
    sql.clock.move(99)
    assert due(sql, "keys") == 0
    sql.clock.move(2)
    assert due(sql, "keys") == 1
    assert sql.column("select key from redrive.key") == ["running"]


@newest_only
def test_keys_of_messages_that_vanished_go_and_those_that_wait_stay(sql: Contract) -> None:
    sql.create()
    sql.create("other")
    for n in range(7):
        sql.send({}, key=f"k{n}")
    sql.send({}, key="o", queue="other")
    sql("delete from pgmq.q_jobs where msg_id <> 4")
    sql("delete from pgmq.q_other")
    sql("insert into redrive.sent_key values ('gone', 'x', '{1}')")
    assert sql.value("select total from redrive.purge_count('sent_keys')") == 8
    # Each call looks at ten batches and goes on from there.
    assert sum(due(sql, "sent_keys", None, 2) for _ in range(3)) == 8
    assert sql.column("select key from redrive.sent_key") == ["k3"]


@newest_only
def test_a_key_that_is_being_sent_meanwhile_stays(sql: Contract) -> None:
    sql.create()
    sql.send({}, key="k")
    sql("delete from pgmq.q_jobs")
    with psycopg.connect(sql.url) as other:
        other.execute("select redrive.send('jobs', '{}', 'k')")
        assert due(sql, "sent_keys") == 0
    assert due(sql, "sent_keys") == 0
    assert sql.value("select msg_ids from redrive.sent_key") == [1, 2]


@newest_only
def test_events_that_are_over_go_and_waiting_and_failed_ones_stay(sql: Contract) -> None:
    sql.create()
    for n, status in enumerate(("processed", "ignored", "received", "failed", "processed")):
        sql(
            "insert into redrive.webhook_event (source, event_id, type, received_at, settled_at, status, raw,"
            " msg_id, queue) values ('s', %s, 't', now() - interval '100 days',"
            " now() - make_interval(days => %s), %s, '', 1, 'jobs')",
            str(n),
            1 if n == 4 else 100,
            status,
        )
    assert due(sql, "events") == 2
    # The last was sent again and settled yesterday.
    assert sql.column("select event_id from redrive.webhook_event order by 1") == ["2", "3", "4"]


@newest_only
def test_counts_fetches_runs_and_workers_have_their_times(sql: Contract) -> None:
    sql(
        "insert into redrive.webhook_count"
        " select 's', 'stale', current_date - n, 1, now() from unnest(array[1, 399, 402]) n"
    )
    sql(
        "insert into redrive.fetched"
        " select 's', n::text, now() - make_interval(days => n) from unnest(array[1, 91]) n"
    )
    sql(
        "insert into redrive.schedule_tick"
        " select 'x', now() - make_interval(days => n), null, now() - make_interval(days => n),"
        " case n when 33 then 'waiting' else 'sent' end from unnest(array[1, 31, 33]) n"
    )
    sql(
        "insert into redrive.worker (queue, worker, started_at, last_seen, done)"
        " select 'jobs', w, now(), now() - age, 5 from"
        " (values ('', interval '9 days'), ('a', '2 days'), ('b', '3 days'), ('c', '1 hour')) v(w, age)"
    )
    assert [due(sql, what) for what in ("refused", "fetched", "runs", "workers")] == [1, 1, 1, 2]
    assert sql("select worker, done from redrive.worker order by 1") == [("", 15), ("c", 5)]
    assert count(sql, "redrive.schedule_tick") == 2
    assert [due(sql, what) for what in ("refused", "fetched", "runs", "workers", "alerts")] == [0] * 5


@newest_only
def test_alerts_that_are_over_go_with_their_deliveries(sql: Contract) -> None:
    for n, state in ((1, "resolved"), (100, "resolved"), (100, "firing")):
        sql(
            "insert into redrive.alert (rule, subject, state, severity, since, seen_at, resolved_at, summary)"
            " values ('r', %s, %s, 'warning', now(), now(), now() - make_interval(days => %s), '')",
            f"{state}{n}",
            state,
            n,
        )
        sql(
            "insert into redrive.alert_delivery (sink, rule, subject, event, body, at, next_at, delivered_at)"
            " values ('s', 'r', '', 'test', '{}', now() - make_interval(days => %s), now(), %s)",
            n,
            None if state == "firing" else sql.clock.now() - timedelta(days=n),
        )
    try:
        assert due(sql, "alerts") == 2
        assert (count(sql, "redrive.alert"), count(sql, "redrive.alert_delivery")) == (2, 2)
    finally:
        sql("delete from redrive.alert")
        sql("delete from redrive.alert_delivery")


@newest_only
def test_a_rule_is_set_and_taken_back(sql: Contract) -> None:
    assert kept(sql, "runs").keep_sec == 30 * DAY
    assert sql.value("select redrive.set_retention('runs', %s)", DAY) == DAY
    assert kept(sql, "runs").keep_sec == DAY
    assert sql.value("select redrive.set_retention('runs', null)") == 30 * DAY
    for what, keep, sentence in (
        ("nothing", 1, "there is no nothing to keep; there are: archive, letters, alerts"),
        ("runs", 0, "cannot be kept for 0 seconds"),
        ("archive", 1, "run: redrive queue policy QUEUE --set archive_retention"),
        ("keys", 1, "run: redrive queue policy QUEUE --set key_retention"),
    ):
        with pytest.raises(psycopg.Error, match=sentence) as caught:
            sql("select redrive.set_retention(%s, %s)", what, keep)
        assert caught.value.sqlstate == "22023"


@newest_only
def test_the_rows_that_go_are_answered_for_an_export(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    ids = ended(sql, 3)
    sql.clock.move(31 * DAY)
    rows = sql.column("select redrive.purge_rows('archive', 'jobs', null, 2)")
    assert [row["msg_id"] for row in rows] == ids[:2]
    assert (
        rows[0]["from"] == "pgmq.a_jobs" and rows[0]["message"] == {"n": 0} and rows[0]["outcome"] == "done"
    )
    assert archive(sql) == ids[2:]


@newest_only
def test_rows_somebody_holds_are_left_and_a_locked_table_is_given_up_with_a_sentence(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    ids = ended(sql, 3)
    sql.clock.move(31 * DAY)
    with psycopg.connect(sql.url) as other:
        other.execute("select from pgmq.a_jobs where msg_id = %s for update", (ids[0],))
        assert due(sql, "archive") == 2
        other.rollback()
        other.execute("lock table pgmq.a_jobs in access exclusive mode")
        with pytest.raises(psycopg.Error, match="a_jobs is locked by somebody else") as caught:
            due(sql, "archive")
        assert caught.value.sqlstate == "55P03"
    assert due(sql, "archive") == 1


@newest_only
def test_what_settles_does_not_wait_for_a_purge_under_way(sql: Contract) -> None:
    sql.create()
    sql.clock.stop()
    ended(sql, 3)
    sql.clock.move(31 * DAY)
    sql.send({})
    with psycopg.connect(sql.url) as other:
        other.execute("select redrive.purge_due('archive')")
        sql("set statement_timeout = '2s'")
        sql.settle(done(sql.claim_one()))
        sql("reset statement_timeout")
    assert len(archive(sql)) == 1


@newest_only
def test_rows_that_something_still_needs_are_told_and_other_queues_go_on(sql: Contract) -> None:
    sql.create()
    sql.create("other")
    sql.clock.stop()
    [first, *_] = ended(sql, 2)
    ended(sql, 2, "other")
    sql.clock.move(31 * DAY)
    sql("create table public.invoice (msg_id bigint constraint keeps_it references pgmq.a_jobs)")
    sql("insert into public.invoice values (%s)", first)
    try:
        assert due(sql, "archive") == 2
        for call in ("purge_due('archive')", "purge_rows('archive', 'jobs')"):
            with pytest.raises(psycopg.Error, match="constraint keeps_it of table invoice") as caught:
                sql(f"select redrive.{call}")
            assert caught.value.sqlstate == "RD002"
    finally:
        sql("drop table public.invoice")
    assert due(sql, "archive") == 2


@newest_only
def test_a_locked_table_leaves_the_others_readable_and_living_workers_are_never_folded(sql: Contract) -> None:
    sql.create()
    sql(
        "insert into redrive.worker (queue, worker, started_at, last_seen) values ('jobs', 'w', now(), now())"
    )
    assert sql.value("select total from redrive.purge_count('workers', null, '0 s')") == 0
    assert sql.value("select redrive.purge('workers', null, '0 s')") == 0
    with psycopg.connect(sql.url) as other:
        other.execute("lock table redrive.fetched in access exclusive mode")
        found = {row.what: row.rows for row in sql("select * from redrive.retention()")}
        assert found["fetched"] is None and found["runs"] is not None
        values = dict(sql("select subject, value from redrive._read_retention(now())"))
        assert values["fetched"] is None and values["runs"] == 0
        with pytest.raises(psycopg.Error, match=r"redrive\.fetched is locked"):
            sql("select redrive.purge_count('fetched')")


@newest_only
@pytest.mark.parametrize("kind", ["partitioned", "inherited"])
def test_of_an_archive_in_several_tables_only_old_rows_go(sql: Contract, kind: str) -> None:
    sql.create()
    sql.clock.stop()
    ended(sql, 1)
    sql("alter table pgmq.a_jobs rename to a_fresh")
    sql("alter table pgmq.a_fresh drop constraint a_jobs_pkey")
    by = "partition by list (outcome)" if kind == "partitioned" else ""
    sql(f"create table pgmq.a_jobs (like pgmq.a_fresh) {by}")
    sql("create table pgmq.a_old (like pgmq.a_fresh)")
    for name, value in (("fresh", "done"), ("old", "ignored")):
        of = f"attach partition pgmq.a_{name} for values in ('{value}')"
        sql(f"alter table pgmq.a_jobs {of}" if by else f"alter table pgmq.a_{name} inherit pgmq.a_jobs")
    # Each row of the one table stands where one of the other does.
    sql(
        "insert into pgmq.a_old select msg_id + 100, read_ct, enqueued_at, last_read_at, archived_at -"
        " interval '40 days', vt, message, headers, 'ignored' from pgmq.a_fresh"
    )
    try:
        assert sql.value("select total from redrive.purge_count('archive', 'jobs')") == 1
        rows = sql.column("select redrive.purge_rows('archive', 'jobs')")
        assert [row["msg_id"] for row in rows] == [101]
        assert archive(sql) == [1]
        assert due(sql, "archive", "jobs") == 0
    finally:
        sql("drop table pgmq.a_jobs cascade")
        sql("drop table if exists pgmq.a_old, pgmq.a_fresh")


@newest_only
def test_one_broken_queue_breaks_no_other(sql: Contract) -> None:
    sql.create()
    sql.create("broken")
    sql.clock.stop()
    ended(sql, 2)
    sql("drop table pgmq.a_broken")
    sql.clock.move(31 * DAY)
    assert due(sql, "archive") == 2
    assert kept(sql, "archive", "broken").rows is None
    assert kept(sql, "archive", "jobs").rows == 0


@newest_only
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ("purge_archive('jobs', null, 10)", "older than what"),
        ("purge_archive('jobs', '-1 day', 10)", "is in the future"),
        ("purge_archive('jobs', '1 day', 0)", "batch is 0"),
        ("purge_archive('nothing', '1 day', 10)", "queue nothing does not exist"),
        ("purge('keys', null, '1 day')", "keys have no age to give"),
        ("purge('nothing')", "there is no nothing to keep"),
        ("purge_due('nothing')", "there is no nothing to keep"),
        ("purge_due('runs', null, null)", "batch is null"),
        ("purge_due('archive', null, 0)", "batch is 0"),
        ("purge_due('archive', 'nothing')", "queue nothing does not exist"),
        ("purge_due('workers', 'nothing')", "queue nothing does not exist"),
        ("purge_due('runs', 'jobs')", "runs belong to no queue; leave out jobs"),
        ("purge_count('keys', 'nothing')", "queue nothing does not exist"),
        ("purge_archive('jobs', '101 years', 10)", "the longest is 100 years"),
        ("set_retention('runs', 1e12)", "at most 3155760000"),
        ("purge_rows('workers')", "workers hold nothing that could be exported"),
    ],
)
def test_what_cannot_be_meant_is_refused(sql: Contract, call: str, sentence: str) -> None:
    sql.create()
    with pytest.raises(psycopg.Error, match=sentence):
        sql(f"select redrive.{call}")
