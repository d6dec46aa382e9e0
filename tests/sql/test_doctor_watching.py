"""The doctor on timeouts, workers, who watches, schedules, the inbox and Supabase's parts."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest

from redrive.inbox.inbox import Inbox
from redrive.watch.doctor import Surroundings
from tests.support.examining import Doctor


@pytest.fixture
def queue(doctor: Doctor) -> Generator[str]:
    doctor.sql("select redrive.create_queue('jobs')")
    yield "jobs"
    doctor.sql("select redrive.drop_queue('jobs')")
    doctor.sql("delete from redrive.webhook_event")


def ended(doctor: Doctor, jobs: int, seconds: float) -> None:
    """An archive in which so many jobs took so long."""
    doctor.sql(
        "insert into pgmq.a_jobs (msg_id, vt, message, archived_at, outcome, duration) "
        "select (select coalesce(max(msg_id), 0) from pgmq.a_jobs) + n, now(), '{}', now(), 'done', %s "
        "from generate_series(1, %s) n",
        seconds,
        jobs,
    )


def inbox(secret: str, provider: str = "standard-webhooks") -> Surroundings:
    made = Inbox.of(
        "shop",
        provider=provider,
        queue="jobs",
        secret=secret,
        limit=1000,
        tolerance=None,
        config=None,
        url=None,
        api=None,
    )
    return Surroundings(inboxes={"shop": made})


class TestTimeouts:
    def test_a_visibility_timeout_below_what_handlers_take(self, doctor: Doctor, queue: str) -> None:
        ended(doctor, 980, 2)
        assert doctor.is_fine("visibility_timeout")
        ended(doctor, 20, 90)
        found = doctor.one("visibility_timeout")
        assert found.severity == "note" and "heartbeats make up for it" in found.problem
        doctor.sql(
            "insert into redrive.attempt (queue, msg_id, read_ct, attempt, at, error_type) "
            "values ('jobs', 1, 1, 1, now(), 'crashed')"
        )
        found = doctor.one("visibility_timeout")
        assert found.severity == "warning" and "1 delivery within 7 days ended without a" in found.problem
        doctor.sql("select redrive.read_with_dlq('jobs')")
        found = doctor.one("visibility_timeout")
        assert found.severity == "warning" and "read_with_dlq, which works on it, has no" in found.problem
        assert (
            "1 in 100 of its newest 1,000 jobs took 90.0 s or more, and the visibility timeout is 60 s"
            in (found.problem)
        )
        assert "270 s would do, and a batch of at most 3 read one after the other" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("visibility_timeout")

    def test_only_the_newest_thousand_count(self, doctor: Doctor, queue: str) -> None:
        ended(doctor, 500, 90)
        doctor.sql("update pgmq.a_jobs set archived_at = now() - interval '1 day'")
        ended(doctor, 1000, 1)
        assert doctor.is_fine("visibility_timeout")

    def test_a_few_jobs_say_nothing(self, doctor: Doctor, queue: str) -> None:
        ended(doctor, 10, 90)
        assert doctor.is_fine("visibility_timeout") and doctor.is_fine("handler_timeout")

    def test_a_time_limit_that_handlers_run_into(self, doctor: Doctor, queue: str) -> None:
        doctor.command("queue", "policy", "jobs", "--set", "timeout=20")
        ended(doctor, 100, 19.5)
        found = doctor.one("handler_timeout")
        assert "the time limit (timeout) is 20 s: such jobs are cancelled" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("handler_timeout")


class TestWorkers:
    def test_a_queue_that_nobody_works_on(self, doctor: Doctor, queue: str) -> None:
        assert doctor.is_fine("workers")
        doctor.sql("select redrive.send('jobs', '{}', p_delay => 3600)")
        assert doctor.is_fine("workers")
        doctor.sql("select redrive.send('jobs', '{}') from generate_series(1, 3)")
        found = doctor.one("workers")
        assert found.problem == "queue jobs: 3 ready, and no worker was ever seen"
        assert found.fix == ("redrive worker --app MODULE:ATTR --queue jobs",)
        doctor.sql(
            "insert into redrive.worker (queue, worker, started_at, last_seen) "
            "values ('jobs', 'w', now(), now() - interval '5 minutes')"
        )
        assert "3 ready, and no worker was seen for 300 s" in doctor.one("workers").problem
        doctor.sql("update redrive.worker set last_seen = now()")
        assert doctor.is_fine("workers")


class TestWatching:
    def test_health_that_nobody_checks(self, doctor: Doctor) -> None:
        doctor.sql("update redrive.watch set checked_at = null")
        found = doctor.one("watcher")
        assert "the health of the queues was never checked" in found.problem and found.severity == "error"
        doctor.sql("select redrive.check_queue_health()")
        assert doctor.is_fine("watcher")
        doctor.sql("update redrive.watch set checked_at = now() - interval '10 minutes'")
        assert "was checked last 10 minutes ago" in doctor.one("watcher").problem
        doctor.sql("update redrive.watch set checked_at = now() + interval '1 day'")
        assert "by a clock that was 1,4" in doctor.one("watcher").problem
        doctor.sql(
            "update redrive.watch set checked_at = now(), "
            """problems = '[{"gauge": "dead", "problem": "x"}]'"""
        )
        assert (
            "could not read everything, and its rules saw nothing there: dead (x)"
            in doctor.one("watcher").problem
        )
        doctor.sql("select redrive.check_queue_health()")
        doctor.sql("select redrive.check_queue_health(900)")
        doctor.sql("update redrive.watch set checked_at = now() - interval '29 minutes'")
        assert doctor.is_fine("watcher")
        doctor.sql("update redrive.watch set checked_at = now() - interval '31 minutes'")
        assert "was checked last 31 minutes ago" in doctor.one("watcher").problem
        doctor.sql("delete from redrive.lease")

    def test_alerts_with_nowhere_to_go(self, doctor: Doctor) -> None:
        found = doctor.one("alert_sinks")
        assert "no process has told of a place to send alerts to" in found.problem
        doctor.sql("select redrive.declare_sinks(array['team'], array['slack'])")
        assert doctor.is_fine("alert_sinks")
        doctor.sql("update redrive.alert_sink set seen_at = now() - interval '20 minutes'")
        assert "no process has had the alert sink team for 20 minutes" in doctor.one("alert_sinks").problem
        doctor.sql("delete from redrive.alert_sink")

    def test_alerts_that_do_not_arrive(self, doctor: Doctor) -> None:
        doctor.sql("select redrive.declare_sinks(array['team'], array['slack'])")
        doctor.sql("select redrive.test_alert('team')")
        assert doctor.is_fine("alert_deliveries")
        doctor.sql("update redrive.alert_delivery set attempts = 3, error = 'HTTP 500'")
        found = doctor.one("alert_deliveries")
        assert found.problem == "sink team: 1 alert undelivered (0 given up), after up to 3 tries: HTTP 500"
        doctor.sql("delete from redrive.alert_delivery")
        doctor.sql("delete from redrive.alert_sink")


class TestSchedules:
    @pytest.fixture
    def schedule(self, doctor: Doctor) -> Generator[str]:
        doctor.sql(
            """select redrive.declare_schedules('[{"name": "nightly", "queue": "jobs", "cron": "0 3 * * *",
                   "tz": "UTC", "missed": "one", "overlap": "allow"}]')"""
        )
        yield "nightly"
        doctor.sql("delete from redrive.schedule")

    def test_one_that_is_due_and_that_nobody_runs(self, doctor: Doctor, schedule: str) -> None:
        assert doctor.is_fine("schedules")
        doctor.sql("update redrive.schedule set next_at = now() - interval '10 minutes'")
        found = doctor.one("schedules")
        assert "schedule nightly has been due for 600 s and nobody ran it" in found.problem
        assert "(it never ran)" in found.problem

    def test_one_that_no_process_looks_after(self, doctor: Doctor, schedule: str) -> None:
        doctor.sql("update redrive.schedule set seen_at = now() - interval '1 hour'")
        assert "no process that declares it has looked for 60 minutes" in doctor.one("schedules").problem

    def test_one_that_is_paused(self, doctor: Doctor, schedule: str) -> None:
        doctor.sql("select redrive.pause_schedule('nightly')")
        found = doctor.one("schedules")
        assert (found.severity, found.problem) == ("note", "schedule nightly is paused")
        doctor.follow(found)
        assert doctor.is_fine("schedules")


class TestTheInbox:
    def test_secrets_that_cannot_be_right(self, doctor: Doctor) -> None:
        assert doctor.one("inbox_secrets").severity == "not checked"
        found = doctor.one("inbox_secrets", around=inbox(""))
        assert found.problem.startswith("inbox shop would not start: secret of inbox 'shop' is empty")
        found = doctor.one("inbox_secrets", around=inbox("whsec_hush!"))
        assert "secret of inbox 'shop' is not base64" in found.problem and "hush" not in found.problem
        assert doctor.is_fine("inbox_secrets", around=inbox("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))

    def test_events_whose_job_somebody_deleted(self, doctor: Doctor, queue: str) -> None:
        event(doctor, 1)
        found = doctor.one("events_without_job")
        assert "1 event of shop recorded and not handled, and no job in queue jobs will" in found.problem
        doctor.follow(found, received="received --yes")
        assert doctor.is_fine("events_without_job")

    def test_events_of_a_queue_that_is_gone(self, doctor: Doctor) -> None:
        event(doctor, 1, queue="other")
        found = doctor.one("events_without_job")
        assert found.problem == "events of shop wait in queue other, which does not exist"
        doctor.follow(found)
        assert "no job in queue other" in doctor.one("events_without_job").problem
        doctor.sql("delete from redrive.webhook_event")
        doctor.sql("select redrive.drop_queue('other')")


def event(doctor: Doctor, msg_id: int, queue: str = "jobs") -> None:
    """An event that was recorded, and whose message is not there."""
    doctor.sql(
        "insert into redrive.webhook_event (source, event_id, type, received_at, payload, raw, headers, "
        "msg_id, queue) "
        "values ('shop', 'evt_1', 'order.paid', now(), '{}', '{}', '[]', %s, %s)",
        msg_id,
        queue,
    )


class TestSupabase:
    def test_what_is_not_there_is_not_checked(self, doctor: Doctor) -> None:
        for name in ("cron_failing", "cron_stalled", "cron_inactive", "net_failing", "vault_names"):
            assert doctor.one(name).problem.endswith("is not installed in this database")

    def test_a_cron_job_that_failed(self, supabase: Doctor) -> None:
        supabase.sql("select cron.schedule('purge', '0 3 * * *', 'select 1/0')")
        assert supabase.is_fine("cron_failing")
        supabase.sql("select standin.run_job('purge')")
        found = supabase.one("cron_failing")
        assert "pg_cron's job purge failed when it last ran" in found.problem
        assert "division by zero" in found.problem
        supabase.follow(found)
        supabase.sql("select cron.schedule('purge', '0 3 * * *', 'select 1')")
        supabase.sql("select standin.run_job('purge')")
        assert supabase.is_fine("cron_failing")

    @pytest.mark.parametrize("schedule", ["* * * * *", "*/2 * * * *", "30 seconds"])
    def test_a_pg_cron_that_has_stopped(self, supabase: Doctor, schedule: str) -> None:
        supabase.sql("select cron.schedule('tick', %s, 'select 1')", schedule)
        supabase.sql("select standin.run_job('tick')")
        assert supabase.is_fine("cron_stalled")
        supabase.sql("update cron.job_run_details set start_time = now() - interval '30 minutes'")
        found = supabase.one("cron_stalled")
        assert f"pg_cron's job tick ({schedule}) has not run since " in found.problem
        supabase.follow(found)
        supabase.sql("select cron.unschedule('tick')")

    def test_a_cron_job_is_judged_by_its_own_schedule(self, supabase: Doctor) -> None:
        supabase.sql("select cron.schedule('hourly', '7 * * * *', 'select 1')")
        found = supabase.one("cron_stalled")
        assert found.severity == "note" and "no run is on record" in found.problem
        supabase.sql("select standin.run_job('hourly')")
        assert supabase.is_fine("cron_stalled")
        supabase.sql("update cron.job_run_details set start_time = now() - interval '59 minutes'")
        assert supabase.is_fine("cron_stalled")
        supabase.sql("update cron.job_run_details set start_time = now() - interval '130 minutes'")
        assert re.search(
            r"hourly \(7 \* .*, and was due at [-0-9]+ \d\d:07:00Z", supabase.one("cron_stalled").problem
        )
        supabase.sql("update cron.job set schedule = 'whenever' where jobname = 'hourly'")
        assert "cannot be read" in supabase.one("cron_stalled").problem
        supabase.sql("select cron.unschedule('hourly')")

    def test_a_run_that_never_ended_takes_no_other_check_with_it(self, supabase: Doctor) -> None:
        supabase.sql("select cron.schedule('cut', '0 3 * * *', 'select 1/0')")
        supabase.sql("select standin.run_job('cut')")
        supabase.sql("update cron.job_run_details set end_time = null")
        assert "cut failed when it last ran (2" in supabase.one("cron_failing").problem
        supabase.sql("update cron.job_run_details set start_time = null")
        assert "cut failed when it last ran: ERROR: division" in supabase.one("cron_failing").problem
        supabase.sql("update cron.job_run_details set start_time = 'infinity'")
        assert "the answer cannot be read" in supabase.one("cron_failing").problem
        supabase.sql("select cron.unschedule('cut')")
        supabase.sql("delete from cron.job_run_details")

    def test_a_cron_job_that_is_switched_off(self, supabase: Doctor) -> None:
        supabase.sql("select cron.schedule('purge', '0 3 * * *', 'select 1')")
        supabase.sql("update cron.job set active = false")
        found = supabase.one("cron_inactive")
        assert (found.severity, found.problem) == (
            "note",
            "pg_cron's job purge is not active: it does not run",
        )
        supabase.follow(found)
        assert supabase.is_fine("cron_inactive")

    def test_calls_of_pg_net_that_fail(self, supabase: Doctor) -> None:
        for _ in range(2):
            supabase.sql("select net.http_post('https://hooks.example/x')")
        supabase.sql("select standin.respond(1, 200)")
        assert supabase.is_fine("net_failing")
        supabase.sql("select standin.respond(2, null, error_msg => 'Couldn''t resolve host name')")
        found = supabase.one("net_failing")
        assert found.problem == (
            "1 of 2 calls of pg_net failed within 15 minutes; the newest: Couldn't resolve host name"
        )
        supabase.follow(found)

    def test_a_name_that_vault_does_not_have(self, supabase: Doctor) -> None:
        command = (
            "select net.http_post(url := (select decrypted_secret from vault.decrypted_secrets "
            "where name = 'project_url') || '/functions/v1/work')"
        )
        supabase.sql("select cron.schedule('call', '10 seconds', %s)", command)
        found = supabase.one("vault_names")
        assert "pg_cron's job call asks Vault for 'project_url', which is not there" in found.problem
        supabase.follow(found, SECRET="https://abc.supabase.co")
        assert supabase.is_fine("vault_names")
