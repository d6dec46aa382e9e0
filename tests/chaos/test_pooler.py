"""Everything through PgBouncer in transaction mode, where no two transactions need share a session.

As hosted databases have it: the user's name says which project's; statements and locks have eight seconds.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import asyncpg
import httpx
import psycopg
import pytest
from psycopg.rows import namedtuple_row
from sqlalchemy.ext.asyncio import create_async_engine

from redrive import Job, Redrive
from redrive.store import alerts
from redrive.store.database import Database
from redrive.store.statement import Statement, scalar
from redrive.web import asgi
from redrive.web.access import Access
from redrive.web.tick import Ticks
from redrive.worker.drain import BUSY
from tests.chaos.conftest import APP, Db, set_policy
from tests.support.chaos_app import TABLES
from tests.support.cli import fine, run
from tests.support.pgbouncer import PgBouncer
from tests.support.server import Server
from tests.support.working import Journal, WorkerProcess, count, fetch, until_blocking

# Fewer than anybody would like: whoever needs a session, or two connections at once, meets trouble.
POOL = 4
# A notification for a pooled connection that is nobody's just now. A listener's proof ends so: it is deaf.
UNHEARD = "got packet 'A' from server when not linked"


@dataclass
class Pooled:
    server: Server
    bouncer: PgBouncer
    url: str

    def faults(self) -> list[str]:
        """What the server and the pooler have complained about."""
        said = self.server.log().splitlines() + self.bouncer.log().splitlines()
        found = [line for line in said if re.search(r"\b(ERROR|FATAL|PANIC|WARNING)\b", line)]
        return [line for line in found if UNHEARD not in line]


@pytest.fixture(scope="module")
def pooled() -> Generator[Pooled]:
    server = Server()
    try:
        server.start()
        with psycopg.connect(server.url, autocommit=True) as db:
            for setting in ("statement_timeout", "lock_timeout"):
                db.execute(f"alter role current_user set {setting} = '8s'".encode())
        with PgBouncer(server.tcp_url, pool=POOL) as bouncer:
            url = bouncer.url("postgres").replace("@", ".abcdefghijklmnopqrst@") + "?sslmode=prefer"
            yield Pooled(server, bouncer, url)
    finally:
        server.stop()


@pytest.fixture(scope="module")
def migrated(pooled: Pooled) -> Pooled:
    fine("migrate", "--yes", "--app", APP, "--database", pooled.url)
    with psycopg.connect(pooled.url, autocommit=True) as db:
        db.execute(TABLES.encode())
    return pooled


@pytest.fixture
def db(migrated: Pooled) -> Generator[Db]:
    with psycopg.connect(migrated.server.url, autocommit=True, row_factory=namedtuple_row) as connection:
        yield connection


@pytest.fixture(autouse=True)
def quiet(migrated: Pooled, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Not a single error, wherever one might be swallowed."""
    monkeypatch.setenv("REDRIVE_TEST_BOOK", migrated.url)
    before = len(migrated.faults())
    yield
    assert migrated.faults()[before:] == []


def worker(pooled: Pooled, journal: Journal, *queues: str, **options: Any) -> WorkerProcess:
    return WorkerProcess(pooled.url, journal.path, app=APP, queues=queues, **options)


def complaints(*workers: WorkerProcess) -> list[dict[str, Any]]:
    return [line for each in workers for line in each.lines if line.get("level") != "info"]


def test_the_schema_and_the_apps_queues_are_made_through_it(migrated: Pooled, db: Db) -> None:
    assert fine("migrate", "--check", "--app", APP, "--database", migrated.url).code == 0
    assert count(db, "q_ledger") == 0


@pytest.mark.timeout(120)
def test_ten_thousand_statements_of_every_kind_meet_no_error(
    migrated: Pooled, db: Db, journal: Journal
) -> None:
    set_policy(db, "ledger", visibility_timeout=3)
    before = migrated.bouncer.stats("postgres")["total_query_count"]
    effects = ["effects", "blocking_effects", "own_effects"]
    with (
        worker(migrated, journal, "diary", "ledger", *effects) as one,
        worker(migrated, journal, "diary", "ledger", *effects) as two,
    ):
        asyncio.run(send_everything(migrated.url, effects))
        until_blocking(
            lambda: sum(count(db, f"q_{q}") for q in ("diary", "ledger", *effects)) == 0, within=60
        )
        assert complaints(one, two) == []
    outcomes = fetch(db, "select outcome, count(*) from pgmq.a_diary group by 1 order by 1")
    assert outcomes == [("done", 500), ("duplicate", 500)]
    # More than twice their visibility timeout, kept by heartbeats: each ran once.
    starts = fetch(db, "select count(*) from run where queue = 'ledger' group by msg_id")
    assert [start.count for start in starts] == [1] * 5
    assert fetch(db, "select count(*) as all, count(distinct name) as names from effect") == [(2000, 2000)]
    assert migrated.bouncer.stats("postgres")["total_query_count"] - before > 10_000


async def send_everything(url: str, effects: list[str]) -> None:
    app = Redrive(url)
    try:
        await app.send_many("ledger", [{"for": 7}] * 5)
        keyed = [app.send("diary", {"for": 0}, key=f"k{n % 500}") for n in range(1000)]
        single = [
            app.send(queue, {"name": f"{queue} {n}", "die": "never"})
            for queue, number in zip(effects, (1000, 500, 400), strict=True)
            for n in range(number)
        ]
        await asyncio.gather(*keyed, *single)
        await send_with_connections_of_ones_own(app, url)
    finally:
        await app.close()


async def send_with_connections_of_ones_own(app: Redrive, url: str) -> None:
    for n in range(25):
        async with await psycopg.AsyncConnection.connect(url, prepare_threshold=None) as connection:
            await app.send("effects", {"name": f"async {n}", "die": "never"}, connection=connection)
        with psycopg.connect(url, prepare_threshold=None) as blocking:
            app.sync.send("effects", {"name": f"blocking {n}", "die": "never"}, connection=blocking)
    theirs = await asyncpg.connect(url, statement_cache_size=0)
    for n in range(25):
        async with theirs.transaction():
            await app.send("effects", {"name": f"asyncpg {n}", "die": "never"}, connection=theirs)
    await theirs.close()
    engine = create_async_engine(
        url.replace("postgresql:", "postgresql+psycopg:"), connect_args={"prepare_threshold": None}
    )
    for n in range(25):
        async with engine.begin() as connection:
            await app.send("effects", {"name": f"sqlalchemy {n}", "die": "never"}, connection=connection)
    await engine.dispose()


def test_a_deaf_worker_says_so_and_finds_its_work_by_polling(
    migrated: Pooled, db: Db, journal: Journal
) -> None:
    with worker(migrated, journal, "diary", poll=0.5) as deaf:
        deaf.await_line("notify_deaf")
        unheard = migrated.bouncer.log().count(UNHEARD)
        before = count(db, "a_diary")
        asyncio.run(send_ten(migrated.server.url))
        until_blocking(lambda: count(db, "a_diary") == before + 10, within=5)
        assert not deaf.events("notify_listening")
        # It left no connection behind that listens to senders, for the pooler to complain about.
        assert migrated.bouncer.log().count(UNHEARD) == unheard
        assert complaints(deaf) == []


async def send_ten(url: str) -> None:
    app = Redrive(url)
    for _ in range(10):
        await app.send("diary", {"for": 0})
    await app.close()


def test_a_dead_letter_is_redriven_and_succeeds(
    migrated: Pooled, db: Db, journal: Journal, tmp_path: Path
) -> None:
    bug = tmp_path / "bug"
    bug.touch()
    with worker(migrated, journal, "fickle") as running:
        at = ("--database", migrated.url)
        fine("send", "fickle", json.dumps({"while": str(bug)}), "--key", "k", *at)
        until_blocking(lambda: count(db, "q_fickle_dlq") == 1)
        [dead] = fine("dlq", "list", "fickle", "--json", *at).json
        assert [failure["error"] for failure in dead["failures"]] == ["template missing"] * 2
        bug.unlink()
        fine("dlq", "redrive", "fickle", "--all", "--canary", "1", *at)
        until_blocking(lambda: count(db, "a_fickle", "outcome = 'done'") == 1)
        assert count(db, "q_fickle_dlq") == 0
        assert {line["level"] for line in running.lines} == {"info", "warning", "error"}
        assert {line["event"] for line in complaints(running)} == {"job_retry", "job_dead"}


def test_of_two_workers_one_holds_a_single_flight_queue_until_it_drains(
    migrated: Pooled, db: Db, journal: Journal
) -> None:
    set_policy(db, "alone", visibility_timeout=2)
    app = Redrive(migrated.url)
    app.sync.send_many("alone", [{"for": 0.3}] * 20)
    with (
        worker(migrated, journal, "alone", poll=0.2) as one,
        worker(migrated, journal, "alone", poll=0.2) as two,
    ):
        until_blocking(lambda: count(db, "a_alone") >= 5)
        [holder] = fetch(db, "select distinct parent from run where queue = 'alone'")
        first, second = (one, two) if holder.parent == one.pid else (two, one)
        first.__exit__(None, None, None)
        until_blocking(lambda: count(db, "a_alone") == 20)
        assert {r.parent for r in fetch(db, "select parent from run where queue = 'alone'")} == {
            one.pid,
            two.pid,
        }
        assert complaints(one, two) == [] and not second.events("worker_replaced")
    overlaps = """select from run a join run b on a.queue = 'alone' and b.queue = 'alone' and a.id < b.id
                   where b.started_at < a.ended_at"""
    assert fetch(db, overlaps) == []


async def test_a_lease_has_one_holder_and_no_token_twice(migrated: Pooled) -> None:
    database = Database(migrated.url, size=8)

    def ask(sql: str, *params: str | int) -> Any:
        return database.run(cast("Statement[Any]", Statement(sql, params, scalar)))

    try:
        tokens: list[int] = []
        for _ in range(50):
            tried = await asyncio.gather(
                *(ask("select redrive.acquire_lease(%s::text, %s::integer)", "night", 30) for _ in range(8))
            )
            [token] = [each for each in tried if each is not None]
            assert await ask(
                "select redrive.renew_lease(%s::text, %s::bigint, %s::integer)", "night", token, 30
            )
            assert await ask("select redrive.lease_is_mine(%s::text, %s::bigint)", "night", token)
            for old in tokens[-1:]:
                assert not await ask("select redrive.lease_is_mine(%s::text, %s::bigint)", "night", old)
                assert not await ask("select redrive.release_lease(%s::text, %s::bigint)", "night", old)
            assert await ask("select redrive.release_lease(%s::text, %s::bigint)", "night", token)
            tokens.append(token)
        assert len(set(tokens)) == 50
    finally:
        await database.close()


async def test_an_alert_is_told_once_by_many_checkers(migrated: Pooled) -> None:
    database = Database(migrated.url, size=8)
    rule = {"gauge": "notify_queue_usage", "operator": ">=", "threshold": 0}
    try:
        await database.run(alerts.declare_sinks({"ops": "webhook"}))
        await database.run(alerts.set_rule("always", rule))
        told: list[str] = []
        for _ in range(20):
            await asyncio.gather(*(database.run(alerts.check()) for _ in range(4)))
            claims = await asyncio.gather(*(database.run(alerts.claim(["ops"])) for _ in range(4)))
            due = [each for claimed in claims for each in claimed if each.rule == "always"]
            told += [each.event for each in due]
            await database.run(
                alerts.settle([each.id for each in due], [each.token for each in due], [None] * len(due))
            )
        assert told == ["firing"]
        assert await database.run(alerts.drop_rule("always"))
        changed = await database.run(alerts.check())
        assert [(each.rule, each.state) for each in changed if each.rule == "always"] == [
            ("always", "resolved")
        ]
    finally:
        await database.close()


async def test_ticks_drain_their_queues_and_one_at_a_time(migrated: Pooled, db: Db) -> None:
    db.execute("select redrive.create_queue('ticked')")
    app = Redrive(migrated.url)
    gate = asyncio.Event()

    @app.job("ticked", visibility_timeout=1)
    async def ticked(payload: dict[str, Any], job: Job) -> None:
        if payload["wait"]:
            await gate.wait()
        async with job.transaction() as connection:
            await connection.execute("insert into effect (name) values (%s)", (f"ticked {job.msg_id}",))

    ticks = Ticks(app, Access([]))
    transport = httpx.ASGITransport(asgi(app, ticks=ticks), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as http:

        async def tick() -> dict[str, Any]:
            return (await http.post("/tick/ticked")).json()

        assert await tick() == {"processed": 0, "failed": 0, "skipped": 0}
        await app.send_many("ticked", [{"wait": False}] * 100)
        assert await tick() == {"processed": 100, "failed": 0, "skipped": 0}
        await app.send("ticked", {"wait": True})
        first, second = asyncio.create_task(tick()), asyncio.create_task(tick())
        done, _ = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result()["reason"] for each in done] == [BUSY]
        # Twice its visibility timeout, kept by its heartbeat.
        await asyncio.sleep(2)
        gate.set()
        told = await asyncio.gather(first, second)
        assert sorted(each["processed"] for each in told) == [0, 1]
        async with app.database.connection() as connection:
            found = await (
                await connection.execute("select count(*) from effect where name like 'ticked %'")
            ).fetchone()
        assert found == (101,)
    await ticks.stop()
    await app.close()


def test_the_doctor_can_ask_all_it_wants_to_know(migrated: Pooled) -> None:
    found = json.loads(run("doctor", "--json", "--database", migrated.url).out)
    assert found
    assert [each["problem"] for each in found if each["problem"].startswith("this check failed")] == []
