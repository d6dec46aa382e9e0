"""The doctor on schema redrive, on pgmq and on queues: made wrong, named, mended."""

from __future__ import annotations

import re
from collections.abc import Generator

import psycopg
import pytest
from pgmq.install import get_embedded_install_sql

from redrive.sql import table_files
from redrive.watch.doctor.made import parts
from tests.support.cli import run
from tests.support.databases import Databases
from tests.support.examining import Doctor
from tests.support.layouts import scripts


@pytest.fixture
def queue(doctor: Doctor) -> Generator[str]:
    """A queue with a message in it, and one in its archive."""
    doctor.sql("select redrive.create_queue('jobs')")
    doctor.sql("select redrive.send('jobs', '{}') from generate_series(1, 2)")
    doctor.sql("select pgmq.archive('jobs', 2)")
    yield "jobs"
    doctor.sql("delete from redrive.queue")
    doctor.sql("drop table if exists pgmq.q_jobs, pgmq.a_jobs, pgmq.q_jobs_dlq, pgmq.a_jobs_dlq")
    doctor.sql("delete from pgmq.meta")


class TestSchemaRedrive:
    def test_no_schema_at_all(self, databases: Databases) -> None:
        url = databases.empty()
        found = Doctor(url).one("schema")
        assert (found.severity, found.fix) == ("error", ("redrive migrate",))
        assert found.problem == "there is no schema redrive in this database"
        ran = run("doctor", "--database", url)
        assert ran.code == 1 and "schema redrive is missing here; run redrive migrate" in ran.out
        Doctor(url).follow(found, **{"redrive migrate": "redrive migrate --yes"})
        assert Doctor(url).is_fine("schema") and Doctor(url).is_fine("edited")
        databases.drop(url)

    def test_a_function_that_somebody_dropped(self, doctor: Doctor) -> None:
        doctor.sql("drop function redrive.lease_is_mine")
        found = doctor.one("schema")
        assert found.problem == "function lease_is_mine is missing"
        doctor.follow(found)
        assert doctor.is_fine("schema")

    def test_a_function_that_somebody_edited(self, doctor: Doctor) -> None:
        doctor.sql(
            "create or replace function redrive.clock() returns timestamptz language sql volatile "
            "parallel safe as $$ select now() - interval '1 day' $$"
        )
        found = doctor.one("edited")
        assert "function redrive.clock is not what redrive" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("edited")

    @pytest.mark.parametrize("change", ["metrics(text) security invoker", "clock() set search_path = public"])
    def test_a_function_that_runs_with_other_rights_or_settings(self, doctor: Doctor, change: str) -> None:
        doctor.sql(f"alter function redrive.{change}")
        found = doctor.one("edited")
        assert "somebody changed whose rights it runs with" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("edited")

    def test_every_column_and_index_is_known(self, doctor: Doctor) -> None:
        there = doctor.sql(
            "select c.relname::text as of, 'column' as kind, a.attname::text as name "
            "  from pg_class c join pg_attribute a on a.attrelid = c.oid "
            " where c.relnamespace = 'redrive'::regnamespace and c.relkind = 'r' "
            "   and c.relname <> 'schema_file' and a.attnum > 0 and not a.attisdropped "
            " union all select c.relname, 'index', i.indexrelid::regclass::text "
            "  from pg_class c join pg_index i on i.indrelid = c.oid "
            " where c.relnamespace = 'redrive'::regnamespace and c.relkind = 'r' "
            "   and c.relname <> 'schema_file'"
        )
        known = {(part.table, part.kind, part.name) for part in parts(table_files())}
        assert known == {(row.of, row.kind, row.name.removeprefix("redrive.")) for row in there}

    @pytest.mark.parametrize(
        ("drop", "lacks"),
        [
            (
                "alter table redrive.worker drop column concurrency",
                "redrive.worker lacks its column concurrency",
            ),
            (
                "drop index redrive.alert_delivery_once",
                "redrive.alert_delivery lacks its index alert_delivery_once",
            ),
            (
                "alter table redrive.webhook_event drop constraint webhook_event_source_event_id_key",
                "redrive.webhook_event lacks its index webhook_event_source_event_id_key",
            ),
        ],
    )
    def test_a_part_of_a_table_that_somebody_dropped(self, doctor: Doctor, drop: str, lacks: str) -> None:
        doctor.sql(drop)
        found = doctor.one("schema")
        assert found.problem == f"{lacks}: somebody dropped it" and not found.safe
        doctor.follow(found)
        assert doctor.is_fine("schema")

    def test_a_function_that_is_not_redrives(self, doctor: Doctor) -> None:
        doctor.sql("create function redrive.mine(a int) returns int language sql as 'select 1'")
        found = doctor.one("edited")
        assert found.problem == "function redrive.mine(integer) stands in schema redrive and is not redrive's"
        doctor.follow(found)
        assert doctor.is_fine("edited")


class TestPgmq:
    def test_a_newer_version_run_over_an_older_one(self, databases: Databases) -> None:
        """As psql does it: without stopping at errors."""
        doctor = Doctor(databases.empty())
        for script in scripts("1.5.1"):
            doctor.sql(script)
        for statement in _statements(get_embedded_install_sql()):
            try:
                doctor.sql(statement)
            except psycopg.Error:
                pass
        found = doctor.all("pgmq_mixed")
        [pop] = [each for each in found if each.subject == "pgmq.pop"]
        assert "pgmq has pgmq.pop(text) and pgmq.pop(text,integer)" in pop.problem
        assert pop.fix == ("drop function pgmq.pop(text);",)
        [record] = [each for each in found if each.subject == "pgmq.message_record"]
        assert "has no last_read_at" in record.problem and "half upgraded" in record.problem
        for each in found:
            if each.fix:
                doctor.follow(each)
        assert [each.subject for each in doctor.all("pgmq_mixed")] == ["pgmq.message_record"]
        doctor.close()
        databases.drop(doctor.url)

    def test_no_pgmq(self, databases: Databases) -> None:
        doctor = Doctor(databases.empty())
        assert doctor.one("pgmq_complete").fix == ("redrive migrate",)
        assert doctor.one("pgmq_mixed").severity == "not checked"
        databases.drop(doctor.url)

    def test_a_pgmq_without_what_redrive_calls(self, doctor: Doctor) -> None:
        doctor.sql("alter function pgmq.drop_queue(text) rename to gone")
        doctor.sql("alter function pgmq.drop_queue(text, boolean) rename to gone")
        assert "pgmq lacks function pgmq.drop_queue(text)" in doctor.one("pgmq_complete").problem
        doctor.sql("alter function pgmq.gone(text) rename to drop_queue")
        doctor.sql("alter function pgmq.gone(text, boolean) rename to drop_queue")
        assert doctor.is_fine("pgmq_complete")

    def test_queues_that_differ_by_case_only(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("select pgmq.create('Jobs')")
        found = doctor.one("pgmq_twins")
        assert "queues Jobs and jobs are listed, and share the one table pgmq.q_jobs" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("pgmq_twins")

    def test_a_listed_queue_without_its_tables(self, doctor: Doctor) -> None:
        doctor.sql(
            "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) values ('gone', false, false)"
        )
        found = doctor.one("pgmq_meta")
        assert "pgmq lists queue gone, whose table pgmq.q_gone is gone" in found.problem
        doctor.mend("pgmq_meta")

    def test_a_listed_queue_whose_archive_is_there(self, doctor: Doctor) -> None:
        doctor.sql("select pgmq.create('half')")
        doctor.sql("drop table pgmq.q_half")
        found = doctor.one("pgmq_meta")
        assert not found.safe and "its archive is there" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("pgmq_meta")
        doctor.sql("select pgmq.drop_queue('half')")

    def test_tables_that_no_list_has(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("delete from pgmq.meta where queue_name = 'jobs'")
        assert "table pgmq.q_jobs is there, but pgmq does not list" in doctor.one("pgmq_meta").problem
        doctor.mend("pgmq_meta")

    def test_a_trigger_whose_throttle_row_a_crash_took(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("select pgmq.enable_notify_insert('jobs')")
        doctor.sql("truncate pgmq.notify_insert_throttle")
        assert "notifies nobody any more" in doctor.one("notify_triggers").problem
        doctor.mend("notify_triggers")


class TestQueues:
    def test_a_queue_whose_table_is_gone(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("select pgmq.drop_queue('jobs')")
        found = doctor.one("queue_tables")
        assert "table pgmq.q_jobs is gone" in found.problem and not found.safe
        doctor.follow(found)
        assert doctor.is_fine("queue_tables")

    def test_a_queue_whose_archive_is_gone(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("drop table pgmq.a_jobs")
        assert "its archive pgmq.a_jobs is gone" in doctor.one("queue_tables").problem
        doctor.mend("queue_tables")
        assert doctor.is_fine("archive_columns")

    def test_a_queue_without_its_dead_letter_queue(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("select pgmq.drop_queue('jobs_dlq')")
        assert "the dead-letter queue jobs_dlq is missing" in doctor.one("dead_letter_queues").problem
        doctor.mend("dead_letter_queues")

    def test_a_dead_letter_queue_without_its_archive(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("drop table pgmq.a_jobs_dlq")
        assert "archive of its dead-letter queue is missing" in doctor.one("dead_letter_queues").problem
        doctor.mend("dead_letter_queues")

    @pytest.mark.parametrize("restart", [1, 2])
    def test_ids_that_begin_again(self, doctor: Doctor, queue: str, restart: int) -> None:
        doctor.sql(f"select setval('pgmq.q_jobs_msg_id_seq', {restart}, false)")
        found = doctor.one("queue_ids")
        assert f"its next id is {restart}, as after a restore, but there is a message 2 in" in found.problem
        assert found.severity == ("error" if restart == 1 else "warning")
        doctor.mend("queue_ids")
        assert doctor.sql("select redrive.send('jobs', '{}') as id")[0].id == 3

    def test_ids_never_go_back_whatever_was_sent_since(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("select setval('pgmq.q_jobs_msg_id_seq', 1, false)")
        found = doctor.one("queue_ids")
        doctor.sql("select setval('pgmq.q_jobs_msg_id_seq', 70)")
        doctor.follow(found)
        assert doctor.sql("select redrive.send('jobs', '{}') as id")[0].id == 71
        assert doctor.is_fine("queue_ids")

    def test_what_an_adopted_queue_with_a_name_of_its_own_lacks(self, doctor: Doctor) -> None:
        doctor.sql("select pgmq.create('my-queue')")
        doctor.sql("select redrive.adopt_queue('my-queue')")
        for lost, check in [
            ('pgmq."q_my-queue_dlq"', "dead_letter_queues"),
            ('pgmq."a_my-queue_dlq"', "dead_letter_queues"),
            ('pgmq."a_my-queue"', "queue_tables"),
        ]:
            doctor.sql(f"drop table {lost}")
            doctor.mend(check)
        doctor.sql("select pgmq.drop_queue('my-queue')")
        doctor.follow(doctor.one("queue_tables"))
        assert doctor.is_fine("queue_tables")
        doctor.sql("select redrive.drop_queue('my-queue')")

    def test_an_override_that_hides_the_codes_policy(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("update redrive.queue set declared = '{\"max_attempts\": 3}'")
        doctor.command("queue", "policy", "jobs", "--set", "max_attempts=9")
        found = doctor.one("policy_overrides")
        assert found.problem == "queue jobs: max_attempts is 3 in the code, but was set to 9 by hand"
        assert found.severity == "note"
        doctor.follow(found)
        assert doctor.is_fine("policy_overrides")

    def test_a_paused_queue(self, doctor: Doctor, queue: str) -> None:
        doctor.command("queue", "pause", "jobs")
        found = doctor.one("paused_queues")
        assert (found.severity, found.problem) == ("note", "queue jobs is paused: nothing is handed out")
        doctor.follow(found)
        assert doctor.is_fine("paused_queues")

    def test_keys_of_messages_that_are_gone(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("select redrive.send('jobs', '{}', p_key => 'a', p_unique => true)")
        doctor.sql(
            "insert into redrive.key values ('jobs', 'b', 'running', 99, null, now() - interval '1 h')"
        )
        doctor.sql(
            "insert into redrive.key values ('jobs', 'c', 'running', 99, null, now() + interval '1 h')"
        )
        assert "1 running key of messages that are gone" in doctor.one("orphaned_keys").problem
        doctor.sql("delete from pgmq.q_jobs")
        found = doctor.all("orphaned_keys")
        assert [each.severity for each in found] == ["warning", "note"]
        assert "1 key of sent messages that are gone" in found[1].problem
        doctor.mend("orphaned_keys")
        assert [row.key for row in doctor.sql("select key from redrive.key")] == ["c"]
        doctor.sql("delete from redrive.key")


class TestTables:
    def test_an_archive_without_redrives_columns(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("alter table pgmq.a_jobs drop column outcome, drop column duration")
        assert "has no column outcome and duration" in doctor.one("archive_columns").problem
        doctor.mend("archive_columns")

    def test_an_adopted_queues_archive_gets_them_later(self, doctor: Doctor) -> None:
        doctor.sql("select pgmq.create('theirs')")
        doctor.sql("select redrive.adopt_queue('theirs')")
        doctor.sql("alter table pgmq.a_theirs drop column outcome, drop column duration")
        assert doctor.is_fine("archive_columns")
        doctor.sql("select redrive.drop_queue('theirs')")

    @pytest.mark.parametrize(
        ("drop", "problem"),
        [
            ("drop index pgmq.q_jobs_vt_idx", "pgmq.q_jobs has no index on vt"),
            (
                "alter table pgmq.a_jobs drop constraint a_jobs_pkey",
                "a_jobs has no unique index on msg_id",
            ),
            ("drop index pgmq.archived_at_idx_jobs", "pgmq.a_jobs has no index on archived_at"),
        ],
    )
    def test_an_index_that_somebody_dropped(
        self, doctor: Doctor, queue: str, drop: str, problem: str
    ) -> None:
        doctor.sql(drop)
        found = doctor.one("indexes")
        assert problem in found.problem and not found.safe
        doctor.follow(found)
        assert doctor.is_fine("indexes")

    def test_an_unlogged_queue(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("alter table pgmq.q_jobs set unlogged")
        found = doctor.one("unlogged_queues")
        assert found.problem == "pgmq.q_jobs is unlogged: a crash or a failover of the server empties it"
        doctor.follow(found)
        assert doctor.is_fine("unlogged_queues")

    def test_a_partitioned_queue(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("drop table pgmq.q_jobs_dlq")
        doctor.sql("create table pgmq.q_jobs_dlq (msg_id bigint) partition by range (msg_id)")
        assert "pgmq.q_jobs_dlq is partitioned" in doctor.one("partitioned_queues").problem

    @pytest.mark.parametrize("off", ["false", "0", "no"])
    def test_autovacuum_switched_off_for_a_table(self, doctor: Doctor, queue: str, off: str) -> None:
        doctor.sql(f"alter table pgmq.q_jobs set (autovacuum_enabled = {off})")
        assert doctor.one("autovacuum").problem == "autovacuum is switched off for pgmq.q_jobs"
        doctor.mend("autovacuum")

    def test_a_trigger_that_eats_what_is_sent(self, doctor: Doctor, queue: str) -> None:
        doctor.sql(
            "create function public.eat() returns trigger language plpgsql as $$ begin return null; end $$"
        )
        doctor.sql(
            "create trigger eat before insert on pgmq.q_jobs for each row execute function public.eat()"
        )
        found = doctor.one("foreign_triggers")
        assert found.severity == "note" and "pgmq.q_jobs has a trigger eat, neither" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("foreign_triggers")
        doctor.sql("drop function public.eat()")

    def test_vacuum_that_does_not_keep_up(self, doctor: Doctor, queue: str) -> None:
        doctor.sql("alter table pgmq.q_jobs set (autovacuum_vacuum_threshold = 100000)")
        doctor.sql("insert into pgmq.q_jobs (vt, message) select now(), '{}' from generate_series(1, 500)")
        doctor.sql("delete from pgmq.q_jobs where msg_id > 2")
        doctor.sql("select pg_stat_force_next_flush()")
        found = doctor.one("autovacuum", most_dead=500)
        assert re.search(
            "pgmq.q_jobs has 50. dead rows and 1 live, and was vacuumed never yet", found.problem
        )
        doctor.follow(found)
        assert doctor.is_fine("autovacuum", most_dead=500)


def _statements(script: str) -> list[str]:
    """A script's statements, where no function body is cut apart."""
    found: list[str] = []
    pending = ""
    for piece in script.split(";"):
        pending += piece + ";"
        if pending.count("$$") % 2 == 0 and pending.count("$_$") % 2 == 0:
            found.append(pending)
            pending = ""
    return found
