"""The built-in rules: what each sees, what it does not mistake for trouble, and what it says."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support.contract import Contract, done, retry
from tests.support.layouts import NEWEST, newest_only, with_headers


def fires(sql: Contract, after: float = 0) -> dict[tuple[str, str], str]:
    """What fires after an evaluation, and what it says."""
    sql.clock.move(after)
    sql("select redrive.check_queue_health()")
    rows = sql("select rule, subject, summary from redrive.alerts() where state = 'firing'")
    return {(a.rule, a.subject): a.summary for a in rows}


def reading(sql: Contract, gauge: str, subject: str = "jobs") -> float | None:
    [value] = sql.column(
        "select value from redrive._readings() where gauge = %s and subject = %s", gauge, subject
    )
    return value


def pass_time(sql: Contract, seconds: int) -> None:
    """Evaluate every minute, as a checker does."""
    for _ in range(seconds // 60):
        fires(sql, 60)


class TestQueues:
    def test_one_message_delayed_by_an_hour_is_no_alert(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        sql.send({}, delay=3600)
        for _ in range(12):
            assert fires(sql, 295) == {}
        assert ("no_worker", "jobs") in fires(sql, 200) | fires(sql, 61)

    @newest_only
    def test_an_empty_queue_nobody_works_on_is_no_alert(self, sql: Contract) -> None:
        sql.create()
        assert fires(sql) == {}
        assert fires(sql, 7200) == {}

    @newest_only
    def test_a_dead_letter_is_one_until_it_is_redriven(self, sql: Contract) -> None:
        sql.create()
        sql.kill(sql.send({}))
        assert fires(sql) == {
            ("dead_letters", "jobs"): "Queue jobs has 1 dead letter: nobody runs these jobs again."
        }
        sql("select redrive.discard('jobs', array[1])")
        assert fires(sql, 60) == {}

    @newest_only
    def test_the_oldest_ready_one_counts_from_when_it_was_due(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        sql.send({}, delay=600)
        sql.clock.move(600)
        for _ in range(15):
            assert ("oldest_ready", "jobs") not in fires(sql, 60)
        assert "has been waiting for 15 min (1 ready, 0 workers)" in fires(sql, 1)["oldest_ready", "jobs"]

    @newest_only
    def test_a_backlog_without_a_living_worker_is_one_after_a_minute(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        sql.claim(worker="w")
        sql.send({})
        sql.send({})
        assert fires(sql, 59) == {}
        assert fires(sql, 2) == {}
        assert fires(sql, 60) == {
            ("no_worker", "jobs"): "Queue jobs has 2 jobs ready and no worker: the last was seen 2 min ago."
        }
        sql.claim(1, worker="w2")
        assert fires(sql, 30) == {}

    @newest_only
    def test_a_worker_that_is_gone_is_none(self, sql: Contract) -> None:
        sql.create()
        sql.claim(worker="w")
        sql.send({})
        sql("select redrive.worker_stop('w')")
        fires(sql)
        assert ("no_worker", "jobs") in fires(sql, 60)

    def test_who_reads_with_read_with_dlq_is_a_worker(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        for _ in range(8):
            sql.read()
            sql.send({})
            assert fires(sql, 30) == {}
        [worker] = sql("select * from redrive.workers()")
        assert (worker.worker, worker.alive) == ("read_with_dlq", True)
        fires(sql, 60)
        assert ("no_worker", "jobs") in fires(sql, 60)

    @newest_only
    def test_a_paused_queue_needs_no_worker(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql("select redrive.pause_queue('jobs')")
        fires(sql)
        assert fires(sql, 120) == {}
        assert "0 workers; it is paused" in fires(sql, 900)["oldest_ready", "jobs"]

    def test_failed_attempts_count_and_deliveries_do_not(self, sql: Contract) -> None:
        sql.create(max_attempts=4)
        sql.clock.stop()
        sql.send({})
        for _ in range(2):
            sql.settle(retry(sql.claim_one(), delay=0))
            assert reading(sql, "attempts_left") == pytest.approx(3 if _ == 0 else 2)
        sql.claim_one(vt=600)
        assert ("attempts_nearly_spent", "jobs") not in fires(sql)
        sql.clock.move(601)
        assert fires(sql)["attempts_nearly_spent", "jobs"].startswith(
            "A job of queue jobs has failed 3 times of 4: 1 attempt left"
        )

    @newest_only
    def test_with_two_attempts_the_first_failure_is_no_alarm(self, sql: Contract) -> None:
        sql.create(max_attempts=2)
        sql.send({})
        sql.settle(retry(sql.claim_one(), delay=500))
        assert fires(sql) == {}

    @with_headers
    def test_parked_messages_are_one(self, sql: Contract) -> None:
        sql.create(max_attempts=1)
        sql.send({})
        sql.claim(2)
        sql.clock.move(61)
        sql("select pgmq.drop_queue('jobs_dlq')")
        assert sql.claim() == []
        assert fires(sql)["parked", "jobs"].startswith("Queue jobs has 1 message over budget")

    def test_a_queue_that_cannot_be_read_is_one_and_breaks_no_other(self, sql: Contract) -> None:
        sql.create("broken")
        sql.create()
        sql.kill(sql.send({}))
        sql("drop table pgmq.a_broken")
        found = fires(sql)
        assert set(found) == {("dead_letters", "jobs"), ("queue_unreadable", "broken")}
        assert "a_broken" in found["queue_unreadable", "broken"]

    @with_headers
    @pytest.mark.parametrize(
        "headers",
        [
            "[1, 2]",
            '"text"',
            "7",
            '{"x-redrive-settled": "many", "x-redrive-credit": -1, "x-redrive-key": {"a": 1}}',
            '{"x-redrive-settled": 99999999999999999999, "x-redrive-credit": [3]}',
            "null",
        ],
    )
    def test_foreign_headers_raise_nothing(self, sql: Contract, headers: str) -> None:
        sql.create()
        for vt in ("-1 second", "1 hour"):
            sql(
                "insert into pgmq.q_jobs (read_ct, enqueued_at, vt, message, headers) "
                f"values (3, now(), redrive.clock() + interval '{vt}', '[]', %s)",
                headers,
            )
        assert sql.metrics().problem is None
        assert fires(sql) == {}


class TestRates:
    @pytest.fixture
    def layout(self) -> str:
        return NEWEST

    def work(self, sql: Contract, good: int, bad: int) -> None:
        for _ in range(good + bad):
            sql.send({})
        deliveries = sql.claim(good + bad)
        sql.settle(*map(done, deliveries[:good]), *(retry(d, delay=100_000) for d in deliveries[good:]))

    def test_what_comes_in_and_goes_out_a_second(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        assert sql.metrics().inflow_per_sec is None
        fires(sql)
        self.work(sql, 30, 0)
        for _ in range(30):
            sql.send({})
        sql.clock.move(29)
        assert sql.metrics().inflow_per_sec is None
        sql.clock.move(31)
        m = sql.metrics()
        assert (m.inflow_per_sec, m.outflow_per_sec, m.drain_sec) == (1, 0.5, None)
        fires(sql)
        sql.settle(*map(done, sql.claim(20)))
        fires(sql, 60)
        sql.clock.move(180)
        m = sql.metrics()
        assert m.inflow_per_sec == pytest.approx(0)
        assert m.outflow_per_sec == pytest.approx(20 / 240)
        assert m.drain_sec == pytest.approx(10 * 240 / 20)

    def test_who_works_without_reporting_is_counted_by_what_is_missing(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        for _ in range(6):
            sql.send({})
        fires(sql)
        for each in sql.read(qty=3):
            sql("select redrive.queue_archive('jobs', %s)", each.msg_id)
        sql.clock.move(60)
        assert sql.metrics().outflow_per_sec == pytest.approx(3 / 60)

    def test_a_failure_rate_needs_ten_attempts(self, sql: Contract) -> None:
        sql.create(max_attempts=100)
        sql.clock.stop()
        fires(sql)
        self.work(sql, 3, 6)
        sql.clock.move(60)
        assert (sql.metrics().failure_rate, reading(sql, "failure_rate")) == (None, None)
        self.work(sql, 0, 1)
        assert sql.metrics().failure_rate == pytest.approx(0.7)

    def test_most_attempts_failing_for_five_minutes_is_an_alert(self, sql: Contract) -> None:
        sql.create(max_attempts=100)
        sql.clock.stop()
        fires(sql)
        for minute in range(7):
            self.work(sql, 2, 12)
            assert (("failure_rate", "jobs") in fires(sql, 60)) == (minute >= 5), minute
        # Nothing is tried any more: that is no success.
        [alert] = sql("select * from redrive.alerts() where rule = 'failure_rate'")
        assert alert.summary == "86 % of the attempts of queue jobs fail."
        for _ in range(6):
            self.work(sql, 30, 0)
            fires(sql, 60)
        assert ("failure_rate", "jobs") not in fires(sql, 60)

    def test_a_queue_made_anew_begins_anew(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        self.work(sql, 5, 0)
        fires(sql)
        sql("select redrive.drop_queue('jobs')")
        sql.create()
        sql.clock.move(60)
        assert sql.metrics().inflow_per_sec is None

    def test_samples_of_more_than_an_hour_ago_go(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        for _ in range(8):
            fires(sql, 600)
        assert sql.value("select count(*) from redrive.sample") == 7


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

    def test_a_lease_by_hand_may_be_held_for_a_day(self, sql: Contract) -> None:
        sql.clock.stop()
        sql("select redrive.acquire_lease('reindex', 200000)")
        assert fires(sql, 86400) == {}
        assert ("lease_stuck", "reindex") in fires(sql, 61)
        assert fires(sql, 200_000) == {}

    def test_our_own_leases_are_none(self, sql: Contract) -> None:
        sql.clock.stop()
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
            sql("drop function if exists redrive.schedules()")
            assert sql("select * from redrive._read_schedules(now())") == []
            sql(
                "create function redrive.schedules() returns table (name text, lag_sec float8) "
                "language sql as $$ values ('nightly', 121.0::float8), ('paused', null) $$"
            )
            assert fires(sql) == {
                ("schedule_missed", "nightly"): "Schedule nightly was due 2 min ago and has not been sent: "
                "no scheduler runs."
            }

    def test_retention_that_does_not_keep_up_is_one(self, sql: Contract) -> None:
        with sql.connection.transaction(force_rollback=True):
            sql("drop function if exists redrive.retention()")
            assert sql("select * from redrive._read_retention(now())") == []
            sql(
                "create function redrive.retention() "
                "returns table (what text, queue text, overdue_sec float8) "
                "language sql as $$ values ('archive', 'jobs', 90000.0::float8), ('keys', null, null) $$"
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
                create table cron.job_run_details (jobid bigint, runid bigserial, status text);
                insert into cron.job (jobid, jobname) values (1, 'good'), (2, 'bad'), (3, null), (4, 'new');
                insert into cron.job_run_details (jobid, status) values
                    (1, 'failed'), (1, 'succeeded'), (2, 'succeeded'), (2, 'failed'), (2, 'running'),
                    (3, 'failed');
                create schema net;
                create table net._http_response (status_code integer, timed_out boolean,
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
                ("net_failing", ""): "3 HTTP calls of pg_net failed in the last 15 minutes: 2 × status 401, "
                "1 × timed out.",
            }
            sql("insert into cron.job_run_details (jobid, status) values (2, 'succeeded')")
            sql("delete from net._http_response where timed_out")
            assert set(fires(sql, 60)) == {("cron_failing", "job 3")}

    def test_every_gauge_that_is_read_is_one_a_rule_may_name(self, sql: Contract) -> None:
        sql.create()
        sql("select redrive.acquire_lease('reindex', 60)")
        sql("select redrive.declare_sinks(array['ops'], array['webhook'])")
        sql("select redrive.receive_event('stripe', 'evt_1', 'paid', '{}', '{}', '{}', 'jobs')")
        read = set(sql.column("select gauge from redrive._readings()"))
        known = set(sql.column("select gauge from redrive._gauge_names()"))
        assert read <= known
        assert known - read == {"schedule_lag_sec", "cron_failed", "net_failed"} - read | (
            {"retention_overdue_sec"} - read
        )
        assert set(sql.column("select gauge from redrive.rules()")) <= known


@newest_only
class TestSettingRules:
    def test_a_change_holds_until_it_is_reset(self, sql: Contract) -> None:
        said = sql.value(
            'select redrive.set_rule(\'dead_letters\', \'{"threshold": 5, "severity": "info"}\')'
        )
        assert (said["threshold"], said["severity"], said["gauge"]) == (5, "info", "dead")
        [rule] = sql("select * from redrive.rules() where changed is not null")
        assert (rule.name, rule.builtin, rule.changed) == (
            "dead_letters",
            True,
            {"threshold": 5, "severity": "info"},
        )
        assert sql.value("select redrive.reset_rule('dead_letters')") is True
        assert sql.value("select redrive.reset_rule('dead_letters')") is False
        assert sql("select * from redrive.rules() where changed is not null") == []

    def test_a_clear_at_that_no_longer_fits_goes(self, sql: Contract) -> None:
        said = sql.value("select redrive.set_rule('oldest_ready', '{\"threshold\": 60}')")
        assert said["clear_at"] is None
        assert sql.value("select redrive.set_rule('oldest_ready', '{\"clear_at\": 30}')")["clear_at"] == 30

    def test_one_of_our_own_comes_and_goes(self, sql: Contract) -> None:
        said = sql.value('select redrive.set_rule(\'big\', \'{"gauge": "archive_bytes", "threshold": 1e9}\')')
        assert (said["operator"], said["for_sec"], said["remind_sec"], said["builtin"]) == (
            ">",
            0,
            14400,
            False,
        )
        assert sql.value("select redrive.drop_rule('big')") is True
        with pytest.raises(psycopg.Error, match="rule big is unknown"):
            sql("select redrive.drop_rule('big')")

    @pytest.mark.parametrize(
        ("call", "said"),
        [
            (
                "set_rule('big', '{\"threshold\": 1}')",
                "rule big is not there yet; a new rule needs at least gauge",
            ),
            ("set_rule('Big one', '{}')", "rule name 'Big one' is refused"),
            ("set_rule('test', '{}')", "and not test"),
            ("set_rule(null, '{}')", "rule name null is refused"),
            ("set_rule('parked', null)", "rule fields must be a JSON object"),
            ("set_rule('parked', '{}')", "with at least one field"),
            ("set_rule('parked', '[1]')", "rule fields must be a JSON object"),
            ("set_rule('parked', '{\"limit\": 1}')", "rule field limit is unknown; the fields are gauge, "),
            (
                "set_rule('parked', '{\"threshold\": \"1\"}')",
                'rule field threshold is "1"; it must be a number',
            ),
            ("set_rule('parked', '{\"threshold\": null}')", "threshold is null; it must be a number"),
            ("set_rule('parked', '{\"for_sec\": -1}')", "for_sec is -1; it must be seconds, a year at most"),
            ("set_rule('parked', '{\"remind_sec\": 0}')", "or null for no reminder"),
            ("set_rule('parked', '{\"operator\": \"=\"}')", 'operator is "="; it must be one of'),
            ("set_rule('parked', '{\"severity\": \"bad\"}')", 'severity is "bad"; it must be one of'),
            (
                "set_rule('parked', '{\"gauge\": \"depth\"}')",
                'gauge "depth" is unknown; the gauges are archive_bytes, ',
            ),
            ("set_rule('parked', '{\"enabled\": 1}')", "enabled is 1; it must be true or false"),
            ("set_rule('parked', '{\"summary\": \"\"}')", "a text of 1 to 500 characters"),
            ("set_rule('parked', '{\"clear_at\": 2}')", "on the quiet side of the threshold"),
            ("reset_rule('mine')", "rule mine is unknown; the rules are alerts_undelivered, "),
            ("drop_rule('parked')", "rule parked comes with redrive; turn it off instead"),
        ],
    )
    def test_what_cannot_be_is_refused_and_changes_nothing(self, sql: Contract, call: str, said: str) -> None:
        with pytest.raises(psycopg.Error, match=said):
            sql(f"select redrive.{call}")
        assert sql("select * from redrive.rules() where changed is not null") == []
