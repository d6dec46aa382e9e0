"""``redrive migrate`` and ``redrive config``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from redrive.store.embedded import EmbeddedServer
from tests.support.cli import fine, run

Db = psycopg.Connection[Any]

APP = """
from redrive import Redrive
app = Redrive()

@app.job("email_jobs", max_attempts=3)
async def send_email(payload): ...
"""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("REDRIVE_DATABASE_URL", "DATABASE_URL", "REDRIVE_APP"):
        monkeypatch.delenv(name, raising=False)


def test_it_makes_everything_once_and_says_so(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", empty_database_url)
    lacking = run("migrate", "--check")
    assert lacking.code == 1
    assert (lacking.out + lacking.err).count("redrive migrate") == 1

    first = fine("migrate")
    assert "pgmq: installed" in first.out and "functions: " in first.out
    assert "(from REDRIVE_DATABASE_URL)" in first.err
    assert "nothing to do" in fine("migrate").out
    assert fine("migrate", "--check").out == "nothing is missing\n"


def test_check_names_what_is_missing(db: Db, database_url: str) -> None:
    db.execute("drop function redrive.claim_job")
    ran = run("migrate", "--check", "--database", database_url)
    assert (ran.code, ran.out) == (1, "function claim_job is missing\n")
    fine("migrate", "--database", database_url)
    assert fine("migrate", "--check", "--database", database_url).code == 0


def test_a_database_named_only_by_database_url_is_asked_about_once(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", empty_database_url)
    refused = run("migrate")
    assert refused.code == 2
    assert "which only DATABASE_URL names?" in refused.err and "--yes" in refused.err
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select to_regnamespace('redrive')").fetchone() == (None,)

    fine("migrate", "--yes")
    assert "nothing to do" in fine("migrate").out


def test_the_printed_script_does_the_same(empty_database_url: str) -> None:
    script = fine("migrate", "--sql").out
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(script.encode())
    assert fine("migrate", "--check", "--database", empty_database_url).code == 0


def test_the_printed_script_has_no_app_and_says_so() -> None:
    ran = run("migrate", "--sql", "--app", "no_such_module_here:app")
    assert (ran.code, ran.out) == (2, "")
    assert "--sql prints the schema alone" in ran.err
    assert "run redrive migrate --app no_such_module_here:app once" in ran.err


def test_the_apps_queues_are_made_with_their_declared_policies(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "shop_migrated.py").write_text(APP)
    ran = fine("migrate", "--app", "shop_migrated:app", "--database", database_url)
    assert "queue email_jobs is made" in ran.out
    policy = fine("queue", "policy", "email_jobs", "--json", "--database", database_url).json["policy"]
    assert policy["max_attempts"] == {"value": 3, "declared": 3}

    fine("queue", "policy", "email_jobs", "--set", "max_attempts=9", "--database", database_url)
    again = fine("migrate", "--app", "shop_migrated:app", "--database", database_url).out
    assert "queue email_jobs was there" in again
    assert "`redrive queue policy email_jobs --reset max_attempts` takes that back" in again


class TestTheAppOfTheSettings:
    def test_it_is_taken_as_by_every_other_command_and_named(
        self, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "shop_set.py").write_text(APP)
        monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
        assert "queue " not in fine("migrate").out
        monkeypatch.setenv("REDRIVE_APP", "shop_set:app")
        ran = fine("migrate")
        assert "queue email_jobs is made" in ran.out
        assert "app: shop_set:app (from REDRIVE_APP)" in ran.err
        assert "app: shop_set:app (from --app)" in fine("migrate", "--app", "shop_set:app").err

    @pytest.mark.parametrize("content", [None, "1 / 0", "import shop_missing_lib"])
    def test_where_it_cannot_be_imported_the_schema_is_migrated_and_that_is_said(
        self, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
    ) -> None:
        if content is not None:
            (tmp_path / "shop_away.py").write_text(content)
        monkeypatch.setenv("REDRIVE_DATABASE_URL", empty_database_url)
        monkeypatch.setenv("REDRIVE_APP", "shop_away:app")
        ran = fine("migrate")
        assert "functions: " in ran.out
        assert "REDRIVE_APP names that app, so its queues and tables are left as they are" in ran.err
        assert "redrive migrate --app shop_away:app" in ran.err
        assert fine("migrate", "--check").out == "nothing is missing\n"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:app", "there is no module 'nowhere'"),
        ("shop_broken:app", "importing shop_broken failed with ZeroDivisionError"),
        ("shop_broken.py", "is no app name"),
    ],
)
def test_an_app_that_cannot_be_imported_exits_2(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "shop_broken.py").write_text("1 / 0")
    ran = run("migrate", "--app", name, "--database", "postgresql://127.0.0.1:1/d")
    assert ran.code == 2 and said in ran.err


class TestConfig:
    def test_it_shows_what_holds_and_where_it_stands_without_the_password(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "redrive.toml").write_text('app = "shop:app"\n')
        monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://ada:hunter2@db:5433/shop?sslmode=require")
        ran = fine("config", "--json")
        assert ran.json["database_url"] == {
            "value": "postgresql://ada@db:5433/shop",
            "source": "REDRIVE_DATABASE_URL",
        }
        assert ran.json["app"] == {"value": "shop:app", "source": "app in redrive.toml"}
        assert "hunter2" not in ran.out + fine("config").out

    def test_a_database_that_nobody_named_is_no_fault_here(self) -> None:
        assert fine("config", "--json").json["database_url"] == {"value": None, "source": None}

    def test_of_an_embedded_server_it_shows_the_url_for_psql_while_it_runs(self, tmp_path: Path) -> None:
        server = EmbeddedServer(tmp_path / ".redrive")
        server.start()
        try:
            shown = fine("config", "--json").json["psql"]
            with psycopg.connect(shown["value"]) as connection:
                assert connection.execute("select current_database()").fetchone() == ("redrive",)
            assert shown["value"] in fine("config").out
        finally:
            server.stop(remove=False)
        shown = fine("config", "--json").json["psql"]
        assert shown == {"value": None, "source": "no server runs; redrive dev starts it"}

    def test_a_misspelt_setting_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "redrive.toml").write_text('databse_url = "x"\n')
        ran = run("config")
        assert ran.code == 2 and "databse_url in redrive.toml is no setting" in ran.err


def test_a_closed_pipe_is_no_fault(tmp_path: Path) -> None:
    command = f"{sys.executable} -m redrive.cli migrate --sql | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("-- What `redrive migrate` does") and done.stderr == ""
