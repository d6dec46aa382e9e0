"""How `redrive worker` starts, refuses to start, and is seen from outside."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from redrive.worker.options import WorkerOptions
from redrive.worker.supervisor import Supervisor
from tests.support.working import (
    APP,
    Journal,
    WorkerProcess,
    count,
    make_queue,
    send,
    until,
    until_blocking,
)

Db = psycopg.Connection[Any]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port: int, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)
    except OSError:
        return 0, {}


FILMS = """
from redrive import Event, Redrive
from redrive.inbox.sources.fastpix import FastPix

app, handled = Redrive(), Redrive()
for each in (app, handled):
    each.inbox("fastpix", provider="fastpix", queue="films", api=FastPix())

@app.on("fastpix", "video.media.ready")
async def ready(event: Event) -> None: ...

@handled.on("fastpix", "*")
async def handle(event: Event) -> None: ...

@app.job("mail")
async def mail(payload) -> None: ...
"""


class TestItRefusesInOneSentence:
    def refusal(self, url: str, journal: Journal, code: int, **options: Any) -> str:
        with WorkerProcess(url, journal.path, **options) as worker:
            assert worker.wait() == code
            [line] = worker.events("worker_refused")
        assert "Traceback" not in worker.log()
        return line["message"]

    def test_an_app_that_cannot_be_imported(self, database_url: str, journal: Journal) -> None:
        told = self.refusal(database_url, journal, 2, app="no.such.module:app")
        assert "there is no module" in told

    def test_a_database_without_redrive(self, empty_database_url: str, journal: Journal) -> None:
        assert "run `redrive migrate`" in self.refusal(empty_database_url, journal, 2)

    def test_a_database_out_of_reach(self, journal: Journal) -> None:
        url = f"postgresql://someone:s3cret@127.0.0.1:{free_port()}/db"
        told = self.refusal(url, journal, 3)
        assert "out of reach" in told and "s3cret" not in told

    def test_an_api_without_its_credentials(
        self, database_url: str, db: Db, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "films.py").write_text(FILMS)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        for name in ("FASTPIX_ACCESS_TOKEN_ID", "FASTPIX_SECRET_KEY", "FASTPIX_WEBHOOK_SECRET"):
            monkeypatch.delenv(name, raising=False)
        for queue in ("films", "mail"):
            make_queue(db, queue)
        told = self.refusal(database_url, journal, 2, app="films:app")
        assert "FASTPIX_ACCESS_TOKEN_ID is not set" in told
        # Nobody asks the API there.
        for app, queues in (("films:app", ("mail",)), ("films:handled", ())):
            with WorkerProcess(database_url, journal.path, app=app, queues=queues) as worker:
                worker.await_line("worker_started")
        monkeypatch.setenv("FASTPIX_ACCESS_TOKEN_ID", "id")
        monkeypatch.setenv("FASTPIX_SECRET_KEY", "key")
        with WorkerProcess(database_url, journal.path, app="films:app") as worker:
            worker.await_line("worker_started")

    def test_a_health_address_that_is_taken(self, database_url: str, journal: Journal) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            health = f"127.0.0.1:{taken.getsockname()[1]}"
            assert "cannot listen" in self.refusal(database_url, journal, 2, health=health)


class TestItIsSeen:
    def test_to_be_live_and_ready_until_it_drains(self, db: Db, database_url: str, journal: Journal) -> None:
        make_queue(db, "work")
        port = free_port()
        with WorkerProcess(database_url, journal.path, health=f"127.0.0.1:{port}", processes=2) as worker:
            until_blocking(lambda: ask(port, "/readyz")[0] == 200)
            code, told = ask(port, "/livez")
            assert code == 200 and [p["ready"] for p in told["processes"]] == [True, True]
            msg_id = send(db, "work", {"do": "sleep", "for": 3})
            until_blocking(lambda: bool(journal.starts(msg_id)))
            worker.signal(signal.SIGTERM)
            until_blocking(lambda: ask(port, "/readyz")[0] == 503)
            assert worker.wait() == 0

    def test_not_to_be_ready_while_a_process_is_replaced(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        port = free_port()
        with WorkerProcess(database_url, journal.path, health=f"127.0.0.1:{port}") as worker:
            until_blocking(lambda: ask(port, "/readyz")[0] == 200)
            os.kill(worker.pids()[0], signal.SIGKILL)
            until_blocking(lambda: ask(port, "/readyz")[0] == 503)
            until_blocking(lambda: ask(port, "/readyz")[0] == 200)

    def test_in_the_first_line_with_its_database_and_never_a_password(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        with WorkerProcess(with_password(database_url), journal.path) as worker:
            worker.await_line("worker_started")
            assert worker.lines[0]["event"] == "supervisor_started"
            assert conninfo_to_dict(database_url)["dbname"] in worker.lines[0]["message"]
            assert "s3cret" not in worker.log()
            arguments = Path(f"/proc/{worker.pids()[0]}/cmdline").read_bytes()
            environment = Path(f"/proc/{worker.pids()[0]}/environ").read_bytes()
        assert b"s3cret" not in arguments and b"s3cret" not in environment


class TestAProcessThatSaysNothing:
    async def test_is_killed_and_replaced(
        self,
        database_url: str,
        journal: Journal,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setenv("REDRIVE_TEST_JOURNAL", str(journal.path))
        monkeypatch.setattr("redrive.worker.supervisor._SILENT", 3.0)
        supervisor = Supervisor(WorkerOptions(APP, database_url, drain_timeout=1.0))
        [child] = supervisor.children
        with caplog.at_level(logging.INFO, "redrive.worker"):
            running = asyncio.create_task(supervisor.run())
            await until(lambda: child.is_ready, within=30)
            first = child.pid
            assert first is not None
            # Like a C extension that never lets go of the interpreter.
            os.kill(first, signal.SIGSTOP)
            await until(lambda: child.is_ready and child.pid != first, within=30)
        assert "worker_silent" in [r.__dict__.get("event") for r in caplog.records]
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(running, 20) == 0


class TestManyProcesses:
    def test_share_the_work(self, db: Db, database_url: str, journal: Journal) -> None:
        make_queue(db, "work")
        with WorkerProcess(database_url, journal.path, processes=2, concurrency=2) as worker:
            until_blocking(lambda: len(worker.events("worker_started")) == 2)
            for _ in range(12):
                send(db, "work", {"do": "sleep", "for": 0.3})
            until_blocking(lambda: count(db, "a_work", "outcome = 'done'") == 12)
        assert len({entry["pid"] for entry in journal.entries()}) == 2
        assert len(journal.entries()) == 24


def with_password(url: str) -> str:
    """The tests' server trusts everybody, whatever the password."""
    scheme, rest = url.split("://", 1)
    user, place = rest.split("@", 1)
    return f"{scheme}://{user}:s3cret@{place}"
