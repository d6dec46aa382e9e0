"""The receiver while its database, network or own process goes away: 503 in time, and nothing twice."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from redrive import Redrive
from redrive.inbox.signing import sign
from redrive.web import asgi
from tests.chaos.conftest import look
from tests.support import inbox_app
from tests.support.command import Command
from tests.support.network import Network
from tests.support.proxy import Proxy
from tests.support.receiving import SECRET, Answered, github, post
from tests.support.server import Server, with_database
from tests.support.working import Journal, WorkerProcess, count, make_queue, until, until_blocking

Db = psycopg.Connection[Any]
ROOT = Path(__file__).parents[2]
APP = "tests.support.inbox_app:app"


async def deliver(web: Any, id: str, *, secret: str = SECRET) -> tuple[Answered, float]:
    """The answer, and how long it took."""
    body = json.dumps({"id": id}).encode()
    began = time.monotonic()
    answer = await post(web, "/webhooks/github", body, github(body, id, secret=secret))
    assert answer is not None
    return answer, time.monotonic() - began


async def refused_in_time(web: Any, id: str, at_once: int = 20) -> None:
    """503 within two seconds, however many ask; and 401 for what is not signed, as ever."""
    answers = await asyncio.gather(*(deliver(web, id) for _ in range(at_once)))
    assert {(each.status, each.headers["retry-after"]) for each, _ in answers} == {(503, "5")}
    assert max(took for _, took in answers) < 2.0
    answer, took = await deliver(web, id, secret="another")
    assert (answer.status, answer.word) == (401, "mismatch") and took < 0.5


async def accepted_again(web: Any, id: str, within: float) -> None:
    async def accepted() -> bool:
        return (await deliver(web, id))[0].status == 200

    deadline = time.monotonic() + within
    while not await accepted():
        assert time.monotonic() < deadline, f"not accepted within {within} s"


def app_of(url: str) -> Redrive:
    app = Redrive(url)
    app.inbox("github", provider="github", secret=SECRET, queue="hooks")
    return app


@pytest.fixture
def hooks(db: Db) -> None:
    inbox_app.furnish(db)


@pytest.fixture
def tcp_url(server_tcp_url: str, db: Db) -> str:
    """The same database by TCP, for what stands between."""
    return with_database(server_tcp_url, db.info.dbname)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_a_stopped_database_is_503_and_a_started_one_accepts_the_retry_once(
    own_server: Server, mode: str
) -> None:
    with look(own_server.url) as db:
        make_queue(db, "hooks")
    app = app_of(own_server.url)
    web = asgi(app)
    assert (await deliver(web, "before"))[0].word == "ok"
    own_server.pause(mode)
    try:
        await refused_in_time(web, "meanwhile")
        assert (await post(web, "/readyz", b"", [], method="GET")).status == 503  # type: ignore[union-attr]
    finally:
        own_server.resume()
    await accepted_again(web, "meanwhile", 10)
    assert (await deliver(web, "before"))[0].word == "duplicate"
    with look(own_server.url) as db:
        events = db.execute("select event_id from redrive.webhook_event order by 1").fetchall()
        assert [row.event_id for row in events] == ["before", "meanwhile"]
        assert count(db, "q_hooks") == 2
        # What was refused while it was away is told when it is back.
        told = "select total from redrive.webhook_count where reason = 'mismatch'"
        await until(lambda: [row.total for row in db.execute(told.encode()).fetchall()] == [1])
    await app.close()


@pytest.mark.usefixtures("hooks")
async def test_a_network_that_swallows_everything_is_503_and_accepts_the_retry_once(
    tcp_url: str, db: Db
) -> None:
    async with Proxy(tcp_url) as proxy:
        app = app_of(proxy.url)
        web = asgi(app)
        before = await asyncio.gather(*(deliver(web, f"before {n}") for n in range(8)))
        assert {answer.word for answer, _ in before} == {"ok"}
        proxy.swallow = True
        await refused_in_time(web, "meanwhile")
        await refused_in_time(web, "meanwhile")
        proxy.swallow = False
        await accepted_again(web, "meanwhile", 15)
        await app.close()
    assert count(db, "q_hooks") == 9
    assert len(db.execute("select from redrive.webhook_event").fetchall()) == 9


@pytest.mark.usefixtures("hooks")
async def test_a_network_that_is_cut_is_503_and_accepts_the_retry_once(database_url: str, db: Db) -> None:
    async with Network(database_url) as network:
        app = app_of(network.url)
        web = asgi(app)
        assert (await deliver(web, "before"))[0].word == "ok"
        network.cut()
        await refused_in_time(web, "meanwhile")
        network.mend()
        await accepted_again(web, "meanwhile", 10)
        await app.close()
    assert count(db, "q_hooks") == 2


@pytest.mark.usefixtures("hooks")
async def test_answers_of_the_database_that_are_lost_make_no_event_twice(tcp_url: str, db: Db) -> None:
    async with Proxy(tcp_url) as proxy:
        app = app_of(proxy.url)
        web = asgi(app)
        ids = [f"event {n}" for n in range(60)]
        words: Counter[str] = Counter()
        proxy.cut_answers = 200
        for _ in range(20):
            # A few at a time, or all of them go in one call, with one answer that could be lost.
            waves = [ids[n : n + 3] for n in range(0, len(ids), 3)]
            ids = []
            for wave in waves:
                answers = await asyncio.gather(*(deliver(web, id) for id in wave))
                words.update(answer.word for answer, _ in answers)
                ids += [id for id, (answer, _) in zip(wave, answers, strict=True) if answer.status != 200]
            if not ids:
                break
        await app.close()
    assert not ids and words["try again later"] > 0
    assert count(db, "q_hooks") == 60
    assert len(db.execute("select from redrive.webhook_event").fetchall()) == 60


@pytest.mark.usefixtures("hooks")
async def test_locks_that_somebody_holds_are_503_in_time(database_url: str, db: Db) -> None:
    app = app_of(database_url)
    web = asgi(app)
    with psycopg.connect(database_url) as holder:
        holder.execute("lock table redrive.webhook_event in access exclusive mode")
        answer, took = await deliver(web, "1")
        assert answer.status == 503 and took < 2.0
        holder.rollback()
    # What was under way has been recorded, or will be: the retry finds it.
    await until(lambda: count(db, "q_hooks") == 1)
    assert (await deliver(web, "1"))[0].word == "duplicate"
    await app.close()


class Receiver:
    """`redrive serve` on a port that stays the same from one life to the next."""

    def __init__(self, url: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/webhooks/github"
        self._arguments = ("serve", "--app", APP, "--port", str(self.port), "--database", url)
        self._life: Command | None = None
        self.lives = 0

    def start(self) -> None:
        self._life = Command(*self._arguments, folder=ROOT).__enter__()
        self._life.wait_for("receiving github")
        self.lives += 1

    def end(self, number: int) -> int:
        assert self._life is not None
        return self._life.end(number)

    @property
    def said(self) -> str:
        assert self._life is not None
        return self._life.said

    def kill(self) -> None:
        if self._life is not None:
            self._life.process.send_signal(signal.SIGKILL)
            self._life.__exit__(None, None, None)
            self._life = None


class Sender:
    """Sends each event until it is answered 2xx, as a provider that is patient does."""

    def __init__(self, url: str, ids: list[str]) -> None:
        self.url = url
        self.ids = ids
        self.answered = 0
        self.words: Counter[str] = Counter()

    async def run(self) -> None:
        room = asyncio.Semaphore(8)
        async with httpx.AsyncClient(timeout=10, limits=httpx.Limits(max_connections=8)) as client:

            async def one(id: str) -> None:
                async with room:
                    await self._send(client, id)

            await asyncio.gather(*map(one, self.ids))

    async def _send(self, client: httpx.AsyncClient, id: str) -> None:
        body = json.dumps({"effect": id}).encode()
        while True:
            headers = sign("github", secret=SECRET, body=body, event_id=id, type="push")
            try:
                answer = await client.post(self.url, content=body, headers=headers)
            except httpx.TransportError:
                self.words["no answer"] += 1
                await asyncio.sleep(0.05)
                continue
            self.words[answer.text.strip()] += 1
            if answer.is_success:
                self.answered += 1
                return
            await asyncio.sleep(0.05)


@pytest.fixture
def receiver(database_url: str) -> Generator[Receiver]:
    made = Receiver(database_url)
    yield made
    made.kill()


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("hooks")
def test_a_receiver_that_is_killed_again_and_again_loses_nothing_and_makes_nothing_twice(
    database_url: str, db: Db, receiver: Receiver, journal: Journal
) -> None:
    ids = [f"event {n}" for n in range(1_500)]
    sender = Sender(receiver.url, ids)
    dice = random.Random(3)

    async def killing(sending: asyncio.Task[None]) -> None:
        for _ in range(6):
            enough = sender.answered + dice.randint(20, 200)
            await until(lambda enough=enough: sender.answered >= enough or sending.done(), 60)
            await asyncio.sleep(dice.random() * 0.02)
            if sending.done():
                return
            await asyncio.to_thread(receiver.kill)
            await asyncio.to_thread(receiver.start)

    async def play() -> None:
        await asyncio.to_thread(receiver.start)
        sending = asyncio.create_task(sender.run())
        await killing(sending)
        await sending

    with WorkerProcess(database_url, journal.path, app=APP):
        asyncio.run(play())
        assert receiver.lives >= 4 and sender.words["no answer"] > 0, sender.words
        waiting = "select from redrive.webhook_event where status = 'received'"
        until_blocking(lambda: not db.execute(waiting.encode()).fetchall(), 60)
    events = db.execute("select event_id, status, msg_id from redrive.webhook_event").fetchall()
    assert sorted(row.event_id for row in events) == sorted(ids)
    assert {row.status for row in events} == {"processed"}
    archived = db.execute("select msg_id from pgmq.a_hooks").fetchall()
    assert sorted(row.msg_id for row in archived) == sorted(row.msg_id for row in events)
    assert count(db, "q_hooks") == count(db, "q_hooks_dlq") == 0
    effects = db.execute("select name, event from effect").fetchall()
    assert sorted(row.name for row in effects) == sorted(ids)


@pytest.mark.usefixtures("hooks")
async def test_a_signal_while_the_network_swallows_everything_ends_it_within_ten_seconds(
    tcp_url: str, db: Db
) -> None:
    def unfinished(port: int) -> socket.socket:
        line = socket.create_connection(("127.0.0.1", port), 15)
        line.sendall(b"POST /webhooks/github HTTP/1.1\r\nHost: here\r\nContent-Length: 9\r\n\r\n{")
        return line

    async with Proxy(tcp_url) as proxy, httpx.AsyncClient(timeout=10) as client:
        receiver = Receiver(proxy.url)
        await asyncio.to_thread(receiver.start)
        try:
            sender = Sender(receiver.url, ["before"])
            await sender.run()
            proxy.swallow = True
            body = b'{"id": "meanwhile"}'
            signed = sign("github", secret=SECRET, body=body, event_id="meanwhile", type="push")
            assert (await client.post(receiver.url, content=body, headers=signed)).status_code == 503
            assert (await client.post(receiver.url, content=body)).status_code == 401
            line = await asyncio.to_thread(unfinished, receiver.port)
            began = time.monotonic()
            code = await asyncio.to_thread(receiver.end, signal.SIGTERM)
            assert code == 0 and time.monotonic() - began < 10
            with line, line.makefile("rb") as answers:
                head = await asyncio.to_thread(answers.read)
            assert head.startswith(b"HTTP/1.1 503 ") and b"retry-after: 5" in head.lower()
            assert "Traceback" not in receiver.said
        finally:
            receiver.kill()
    assert count(db, "q_hooks") == 1
