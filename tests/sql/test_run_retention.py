"""Retention as a job of pg_cron's: all of it in one call, within its time, beside workers that do it too."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.sql.test_retention import DAY, archive, ended
from tests.support.contract import Contract, done
from tests.support.layouts import newest_only

_OWN = {
    "name": "redrive.retention",
    "queue": None,
    "every_sec": 600,
    "tz": "UTC",
    "missed": "one",
    "overlap": "allow",
}
_CRON = """
create schema cron;
create table cron.job (jobid bigint, jobname text, active boolean default true,
                       database text default current_database());
create table cron.job_run_details (jobid bigint, runid bigserial, status text, command text,
                                   return_message text, start_time timestamptz);
insert into cron.job (jobid, jobname) values (1, 'redrive health'), (2, 'mine');
insert into cron.job_run_details (jobid, status, start_time)
     select j, 'succeeded', redrive.clock() - n * interval '1 day' from generate_series(1, 10) n,
            unnest(array[1, 2]) j;
"""


def run(sql: Contract, arguments: str = "") -> dict[str, int]:
    return {row.what: row.deleted for row in sql(f"select * from redrive.run_retention({arguments})")}


def old(sql: Contract, *counts: int) -> None:
    """So many archived messages of jobs and others, and ticks of a schedule, that are over."""
    sql.clock.stop()
    for queue, count in zip(("jobs", "others"), counts, strict=False):
        sql.create(queue)
        ended(sql, count, queue)
    sql(
        "insert into redrive.schedule_tick (name, tick, at, outcome) select 'x', "
        "redrive.clock() - n * interval '1 s', redrive.clock(), 'sent' from generate_series(1, 4) n"
    )
    sql("delete from redrive.worker")
    sql.clock.move(31 * DAY)


@newest_only
class TestRunRetention:
    def test_deletes_every_kind_in_batches_until_nothing_is_over(self, sql: Contract) -> None:
        old(sql, 7, 5)
        young = ended(sql, 2)
        assert run(sql, "p_batch => 3") == {"archive": 12, "runs": 4}
        assert archive(sql) == young
        assert run(sql) == {}

    def test_stops_when_its_time_is_over_and_has_done_something(self, sql: Contract) -> None:
        old(sql, 7)
        assert run(sql, "p_seconds => 0.000001, p_batch => 3") == {"archive": 3}
        assert run(sql) == {"archive": 4, "runs": 4}

    def test_is_the_tick_of_the_workers_schedule(self, sql: Contract) -> None:
        sql.clock.stop()
        sql("select redrive.declare_schedules(%s)", json.dumps([_OWN]))
        sql.clock.move(3600)
        assert sql.value("select lag_sec from redrive.schedules()") > 0
        run(sql)
        assert sql.value("select lag_sec from redrive.schedules()") is None
        assert [row.outcome for row in sql("select * from redrive.schedule_ticks('redrive.retention')")][
            :1
        ] == ["sent"]
        [due] = sql("select * from redrive.due_schedules(array['redrive.retention'])")
        assert due.next_at > due.now

    def test_does_nothing_while_that_is_paused(self, sql: Contract) -> None:
        old(sql, 3)
        sql("select redrive.declare_schedules(%s)", json.dumps([_OWN]))
        sql("select redrive.pause_schedule('redrive.retention')")
        assert run(sql) == {}
        assert len(archive(sql)) == 3

    def test_makes_no_schedule_where_workers_declared_none(self, sql: Contract) -> None:
        run(sql)
        assert sql("select * from redrive.schedules()") == []

    def test_two_at_once_are_one(self, sql: Contract) -> None:
        old(sql, 7)
        other = sql.connect()
        with other.transaction():
            assert other.execute("select * from redrive.run_retention()").fetchall()
            assert run(sql) == {}
            assert sql.value("select redrive.purge_due('archive')") == 0
        assert archive(sql) == []

    def test_a_locked_table_is_told_and_keeps_nothing_else(self, sql: Contract) -> None:
        old(sql, 3)
        other = sql.connect()
        with other.transaction():
            other.execute("lock table redrive.schedule_tick")
            rows = sql("select * from redrive.run_retention()")
        assert {row.what: row.deleted for row in rows} == {"archive": 3, "runs": 0}
        [problem] = [row.problem for row in rows if row.what == "runs"]
        assert "schedule_tick" in problem

    def test_forgets_calls_of_yesterday_and_what_pg_cron_noted_of_our_jobs(self, sql: Contract) -> None:
        sql.clock.stop()
        with sql.connection.transaction(force_rollback=True):
            sql("insert into redrive.http_call values (1, 'gone', redrive.clock(), 60)")
            sql.clock.move(DAY + 1)
            for statement in filter(str.strip, _CRON.split(";")):
                sql(statement)
            assert run(sql) == {"cron_runs": 3}
            assert sql("select from redrive.http_call") == []
            left = sql("select jobid, count(*) from cron.job_run_details group by 1 order by 1")
            assert left == [(1, 7), (2, 10)]
            sql.clock.move(DAY / 48)
            sql("update cron.job_run_details set start_time = redrive.clock() - interval '8 days'")
            assert run(sql) == {}, "the table is looked through once an hour"
            sql.clock.move(DAY / 24)
            assert run(sql) == {"cron_runs": 7}

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ("0", "p_seconds is 0; it must be above 0"),
            ("null", "p_seconds is null"),
            ("5, 0", "batch is 0; it must be from 1 to 100000"),
        ],
    )
    def test_refuses_what_cannot_be_meant(self, sql: Contract, arguments: str, said: str) -> None:
        with pytest.raises(psycopg.Error, match=said):
            run(sql, arguments)

    def test_a_message_can_be_settled_meanwhile(self, sql: Contract) -> None:
        old(sql, 3)
        sql.send({})
        other: Any = sql.connect()
        with other.transaction():
            other.execute("select * from redrive.run_retention()")
            [delivery] = sql.claim()
            assert sql.settle(done(delivery)) == ["ok"]
