"""The receiver on a real database: one row and one job for an event, whatever is sent how often at once."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.http import HttpResponse
from django.test import override_settings
from django.urls import path
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from redrive import Event, Job, Redrive
from redrive.inbox.signing import sign
from redrive.web import asgi
from tests.support.databases import Databases
from tests.support.receiving import SECRET, Answered, github, lines, post
from tests.support.working import count, make_queue, until, working

Db = psycopg.Connection[Any]

# Real payloads, where this checkout lies beside them.
WEBHOOKS = Path(__file__).parents[3] / "shared" / "data" / "github-webhooks"


def app_of(url: str, **more: Any) -> Redrive:
    app = Redrive(url)
    given: dict[str, Any] = {"provider": "github", "secret": SECRET, "queue": "hooks"}
    app.inbox("github", **given | more)
    return app


@pytest.fixture
async def app(database_url: str, db: Db) -> AsyncGenerator[Redrive]:
    make_queue(db, "hooks")
    made = app_of(database_url)
    yield made
    await made.close()


async def deliver(
    web: Any, id: str, payload: Any = None, *, type: str = "push", body: bytes | None = None
) -> Answered:
    raw = json.dumps(payload if payload is not None else {"id": id}).encode() if body is None else body
    answer = await post(web, "/webhooks/github", raw, github(raw, id, type))
    assert answer is not None
    return answer


def rows(db: Db, columns: str = "event_id") -> list[Any]:
    return db.execute(f"select {columns} from redrive.webhook_event order by 1".encode()).fetchall()


async def test_a_database_that_cannot_be_used_is_503_and_the_log_says_why_without_its_password(
    database_url: str, db: Db, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redrive.inbox")
    where = f"host={db.info.host}&port={db.info.port}"
    app = app_of(f"postgresql://postgres:s3cret@/no_such_database?{where}")
    web = asgi(app)
    assert (await deliver(web, "1")).status == 503
    ready = await post(web, "/readyz", b"", [], method="GET")
    assert ready is not None and (ready.status, ready.word) == (503, "the database does not answer")
    for said in ("answered 503, for: ", "not ready: "):
        await until(lambda said=said: said in caplog.text)
        told = caplog.text.partition(said)[2].splitlines()[0]
        assert 'database "no_such_database" does not exist' in told
    assert "s3cret" not in caplog.text and "Traceback" not in caplog.text
    make_queue(db, "hooks")
    app.database_url = database_url
    assert (await deliver(web, "1")).word == "ok"
    assert "the database is back" in caplog.text
    await app.close()


class TestOnce:
    async def test_fifty_identical_deliveries_at_once_are_one_event_with_one_job(
        self, app: Redrive, db: Db
    ) -> None:
        web = asgi(app)
        answers = await asyncio.gather(*(deliver(web, "same") for _ in range(50)))
        assert Counter(each.word for each in answers) == {"ok": 1, "duplicate": 49}
        assert {each.status for each in answers} == {200}
        assert len(rows(db)) == count(db, "q_hooks") == 1

    async def test_a_thousand_deliveries_half_of_them_repeats_are_five_hundred(
        self, app: Redrive, db: Db
    ) -> None:
        web = asgi(app)
        ids = [f"event {n}" for n in range(500)] * 2
        random.Random(7).shuffle(ids)
        room = asyncio.Semaphore(16)

        async def one(id: str) -> Answered:
            async with room:
                return await deliver(web, id)

        answers = await asyncio.gather(*map(one, ids))
        assert Counter((each.status, each.word) for each in answers) == {
            (200, "ok"): 500,
            (200, "duplicate"): 500,
        }
        assert {row.event_id for row in rows(db)} == set(ids)
        assert len(rows(db)) == count(db, "q_hooks") == 500

    async def test_the_same_id_with_another_body_is_a_conflict_kept_for_the_operator(
        self, app: Redrive, db: Db
    ) -> None:
        web = asgi(app)
        assert (await deliver(web, "1", {"a": 1})).word == "ok"
        answer = await deliver(web, "1", {"a": 2})
        assert (answer.status, answer.word) == (200, "conflict")
        assert count(db, "q_hooks") == 1
        refused = db.execute("select reason, event_id, body from redrive.webhook_refused").fetchall()
        assert [tuple(row) for row in refused] == [("conflict", "1", b'{"a": 2}')]

    async def test_fields_that_the_provider_changes_make_no_conflict(self, database_url: str, db: Db) -> None:
        make_queue(db, "hooks")
        app = app_of(database_url, provider="stripe")
        web = asgi(app)
        words: list[str] = []
        for pending, amount in ((1, 5), (0, 5), (0, 6)):
            event = {"id": "evt_1", "type": "invoice.paid", "pending_webhooks": pending, "amount": amount}
            body = json.dumps(event).encode()
            headers = lines(sign("stripe", secret=SECRET, body=body))
            answer = await post(web, "/webhooks/github", body, headers)
            assert answer is not None
            words.append(answer.word)
        assert words == ["ok", "duplicate", "conflict"]
        await app.close()

    async def test_the_event_and_its_job_know_each_other(self, app: Redrive, db: Db) -> None:
        body = b'{"idempotency_key": "no key of ours"}'
        await deliver(asgi(app), "1", body=body)
        [row] = rows(db, "id::text, msg_id, status, queue, raw")
        assert (row.status, row.queue, row.raw) == ("received", "hooks", body)
        message = db.execute("select msg_id, message, headers from pgmq.q_hooks").fetchone()
        assert message is not None
        assert (message.msg_id, message.message) == (row.msg_id, {"idempotency_key": "no key of ours"})
        assert message.headers["x-redrive-event"] == row.id
        claimed = db.execute("select key from redrive.claim('hooks', 60, 1, 'w')").fetchone()
        assert claimed is not None and claimed.key is None


class TestSignedMeansRecorded:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"\xff\xfe\x00",
            b'{"a": "\\u0000"}',
            b'{"a": "\\ud800"}',
            b'{"a": 1e400000}',
            b'{"a": NaN}',
            b'{"\\u0000": 1}',
            b"[" * 50_000 + b"]" * 50_000,
            b"[" * 900 + b"]" * 900,
            b"payload=%7B%7D",
            b'"' + b"x" * 2_000_000 + b'"',
            b'{"a": ' + b"1" * 140_000 + b"}",
        ],
        ids=lambda body: repr(body[:20]),
    )
    async def test_whatever_the_body_is(self, body: bytes, app: Redrive, db: Db) -> None:
        assert (await deliver(asgi(app), "1", body=body)).word == "ok"
        [row] = rows(db, "event_id, type, payload is null as raw_alone, raw")
        assert (row.event_id, row.type, row.raw) == ("1", "push", body)
        message = db.execute("select message from pgmq.q_hooks").fetchone()
        assert message is not None
        if row.raw_alone:
            assert message.message == {"event_id": "1", "type": "push"}

    async def test_in_a_database_of_few_characters_too(self, databases: Databases) -> None:
        from redrive.store.database import connect
        from redrive.store.migrations import migrate

        url = databases.latin1()
        with connect(url) as db:
            migrate(db)
            db.execute("select redrive.create_queue('hooks')")
            app = app_of(url)
            web = asgi(app)
            for n, body in enumerate(('{"a": "é"}', '{"a": "世"}')):
                assert (await deliver(web, str(n), body=body.encode())).word == "ok"
            found = db.execute("select event_id, payload is null, raw from redrive.webhook_event").fetchall()
            assert sorted(found) == [
                ("0", False, '{"a": "é"}'.encode()),
                ("1", True, '{"a": "世"}'.encode()),
            ]
            await app.close()
        databases.drop(url)


class TestMounted:
    """Behind other applications, under a prefix, where nobody tells of the start and the end."""

    @pytest.fixture
    def web(self, app: Redrive) -> Any:
        return asgi(app)

    async def _check(self, outer: Any, db: Db) -> None:
        for word in ("ok", "duplicate"):
            body = b'{"mounted": true}'
            answer = await post(outer, "/inbox/webhooks/github", body, github(body, "1"))
            assert answer is not None and answer.word == word
        answer = await post(outer, "/inbox/webhooks/github", b"{}", [])
        assert answer is not None and answer.status == 401
        assert len(rows(db)) == 1
        await until(lambda: bool(db.execute("select from redrive.webhook_refused").fetchall()))

    async def test_in_starlette(self, web: Any, db: Db) -> None:
        await self._check(Starlette(routes=[Mount("/inbox", web)]), db)

    async def test_in_fastapi(self, web: Any, db: Db) -> None:
        outer = FastAPI()
        outer.mount("/inbox", web)
        await self._check(outer, db)

    async def test_before_django(self, web: Any, db: Db) -> None:
        if not settings.configured:
            settings.configure(USE_TZ=True)
        shop = type("Urls", (), {"urlpatterns": [path("", lambda _: HttpResponse(b"shop"))]})
        with override_settings(ROOT_URLCONF=shop, MIDDLEWARE=[], ALLOWED_HOSTS=["*"]):
            outer = Starlette(routes=[Mount("/inbox", web), Mount("/", get_asgi_application())])
            await self._check(outer, db)
            async with httpx.AsyncClient(
                transport=httpx.ASGITransport(outer), base_url="http://localhost"
            ) as client:
                assert (await client.get("/")).text == "shop"


class TestHandled:
    @pytest.fixture
    def payload(self) -> bytes:
        files = sorted(WEBHOOKS.glob("push*.json"))
        if not files:
            pytest.skip(f"no {WEBHOOKS}: the real payloads are not beside this checkout")
        return files[0].read_bytes()

    async def test_a_real_payload_of_github_is_handled_and_processed(
        self, payload: bytes, app: Redrive, db: Db, database_url: str
    ) -> None:
        seen: list[Event] = []

        @app.on("github", "push")
        async def pushed(event: Event, job: Job) -> None:
            seen.append(event)

        assert (await deliver(asgi(app), "72d3162e", body=payload)).word == "ok"
        async with working(app, database_url):
            await until(lambda: rows(db, "status")[0].status == "processed")
        [event] = seen
        assert event.raw == payload and event.payload == json.loads(payload)
        assert event.resource == event.payload["repository"]["full_name"]
