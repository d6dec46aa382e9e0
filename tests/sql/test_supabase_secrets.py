"""``redrive supabase secrets``: what jobs ask Vault for is seen, put there and handed on, shown to nobody."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest

from tests.sql.conftest import SUPABASE, SUPABASE_ROLES
from tests.support.cli import Ran, run
from tests.support.databases import Databases
from tests.support.layouts import NEWEST
from tests.support.server import Server

Connection = psycopg.Connection[Any]
_APP = """
from redrive import Redrive

app = Redrive()


@app.job("email_jobs")
async def email(payload): ...
"""


@pytest.fixture(scope="module")
def url(databases: Databases) -> Generator[str]:
    made = databases.migrated(NEWEST)
    with psycopg.connect(made, autocommit=True) as admin:
        text = SUPABASE.read_text()
        admin.execute("\n".join(line for line in text.splitlines() if not line.startswith("\\")).encode())
    yield made
    databases.drop(made)
    databases.drop_roles(*SUPABASE_ROLES)


@pytest.fixture
def db(url: str) -> Generator[Connection]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
        connection.execute("delete from vault.secrets")
        connection.execute("delete from cron.job")


def values(db: Connection) -> dict[str, str]:
    return dict(db.execute("select name, decrypted_secret from vault.decrypted_secrets").fetchall())


def secrets(url: str, *arguments: str, stdin: str | bytes = "") -> Ran:
    return run("supabase", "secrets", *arguments, "--database", url, stdin=stdin)


def job(db: Connection) -> None:
    db.execute(
        "select cron.schedule('redrive drain email_jobs', '* * * * *', 'select redrive.post_tick(p_queue => "
        "''email_jobs'', p_url_secret => ''project_url'', p_path => ''/x'', p_key_secret => ''tick_key'')')"
    )


class TestSet:
    def test_puts_what_comes_from_stdin_into_vault(self, url: str, db: Connection) -> None:
        ran = secrets(url, "set", "tick_key", stdin="s3cret\r\n")
        assert (ran.code, ran.out, ran.err) == (0, "Vault has a secret tick_key now\n", "")
        assert values(db) == {"tick_key": "s3cret"}
        ran = secrets(url, "set", "tick_key", stdin="another")
        assert ran.out == "Vault has another secret tick_key\n"
        assert values(db) == {"tick_key": "another"}

    def test_makes_one_that_nobody_sees(self, url: str, db: Connection) -> None:
        ran = secrets(url, "set", "redrive_tick_secret", "--generate")
        value = values(db)["redrive_tick_secret"]
        assert re.fullmatch(r"[A-Za-z0-9_-]{43}", value)
        assert value not in ran.out + ran.err
        ran = secrets(url, "set", "redrive_tick_secret", "--generate")
        assert (ran.code, values(db)["redrive_tick_secret"]) == (2, value)
        assert "Replace secret redrive_tick_secret" in ran.err and "--yes" in ran.err
        assert secrets(url, "set", "redrive_tick_secret", "--generate", "--yes").code == 0
        assert values(db)["redrive_tick_secret"] != value

    @pytest.mark.parametrize(
        ("name", "value", "said"),
        [
            ("project_url", "", "the value of project_url is empty"),
            ("project_url", " \n", "the value of project_url is empty"),
            ("project_url", b"\xff\xfe", "the value of project_url is no UTF-8 text"),
            ("project_url", "a\x00b", "zero byte"),
            ("project_url", "x" * 65537, "longer than 65536 bytes"),
            ("sb_secret_abc", "x", "NAME is the name of a secret in Vault"),
            ("eyJhbGciOi", "x", "not its value"),
            ("https://x", "x", "NAME is the name of a secret"),
        ],
    )
    def test_refuses_what_cannot_be_meant(
        self, url: str, db: Connection, name: str, value: str | bytes, said: str
    ) -> None:
        ran = secrets(url, "set", name, stdin=value)
        assert ran.code == 2 and said in ran.err, ran
        assert values(db) == {}

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ("http://localhost:54321", "project_url is a URL with localhost"),
            ("http://127.0.0.1/x", "host.docker.internal"),
            ("HTTPS://user@[::1]:8000", "is a URL with localhost"),
            (" https://x.supabase.co", "white space around it"),
            ("a\nb", "several lines"),
        ],
    )
    def test_warns_of_what_will_not_do(self, url: str, db: Connection, value: str, said: str) -> None:
        ran = secrets(url, "set", "project_url", stdin=value)
        assert ran.code == 0 and said in ran.err
        assert values(db) == {"project_url": value}

    @pytest.mark.parametrize("value", ["http://host.docker.internal:8000", "https://localhost.example.com"])
    def test_says_nothing_of_what_will(self, url: str, db: Connection, value: str) -> None:
        assert secrets(url, "set", "project_url", stdin=value).err == ""

    def test_leaves_the_value_out_of_the_servers_log(
        self, url: str, db: Connection, server: Server | None
    ) -> None:
        if server is None:
            pytest.skip("REDRIVE_TEST_URL names a server whose log is not here")
        name = db.info.dbname
        db.execute(f"alter database \"{name}\" set log_statement = 'all'".encode())
        try:
            assert secrets(url, "set", "tick_key", stdin="seen-in-no-log").code == 0
        finally:
            db.execute(f'alter database "{name}" reset log_statement'.encode())
        log = server.log()
        assert "vault.create_secret" in log and "seen-in-no-log" not in log

    def test_says_what_vault_refused_without_the_value(self, url: str, db: Connection) -> None:
        theirs = url.replace("postgres@", "service_role@") if "postgres@" in url else url
        db.execute("alter role service_role login")
        db.execute("revoke execute on function vault.create_secret(text, text, text, uuid) from service_role")
        try:
            ran = secrets(theirs, "set", "tick_key", stdin="s3cret")
        finally:
            db.execute("alter role service_role nologin")
            db.execute(
                "grant execute on function vault.create_secret(text, text, text, uuid) to service_role"
            )
        assert ran.code == 2 and "s3cret" not in ran.err
        assert "Vault refused secret tick_key: permission denied" in ran.err


class TestList:
    def test_shows_what_the_jobs_ask_for_and_what_is_there(self, url: str, db: Connection) -> None:
        job(db)
        secrets(url, "set", "project_url", stdin="http://localhost:54321")
        ran = secrets(url, "--json")
        assert [(each["name"], each["state"], each["needed_by"]) for each in ran.json] == [
            ("project_url", "localhost", ["redrive drain email_jobs"]),
            ("tick_key", "missing", ["redrive drain email_jobs"]),
            ("alerts_webhook", "missing", []),
        ]
        ran = secrets(url)
        assert "tick_key is missing; run: redrive supabase secrets set tick_key" in ran.err
        assert "alerts_webhook is" not in ran.err and "54321" not in ran.out + ran.err

    def test_of_an_app_shows_what_its_jobs_would_ask_for(
        self, url: str, db: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "secrets_app.py").write_text(_APP)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(tmp_path))
        ran = secrets(url, "--app", "secrets_app:app", "--json")
        assert [each["name"] for each in ran.json] == ["redrive_url", "redrive_tick_secret", "alerts_webhook"]

    def test_without_jobs_and_app_says_so(self, url: str, db: Connection) -> None:
        ran = secrets(url)
        assert ran.code == 0 and "no job of pg_cron asks for a secret, and no app is named" in ran.err

    def test_says_where_there_is_no_vault(self, empty_database_url: str) -> None:
        ran = secrets(empty_database_url)
        assert ran.code == 2 and "Vault is not installed in this database" in ran.err


class TestEnv:
    def test_prints_what_a_program_takes(self, url: str, db: Connection) -> None:
        secrets(url, "set", "redrive_tick_secret", stdin=" abc_-123\n")
        secrets(url, "set", "project-url", stdin="https://x.supabase.co")
        ran = secrets(url, "env", "redrive_tick_secret", "project-url")
        assert ran.out == "REDRIVE_TICK_SECRET=abc_-123\nPROJECT_URL=https://x.supabase.co\n"

    def test_prints_nothing_where_one_is_missing_or_would_be_read_differently(
        self, url: str, db: Connection
    ) -> None:
        secrets(url, "set", "one", stdin="x")
        for value, said in (
            (None, "Vault has no secret two"),
            ("a b", "secret two has white space"),
            ("$x", "or the like"),
        ):
            if value is not None:
                secrets(url, "set", "two", stdin=value)
            ran = secrets(url, "env", "one", "two")
            assert (ran.code, ran.out) == (2, "") and said in ran.err

    def test_shows_nothing_on_a_terminal_unless_told_to(self, url: str, db: Connection) -> None:
        secrets(url, "set", "one", stdin="x")
        with mock.patch("redrive.cli.supabase_secrets._on_a_terminal", lambda: True):
            ran = secrets(url, "env", "one")
            assert (ran.code, ran.out) == (2, "") and "stdout is a terminal" in ran.err
            assert secrets(url, "env", "one", "--show").out == "ONE=x\n"
