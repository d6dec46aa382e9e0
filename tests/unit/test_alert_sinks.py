"""Sinks: what they say, to whom, and what becomes of answers that are no 2xx. All on the loopback."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Judge

from redrive.settings import SinkSetting
from redrive.watch.sinks import text
from redrive.watch.sinks.chat import Chat
from redrive.watch.sinks.sink import Alert, Undelivered
from redrive.watch.sinks.webhook import Webhook
from tests.support.sink_server import SinkServer

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SLACK = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
DISCORD = "https://discord.com/api/webhooks/123456789012345678/abcdefghijklmnopqrstuvwxyz0123456789"
NOWHERE = "t0p5ecret.invalid"


def alert(id: int = 1, subject: str = "email_jobs", event: str = "firing", **more: Any) -> Alert:
    body = {
        "severity": "critical",
        "summary": f"Queue {subject} has 3 dead letters",
        "command": f"redrive dlq list {subject}",
        "since": "2026-11-30T10:00:00Z",
        "database": "shop",
        "value": 3,
        "threshold": 0,
        **more,
    }
    return Alert.of(id, "dead_letters", subject, event, body, "db.example.com/shop")


@pytest.fixture
def server() -> Iterator[SinkServer]:
    with SinkServer() as started:
        yield started


def webhook(url: str, timeout: float = 5.0) -> Webhook:
    return Webhook.of(SinkSetting("ops", "REDRIVE_ALERTS_OPS", url, SECRET), timeout=timeout)


def chat(url: str, timeout: float = 5.0) -> Chat:
    return Chat.of(SinkSetting("ops", "REDRIVE_ALERTS_OPS", url), timeout=timeout)


class TestText:
    def test_one_alert_says_what_since_when_where_and_how_to_look_further(self) -> None:
        assert text.title([alert()]) == "[firing] email_jobs: dead letters"
        assert text.title([alert(subject="")]) == "[firing] dead letters"
        assert text.title([alert(subject="", event="test")]) == "[test] alerts of redrive"
        assert text.body([alert()]).splitlines() == [
            "Queue email_jobs has 3 dead letters",
            "since 2026-11-30 10:00:00 UTC",
            "database db.example.com/shop",
            "look: redrive dlq list email_jobs",
        ]
        over = alert(event="resolved", resolved_at="2026-11-30T12:30:00+02:00")
        assert text.body([over]).splitlines() == [
            "Queue email_jobs has 3 dead letters",
            "since 2026-11-30 10:00:00 UTC, until 2026-11-30 10:30:00 UTC",
            "database db.example.com/shop",
        ]

    def test_many_are_grouped_by_subject_ten_of_them_shown_the_rest_counted(self) -> None:
        many = [alert(n, f"queue_{n % 3}") for n in range(25)] + [alert(99, "a_queue", "resolved")]
        assert text.title(many) == "[firing] 26 alerts: 25 firing, 1 resolved"
        lines = text.body(many).splitlines()
        assert lines[0] == "[resolved] Queue a_queue has 3 dead letters"
        assert [line.split()[2] for line in lines[1:10]] == ["queue_0"] * 9
        assert lines[10:] == ["… and 16 more: redrive alerts list", "database db.example.com/shop"]

    @pytest.mark.parametrize(
        "ping", ["@everyone", "@here", "<@U123>", "<!channel>", "<!here|here>", "!channel>", "<#C1>", "<@&5>"]
    )
    def test_nothing_in_it_pings_anybody(self, ping: str) -> None:
        said = text.title([alert(subject=ping)]) + text.body([alert(command=ping, summary=ping)])
        assert ping not in said
        assert said.replace("\u200b", "").count(ping) == 3

    def test_what_is_too_long_ends_in_a_mark(self) -> None:
        assert text.cut("x" * 50, 20) == "x" * 13 + text.CUT
        assert text.cut("x" * 20, 20) == "x" * 20
        assert [len(text.cut("x" * 50, most)) for most in (0, 3, 7)] == [0, 3, 7]
        assert len(text.body([alert(summary="y" * 9000)])) < 700


class TestWebhook:
    async def test_it_is_signed_so_that_the_reference_implementation_agrees(self, server: SinkServer) -> None:
        await webhook(server.url).send([alert(1)])
        [posted] = server.posted
        said = Judge(SECRET).verify(posted.body.decode(), posted.headers)
        [told] = said["alerts"]
        assert told == {
            "id": 1,
            "rule": "dead_letters",
            "subject": "email_jobs",
            "event": "firing",
            "severity": "critical",
            "value": 3.0,
            "threshold": 0.0,
            "summary": "Queue email_jobs has 3 dead letters",
            "command": "redrive dlq list email_jobs",
            "since": "2026-11-30T10:00:00Z",
            "resolved_at": None,
            "database": "db.example.com/shop",
            "dedup_key": "dead_letters:email_jobs",
        }
        assert said["text"].startswith("[firing] email_jobs: dead letters\n")

    async def test_an_alert_comes_under_the_same_id_by_whatever_name_its_database_is_reached(
        self, server: SinkServer
    ) -> None:
        sink = webhook(server.url)
        assert not sink.groups
        body = {"since": "2026-11-30T10:00:00Z"}
        for id, where, installation in (
            *((1, "localhost/shop", "a"), (1, "127.0.0.1/shop", "a")),
            *((2, "localhost/shop", "a"), (1, "localhost/shop", "b")),
        ):
            await sink.send([Alert.of(id, "parked", "q", "firing", body, where, installation=installation)])
        ids = [each.headers["webhook-id"] for each in server.posted]
        assert ids[0] == ids[1] and len(set(ids)) == 3

    @pytest.mark.parametrize(
        ("status", "headers", "reason", "retry_after", "gone"),
        [
            (500, {}, "answered 500 Internal Server Error", None, False),
            (302, {"Location": "http://127.0.0.1:1/"}, "answered 302 Found", None, False),
            (799, {}, "answered 799", None, False),
            (429, {"Retry-After": "17"}, "answered 429 Too Many Requests", 17.0, False),
            (503, {"Retry-After": "999999"}, "answered 503 Service Unavailable", 3600.0, False),
            (503, {"Retry-After": "soon"}, "answered 503 Service Unavailable", None, False),
            (410, {}, "answered 410 Gone, which means it wants no more", None, True),
        ],
    )
    async def test_an_answer_that_is_no_2xx_is_a_reason(
        self,
        server: SinkServer,
        status: int,
        headers: dict[str, str],
        reason: str,
        retry_after: float | None,
        gone: bool,
    ) -> None:
        server.status, server.headers = status, headers
        with pytest.raises(Undelivered) as refused:
            await webhook(server.url).send([alert()])
        assert (refused.value.reason, refused.value.gone) == (reason, gone)
        assert refused.value.retry_after == retry_after

    async def test_a_retry_after_as_a_date_counts_by_the_answers_own_clock(self, server: SinkServer) -> None:
        server.status = 503
        server.headers = {
            "Retry-After": "Mon, 30 Nov 2099 10:00:30 GMT",
            "Date": "Mon, 30 Nov 2099 10:00:00 GMT",
        }
        with pytest.raises(Undelivered) as refused:
            await webhook(server.url).send([alert()])
        assert refused.value.retry_after == 30.0

    async def test_one_that_hangs_ends_with_its_timeout(self, server: SinkServer) -> None:
        server.hang = 30
        began = time.monotonic()
        with pytest.raises(Undelivered, match=r"^no answer within 0.3 s$"):
            await webhook(server.url, timeout=0.3).send([alert()])
        assert time.monotonic() - began < 2

    async def test_one_out_of_reach_says_why_without_its_url(self, unused_port: int) -> None:
        for url, why in (
            (f"http://127.0.0.1:{unused_port}/t0p5ecret", "nobody listens there"),
            (f"https://{NOWHERE}/x", "its host name does not resolve"),
        ):
            with pytest.raises(Undelivered, match=why) as refused:
                await webhook(url).send([alert()])
            assert "t0p5ecret" not in str(refused.value)


class TestChat:
    async def test_it_takes_what_apprise_takes(self, server: SinkServer) -> None:
        await chat(f"json://{server.host}/t0p5ecret").send([alert()])
        [posted] = server.posted
        assert posted.json["title"] == "[firing] email_jobs: dead letters"
        assert posted.json["message"].splitlines()[-1] == "look: redrive dlq list email_jobs"
        assert posted.json["type"] == "failure"

    async def test_an_end_is_a_success(self, server: SinkServer) -> None:
        await chat(f"json://{server.host}/").send([alert(event="resolved")])
        assert server.posted[0].json["type"] == "success"

    async def test_a_refusal_is_a_reason_and_apprises_own_words_are_logged_nowhere(
        self, server: SinkServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        for status, reason in ((500, "answered 500"), (410, "answered 410, which means it wants no more")):
            server.status = status
            with pytest.raises(Undelivered, match=f"^{reason}$") as refused:
                await chat(f"json://{server.host}/t0p5ecret").send([alert()])
            assert refused.value.gone == (status == 410)
        assert "t0p5ecret" not in caplog.text and "Failed to send" not in caplog.text

    async def test_one_out_of_reach_says_so_without_its_url(
        self, unused_port: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        for host in (f"127.0.0.1:{unused_port}", NOWHERE):
            with pytest.raises(Undelivered, match="cannot be connected to") as refused:
                await chat(f"json://{host}/t0p5ecret").send([alert()])
            assert "t0p5ecret" not in str(refused.value) + caplog.text

    async def test_one_that_hangs_blocks_nothing_and_is_left_alone_until_it_ends(
        self, server: SinkServer
    ) -> None:
        server.hang = 1.0
        sink = chat(f"json://{server.host}/", timeout=0.2)
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.01)

        counting = asyncio.create_task(count())
        with pytest.raises(Undelivered, match=r"no answer within 0.2 s"):
            await sink.send([alert()])
        counting.cancel()
        assert turns > 10
        with pytest.raises(Undelivered, match="has not ended yet"):
            await sink.send([alert()])
        assert len(server.posted) == 1

    async def test_pagerduty_ends_the_incident_that_the_firing_began(
        self, server: SinkServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from apprise.plugins import pagerduty

        monkeypatch.setitem(pagerduty.PAGERDUTY_API_LOOKUP, "us", f"http://{server.host}/v2/enqueue")
        sink = chat("pagerduty://R0utingKey0123456789012345678901@apikey")
        await sink.send([alert(1)])
        await sink.send([alert(2, event="resolved")])
        begun, over = (each.json for each in server.posted)
        assert (begun["event_action"], over["event_action"]) == ("trigger", "resolve")
        assert begun["dedup_key"] == over["dedup_key"] == "dead_letters:email_jobs"
        assert begun["payload"]["summary"].startswith("[firing] email_jobs: dead letters")
        assert begun["payload"]["severity"] == "critical"

    async def test_slack_and_discord_get_text_that_pings_nobody_and_fits(
        self, server: SinkServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from apprise.plugins import discord, slack

        monkeypatch.setattr(slack.NotifySlack, "webhook_url", f"http://{server.host}")
        monkeypatch.setattr(discord.NotifyDiscord, "notify_url", f"http://{server.host}")
        bad = alert(summary="<!channel> @everyone <@U1> " + "x" * 9000, command="y" * 5000)
        for url in (SLACK, DISCORD):
            await chat(url).send([bad])
        for posted in server.posted:
            said = json.dumps(posted.json, ensure_ascii=False)
            for ping in ("<!channel", "@everyone", "<@U1"):
                assert ping not in said
            assert "everyone" in said
        assert 1500 < len(server.posted[1].json["content"]) <= 2000
        assert text.CUT in server.posted[1].json["content"]


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
