"""``redrive inbox reconcile``, and the tables that ``redrive migrate --app`` makes for it."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from redrive.cli.dev import install_tables_of
from redrive.cli.session import session
from redrive.inbox.sources.calls import Calls
from tests.support.cli import fine, run
from tests.support.command import Command
from tests.support.embedded import until
from tests.support.fastpix_api import SECRET_KEY, TOKEN_ID, FastPixApi
from tests.support.fastpix_inbox import SIGNING_SECRET
from tests.support.roles import Roles
from tests.support.serving import Serving

APP = """
from redrive import Redrive
from redrive.inbox.sources.fastpix import FastPix

app = Redrive()
app.inbox("fastpix", provider="fastpix", queue="webhook_jobs", api=FastPix(base_url="{url}/v1/"))
app.inbox("shop", provider="shopify", secret="s3cret", queue="shop_jobs")
"""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, database_url: str) -> Generator[FastPixApi]:
    """The API behind the app that the settings name, in the database that they name."""
    played = FastPixApi()
    module = f"films_{abs(hash(database_url))}"
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
    monkeypatch.setenv("REDRIVE_APP", f"{module}:app")
    monkeypatch.setenv("FASTPIX_WEBHOOK_SECRET", SIGNING_SECRET)
    monkeypatch.setenv("FASTPIX_ACCESS_TOKEN_ID", TOKEN_ID)
    monkeypatch.setenv("FASTPIX_SECRET_KEY", SECRET_KEY)
    with Serving(played.app) as served:
        (tmp_path / f"{module}.py").write_text(APP.format(url=served.url))
        ran = fine("migrate", "--app", f"{module}:app")
        assert "inbox fastpix: the tables of FastPix are there" in ran.out
        yield played


def test_it_sends_what_is_missing_and_says_how_much(api: FastPixApi, db: psycopg.Connection) -> None:
    for number in range(3):
        api.add_media(f"m-{number}", "ready")
    api.add_stream("s-1")
    ran = fine("inbox", "reconcile", "fastpix", "--json")
    assert ran.json["kinds"]["media"] | {"listed": 3, "missing": 3, "sent": 3} == ran.json["kinds"]["media"]
    assert ran.json["kinds"]["live_stream"]["sent"] == 1
    assert db.execute("select count(*) from pgmq.q_webhook_jobs").fetchone() == (4,)
    again = fine("inbox", "reconcile", "fastpix", "--full")
    assert "0 events sent" in again.out and "waiting" in again.out
    assert "database:" in again.err


def test_dry_run_changes_nothing(api: FastPixApi, db: psycopg.Connection) -> None:
    api.add_media("m-1")
    ran = fine("inbox", "reconcile", "fastpix", "--since", "1h", "--dry-run")
    assert "1 event would be sent; nothing was changed" in ran.out
    assert db.execute("select from redrive.webhook_event").fetchall() == []


def test_refused_credentials_are_a_matter_of_configuration(
    api: FastPixApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FASTPIX_SECRET_KEY", "something-else")
    ran = run("inbox", "reconcile", "fastpix")
    assert ran.code == 2 and "check FASTPIX_ACCESS_TOKEN_ID and FASTPIX_SECRET_KEY" in ran.err
    monkeypatch.delenv("FASTPIX_SECRET_KEY")
    ran = run("inbox", "reconcile", "fastpix")
    assert ran.code == 2 and "FASTPIX_SECRET_KEY is not set" in ran.err
    monkeypatch.setenv("FASTPIX_SECRET_KEY", f"{SECRET_KEY}\n")
    ran = run("inbox", "reconcile", "fastpix")
    assert ran.code == 2 and "white space" in ran.err and SECRET_KEY not in ran.err


def test_an_api_that_fails_ends_it_with_1_after_what_was_found(
    api: FastPixApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.inbox.source._AFTER_FAILURES", (0.01,))
    api.add_media("m-1")
    api.fail("live/streams", 500, times=99)
    ran = run("inbox", "reconcile", "fastpix", "--json")
    assert ran.code == 1 and ran.json["kinds"]["media"]["sent"] == 1
    assert "stopped before the end: FastPix answered GET live/streams with 500" in ran.err
    assert "tried again" not in ran.err


@pytest.mark.parametrize("how", ["refused", "interrupted"])
def test_what_was_found_until_it_was_ended_is_told(
    api: FastPixApi, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    api.add_media("m-1")
    if how == "refused":
        api.fail("live/streams", 401, times=99)
    else:

        async def interrupted(self: Calls, path: str, params: Any = None) -> Any:
            if path == "live/streams":
                raise KeyboardInterrupt
            return await answered(self, path, params)

        answered = Calls.json
        monkeypatch.setattr(Calls, "json", interrupted)
    ran = run("inbox", "reconcile", "fastpix", "--json")
    assert ran.code == {"refused": 2, "interrupted": 130}[how]
    assert ran.json["kinds"]["media"]["sent"] == 1
    ran = run("inbox", "reconcile", "fastpix")
    assert "media" in ran.out and "0 events sent" in ran.out


def test_an_api_that_never_answered_leaves_no_empty_table(
    api: FastPixApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.inbox.source._AFTER_FAILURES", (0.01,))
    api.fail("on-demand", 500, times=99)
    ran = run("inbox", "reconcile", "fastpix")
    assert (ran.code, ran.out) == (1, "0 events sent\n")
    assert "stopped before the end: FastPix answered GET on-demand with 500" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "no inbox 'nobody'; they are: fastpix, shop"),
        (["shop"], "inbox shop has no API to reconcile with"),
        (["fastpix", "--since", "yesterday"], "--since is 'yesterday'"),
    ],
)
def test_what_cannot_be_is_refused(api: FastPixApi, arguments: list[str], said: str) -> None:
    ran = run("inbox", "reconcile", *arguments)
    assert ran.code == 2 and said in ran.err


def test_without_the_tables_the_command_to_make_them_is_named(
    api: FastPixApi, db: psycopg.Connection
) -> None:
    db.execute("drop schema fastpix cascade")
    api.add_media("m-1")
    ran = run("inbox", "reconcile", "fastpix")
    assert ran.code == 2 and "redrive migrate --app" in ran.err
    fine("migrate", "--app", _app())
    fine("inbox", "reconcile", "fastpix")


def test_roles_granted_after_the_tables_were_made_work_and_reconcile(
    api: FastPixApi, db: psycopg.Connection, roles: Roles, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, receiver = roles.create("worker", "login"), roles.create("reconciler", "login")
    fine("grant", worker, "work", "send")
    fine("grant", receiver, "send", "read")
    api.add_media("m-1", "ready")
    monkeypatch.setenv("REDRIVE_DATABASE_URL", roles.url(db.info, receiver))
    assert fine("inbox", "reconcile", "fastpix", "--json").json["kinds"]["media"]["sent"] == 1
    there = {"REDRIVE_DATABASE_URL": roles.url(db.info, worker), "REDRIVE_APP": _app()}
    with Command("worker", folder=Path.cwd(), environment=there) as working:
        until(lambda: db.execute("select from fastpix.media").fetchall())
        assert working.end(signal.SIGTERM) == 0
    assert "0 events sent" in fine("inbox", "reconcile", "fastpix").out
    # What one part gives and another does not need goes with it.
    assert rights(db, worker) == {"SELECT", "INSERT", "UPDATE", "DELETE", "USAGE"}
    assert rights(db, receiver) == {"SELECT", "USAGE"}
    fine("grant", worker, "read", "--database", database_url)
    fine("grant", "--revoke", worker, "work", "--database", database_url)
    assert rights(db, worker) == {"SELECT", "USAGE"}
    fine("migrate", "--app", _app(), "--database", database_url)
    assert rights(db, worker) == {"SELECT", "USAGE"}
    fine("grant", "--revoke", worker, "read", "send", "--database", database_url)
    assert rights(db, worker) == set()
    fine("migrate", "--database", database_url)
    assert (rights(db, worker), rights(db, receiver)) == (set(), {"SELECT", "USAGE"})


def rights(db: psycopg.Connection, role: str) -> set[str]:
    """What was given to `role` in schema fastpix, and on it."""
    rows = db.execute(
        "select privilege_type from pg_class, aclexplode(relacl) a"
        " where relnamespace = 'fastpix'::regnamespace and a.grantee = %(role)s::regrole"
        " union select privilege_type from pg_namespace, aclexplode(nspacl) a"
        " where nspname = 'fastpix' and a.grantee = %(role)s::regrole",
        {"role": role},
    ).fetchall()
    return {privilege for (privilege,) in rows}


def test_redrive_dev_makes_the_tables_too_and_leaves_a_broken_app_to_its_worker(
    api: FastPixApi, db: psycopg.Connection
) -> None:
    db.execute("drop schema fastpix cascade")
    with session(None) as store:
        assert install_tables_of(store, _app()) == ["inbox fastpix: the tables of FastPix are there"]
        assert install_tables_of(store, "no_such_module_here:app") == []
    assert db.execute("select from fastpix.media").fetchall() == []


def test_migrate_declares_the_policy_of_the_article(api: FastPixApi, db: psycopg.Connection) -> None:
    row = db.execute("select redrive.queue_policy('webhook_jobs')").fetchone()
    assert row is not None
    assert (row[0]["max_attempts"], row[0]["concurrency"]) == (7, 10)


def _app() -> str:
    return os.environ["REDRIVE_APP"]
