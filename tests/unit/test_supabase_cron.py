"""Which jobs pg_cron gets for an app, when they run, and what they ask Vault for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from redrive import Redrive
from redrive.supabase import cron, vault
from redrive.supabase.cron import CronJob
from redrive.supabase.plan import Options


@pytest.fixture
def app() -> Redrive:
    made = Redrive("postgresql://nowhere/none")

    @made.job("email_jobs")
    async def email(payload: Any) -> None: ...

    made.inbox("fastpix", provider="fastpix", secret="c2VjcmV0c2VjcmV0c2VjcmV0", queue="webhook_jobs")
    return made


def named(app: Redrive, **options: Any) -> dict[str, CronJob]:
    return {job.name: job for job in cron.jobs(app, Options(**options))}


def schedules(when: Any, **more: Any) -> tuple[tuple[str, ...], str]:
    """When the job of a schedule runs, and why each minute."""
    app = Redrive("postgresql://nowhere/none")
    register: Callable[..., Any] = app.schedule(when, name="it", **more)

    @register
    async def _() -> None: ...

    job = named(app)["redrive schedule it"]
    return job.schedules, job.why


class TestJobs:
    def test_drain_each_queue_and_check_and_delete_each_minute(self, app: Redrive) -> None:
        made = named(app)
        assert list(made) == [
            "redrive drain email_jobs",
            "redrive drain webhook_jobs",
            "redrive health",
            "redrive retention",
        ]
        assert [made[f"redrive {each}"].schedules for each in ("health", "retention")] == [("* * * * *",)] * 2

    def test_call_nobody_where_a_worker_is_resident(self, app: Redrive) -> None:
        assert list(named(app, worker="resident")) == ["redrive health", "redrive retention"]

    def test_call_the_tick_for_less_than_lies_between_two_of_them(self, app: Redrive) -> None:
        job = named(app)["redrive drain email_jobs"]
        assert job.schedules == ("10 seconds", "* * * * *")
        assert job.commands[0] == (
            "select redrive.post_tick(p_queue => 'email_jobs', p_url_secret => 'redrive_url', p_path => "
            "'/tick/email_jobs?budget=8', p_key_secret => 'redrive_tick_secret', p_timeout => 13)"
        )
        assert "budget=30" in job.commands[1], "each minute there is more time"

    @pytest.mark.parametrize(
        ("interval", "when", "budget"),
        [
            (1, ("1 second", "* * * * *"), 1),
            (2, ("2 seconds", "* * * * *"), 1),
            (59, ("59 seconds", "* * * * *"), 30),
            (60, ("* * * * *",), 30),
            (300, ("*/5 * * * *",), 30),
        ],
    )
    def test_call_as_often_as_asked_for(
        self, app: Redrive, interval: int, when: tuple[str, ...], budget: int
    ) -> None:
        job = named(app, interval=interval)["redrive drain email_jobs"]
        assert job.schedules == when
        assert f"budget={budget}'" in job.commands[0]

    def test_call_the_edge_function_with_the_articles_names(self, app: Redrive) -> None:
        made = named(app, worker="edge")
        assert made["redrive drain email_jobs"].asks == ("project_url", "service_role_key")
        assert made["redrive drain webhook_jobs"].asks == (
            "fastpix_functions_url",
            "fastpix_service_role_key",
        )
        [command] = made["redrive drain webhook_jobs"].commands
        assert "p_path => '/functions/v1/redrive-worker'" in command

    def test_ask_for_the_names_that_were_given(self, app: Redrive) -> None:
        made = named(app, worker="edge", url_secret="u", key_secret="k")
        assert {job.asks for job in made.values() if job.asks} == {("u", "k")}


class TestSchedules:
    @pytest.mark.parametrize(
        ("when", "expected"),
        [
            ("* * * * *", ("* * * * *",)),
            ("0 3 * * *", ("0 3 * * *", "* * * * *")),
            ("*/5 1-3,22 1-7/2 JAN,jul mon-fri", ("*/5 1-3,22 1-7/2 1,7 1-5", "* * * * *")),
            ("0 0 L * *", ("0 0 $ * *", "* * * * *")),
            (1, ("1 second", "* * * * *")),
            (7.5, ("7 seconds", "* * * * *")),
            (59, ("59 seconds", "* * * * *")),
            (60, ("* * * * *",)),
            (300, ("*/5 * * * *",)),
            (3600, ("0 * * * *",)),
            (6 * 3600, ("0 */6 * * *",)),
            (86400, ("0 0 * * *",)),
        ],
    )
    def test_are_fired_when_pg_cron_can_say_it(self, when: Any, expected: tuple[str, ...]) -> None:
        assert schedules(when) == (expected, "")

    @pytest.mark.parametrize(
        ("when", "more", "why"),
        [
            ("0 3 * * *", {"tz": "Europe/Berlin"}, "pg_cron does not know Europe/Berlin"),
            ("5/10 * * * *", {}, "5/10 * * * * is nothing that pg_cron can say"),
            ("0 0 * * 5#3", {}, "0 0 * * 5#3 is nothing that pg_cron can say"),
            ("0 0 L,15 * *", {}, "0 0 L,15 * * is nothing that pg_cron can say"),
            (90, {}, "every 90 s is nothing that pg_cron can say"),
            (7 * 60, {}, "every 420 s is nothing that pg_cron can say"),
            (7 * 3600, {}, "every 25200 s is nothing that pg_cron can say"),
            (2 * 86400, {}, "every 172800 s is nothing that pg_cron can say"),
            ("0 3 * * *", {"overlap": "queue"}, "a tick may wait for the end of the one before"),
        ],
    )
    def test_are_looked_for_each_minute_otherwise(self, when: Any, more: dict[str, Any], why: str) -> None:
        assert schedules(when, **more) == (("* * * * *",), why)

    def test_a_zone_that_is_utc_by_another_name_is_no_other(self) -> None:
        assert schedules("0 3 * * *", tz="Etc/UTC")[1] == ""

    def test_a_name_with_quotes_stays_one(self) -> None:
        app = Redrive("postgresql://nowhere/none")

        @app.schedule(60, name="it's \\ odd")
        async def _() -> None: ...

        job = named(app)["redrive schedule it's \\ odd"]
        assert job.commands == ("select redrive.cron_tick($file$it's \\ odd$file$)",)


class TestSection:
    def test_names_what_it_makes_and_how_to_check_it(self, app: Redrive) -> None:
        made = cron.section(app, Options())
        assert made.objects[0] == "cron job redrive drain email_jobs"
        assert len(made.checks) == len(made.objects) + 3

    def test_needs_neither_pg_net_nor_vault_without_calls(self, app: Redrive) -> None:
        text = cron.section(app, Options(worker="resident")).sql
        assert "create extension if not exists pg_cron with schema pg_catalog;" in text
        assert "pg_net" not in text and "supabase_vault" not in text

    def test_says_which_jobs_look_each_minute(self, app: Redrive) -> None:
        @app.schedule("0 3 * * *", tz="Europe/Berlin")
        async def nightly() -> None: ...

        assert (
            "-- Job redrive schedule nightly runs each minute, and fires what is due: pg_cron does not know "
            "Europe/Berlin\n" in cron.section(app, Options()).sql
        )


class TestExtensions:
    def test_are_made_in_a_schema_that_is_named(self, app: Redrive) -> None:
        sql = cron.section(app, Options()).sql
        made = re.findall(r"create extension if not exists (\w+)( with schema \w+| cascade)?;", sql)
        assert ("pg_cron", " with schema pg_catalog") in made
        assert all(where for _, where in made)


class TestVault:
    def test_has_to_hold_what_the_jobs_ask_for(self, app: Redrive) -> None:
        found = vault.names(app, Options())
        assert [each.name for each in found] == ["redrive_url", "redrive_tick_secret", "alerts_webhook"]
        assert found[0].jobs == ("redrive drain email_jobs", "redrive drain webhook_jobs")
        assert str(found[2]).endswith("(may be left out)")

    def test_has_to_hold_the_articles_names_for_an_edge_function(self, app: Redrive) -> None:
        assert [each.name for each in vault.names(app, Options(worker="edge"))] == [
            "project_url",
            "service_role_key",
            "fastpix_functions_url",
            "fastpix_service_role_key",
            "alerts_webhook",
        ]

    def test_has_to_hold_nothing_for_a_resident_worker(self, app: Redrive) -> None:
        assert [each.name for each in vault.names(app, Options(worker="resident"))] == ["alerts_webhook"]
