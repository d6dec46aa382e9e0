"""The doctor at redrive's own jobs of pg_cron, on Supabase's stand-ins."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from redrive import Redrive
from redrive.supabase import cron
from redrive.supabase.plan import Options
from tests.support.examining import Doctor


@pytest.fixture
def project(supabase: Doctor) -> Generator[Doctor]:
    """The jobs of an app with a queue and a schedule, and what they ask Vault for."""
    app = Redrive("postgresql://nowhere/none")

    @app.job("jobs")
    async def job(payload: object) -> None: ...

    @app.schedule(60, name="it's")
    async def tidy() -> None: ...

    supabase.sql("select redrive.create_queue('jobs')")
    supabase.db.execute(cron.section(app, Options()).sql.encode())
    supabase.sql("select vault.create_secret('https://x.example', 'redrive_url')")
    supabase.sql("select vault.create_secret('abc', 'redrive_tick_secret')")
    yield supabase
    supabase.sql("delete from cron.job")
    supabase.sql("delete from vault.secrets")


def test_what_init_makes_is_fine(project: Doctor) -> None:
    for name in ("own_jobs", "vault_names", "vault_values", "cron_inactive"):
        assert project.is_fine(name)


def test_a_secret_that_a_job_asks_for_and_vault_does_not_have(project: Doctor) -> None:
    project.sql("delete from vault.secrets where name = 'redrive_tick_secret'")
    found = project.all("vault_names")
    assert [each.subject for each in found] == ["redrive drain jobs", "redrive drain schedules"]
    assert found[0].problem == (
        "pg_cron's job redrive drain jobs asks Vault for 'redrive_tick_secret', which is not there: each "
        "of its runs fails"
    )
    assert found[0].fix == ("redrive supabase secrets set redrive_tick_secret",)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("http://localhost:54321/functions/v1", "is a URL with localhost: from pg_net that is the container"),
        ("https://127.0.0.1", "host.docker.internal"),
        ("http://[::1]:8000", "is a URL with localhost"),
        (" ", "Vault's secret redrive_url is empty"),
    ],
)
def test_a_secret_that_will_not_do(project: Doctor, value: str, said: str) -> None:
    project.sql("select vault.update_secret(id, %s) from vault.secrets where name = 'redrive_url'", value)
    found = project.one("vault_values")
    assert said in found.problem
    assert (found.severity, found.fix) == ("error", ("redrive supabase secrets set redrive_url",))


def test_a_webhook_for_alerts_at_localhost(project: Doctor) -> None:
    project.sql("select vault.create_secret('http://localhost/hook', 'alerts_webhook')")
    assert project.one("vault_values").subject == "alerts_webhook"


def test_a_job_of_another_role(project: Doctor) -> None:
    project.sql("update cron.job set username = 'service_role' where jobname = 'redrive health'")
    found = project.one("own_jobs")
    assert "pg_cron's job redrive health is run by role service_role" in found.problem


def test_a_job_that_is_switched_off(project: Doctor) -> None:
    project.sql("update cron.job set active = false where jobname = 'redrive health'")
    found = project.one("own_jobs")
    assert found.problem == "pg_cron's job redrive health is not active: it does not run"
    assert project.is_fine("cron_inactive")
    project.sql(found.fix[0])
    assert project.is_fine("own_jobs")


@pytest.mark.parametrize(
    ("job", "command"),
    [
        ("drain jobs", "select redrive.post_tick(p_queue => 'others')"),
        ("schedule it's", "select redrive.cron_tick('another')"),
        ("health", "select 1"),
        ("retention", "select redrive.check_queue_health()"),
    ],
)
def test_a_job_with_another_command(project: Doctor, job: str, command: str) -> None:
    project.sql("update cron.job set command = %s where jobname = %s", command, f"redrive {job}")
    found = project.one("own_jobs")
    assert found.problem == f"pg_cron's job redrive {job} runs another command than its name says"


def test_a_job_of_another_database_is_its_own_affair(project: Doctor) -> None:
    project.sql("update cron.job set database = 'another', active = false, username = 'anon'")
    assert project.is_fine("own_jobs")
