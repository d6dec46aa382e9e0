"""``redrive worker``: what it refuses, what it says, and real payloads through it."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.cli import fine, run
from tests.support.command import Command
from tests.support.embedded import until

Db = psycopg.Connection[Any]

# Real payloads, where this checkout lies beside them.
WEBHOOKS = Path(__file__).parents[3] / "shared" / "data" / "github-webhooks"

APP = """
from redrive import Redrive
app = Redrive()

@app.job("github_events")
async def handle(event: dict) -> None: ...

@app.job("other_jobs")
def other(payload) -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def test_it_says_its_database_first_works_and_drains_on_a_signal(
    database_url: str, db: Db, folder: Path
) -> None:
    environment = {"REDRIVE_DATABASE_URL": database_url, "REDRIVE_APP": "shop:app"}
    for number in (signal.SIGTERM, signal.SIGINT):
        with Command("worker", "--log-format", "json", folder=folder, environment=environment) as worker:
            worker.wait_for('"worker_started"')
            fine("send", "github_events", "{}", "--database", database_url)
            until(lambda: _done(db))
            assert worker.end(number) == 0
        lines = [json.loads(line) for line in worker.lines]
        assert lines[0]["event"] == "database"
        assert lines[0]["message"].endswith("(from REDRIVE_DATABASE_URL)")
        db.execute("truncate pgmq.a_github_events")


def test_only_the_chosen_queues_are_worked(database_url: str, db: Db, folder: Path) -> None:
    fine("queue", "create", "other_jobs", "--database", database_url)
    fine("send", "other_jobs", "1", "--database", database_url)
    arguments = ("--app", "shop:app", "--queue", "github_events", "--database", database_url)
    with Command("worker", *arguments, folder=folder) as worker:
        worker.wait_for("worker_started")
        fine("send", "github_events", "{}", "--database", database_url)
        until(lambda: _done(db))
        assert worker.end(signal.SIGTERM) == 0
    assert db.execute("select count(*) from pgmq.q_other_jobs").fetchone() == (1,)


def test_what_cannot_work_exits_2_with_its_reason(
    database_url: str, empty_database_url: str, folder: Path
) -> None:
    for arguments, said in [
        (["--app", "nowhere:app", "--database", database_url], "there is no module 'nowhere'"),
        (["--app", "shop:nothing", "--database", database_url], "has no 'nothing'"),
        (["--app", "shop:app", "--queue", "mail", "--database", database_url], "mail has no job in this app"),
        (["--app", "shop:app", "--database", empty_database_url], "run `redrive migrate`"),
    ]:
        with Command("worker", *arguments, folder=folder) as worker:
            assert worker.end() == 2, worker.said
            assert said in worker.said and "Traceback" not in worker.said
            assert "another follows" not in worker.said


def test_options_that_cannot_be_right_exit_2_in_one_sentence(folder: Path) -> None:
    for arguments, said in [
        ([], "no app is named; give --app module:attribute"),
        (["--app", "shop:app", "--concurrency", "0"], "--concurrency is 0"),
        (["--app", "shop:app", "--processes", "-1"], "--processes is -1"),
        (["--app", "shop:app", "--drain-timeout", "-1"], "--drain-timeout is -1"),
        (["--app", "shop:app", "--poll", "0"], "--poll is 0"),
        (["--app", "shop:app", "--health", "8080"], "--health is '8080'"),
    ]:
        ran = run("worker", *arguments, "--database", "postgresql://127.0.0.1:1/d")
        assert ran.code == 2 and said in ran.err and len(ran.err.splitlines()) == 1, ran


def test_a_database_out_of_reach_exits_3(folder: Path) -> None:
    url = "postgresql://ada:hunter2@127.0.0.1:1/d"
    with Command("worker", "--app", "shop:app", "--database", url, folder=folder) as worker:
        assert worker.end() == 3
    assert "out of reach" in worker.said and "hunter2" not in worker.said


@pytest.mark.skipif(not WEBHOOKS.is_dir(), reason=f"there are no real webhooks in {WEBHOOKS}")
def test_real_webhooks_come_back_from_the_archive_as_they_were(
    database_url: str, db: Db, folder: Path
) -> None:
    files = sorted(WEBHOOKS.glob("*.json"))
    assert len(files) == 40
    environment = {"REDRIVE_DATABASE_URL": database_url}
    fine("migrate", "--yes", "--database", database_url)
    fine("queue", "create", "github_events", "--database", database_url)
    sent = fine(
        "send", "github_events", "--file", *map(str, files), "--json", "--database", database_url
    ).json["sent"]
    with Command("worker", "--app", "shop:app", folder=folder, environment=environment) as worker:
        until(lambda: _done(db) == len(files))
        assert worker.end(signal.SIGTERM) == 0
    for file, each in zip(files, sent, strict=True):
        shown = fine(
            "message", "show", "github_events", str(each["id"]), "--raw", "--json", "--database", database_url
        ).json
        assert shown["outcome"] == "done"
        assert shown["message"] == json.loads(file.read_text())


def _done(db: Db) -> int:
    row = db.execute("select count(*) from pgmq.a_github_events where outcome = 'done'").fetchone()
    assert row is not None
    return row[0]
