"""The rules that are not about a queue: webhooks, leases, transactions, schedules, pg_cron, pg_net."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sql.test_health_rules import fires, pass_time
from tests.support.contract import Contract, done
from tests.support.layouts import NEWEST


class TestTheInbox:
    @pytest.fixture
    def layout(self) -> str:
        return NEWEST

    @pytest.fixture
    def inbox(self, sql: Contract) -> Contract:
        sql.create()
        sql.clock.stop()
        for other in ("no_worker", "oldest_ready"):
            sql("select redrive.set_rule(%s, %s)", other, '{"enabled": false}')
        return sql

    def receive(self, sql: Contract, event_id: str = "evt_1") -> Any:
        [event] = sql(
            "select * from redrive.receive_event('stripe', %s, 'paid', '{}', '{}', '{}', 'jobs')", event_id
        )
        return event

    def refuse(self, sql: Contract, count: int, reason: str = "mismatch") -> None:
        refusal = {"source": "stripe", "reason": reason, "count": count, "samples": []}
        sql("select redrive.note_refusals(%s)", json.dumps([refusal]))

    def test_an_event_nobody_handles_is_an_alert(self, inbox: Contract) -> None:
        self.receive(inbox)
        assert fires(inbox, 900) == {}
        assert fires(inbox, 1) == {
            (
                "events_waiting",
                "stripe",
            ): "A webhook event of source stripe that was recorded and could be handled "
            "has been waiting for 15 min."
        }
        inbox.settle(done(inbox.claim_one()))
        assert fires(inbox, 60) == {}

    def test_an_event_that_waits_for_its_time_or_is_at_work_is_none(self, inbox: Contract) -> None:
        self.receive(inbox, "evt_1")
        self.receive(inbox, "evt_2")
        inbox.claim(1, vt=5000)
        inbox("select redrive.reschedule('jobs', array_agg(msg_id), 5000) from pgmq.q_jobs where read_ct = 0")
        assert fires(inbox, 2000) == {}

    def test_an_event_that_was_sent_again_is_as_old_as_that(self, inbox: Contract) -> None:
        event = self.receive(inbox)
        inbox.settle(done(inbox.claim_one()))
        inbox.clock.move(5000)
        inbox("select * from redrive.replay_events(array[%s]::uuid[])", event.id)
        assert fires(inbox, 800) == {}
        assert ("events_waiting", "stripe") in fires(inbox, 101)

    def test_an_event_whose_message_is_gone_is_one(self, inbox: Contract) -> None:
        self.receive(inbox)
        inbox("delete from pgmq.q_jobs")
        assert ("events_waiting", "stripe") in fires(inbox, 901)

    def test_a_source_whose_queue_is_broken_blinds_no_other(self, inbox: Contract) -> None:
        self.refuse(inbox, 100)
        self.receive(inbox)
        inbox("update redrive.webhook_event set source = 'a_broken'")
        inbox("alter table pgmq.q_jobs rename column vt to vt2")
        try:
            fires(inbox)
            self.refuse(inbox, 50)
            found = fires(inbox, 120)
        finally:
            inbox("alter table pgmq.q_jobs rename column vt2 to vt")
        assert set(found) == {
            ("webhook_refused", "stripe"),
            ("queue_unreadable", "jobs"),
            ("gauges_unread", ""),
        }
        assert "1 reading could not be had" in found["gauges_unread", ""]
        assert "oldest_event_age_sec of a_broken: " in found["gauges_unread", ""]

    def test_five_refused_in_a_quarter_of_an_hour_are_one(self, inbox: Contract) -> None:
        self.refuse(inbox, 100)
        assert fires(inbox) == {}
        pass_time(inbox, 300)
        self.refuse(inbox, 4)
        self.refuse(inbox, 50, "no_header")
        assert fires(inbox, 60) == {}
        self.refuse(inbox, 1, "stale")
        assert fires(inbox, 60) == {
            (
                "webhook_refused",
                "stripe",
            ): "5 signed webhooks of source stripe refused in the last 15 minutes: "
            "the secret may be wrong, or a clock."
        }
        pass_time(inbox, 900)
        assert fires(inbox) == {}

    def test_those_before_the_first_evaluation_are_known_by_their_samples(self, inbox: Contract) -> None:
        samples = [{"at": inbox.clock.now().isoformat(), "detail": "no secret fits"}] * 6
        refusal = {"source": "stripe", "reason": "mismatch", "count": 6, "samples": samples}
        inbox("select redrive.note_refusals(%s)", json.dumps([refusal]))
        assert ("webhook_refused", "stripe") in fires(inbox)


class TestTheRest:
    @pytest.fixture
    def layout(self) -> str:
        return NEWEST

    def test_a_single_flight_whose_holder_died_is_stuck(self, sql: Contract) -> None:
        sql.create(single_flight=True)
        sql.clock.stop()
        sql.send({})
        sql.claim(1, vt=3600, worker="host:7:ab")
        assert fires(sql, 60) == {}
        found = fires(sql, 1)
        assert found["lease_stuck", "queue:jobs"] == (
            "Lease queue:jobs is held by host:7:ab, who was last seen 61 s ago; it runs for 58 min more, "
            "and nobody else gets it."
        )
        sql("select redrive.free_lease('queue:jobs')")
        assert ("lease_stuck", "queue:jobs") not in fires(sql, 60)

    def test_no_other_lease_is_however_long_it_is_held(self, sql: Contract) -> None:
        sql.clock.stop()
        sql("select redrive.acquire_lease('reindex', 200000)")
        sql("select redrive.acquire_lease('redrive.health', 500000)")
        assert fires(sql, 100_000) == {}

    def test_a_transaction_that_is_open_for_half_an_hour_is_named(self, sql: Contract) -> None:
        other = sql.connect()
        with other.transaction(force_rollback=True):
            other.execute("create temporary table mine ()")
            assert fires(sql) == {}
            found = fires(sql, 1801)
            assert found["xmin_held", ""].startswith(
                "Dead rows cannot be cleaned up for 30 min: a session is idle in a transaction "
                f"pid {other.info.backend_pid} of role "
            )
            [holder] = sql("select * from redrive.holders()")
            assert (holder.pid, holder.state) == (other.info.backend_pid, "idle in transaction")
        assert fires(sql, 60) == {}

    def test_a_schedule_that_is_late_is_one(self, sql: Contract) -> None:
        with sql.connection.transaction(force_rollback=True):
            sql(
                "insert into redrive.schedule (name, every_sec, tz, missed, overlap, declared_at, upheld_at, "
                "base_at, next_at, seen_at, paused) "
                "select n, 60, 'UTC', 'one', 'allow', at, at, at, at, seen, n = 'paused' "
                "from (select redrive.clock() - interval '121 seconds' as at) t, (values ('gone', null), "
                "('stuck', redrive.clock()), ('paused', null)) v(n, seen)"
            )
            late = "was due 2 min ago and has not been sent"
            assert fires(sql) == {
                ("schedule_missed", "gone"): f"Schedule gone {late}: no running worker declares it.",
                (
                    "schedule_missed",
                    "stuck",
                ): f"Schedule stuck {late}: it cannot be sent, and the workers' log says why.",
            }

    def test_retention_that_does_not_keep_up_is_one(self, sql: Contract) -> None:
        with sql.connection.transaction(force_rollback=True):
            sql(
                "drop function redrive.retention(); create function redrive.retention() "
                "returns table (what text, queue text, rows bigint, overdue_sec float8) language sql as "
                "$$ values ('archive', 'jobs', 1::bigint, 90000.0::float8), ('keys', null, 0, null) $$"
            )
            found = fires(sql)
            assert set(found) == {("archive_over_limit", "archive of jobs")}

    def test_cron_jobs_that_fail_and_calls_of_pg_net(self, sql: Contract) -> None:
        with sql.connection.transaction(force_rollback=True):
            sql(
                """
                create schema cron;
                create table cron.job (jobid bigint, jobname text, active boolean default true,
                                       database text default current_database());
                create table cron.job_run_details (jobid bigint, runid bigserial, status text,
                                                   command text, return_message text);
                insert into cron.job (jobid, jobname) values (1, 'good'), (2, 'bad'), (3, null), (4, 'new');
                insert into cron.job_run_details (jobid, status) values
                    (1, 'failed'), (1, 'succeeded'), (2, 'succeeded'), (2, 'failed'), (2, 'running'),
                    (3, 'failed');
                create schema net;
                create table net._http_response (id bigint, status_code integer, timed_out boolean,
                                                 created timestamptz default redrive.clock());
                insert into net._http_response (status_code, timed_out)
                     values (200, false), (401, false), (401, false), (null, true);
                insert into net._http_response (status_code, created)
                     values (500, redrive.clock() - interval '1 hour');
                """
            )
            assert fires(sql) == {
                ("cron_failing", "bad"): "The last run of pg_cron job bad failed.",
                ("cron_failing", "job 3"): "The last run of pg_cron job job 3 failed.",
                ("net_failing", ""): "3 HTTP calls of pg_net failed in the last 15 minutes: 2 x status 401, "
                "1 x timed out.",
            }
            sql("insert into cron.job_run_details (jobid, status) values (2, 'succeeded')")
            sql("delete from net._http_response where timed_out")
            assert set(fires(sql, 60)) == {("cron_failing", "job 3")}

    def test_every_gauge_that_is_read_is_one_a_rule_may_name(self, sql: Contract) -> None:
        sql.create()
        sql("select redrive.acquire_lease('queue:jobs', 60)")
        sql("select redrive.declare_sinks(array['ops'], array['webhook'])")
        sql("select redrive.receive_event('stripe', 'evt_1', 'paid', '{}', '{}', '{}', 'jobs')")
        read = set(sql.column("select gauge from redrive._readings()"))
        known = set(sql.column("select gauge from redrive._gauge_names()"))
        assert read <= known
        assert known - read <= {
            "schedule_lag_sec",
            "cron_failed",
            "net_failed",
            "tick_failed",
            "retention_overdue_sec",
        }
        assert set(sql.column("select gauge from redrive.rules()")) <= known
