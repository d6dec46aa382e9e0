"""The real pg_cron, 1.4.2 as Debian has it, fires a project's jobs as the project's own role.

One minute of one server for all of it. Vault and pg_net are stand-ins: calls are recorded, and not sent.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.store.database import Database
from redrive.supabase import cron, queues
from redrive.supabase.plan import Options
from redrive.watch.retention import Retention
from redrive.watch.scheduler import Scheduler
from tests.support.project import OWNER, Project, Projects
from tests.support.server import Server

_KEY = "thekey-3fd81c"
# A minute, and what a busy machine takes on top.
_WITHIN = 150.0
# As Supabase's event trigger leaves it to the project's role.
_PG_CRON = f"""
drop schema cron cascade;
create extension pg_cron;
grant usage on schema cron to {OWNER} with grant option;
grant all privileges on all tables in schema cron to {OWNER} with grant option;
revoke all on table cron.job from {OWNER};
grant select on table cron.job to {OWNER} with grant option;
"""
_OLD_RUNS = f"""
insert into cron.job_run_details (jobid, runid, username, database, status, start_time, end_time)
select j.jobid, nextval('cron.runid_seq'), '{OWNER}', current_database(), 'succeeded', d.at, d.at
  from cron.job j, (values (now() - interval '8 days'), (now() - interval '6 days')) d(at)
 where j.jobname = 'redrive health'
"""


def declared() -> Redrive:
    app = Redrive("postgresql://nowhere/none")

    @app.job("email_jobs")
    async def email(payload: Any) -> None: ...

    @app.schedule("* * * * *")
    async def each_minute() -> None: ...

    @app.schedule("0 3 L * *", tz="Europe/Berlin")
    async def at_night() -> None: ...

    return app


@dataclass(frozen=True)
class Fired:
    """A project after its jobs ran once; `log` is the server's."""

    project: Project
    log: str
    sections: str

    def rows(self, query: str) -> list[Any]:
        return self.project.read(query)

    def run(self, job: str) -> Any:
        """Its newest run."""
        return self.rows(
            "select d.* from cron.job_run_details d join cron.job j using (jobid) "
            f"where j.jobname = '{job}' and d.status in ('succeeded', 'failed') order by runid desc limit 1"
        )[0]


Checked = Callable[[Fired], None]
CHECKS: list[Checked] = []


def checks(check: Checked) -> Checked:
    """One test for all of them: tests may run on several servers, and each would wait for its minute."""
    CHECKS.append(check)
    return check


def test_pg_cron_does_what_a_migration_asks_of_it(fired: Fired, subtests: pytest.Subtests) -> None:
    for check in CHECKS:
        with subtests.test(check.__name__):
            check(fired)


@pytest.fixture
def fired(binaries: Path | None) -> Generator[Fired]:
    if binaries is None or not (binaries.parent / "lib" / "pg_cron.so").exists():
        pytest.skip("pg_cron is not here; scripts/apt-install brings postgresql-15-cron")
    server = Server(binaries=binaries)
    try:
        server.start()
        projects = Projects(server)
        project = projects.make(migrated=True)
        projects.close()
        for setting in ("shared_preload_libraries = 'pg_cron'", f"cron.database_name = '{project.name}'"):
            project.read(f"alter system set {setting}", role="postgres")
            server.pause()
            server.resume()
        with project.admin() as admin:
            admin.execute(_PG_CRON)
        sections = prepare(project)
        project.read(_OLD_RUNS, role="postgres")
        asyncio.run(beside(project))
        yield Fired(project, server.log(), sections)
    finally:
        server.stop()


def prepare(project: Project) -> str:
    """What a migration does for the app, and one job more whose key Vault does not have."""
    app = declared()
    schedules = queues.schedules(app)
    assert schedules is not None
    sections = "\n".join(each.sql for each in (queues.section(app), schedules, cron.section(app, Options())))
    [lacking] = [job for job in cron.jobs(app, Options(key_secret="gone")) if job.name.endswith("email_jobs")]
    with project.connect() as owner:
        owner.execute(sections.encode())
        owner.execute("select vault.create_secret('https://tick.example', 'redrive_url')")
        owner.execute("select vault.create_secret(%s, 'redrive_tick_secret')", [_KEY])
        owner.execute(
            "select redrive.put_cron_job('redrive drain lacking', %s, %s)",
            [list(lacking.schedules), list(lacking.commands)],
        )
    return sections


async def beside(project: Project) -> None:
    """A worker's own loops for schedules and retention, until pg_cron has run each job."""
    database = Database(project.url)
    scheduler, retention = Scheduler(database, declared().schedules), Retention(database)
    await scheduler.start()
    await retention.start()
    deadline = time.monotonic() + _WITHIN
    try:
        while project.read(
            "select 1 from cron.job j where not exists (select from cron.job_run_details d "
            "where d.jobid = j.jobid and d.status in ('succeeded', 'failed') "
            "and d.end_time > now() - interval '1 hour')"
        ):
            assert time.monotonic() < deadline, "pg_cron has not run every job"
            await asyncio.sleep(0.5)
    finally:
        await scheduler.stop()
        await retention.stop()
        await database.close()


@checks
def each_job_runs_as_the_projects_own_role(fired: Fired) -> None:
    jobs = fired.rows("select jobname, schedule, username, active from cron.job order by 1")
    assert jobs == [
        (f"redrive {name}", "* * * * *", OWNER, True)
        for name in (
            "drain email_jobs",
            "drain lacking",
            "drain schedules",
            "health",
            "retention",
            "schedule at_night",
            "schedule each_minute",
        )
    ], "each minute, since this pg_cron knows no seconds"
    for job in jobs:
        run = fired.run(job.jobname)
        assert (run.username, run.status) == (
            OWNER,
            "failed" if "lacking" in job.jobname else "succeeded",
        ), run.return_message


@checks
def a_call_is_made_for_each_queue_with_the_time_of_a_minute(fired: Fired) -> None:
    calls = fired.rows("select url, headers from net.http_request_queue")
    assert {call.url for call in calls} == {
        "https://tick.example/tick/email_jobs?budget=30",
        "https://tick.example/tick/schedules?budget=30",
    }
    assert all(call.headers["Authorization"] == f"Bearer {_KEY}" for call in calls)
    kept = fired.rows("select queue from redrive.http_call group by 1 order by 1")
    assert kept == [("email_jobs",), ("schedules",)]


@checks
def a_secret_that_vault_does_not_have_is_an_alert_within_one_check(fired: Fired) -> None:
    assert "Vault has no secret gone" in fired.run("redrive drain lacking").return_message
    with fired.project.connect() as owner:
        owner.execute("select from redrive.check_queue_health()")
        alerts = owner.execute("select * from redrive.alerts() where rule = 'cron_failing'").fetchall()
    assert [(alert.subject, alert.state, alert.summary) for alert in alerts] == [
        (
            "redrive drain lacking",
            "firing",
            "The last run of pg_cron job redrive drain lacking failed: Vault has no secret gone; run: "
            "redrive supabase secrets set gone",
        )
    ]


@checks
def an_answer_of_401_is_an_alert_though_pg_cron_reports_success(fired: Fired) -> None:
    assert fired.run("redrive drain email_jobs").status == "succeeded"
    with fired.project.connect() as owner:
        owner.execute(
            "select standin.respond(max(request_id), 401) from redrive.http_call where queue = 'email_jobs'"
        )
        owner.execute("select from redrive.check_queue_health()")
        [alert] = owner.execute(
            "select state from redrive.alerts() where rule = 'tick_failing' and subject = 'email_jobs'"
        ).fetchall()
    assert alert.state == "firing"


@checks
def pg_cron_and_a_worker_send_one_message_a_tick(fired: Fired) -> None:
    ticks = [row[0] for row in fired.rows("select message ->> 'tick' from pgmq.q_schedules")]
    assert ticks and len(ticks) == len(set(ticks))
    sent = fired.rows("select outcome from redrive.schedule_ticks('each_minute') group by 1")
    assert sent == [("sent",)]


@checks
def no_schedule_lags(fired: Fired) -> None:
    assert fired.rows("select name from redrive.schedules() where lag_sec > 30") == []


@checks
def health_is_checked(fired: Fired) -> None:
    [state] = fired.rows("select * from redrive.watch_state()")
    assert state.problems == []


@checks
def what_pg_cron_noted_of_our_jobs_is_deleted_after_a_week(fired: Fired) -> None:
    found = fired.rows("select start_time < now() - interval '5 days' as old from cron.job_run_details")
    assert [row.old for row in found].count(True) == 1


@checks
def no_secret_is_in_a_command_a_run_or_the_log(fired: Fired) -> None:
    for table in ("cron.job", "cron.job_run_details", "redrive.http_call"):
        assert (
            fired.rows(
                f"select 1 from {table} t where t::text like '%thekey-%' or t::text like '%tick.example%'"
            )
            == []
        )
    said = [line for line in fired.log.splitlines() if "vault.create_secret" not in line]
    assert "post_tick" in "\n".join(said)
    assert not [line for line in said if _KEY in line or "https://tick.example" in line]


@checks
def the_migration_again_touches_no_job(fired: Fired) -> None:
    jobs = "select j.*, j.xmin, j.ctid from cron.job j order by jobid"
    before = fired.rows(jobs)
    with fired.project.connect() as owner:
        owner.execute(fired.sections.encode())
    assert fired.rows(jobs) == before


@checks
def every_text_it_is_given_is_one_it_takes(fired: Fired) -> None:
    """What `cron` writes for what an app may declare, but for seconds and a month's last day."""
    texts = ("*/5 1-3,22 1-7/2 JAN,jul mon-fri", "0 0 * * 7", "59 23 31 12 *", "0 */6 1,15 * *")
    with fired.project.connect() as owner:
        for text in texts:
            written = cron.text_of(text)
            assert written is not None
            with owner.transaction(force_rollback=True):
                owner.execute("select cron.schedule('a text', %s, 'select 1')", [written])
