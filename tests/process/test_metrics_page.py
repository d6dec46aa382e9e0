"""/metrics: of a worker with its processes, of the receiver, and beside a database that is away."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from redrive import Redrive
from redrive.store import grants
from redrive.store.database import Database
from redrive.watch.families import text_of
from redrive.watch.gauges import DatabaseGauges
from redrive.watch.prometheus import MetricsPage
from redrive.web import asgi
from tests.support.roles import Roles
from tests.support.working import APP, make_queue, send, until_blocking
from tests.unit.test_prometheus import parsed

Db = psycopg.Connection[Any]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def worker(
    url: str, journal: Path, *more: str, **environment: str
) -> Generator[tuple[subprocess.Popen[bytes], str]]:
    """`redrive worker --health`, and where its page is."""
    where = f"127.0.0.1:{free_port()}"
    command = [
        sys.executable,
        "-m",
        "redrive.cli",
        "worker",
        "--app",
        APP,
        "--health",
        where,
        "--poll",
        "0.2",
    ]
    process = subprocess.Popen(
        [*command, *more],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "REDRIVE_DATABASE_URL": url, "REDRIVE_TEST_JOURNAL": str(journal), **environment},
    )
    try:
        yield process, f"http://{where}/metrics"
    finally:
        process.terminate()
        process.wait(20)


def scrape(url: str) -> dict[str, dict[tuple[str, ...], float]]:
    try:
        return parsed(httpx.get(url, timeout=10, headers={"Authorization": "Bearer s3cret"}).content)
    except httpx.TransportError:
        return {}


def test_a_worker_counts_what_its_processes_did_those_that_died_too_and_tells_who_knows_its_token(
    db: Db, database_url: str, tmp_path: Path
) -> None:
    make_queue(db, "work", max_attempts=4, backoff={"base": 0.05, "factor": 1, "jitter": 0})
    journal = tmp_path / "journal"
    token = {"REDRIVE_METRICS_TOKEN": "s3cret"}
    with worker(database_url, journal, "--processes", "2", **token) as (process, url):
        for _ in range(6):
            send(db, "work", {"do": "nothing"})
        until_blocking(lambda: scrape(url).get("redrive_jobs_total", {}).get(("done", "work")) == 6)
        [*children] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGKILL)
        until_blocking(lambda: scrape(url)["redrive_worker_processes"][()] == 2)
        send(db, "work", {"do": "fail"})
        until_blocking(lambda: scrape(url).get("redrive_jobs_total", {}).get(("retry", "work"), 0) >= 1)
        found = scrape(url)
        assert found["redrive_jobs_total"]["done", "work"] == 6
        assert found["redrive_job_duration_seconds_count"]["work",] >= 7
        assert next(iter(found["redrive_errors_total"]))[1] == "work"
        assert found["redrive_database_up"][()] == 1
        assert found["redrive_queue_dead"]["work",] == 0
        assert set(found["redrive_readable"].values()) == {1}, found["redrive_readable"]
        assert found["redrive_build_info"]
        assert httpx.get(url, timeout=10).status_code == 401
        assert httpx.get(url.replace("/metrics", "/livez"), timeout=10).status_code == 200


async def test_beside_a_database_that_is_away_it_answers_in_time() -> None:
    page = MetricsPage("postgresql://nobody@127.0.0.1:9/nothing")
    began = time.monotonic()
    found = parsed(await page.text())
    assert time.monotonic() - began < 6
    assert found["redrive_database_up"] == {(): 0}
    assert [name for name in found if name.startswith(("redrive_queue", "redrive_inbox"))] == []
    assert "redrive_build_info" in found
    await page.close()


async def test_beside_a_database_that_says_nothing_it_answers_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("redrive.watch.gauges.DEADLINE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        page = MetricsPage(f"postgresql://nobody@127.0.0.1:{silent.getsockname()[1]}/nothing")
        began = time.monotonic()
        found = parsed(await page.text())
        assert time.monotonic() - began < 5
        assert found["redrive_database_up"] == {(): 0}
    await page.close()


async def test_scrapes_within_ten_seconds_cost_one_round(
    db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    run = Database.run

    async def counted(self: Database, statement: Any, **more: Any) -> Any:
        asked.append(statement.sql)
        return await run(self, statement, **more)

    monkeypatch.setattr(Database, "run", counted)
    make_queue(db, "mail")
    send(db, "mail", {})
    gauges = DatabaseGauges(database_url)
    await asyncio.gather(*(gauges.read() for _ in range(5)))
    await gauges.read()
    assert len(asked) == len(set(asked))
    monkeypatch.setattr("redrive.watch.gauges.EVERY", 0.0)
    await gauges.read()
    assert len(asked) == 2 * len(set(asked))
    await gauges.close()


async def test_what_a_role_may_not_read_is_told_of_and_takes_nothing_else_away(
    db: Db, database_url: str, roles: Roles
) -> None:
    make_queue(db, "mail")
    role = roles.create("worker", "login")
    grants.grant(db, role, "work")
    gauges = DatabaseGauges(roles.url(db.info, role))
    found = parsed(text_of(await gauges.read()))
    assert found["redrive_database_up"] == {(): 1}
    assert found["redrive_readable"]["queues",] == 0
    assert found["redrive_readable"]["notifications",] == 1
    await gauges.close()


class TestOfTheReceiver:
    @staticmethod
    async def ask(
        url: str, client: str = "127.0.0.1", server: str = "http://127.0.0.1", **headers: str
    ) -> httpx.Response:
        app = Redrive(database_url=url)
        app.inbox("github", provider="github", queue="hooks", secret="It's a Secret to Everybody")
        transport = httpx.ASGITransport(asgi(app), client=(client, 1))
        async with httpx.AsyncClient(transport=transport, base_url=server) as http:
            found = await http.get("/metrics", headers=headers)
        await app.close()
        return found

    async def test_is_for_this_machine_alone(
        self, db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("REDRIVE_METRICS_TOKEN", raising=False)
        make_queue(db, "hooks")
        found = await self.ask(database_url)
        assert found.status_code == 200
        assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert parsed(found.content)["redrive_queue_ready"] == {("hooks",): 0}
        assert (await self.ask(database_url, "203.0.113.9")).status_code == 404
        assert (await self.ask(database_url, server="http://203.0.113.1")).status_code == 404
        for host in ("localhost:8000", "LOCALHOST", "127.0.0.1:8000", "[::1]:8000", "127.8.8.8"):
            assert (await self.ask(database_url, Host=host)).status_code == 200, host
        for host in ("hooks.example.com", "203.0.113.1:80", "", "localhost.example.com", "127.0.0.1.nip.io"):
            assert (await self.ask(database_url, Host=host)).status_code == 404, host
        for name in (
            *("X-Forwarded-For", "x-forwarded-proto", "X-Forwarded-Anything", "Forwarded", "Via"),
            *("CF-Connecting-IP", "Fastly-Client-IP", "True-Client-IP", "X-Real-IP", "X-Client-IP"),
        ):
            assert (await self.ask(database_url, **{name: "127.0.0.1"})).status_code == 404, name

    async def test_is_for_whoever_knows_the_token(
        self, db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_METRICS_TOKEN", "s3cret")
        for client in ("127.0.0.1", "203.0.113.9"):
            assert (await self.ask(database_url, client)).status_code == 401
            good = await self.ask(database_url, client, Authorization="Bearer s3cret")
            assert good.status_code == 200
