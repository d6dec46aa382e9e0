"""POST /tick/{queue}: what it drains and answers, and whom it does not answer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from redrive import Backoff, Job, Redrive, Reject, Snooze
from redrive.web.access import Access
from redrive.web.application import asgi
from redrive.web.tick import Ticks
from redrive.worker import drain as drains
from redrive.worker.drain import BUSY, ENDING, LOST, PAUSED
from tests.support.cli import fine
from tests.support.roles import Roles
from tests.support.working import APP, Journal, count, fetch, make_queue, send, until

Db = psycopg.Connection[Any]

NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"

pytestmark = pytest.mark.timeout(60)


@dataclass
class Shop:
    """An app whose handler does what its payload says, and who asks it to tick."""

    app: Redrive
    ticks: Ticks
    http: httpx.AsyncClient
    starts: list[int] = field(default_factory=list[int])
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def tick(self, queue: str = "mail", **more: Any) -> httpx.Response:
        return await self.http.post(f"/tick/{queue}", **more)

    async def told(self, queue: str = "mail", **more: Any) -> dict[str, Any]:
        answer = await self.tick(queue, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()


@asynccontextmanager
async def shop(
    url: str, *, access: Access | None = None, spec: str | None = None, **policy: Any
) -> AsyncGenerator[Shop]:
    app = Redrive(url)
    ticks = Ticks(app, access or Access([]), spec=spec)
    transport = httpx.ASGITransport(asgi_of(app, ticks, policy), client=("127.0.0.1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as http:
        made = Shop(app, ticks, http)
        _SHOPS[app] = made
        try:
            yield made
        finally:
            made.go_on.set()
            await ticks.stop()
            await app.close()
            del _SHOPS[app]


_SHOPS: dict[Redrive, Shop] = {}


def asgi_of(app: Redrive, ticks: Ticks, policy: dict[str, Any]) -> Any:
    given: dict[str, Any] = {"backoff": Backoff(base=600, factor=1, jitter=0), **policy}

    @app.job("mail", **given)
    async def mail(payload: dict[str, Any], job: Job) -> object:
        here = _SHOPS[app]
        here.starts.append(job.msg_id)
        match payload.get("do"):
            case "fail":
                raise ValueError("no such address")
            case "snooze":
                return Snooze(600)
            case "reject":
                return Reject("never")
            case "again":
                await mail.send({"do": "nothing"})
            case "wait":
                here.waiting.set()
                await here.go_on.wait()
            case _:
                pass
        return None

    return asgi(app, ticks=ticks)


async def started(found: Shop) -> None:
    async with asyncio.timeout(10):
        await found.waiting.wait()


class TestItAnswers:
    async def test_how_many_deliveries_ended_how_and_what_is_left_is_nothing_that_is_due(
        self, database_url: str, db: Db
    ) -> None:
        async with shop(database_url, max_attempts=2) as s:
            # No table, no policy: the first tick makes the queue, as a worker would.
            assert await s.told() == {"processed": 0, "failed": 0, "skipped": 0}
            for do in ("nothing", "nothing", "again", "fail", "reject", "snooze"):
                send(db, "mail", {"do": do})
            assert await s.told() == {"processed": 4, "failed": 2, "skipped": 1}
            assert fetch(db, "select count(*) from pgmq.a_mail where outcome = 'done'") == [(4,)]
            assert count(db, "q_mail") == 2
            assert count(db, "q_mail_dlq") == 1
            # The failed one was to be tried again, and is at its end now.
            db.execute("update pgmq.q_mail set vt = clock_timestamp() where message ->> 'do' = 'fail'")
            assert await s.told() == {"processed": 0, "failed": 1, "skipped": 0}
            [dead] = fetch(
                db, "select reason, attempts, error from redrive.dead_letters('mail') where reason = 'failed'"
            )
            assert dead == ("failed", 2, "ValueError: no such address")

    async def test_hundreds_of_messages_and_what_stands_in_front_of_them_is_no_end(
        self, database_url: str, db: Db
    ) -> None:
        make_queue(db, "mail", max_attempts=1)
        many = "select redrive.send_batch('mail', jsonb_agg('{}'::jsonb)) from generate_series(1, %s)"
        fetch(db, many, 1500)
        # Spent: each is buried at a claim, without a run.
        db.execute("update pgmq.q_mail set read_ct = 3")
        fetch(db, many, 300)
        async with shop(database_url, max_attempts=1) as s:
            assert await s.told() == {"processed": 300, "failed": 0, "skipped": 0}
        assert count(db, "q_mail") == 0

    async def test_that_another_tick_is_at_it_for_as_long_as_it_takes(
        self, database_url: str, db: Db, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(drains, "LEASE", 0.6)
        monkeypatch.setattr(drains, "_RENEW", 0.2)
        make_queue(db, "mail")
        send(db, "mail", {"do": "wait"})
        async with shop(database_url) as s, shop(database_url) as elsewhere:
            first = asyncio.create_task(s.told())
            await started(s)
            held = "select lease_until from redrive.lease where name = 'redrive.tick:mail'"
            before = fetch(db, held)
            send(db, "mail", {"do": "nothing"})
            for other in (s, elsewhere):
                answer = await other.told(json={"queue": "mail"})
                assert answer == {"processed": 0, "failed": 0, "skipped": 0, "reason": BUSY}
            # Held on beyond its own length.
            await until(
                lambda: fetch(db, f"{held} and lease_until > %s + interval '1 second'", before[0][0]) != []
            )
            assert (await elsewhere.told())["reason"] == BUSY
            s.go_on.set()
            assert await first == {"processed": 2, "failed": 0, "skipped": 0}
            assert fetch(db, held) == []

    async def test_that_a_queue_is_paused(self, database_url: str, db: Db) -> None:
        make_queue(db, "mail")
        send(db, "mail", {"do": "nothing"})
        db.execute("select redrive.pause_queue('mail')")
        async with shop(database_url) as s:
            answer = await s.told()
            assert answer == {"processed": 0, "failed": 0, "skipped": 0, "reason": PAUSED}
            db.execute("select redrive.resume_queue('mail')")
            assert await s.told() == {"processed": 1, "failed": 0, "skipped": 0}

    async def test_within_its_budget_and_a_job_that_takes_longer_ends_afterwards(
        self, database_url: str, db: Db
    ) -> None:
        make_queue(db, "mail")
        send(db, "mail", {"do": "wait"})
        async with shop(database_url, visibility_timeout=1) as s:
            began = time.monotonic()
            answer = await s.told(params={"budget": "1"})
            assert time.monotonic() - began < 2
            reason = "the budget of 1 s was spent"
            assert answer == {"processed": 0, "failed": 0, "skipped": 0, "running": 1, "reason": reason}
            assert (await s.told())["reason"] == BUSY
            # Beyond its visibility timeout, kept by the heartbeat: nobody else may claim it.
            await until(
                lambda: (
                    fetch(db, "select from pgmq.q_mail where vt > enqueued_at + interval '3 seconds'") != []
                )
            )
            s.go_on.set()
            await until(lambda: count(db, "q_mail") == 0)
            assert fetch(db, "select outcome from pgmq.a_mail") == [("done",)]
            assert len(s.starts) == 1

    async def test_within_the_budget_of_the_body_and_claims_no_more_when_it_nears(
        self, database_url: str, db: Db
    ) -> None:
        make_queue(db, "mail")
        send(db, "mail", {"do": "wait"})
        async with shop(database_url, concurrency=1) as s:
            ticking = asyncio.create_task(s.told(json={"queue": "mail", "budget": 1}))
            await started(s)
            await until(lambda: [each.result.reason for each in s.ticks.drains.values()] != [None])
            send(db, "mail", {"do": "nothing"})
            s.go_on.set()
            answer = await ticking
            assert (answer["processed"], answer["reason"]) == (1, "the budget of 1 s was spent")
            assert fetch(db, "select read_ct from pgmq.q_mail") == [(0,)]

    async def test_400_to_an_impossible_budget(self) -> None:
        async with shop(NOWHERE) as s:
            for budget in ("0.5", "301", "nan", "-1", "soon", "1e999", ""):
                answer = await s.tick(params={"budget": budget})
                assert (answer.status_code, "seconds from 1 to 300" in answer.text) == (400, True), budget

    async def test_400_and_413_to_impossible_bodies_and_anything_to_a_body_that_it_needs_not(
        self, database_url: str
    ) -> None:
        async with shop(database_url) as s:
            for body in (b"[]", b"{", b'"x"', b"\xff", b"[" * 5000):
                assert (await s.tick(content=body)).status_code == 400, body[:10]
            for given in (True, None, [], "x"):
                assert (await s.tick(json={"budget": given})).status_code == 400, given
            assert (await s.tick(content=b" " * 10_001)).status_code == 413
            for body in (b"", b" \n", b"{}", b'{"queue": "other", "more": 1}'):
                assert (await s.tick(content=body)).status_code == 200, body

    async def test_404_to_a_queue_without_a_job_and_405_to_anything_but_a_post(self) -> None:
        async with shop(NOWHERE) as s:
            answer = await s.tick("male")
            assert (answer.status_code, "no job for queue 'male'; it works: mail" in answer.text) == (
                404,
                True,
            )
            for method in ("GET", "HEAD", "PUT", "DELETE"):
                assert (await s.http.request(method, "/tick/mail")).status_code == 405, method

    async def test_503_where_it_may_not_work_naming_the_part_and_where_the_database_is_away(
        self, database_url: str, db: Db, roles: Roles
    ) -> None:
        make_queue(db, "mail")
        role = roles.create("ticker", "login")
        await asyncio.to_thread(fine, "grant", role, "send", "--database", database_url)
        async with shop(roles.url(db.info, role)) as s:
            answer = await s.tick()
            assert (answer.status_code, f"redrive grant {'ROLE'} work" in answer.text) == (503, True), (
                answer.text
            )
            await asyncio.to_thread(fine, "grant", role, "work", "--database", database_url)
            assert (await s.told())["processed"] == 0
        async with shop(NOWHERE) as s:
            answer = await s.tick(params={"budget": 1})
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "5"
            assert "database" in answer.text

    async def test_and_the_queue_counts_as_worked_until_the_next_one(self, database_url: str, db: Db) -> None:
        async with shop(database_url) as s:
            await s.told()
            send(db, "mail", {"do": "nothing"})
            await s.told()
        workers = fetch(db, "select worker, alive, claimed, done from redrive.workers() where queue = 'mail'")
        assert workers == [("tick", True, 1, 1)]
        send(db, "mail", {"do": "nothing"})
        assert fetch(db, "select workers from redrive.metrics('mail')") == [(1,)]


class TestItStops:
    async def test_claiming_when_whoever_asked_goes_and_what_runs_ends(
        self, database_url: str, db: Db
    ) -> None:
        make_queue(db, "mail")
        send(db, "mail", {"do": "wait"})
        async with shop(database_url, concurrency=1) as s:
            async with asyncio.timeout(10):
                await until_gone(s, lambda: started(s))
            send(db, "mail", {"do": "nothing"})
            s.go_on.set()
            await until(lambda: not s.ticks.drains)
            assert fetch(db, "select outcome from pgmq.a_mail") == [("done",)]
            assert fetch(db, "select read_ct from pgmq.q_mail") == [(0,)]
            assert (await s.told())["processed"] == 1

    async def test_at_the_end_of_its_process_and_gives_back_at_no_charge(
        self, database_url: str, db: Db, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("redrive.web.tick._DRAIN", 0.2)
        make_queue(db, "mail")
        send(db, "mail", {"do": "wait"})
        async with shop(database_url) as s:
            ticking = asyncio.create_task(s.told())
            await started(s)
            s.ticks.drain()
            assert await ticking == {"processed": 0, "failed": 0, "skipped": 1, "reason": ENDING}
            assert (await s.tick()).status_code == 503
        [row] = fetch(
            db, "select vt <= clock_timestamp() as due, headers ->> 'x-redrive-credit' from pgmq.q_mail"
        )
        assert row == (True, "1")
        assert fetch(db, "select 1 from redrive.attempt") == []
        assert fetch(db, "select 1 from redrive.lease where name = 'redrive.tick:mail'") == []

    async def test_also_what_was_answered_already(
        self, database_url: str, db: Db, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("redrive.web.tick._DRAIN", 0.2)
        make_queue(db, "mail")
        send(db, "mail", {"do": "wait"})
        async with shop(database_url) as s:
            assert (await s.told(json={"budget": 1}))["running"] == 1
            await s.ticks.stop()
            assert fetch(db, "select headers ->> 'x-redrive-credit' from pgmq.q_mail") == [("1",)]

    async def test_when_its_lease_was_taken_and_what_runs_ends(
        self, database_url: str, db: Db, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(drains, "_RENEW", 0.1)
        make_queue(db, "mail")
        send(db, "mail", {"do": "wait"})
        async with shop(database_url, concurrency=1) as s:
            ticking = asyncio.create_task(s.told())
            await started(s)
            db.execute("select redrive.free_lease('redrive.tick:mail')")
            await until(lambda: [each.result.reason for each in s.ticks.drains.values()] == [LOST])
            send(db, "mail", {"do": "nothing"})
            s.go_on.set()
            assert (await ticking)["processed"] == 1
            assert count(db, "q_mail") == 1


async def until_gone(s: Shop, here: Callable[[], Awaitable[None]]) -> None:
    """Ask for a tick, and go away once `here` has come."""
    gone = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if not asked:
            asked.append(True)
            return {"type": "http.request", "body": b"", "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def nobody(message: Any) -> None: ...

    asked: list[bool] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/tick/mail",
        "raw_path": b"/tick/mail",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
        "root_path": "",
    }
    asking = asyncio.create_task(asgi(s.app, ticks=s.ticks)(scope, receive, nobody))
    await here()
    gone.set()
    [drain] = s.ticks.drains.values()
    await until(lambda: drain.result.reason is not None)
    asking.add_done_callback(lambda done: done.exception())


async def test_a_handler_that_does_not_stop_keeps_its_place_and_one_day_ticks_say_so(
    database_url: str, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.worker.held.GRACE", 0.1)
    monkeypatch.setattr("redrive.web.tick.DEFAULT_CONCURRENCY", 2)
    app = Redrive(database_url)
    over = asyncio.Event()

    @app.job("stubborn", timeout=0.2, max_attempts=1)
    async def stubborn() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                pass

    make_queue(db, "stubborn")
    ticks = Ticks(app, Access([]))
    transport = httpx.ASGITransport(asgi(app, ticks=ticks), client=("127.0.0.1", 1))
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as http:
            for _ in range(2):
                send(db, "stubborn", None)
                told = (await http.post("/tick/stubborn")).json()
                assert (told["failed"], told["reason"]) == (1, "a handler did not stop when told to")
            answer = await http.post("/tick/stubborn")
            assert (answer.status_code, "start this process again" in answer.text) == (503, True)
        assert count(db, "q_stubborn_dlq") == 2
    finally:
        over.set()
        await app.close()


class TestSuspects:
    """What has ended two deliveries without a report runs in a process of its own, or not at all."""

    @staticmethod
    def suspect(db: Db, queue: str, payload: object) -> None:
        make_queue(db, queue, max_attempts=5, backoff={"base": 600, "factor": 1, "jitter": 0})
        send(db, queue, payload)
        for _ in range(2):
            db.execute("select from redrive.claim(%s, 1, 1, 'killed')", (queue,))
            db.execute(f"update pgmq.q_{queue} set vt = clock_timestamp()".encode())

    async def test_run_there_where_the_apps_name_is_known(
        self, database_url: str, db: Db, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_TEST_JOURNAL", str(tmp_path / "journal"))
        from tests.support.worker_app import app

        monkeypatch.setattr(app, "database_url", database_url)
        self.suspect(db, "work", {"do": "nothing"})
        ticks = Ticks(app, Access([]), spec=APP)
        transport = httpx.ASGITransport(asgi(app, ticks=ticks), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as http:
            answer = await http.post("/tick/work")
        await app.close()
        assert answer.json() == {"processed": 1, "failed": 0, "skipped": 0}
        [entry] = Journal(tmp_path / "journal").entries()[:1]
        assert entry["pid"] != os.getpid()

    async def test_are_not_run_and_say_why_where_it_is_not(self, database_url: str, db: Db) -> None:
        self.suspect(db, "mail", {"do": "nothing"})
        async with shop(database_url) as s:
            assert await s.told() == {"processed": 0, "failed": 1, "skipped": 0}
            assert s.starts == []
        [row] = fetch(db, "select error_type, error from redrive.attempt order by at desc limit 1")
        assert row[0] == "NotIsolated" and "set REDRIVE_APP" in row[1]
