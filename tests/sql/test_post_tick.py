"""What pg_cron's jobs do on Supabase: call whoever works a queue, and let nothing fail in silence.

On stand-ins: pg_cron's jobs are run by hand, pg_net records what it would send.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from tests.sql.conftest import SUPABASE, SUPABASE_ROLES
from tests.support import contract
from tests.support.contract import Contract
from tests.support.databases import Databases
from tests.support.layouts import NEWEST

_URL = "https://ref.supabase.co"
_KEY = "thekey-3fd81c"
_CALL = (
    "select redrive.post_tick(p_queue => 'jobs', p_url_secret => 'project_url', p_path => '{path}',"
    " p_key_secret => 'tick_key', p_timeout => 15)"
)
_JOB = "redrive drain jobs"


@pytest.fixture(scope="module")
def place(databases: Databases) -> Generator[Contract]:
    url = databases.migrated(NEWEST)
    contract.prepare(url)
    made = Contract(url)
    made("\n".join(line for line in SUPABASE.read_text().splitlines() if not line.startswith("\\")))
    yield made
    made.close()
    databases.drop(url)
    databases.drop_roles(*SUPABASE_ROLES)


@pytest.fixture
def sql(place: Contract) -> Generator[Contract]:
    """Queue jobs, and Vault as it should be."""
    place.create()
    put(place, project_url=_URL, tick_key=_KEY)
    yield place
    place(
        "delete from vault.secrets; delete from net.http_request_queue; delete from net._http_response; "
        "delete from cron.job; delete from cron.job_run_details"
    )
    place.reset()


def put(sql: Contract, **secrets: str) -> None:
    for name, secret in secrets.items():
        sql("delete from vault.secrets where name = %s", name)
        sql("select vault.create_secret(%s, %s)", secret, name)


def post(sql: Contract, path: str = "/tick/jobs") -> int:
    return sql.value(_CALL.format(path=path))


def request(sql: Contract) -> Any:
    [found] = sql("select *, convert_from(body, 'UTF8') as said from net.http_request_queue")
    return found


def respond(sql: Contract, status: int | None, request_id: int | None = None, **more: Any) -> None:
    """What was answered to the newest call."""
    named = "".join(f", {name} => %s" for name in more)
    newest = sql.value("select max(id) from net.http_request_queue")
    sql(f"select standin.respond(%s, %s{named})", request_id or newest, status, *more.values())


def fires(sql: Contract, seconds: float = 0) -> dict[tuple[str, str], str]:
    """What fires after an evaluation, `seconds` later, with its summary."""
    if seconds:
        sql.clock.move(seconds)
    sql("select * from redrive.check_queue_health()")
    return {
        (row.rule, row.subject): row.summary
        for row in sql("select * from redrive.alerts() where state = 'firing'")
    }


class TestTheCall:
    def test_is_made_to_the_url_with_the_key_and_names_the_queue(self, sql: Contract) -> None:
        request_id = post(sql)
        made = request(sql)
        assert (made.id, made.method, made.url, made.timeout_milliseconds) == (
            request_id,
            "POST",
            f"{_URL}/tick/jobs",
            15000,
        )
        assert made.headers == {"Content-Type": "application/json", "Authorization": f"Bearer {_KEY}"}
        assert json.loads(made.said) == {"queue": "jobs"}
        [kept] = sql("select request_id, queue, timeout_sec from redrive.http_call")
        assert kept == (request_id, "jobs", 15)

    def test_gives_a_new_secret_key_in_its_own_header_alone(self, sql: Contract) -> None:
        put(sql, tick_key="sb_secret_abc")
        post(sql)
        assert request(sql).headers == {"Content-Type": "application/json", "apikey": "sb_secret_abc"}

    @pytest.mark.parametrize(
        ("url", "path", "called"),
        [
            (_URL, "/functions/v1/w", f"{_URL}/functions/v1/w"),
            (f"{_URL}/", "/functions/v1/w", f"{_URL}/functions/v1/w"),
            (f"{_URL}/functions/v1", "/functions/v1/w", f"{_URL}/functions/v1/w"),
            (f"{_URL}/functions/v1/", "/functions/v1/w", f"{_URL}/functions/v1/w"),
            (f" {_URL}\n", "/tick/jobs", f"{_URL}/tick/jobs"),
            (
                "http://host.docker.internal:8000/app",
                "/tick/jobs",
                "http://host.docker.internal:8000/app/tick/jobs",
            ),
        ],
    )
    def test_puts_the_path_behind_the_url(self, sql: Contract, url: str, path: str, called: str) -> None:
        put(sql, project_url=url)
        post(sql, path)
        assert request(sql).url == called

    @pytest.mark.parametrize(
        ("secrets", "said"),
        [
            (
                {"project_url": None},
                "Vault has no secret project_url; run: redrive supabase secrets set project_url",
            ),
            ({"tick_key": None}, "Vault has no secret tick_key"),
            ({"project_url": " "}, "Vault's secret project_url is empty"),
            ({"tick_key": "\n"}, "Vault's secret tick_key is empty"),
            (
                {"project_url": "ref.supabase.co/sensitive"},
                "project_url is no URL that a path can be put behind",
            ),
            ({"project_url": "https://sensitive/?x=1"}, "project_url is no URL"),
            ({"project_url": "https://a b/sensitive"}, "project_url is no URL"),
            ({"tick_key": "sensi tive"}, "Vault's secret tick_key cannot be sent as a key"),
            ({"tick_key": "sensitive\nX-Other: 1"}, "Vault's secret tick_key cannot be sent as a key"),
            ({"tick_key": "sensitiv\u00e9"}, "Vault's secret tick_key cannot be sent as a key"),
        ],
    )
    def test_is_not_made_with_what_is_missing_or_wrong_in_vault(
        self, sql: Contract, secrets: dict[str, str | None], said: str
    ) -> None:
        for name, secret in secrets.items():
            sql("delete from vault.secrets where name = %s", name)
            if secret is not None:
                put(sql, **{name: secret})
        with pytest.raises(psycopg.Error) as refused:
            post(sql)
        assert said in str(refused.value)
        assert "sensiti" not in str(refused.value)
        assert sql("select from net.http_request_queue") == sql("select from redrive.http_call") == []

    def test_says_nothing_secret_when_pg_net_refuses_it(self, sql: Contract) -> None:
        with sql.connection.transaction(force_rollback=True):
            sql(
                "create or replace function net.http_post(url text, body jsonb default '{}',"
                " params jsonb default '{}', headers jsonb default '{}', timeout_milliseconds integer"
                " default 5000) returns bigint language plpgsql"
                " as $$ begin raise exception 'bad URL %, headers %', url, headers; end $$"
            )
            with (
                pytest.raises(
                    psycopg.Error, match="pg_net refused the call for queue jobs: bad URL <url>"
                ) as refused,
                sql.connection.transaction(),
            ):
                post(sql)
            put(sql, tick_key='a"b\\c-sensitive')
            with pytest.raises(psycopg.Error, match="Bearer <key>") as quoted, sql.connection.transaction():
                post(sql)
        assert _KEY not in str(refused.value) and "ref.supabase" not in str(refused.value)
        assert "sensitive" not in str(quoted.value)

    @pytest.mark.parametrize(
        ("dropped", "said"),
        [
            (
                "net",
                "pg_net is not installed in this database, so nothing can be called from it; run: create "
                "extension pg_net",
            ),
            ("vault", "Vault is not installed in this database, so it has no secret project_url"),
        ],
    )
    def test_fails_where_an_extension_is_missing(self, sql: Contract, dropped: str, said: str) -> None:
        with sql.connection.transaction(force_rollback=True):
            sql(f"drop schema {dropped} cascade")
            with pytest.raises(psycopg.Error, match=said):
                post(sql)

    def test_is_refused_for_a_queue_that_there_is_not_and_for_odd_arguments(self, sql: Contract) -> None:
        for arguments, said in (
            ("'gone', 'project_url', '/x', 'tick_key'", "queue gone does not exist"),
            ("'jobs', 'project_url', 'x', 'tick_key'", "path 'x' is refused"),
            ("'jobs', 'project_url', null, 'tick_key'", "path NULL is refused"),
            ("'jobs', null, '/x', 'tick_key'", "name the secret of Vault"),
            ("'jobs', 'project_url', '/x', 'tick_key', 0", "timeout is 0"),
        ):
            with pytest.raises(psycopg.Error, match=said):
                sql(f"select redrive.post_tick({arguments})")

    def test_is_not_made_while_the_queue_is_paused(self, sql: Contract) -> None:
        sql("select redrive.pause_queue('jobs')")
        assert post(sql) is None
        assert sql("select from net.http_request_queue") == []

    def test_is_the_owners_alone(self, sql: Contract) -> None:
        sql("set role service_role")
        with pytest.raises(psycopg.Error, match="permission denied"):
            post(sql)
        sql("reset role")

    def test_keeps_the_newest_hundred_of_a_queue(self, sql: Contract) -> None:
        sql.create("others")
        sql("insert into redrive.http_call values (-1, 'others', now() - interval '1 hour', 60)")
        for _ in range(103):
            post(sql)
        [kept] = sql("select count(*), max(request_id) as newest from redrive.http_call where queue = 'jobs'")
        assert kept == (100, sql.value("select max(id) from net.http_request_queue"))
        assert sql.value("select count(*) from redrive.http_call") == 101

    def test_may_have_a_number_that_was_used_before_a_crash(self, sql: Contract) -> None:
        first = post(sql)
        sql("delete from net.http_request_queue")
        sql("select setval('net.http_request_queue_id_seq', %s, false)", first)
        assert post(sql) == first
        assert len(sql("select from redrive.http_call")) == 1


class TestItsAnswer:
    @pytest.fixture(autouse=True)
    def still(self, sql: Contract) -> None:
        sql.clock.stop()

    def test_that_refuses_fires_at_once_though_pg_cron_calls_it_a_success(self, sql: Contract) -> None:
        sql("select cron.schedule(%s, '10 seconds', %s)", _JOB, _CALL.format(path="/tick/jobs"))
        assert sql.value("select standin.run_job(%s)", _JOB) == "succeeded"
        respond(sql, 401)
        assert fires(sql) == {
            (
                "tick_failing",
                "jobs",
            ): "Job redrive drain jobs: pg_cron reports success, but its call failed 1 time "
            "in a row: answered 401."
        }
        [alert] = sql("select * from redrive.alerts()")
        assert (alert.severity, alert.command) == ("critical", "redrive supabase secrets")

    def test_that_is_good_ends_it(self, sql: Contract) -> None:
        post(sql)
        respond(sql, 404)
        assert ("tick_failing", "jobs") in fires(sql)
        sql.clock.move(10)
        post(sql)
        respond(sql, 200)
        assert fires(sql, 60) == {}

    def test_that_is_trouble_of_the_moment_fires_from_the_third_on(self, sql: Contract) -> None:
        for status, more in ((503, {}), (None, {"timed_out": True, "error_msg": "Timeout"})):
            post(sql)
            respond(sql, status, **more)
            assert fires(sql, 10) == {}
        post(sql)
        respond(sql, None, error_msg=f"Couldn't connect to server {_URL}")
        [summary] = fires(sql, 10).values()
        assert summary.endswith("its call failed 3 times in a row: Couldn't connect to server <url>.")

    def test_that_stays_trouble_for_five_minutes_fires(self, sql: Contract) -> None:
        post(sql)
        respond(sql, 500)
        assert fires(sql, 290) == {}
        assert ("tick_failing", "jobs") in fires(sql, 20)

    def test_that_never_comes_fires(self, sql: Contract) -> None:
        post(sql)
        assert fires(sql, 44) == {}
        [summary] = fires(sql, 2).values()
        assert "pg_net did not answer: is its worker running?" in summary

    def test_that_is_still_awaited_changes_nothing(self, sql: Contract) -> None:
        post(sql)
        respond(sql, 200)
        sql.clock.move(10)
        post(sql)
        assert fires(sql, 5) == {}

    def test_is_of_its_own_queue(self, sql: Contract) -> None:
        sql.create("others")
        post(sql)
        respond(sql, 200)
        sql("select redrive.post_tick('others', 'project_url', '/tick/others', 'tick_key')")
        respond(sql, 403)
        assert set(fires(sql)) == {("tick_failing", "others")}

    def test_is_counted_once_and_not_among_other_calls(self, sql: Contract) -> None:
        for _ in range(4):
            post(sql)
            respond(sql, 401)
        assert set(fires(sql)) == {("tick_failing", "jobs")}
        for _ in range(3):
            sql("select net.http_post('https://elsewhere.example')")
            respond(sql, 500)
        assert set(fires(sql, 60)) == {("tick_failing", "jobs"), ("net_failing", "")}

    def test_is_forgotten_when_pg_net_has_forgotten_it(self, sql: Contract) -> None:
        post(sql)
        respond(sql, 401)
        assert fires(sql, 6 * 3600 + 1) == {}


class TestAMissingSecret:
    @pytest.mark.parametrize("name", ["project_url", "tick_key"])
    def test_is_an_alert_within_one_check(self, sql: Contract, name: str) -> None:
        sql("select cron.schedule(%s, '10 seconds', %s)", _JOB, _CALL.format(path="/tick/jobs"))
        sql("delete from vault.secrets where name = %s", name)
        assert sql.value("select standin.run_job(%s)", _JOB) == "failed"
        assert fires(sql) == {
            ("cron_failing", _JOB): f"The last run of pg_cron job {_JOB} failed: Vault has no secret {name}; "
            f"run: redrive supabase secrets set {name}"
        }
        put(sql, project_url=_URL, tick_key=_KEY)
        assert sql.value("select standin.run_job(%s)", _JOB) == "succeeded"
        assert fires(sql) == {}

    def test_what_jobs_of_others_say_is_kept_to_themselves(self, sql: Contract) -> None:
        sql("select cron.schedule('mine', '* * * * *', 'select 1 / 0 from (select redrive.post_tick(1)) x')")
        sql(
            "insert into cron.job_run_details (jobid, status, command, return_message) "
            "select jobid, 'failed', command, 'ERROR: sensitive' from cron.job"
        )
        assert fires(sql) == {("cron_failing", "mine"): "The last run of pg_cron job mine failed."}


class TestPuttingAJob:
    def put(self, sql: Contract, *schedules: str, command: str = "select 1") -> str:
        return sql.value("select redrive.put_cron_job('redrive health', %s, %s)", list(schedules), [command])

    def row(self, sql: Contract) -> Any:
        [row] = sql("select j.*, j.xmin, j.ctid from cron.job j where jobname = 'redrive health'")
        return row

    def test_touches_nothing_where_it_is_as_it_should_be(self, sql: Contract) -> None:
        assert self.put(sql, "10 seconds", "* * * * *") == "new"
        before = self.row(sql)
        assert self.put(sql, "10 seconds", "* * * * *") == "same"
        assert self.row(sql) == before

    @pytest.mark.parametrize(
        "change",
        [
            "update cron.job set schedule = '5 seconds'",
            "update cron.job set command = 'select 2'",
            "update cron.job set active = false",
        ],
    )
    def test_puts_right_what_differs(self, sql: Contract, change: str) -> None:
        self.put(sql, "10 seconds")
        before = self.row(sql)
        sql(change)
        assert self.put(sql, "10 seconds") == "changed"
        now = self.row(sql)
        assert (now.jobid, now.schedule, now.command, now.active) == (
            before.jobid,
            "10 seconds",
            "select 1",
            True,
        )

    def test_takes_the_next_schedule_where_pg_cron_refuses_one(self, sql: Contract) -> None:
        assert self.put(sql, "60 seconds", "* * * * *") == "new"
        before = self.row(sql)
        assert before.schedule == "* * * * *"
        assert self.put(sql, "60 seconds", "* * * * *") == "same"
        assert self.row(sql) == before
        with pytest.raises(psycopg.Error, match="invalid schedule"):
            self.put(sql, "60 seconds")

    def test_refuses_to_stand_beside_a_job_of_somebody_elses(self, sql: Contract) -> None:
        self.put(sql, "* * * * *")
        sql("update cron.job set username = 'service_role'")
        with pytest.raises(
            psycopg.Error, match="role service_role has a job of pg_cron named redrive health"
        ):
            self.put(sql, "* * * * *")

    def test_says_where_there_is_no_pg_cron(self, sql: Contract) -> None:
        with sql.connection.transaction(force_rollback=True):
            sql("drop schema cron cascade")
            assert (
                sql.value("select redrive._has_cron_job('redrive health', '{* * * * *}', '{select 1}')")
                is False
            )
            with pytest.raises(psycopg.Error, match="pg_cron is not installed in this database"):
                self.put(sql, "* * * * *")

    def test_a_job_is_there_when_all_of_it_is(self, sql: Contract) -> None:
        self.put(sql, "* * * * *")
        there = "select redrive._has_cron_job('redrive health', '{10 seconds,* * * * *}', '{select 1}')"
        assert sql.value(there) is True
        for change in ("active = false", "command = 'x'", "schedule = '1 * * * *'", "username = 'anon'"):
            with sql.connection.transaction(force_rollback=True):
                sql(f"update cron.job set {change}")
                assert sql.value(there) is False

    def test_a_schedule_may_have_a_command_of_its_own(self, sql: Contract) -> None:
        call = "redrive.{}('redrive health', array['60 seconds', '* * * * *'], array['select 1', 'select 2'])"
        sql(f"select {call.format('put_cron_job')}")
        assert self.row(sql).command == "select 2"
        assert sql.value(f"select {call.format('_has_cron_job')}") is True
        sql("update cron.job set command = 'select 1'")
        assert sql.value(f"select {call.format('_has_cron_job')}") is False

    @pytest.mark.parametrize(
        ("zone", "schedule"), [("GMT", "0 3 * * *"), ("UTC", "0 3 * * *"), ("Asia/Tokyo", "* * * * *")]
    )
    def test_hours_are_looked_for_each_minute_where_pg_cron_has_another_time_zone(
        self, sql: Contract, zone: str, schedule: str
    ) -> None:
        sql("select set_config('cron.timezone', %s, false)", zone)
        self.put(sql, "0 3 * * *", "* * * * *")
        assert self.row(sql).schedule == schedule

    def test_the_first_schedule_holds_that_says_no_hour(self, sql: Contract) -> None:
        sql("select set_config('cron.timezone', 'Asia/Tokyo', false)")
        self.put(sql, "*/5 * * * *", "* * * * *")
        assert self.row(sql).schedule == "*/5 * * * *"


def test_a_schedule_that_pg_cron_fires_is_looked_after(sql: Contract) -> None:
    sql(
        "select redrive.declare_schedules(%s)",
        json.dumps(
            [
                {
                    "name": name,
                    "queue": "jobs",
                    "cron": "0 3 * * *",
                    "tz": "UTC",
                    "missed": "one",
                    "overlap": "allow",
                }
                for name in ("daily", "other")
            ]
        ),
    )
    sql(
        "select redrive.put_cron_job('redrive schedule daily', '{0 3 * * *}', "
        "array['select redrive.cron_tick(''daily'')'])"
    )
    sql.clock.stop()
    seen = "select name from redrive.schedules() where seen_at = now"
    assert sql.column(seen) == ["daily"]
    assert sql.value("select lag_sec from redrive.schedules() where name = 'daily'") is None, "not yet due"
    sql.clock.move(3 * 86400)
    [summary] = [
        text
        for (rule, subject), text in fires(sql).items()
        if (rule, subject) == ("schedule_missed", "daily")
    ]
    assert "its job of pg_cron does not run, or fails" in summary
    sql("update redrive.schedule set cron = 'x' where name = 'daily'")
    assert sql.column(seen) == ["daily"], "one that cannot be read breaks no other"
    sql("update cron.job set active = false")
    assert sql.column(seen) == []
