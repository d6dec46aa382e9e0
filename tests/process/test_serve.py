"""``redrive serve``: what it says, what it refuses, and that it ends well."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from redrive.inbox.signing import sign
from tests.support.cli import fine, run
from tests.support.command import Command
from tests.support.embedded import until
from tests.support.receiving import SECRET
from tests.support.roles import Roles
from tests.support.sink_server import SinkServer

Db = psycopg.Connection[Any]

APP = f"""
from redrive import Redrive
app = Redrive()
app.inbox("github", provider="github", queue="hooks", max_attempts=7)
app.inbox("stripe", provider="stripe", queue="other_hooks", secret={SECRET!r})

@app.job("mail")
async def mail(payload) -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


@contextmanager
def serving(
    folder: Path, url: str, *arguments: str, secret: str = SECRET, **environment: str
) -> Generator[tuple[Command, str]]:
    """The command, and the URL where it answers."""
    given = {"REDRIVE_DATABASE_URL": url, "REDRIVE_APP": "shop:app", "GITHUB_WEBHOOK_SECRET": secret}
    command = Command("serve", "--port", "0", *arguments, folder=folder, environment=given | environment)
    with command:
        command.wait_for("receiving github, stripe at http://")
        found = re.search(r"http://[^ ]+:\d+", command.said)
        assert found is not None
        yield command, found[0]


def signed(body: bytes, id: str, secret: str = SECRET) -> dict[str, str]:
    return sign("github", secret=secret, body=body, event_id=id, type="push")


def test_it_says_its_database_first_receives_and_drains_on_a_signal(
    database_url: str, db: Db, folder: Path
) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with serving(folder, database_url) as (command, where):
            assert "(from REDRIVE_DATABASE_URL)" in command.lines[0]
            with httpx.Client(base_url=where) as client:
                body = json.dumps({"number": number}).encode()
                answer = client.post("/webhooks/github", content=body, headers=signed(body, str(number)))
                assert (answer.status_code, answer.text) == (200, "ok\n")
                assert "server" not in answer.headers
                assert client.get("/readyz").text == "ok\n"
                assert client.post("/webhooks/github", content=b"{}").status_code == 401
            assert command.end(number) == 0
            assert SECRET not in command.said
    # Told at the end: it was not there for three seconds.
    assert db.execute("select reason, total from redrive.webhook_count").fetchall() == [("no_header", 2)]


def test_it_makes_the_queues_of_its_inboxes_with_their_policies_and_no_others(
    database_url: str, db: Db, folder: Path
) -> None:
    with serving(folder, database_url) as (command, _):
        assert command.end(signal.SIGTERM) == 0
    queues = json.loads(fine("queue", "list", "--json", "--database", database_url).out)
    assert {each["queue"] for each in queues} == {"hooks", "other_hooks"}
    policy = db.execute("select redrive.queue_policy('hooks') ->> 'max_attempts' as most").fetchone()
    assert policy is not None and policy.most == "7"


def test_a_role_that_may_only_send_is_enough_once_the_queue_is_there(
    database_url: str, db: Db, folder: Path, roles: Roles
) -> None:
    for queue in ("hooks", "other_hooks"):
        fine("queue", "create", queue, "--database", database_url)
    with serving(folder, member(db, roles, database_url, "send")) as (command, where):
        assert "not declared" not in command.said and "permission denied" not in command.said
        assert httpx.get(f"{where}/readyz").text == "ok\n"
        body = b'{"a": 1}'
        answer = httpx.post(f"{where}/webhooks/github", content=body, headers=signed(body, "1"))
        assert answer.text == "ok\n"
        assert httpx.post(f"{where}/webhooks/github", content=body).status_code == 401
        until(lambda: db.execute("select from redrive.webhook_refused").fetchall())


def test_it_is_not_ready_while_it_cannot_record_and_says_why_in_its_log_alone(
    database_url: str, db: Db, folder: Path
) -> None:
    with serving(folder, database_url) as (command, where):
        db.execute("select redrive.drop_queue('other_hooks')")
        answer = httpx.get(f"{where}/readyz")
        assert (answer.status_code, answer.text) == (503, "webhooks cannot be recorded\n")
        command.wait_for("not ready: queue other_hooks does not exist")
        assert httpx.get(f"{where}/livez").status_code == 200
        fine("queue", "create", "other_hooks", "--database", database_url)
        assert httpx.get(f"{where}/readyz").status_code == 200


def member(db: Db, roles: Roles, url: str, *parts: str) -> str:
    """The URL of the database, for a role that has these parts of redrive."""
    role = roles.create("receiver", "login")
    for part in parts:
        fine("grant", role, part, "--database", url)
    return roles.url(db.info, role)


@pytest.fixture
def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)
    yield


@pytest.mark.usefixtures("at_home")
class TestItRefusesToStart:
    """Run in this process: it must not come to listening."""

    def check(self, code: int, what: str, *arguments: str, url: str) -> None:
        ran = run("serve", "--app", f"{self.module}:app", "--port", "0", *arguments, "--database", url)
        assert ran.code == code and what in ran.err, ran
        assert SECRET not in ran.out + ran.err

    module = "shop"

    @pytest.mark.parametrize("secret", [None, "", "  ", f"{SECRET} "])
    def test_without_its_secret(
        self, secret: str | None, database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if secret is None:
            monkeypatch.delenv("GITHUB_WEBHOOK_SECRET")
        else:
            monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", secret)
        self.fresh(folder, APP)
        self.check(2, "GITHUB_WEBHOOK_SECRET", url=database_url)

    def test_with_an_app_that_declares_nothing(self, database_url: str, folder: Path) -> None:
        self.fresh(folder, "from redrive import Redrive\napp = Redrive()\n")
        self.check(2, "declares neither an inbox nor a job", url=database_url)

    def test_with_a_handler_of_no_inbox(self, database_url: str, folder: Path) -> None:
        self.fresh(folder, APP + "\n@app.on('gihub', '*')\nasync def h(event): ...\n")
        self.check(2, "'gihub', which is no inbox", url=database_url)

    def test_without_the_schema(self, empty_database_url: str, folder: Path) -> None:
        self.fresh(folder, APP)
        self.check(2, "redrive migrate", url=empty_database_url)

    def test_where_a_queue_is_missing_that_its_role_may_not_make(
        self, database_url: str, db: Db, folder: Path, roles: Roles
    ) -> None:
        self.fresh(folder, APP)
        for parts in (("send", "work"), ("send",)):
            self.check(2, "queue hooks does not exist", url=member(db, roles, database_url, *parts))

    def test_as_a_role_that_may_not_record(
        self, database_url: str, db: Db, folder: Path, roles: Roles
    ) -> None:
        self.fresh(folder, APP)
        for queue in ("hooks", "other_hooks"):
            fine("queue", "create", queue, "--database", database_url)
        for parts in (("read",), ("work", "read")):
            self.check(2, "`redrive grant ROLE send`", url=member(db, roles, database_url, *parts))

    def test_on_a_database_that_takes_no_writes(self, database_url: str, folder: Path) -> None:
        self.fresh(folder, APP)
        more = "options=-cdefault_transaction_read_only%3Don"
        read_only = f"{database_url}{'&' if '?' in database_url else '?'}{more}"
        self.check(2, "read-only session", url=read_only)

    def test_without_a_database(self, folder: Path) -> None:
        self.fresh(folder, APP)
        self.check(3, "out of reach", url="postgresql://nobody@127.0.0.1:1/none")

    def test_where_somebody_listens_already(self, database_url: str, folder: Path) -> None:
        self.fresh(folder, APP)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.check(2, f"--port {port}: cannot listen there", "--port", port, url=database_url)

    def fresh(self, folder: Path, text: str) -> None:
        self.module = f"shop_{len(os.listdir(folder))}_{time.monotonic_ns()}"
        (folder / f"{self.module}.py").write_text(text)


def resident(pid: int, what: str = "VmRSS") -> int:
    """Megabytes."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


@pytest.mark.timeout(300)
def test_a_gigabyte_in_chunks_is_413_and_costs_no_memory(database_url: str, folder: Path) -> None:
    chunk = b"x" * 1_000_000

    def endless() -> Iterator[bytes]:
        for _ in range(1_000):
            yield chunk

    with serving(folder, database_url) as (command, where), httpx.Client(timeout=120) as client:
        before = resident(command.process.pid)
        answer = client.post(f"{where}/webhooks/github", content=endless())
        assert answer.status_code == 413
        assert resident(command.process.pid, "VmHWM") - before < 80
        body = b"{}"
        assert client.post(f"{where}/webhooks/github", content=body, headers=signed(body, "1")).text == "ok\n"


def test_what_is_under_way_at_the_signal_is_answered(database_url: str, db: Db, folder: Path) -> None:
    with serving(folder, database_url) as (command, where):
        # Holds the queue's policy, so that the event waits while the signal comes.
        with psycopg.connect(database_url) as holder:
            holder.execute("lock table redrive.webhook_event in access exclusive mode")
            answers: list[httpx.Response] = []
            body = b"{}"

            def post() -> None:
                answers.append(
                    httpx.post(f"{where}/webhooks/github", content=body, headers=signed(body, "1"))
                )

            posting = threading.Thread(target=post)
            posting.start()
            until(lambda: db.execute("select from pg_locks where not granted").fetchall())
            command.process.send_signal(signal.SIGTERM)
            command.wait_for("draining")
            holder.rollback()
        posting.join(10)
        assert [each.text for each in answers] == ["ok\n"]
        assert command.end() == 0


def test_it_checks_health_and_delivers_alerts_beside_the_receiver(
    database_url: str, db: Db, folder: Path
) -> None:
    with SinkServer() as sink:
        more = {
            "REDRIVE_CHECK_EVERY": "1",
            "REDRIVE_ALERTS_OPS": sink.url,
            "REDRIVE_ALERTS_OPS_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        }
        with serving(folder, database_url, **more) as (command, where):
            fine(
                "alerts",
                "rule",
                "set",
                "anything",
                "--gauge",
                "ready",
                "--threshold",
                "0",
                "--database",
                database_url,
            )
            body = b"{}"
            httpx.post(f"{where}/webhooks/github", content=body, headers=signed(body, "1"))
            sink.wait_for(bool)
            assert command.end(signal.SIGTERM) == 0
        assert sink.alerts()[0]["subject"] == "hooks"
        assert "event=alert_firing" in command.said and "t0p5ecret" not in command.said


JOBS = """
import asyncio
from redrive import Redrive
app = Redrive()

@app.job("mail")
async def mail(payload) -> None:
    await asyncio.sleep(payload["for"])
"""


@contextmanager
def ticking(folder: Path, url: str, *arguments: str, **environment: str) -> Generator[tuple[Command, str]]:
    """The command with an app that has a job and no inbox, and the URL where it answers."""
    (folder / "jobs.py").write_text(JOBS)
    given = {"REDRIVE_DATABASE_URL": url, "REDRIVE_APP": "jobs:app"} | environment
    with Command("serve", "--port", "0", *arguments, folder=folder, environment=given) as command:
        command.wait_for("draining mail at http://")
        found = re.search(r"draining mail at (http://[^ ]+:\d+)/tick/…", command.said)
        assert found is not None
        yield command, found[1]


def test_an_app_without_inboxes_is_served_for_its_ticks_and_a_signal_costs_no_attempt(
    database_url: str, db: Db, tmp_path: Path
) -> None:
    secret = "a-secret-for-ticks-0123"
    with ticking(tmp_path, database_url, REDRIVE_TICK_SECRET=secret) as (command, where):
        assert "for who knows a secret" in command.said
        assert secret not in command.said
        bearer = {"Authorization": f"Bearer {secret}"}
        with httpx.Client(base_url=where, timeout=20) as client:
            assert client.get("/readyz").text == "ok\n"
            assert client.post("/webhooks/github").status_code == 404
            assert client.post("/tick/mail").status_code == 401
            assert client.post("/tick/mail", headers=bearer).json()["processed"] == 0
            for seconds in (0, 30):
                db.execute("select redrive.send('mail', jsonb_build_object('for', %s::int))", (seconds,))
            answers: list[dict[str, Any]] = []
            asking = threading.Thread(
                target=lambda: answers.append(client.post("/tick/mail", headers=bearer).json())
            )
            asking.start()
            until(lambda: db.execute("select from pgmq.a_mail").fetchall())
            began = time.monotonic()
            assert command.end(signal.SIGTERM) == 0
            asking.join(5)
        assert time.monotonic() - began < 9
        assert answers == [{"processed": 1, "failed": 0, "skipped": 1, "reason": "this process is ending"}]
        assert "Traceback" not in command.said
    credit = (
        "select headers ->> 'x-redrive-credit' as credit, vt <= clock_timestamp() as due from pgmq.q_mail"
    )
    assert db.execute(credit).fetchall() == [("1", True)]
    assert db.execute("select from redrive.lease where name = 'redrive.tick:mail'").fetchall() == []


def test_beyond_the_loopback_it_ticks_for_nobody_without_a_secret(database_url: str, tmp_path: Path) -> None:
    with ticking(tmp_path, database_url, "--host", "0.0.0.0") as (command, where):
        assert "for this machine alone: no secret is set" in command.said
        port = where.rpartition(":")[2]
        answer = httpx.post(f"http://127.0.0.1:{port}/tick/mail", headers={"Host": "jobs.example.org"})
        assert (answer.status_code, "set REDRIVE_TICK_SECRET" in answer.text) == (403, True)
        assert httpx.post(f"http://127.0.0.1:{port}/tick/mail").json() == {
            "processed": 0,
            "failed": 0,
            "skipped": 0,
        }


def test_a_secret_that_can_be_guessed_refuses_to_start(
    database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("REDRIVE_TICK_SECRET", "tock")
    ran = run("serve", "--app", "shop:app", "--port", "0", "--database", database_url)
    assert ran.code == 2 and "REDRIVE_TICK_SECRET has a secret of 4 characters" in ran.err
