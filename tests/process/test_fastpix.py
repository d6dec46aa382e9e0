"""FastPix events, each a signal to look at the API, whose answer is what the tables show."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import httpx
import pytest

from redrive import ConfigError, Event, Job, SetupError
from redrive.inbox.reconcile import reconciliation
from redrive.inbox.refetch import refetch
from redrive.inbox.signing import sign
from redrive.inbox.source import install_tables
from redrive.inbox.sources.fastpix import FastPix
from redrive.store import events, grants
from redrive.store.database import connect
from redrive.testing import Clock, Ran, use_database
from redrive.web import asgi
from tests.support.fastpix_api import SECRET_KEY, TOKEN_ID
from tests.support.fastpix_inbox import QUEUE, SIGNING_SECRET, Desk, desk
from tests.support.roles import Roles
from tests.support.working import until, working

pytestmark = pytest.mark.timeout(110)

MEDIA_TYPES = [
    "created",
    "updated",
    "ready",
    "failed",
    "deleted",
    "track.created",
    "track.ready",
    "track.updated",
    "track.deleted",
    "subtitle.generated.ready",
    "source.ready",
    "source.deleted",
    "mp4Support.ready",
]
STREAM_TYPES = ["created", "updated", "deleted", "active", "disconnected", "idle", "recording"]


def row(d: Desk, table: str) -> Any:
    [only] = d.rows(f"select to_jsonb(t) from fastpix.{table} t")
    return only[0]


async def test_an_event_makes_the_row_what_the_api_says_now(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1", "ready", duration="00:01:00")
        await d.arrive("video.media.created", "m-1")
        assert await d.work() == Ran(done=1)
        found = row(d, "media")
        for name in ("status", "title", "duration", "playbackIds", "tracks", "isAudioOnly", "metadata"):
            assert found[name] == d.api.media["m-1"][name]
        # Nanoseconds: the column keeps microseconds, the whole state every digit.
        told = datetime.fromisoformat(d.api.media["m-1"]["createdAt"])
        assert datetime.fromisoformat(found["createdAt"]) == told
        assert found["state"]["createdAt"] == d.api.media["m-1"]["createdAt"]
        assert d.rows(
            'select "eventId" like \'e-%%\', "type", "processStatus", "lastError" from fastpix.webhook_events'
        ) == [(True, "video.media.created", "processed", None)]


async def test_a_resource_the_api_does_not_have_is_deleted(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1")
        d.api.add_stream("s-1")
        await d.arrive("video.media.created", "m-1")
        await d.arrive("video.live_stream.created", "s-1", object_type="live_stream")
        await d.work()
        assert d.differences() == [] and len(d.rows("select from fastpix.live_streams")) == 1
        del d.api.media["m-1"], d.api.streams["s-1"]
        await d.arrive("video.media.updated", "m-1")
        await d.arrive("video.live_stream.deleted", "s-1", object_type="live_stream")
        assert await d.work() == Ran(done=2)
        assert d.differences() == []
        assert d.rows("select from fastpix.media union all select from fastpix.live_streams") == []


async def test_a_resource_that_comes_back_is_written_again(database_url: str) -> None:
    async with desk(database_url) as d:
        await d.arrive("video.media.created", "m-1")
        await d.work()
        d.api.add_media("m-1", "ready")
        await d.arrive("video.media.ready", "m-1")
        await d.work()
        assert row(d, "media")["status"] == "ready"


@pytest.mark.parametrize("named", ["media", "video.media"])
async def test_every_type_of_media_event_is_a_signal_to_look(database_url: str, named: str) -> None:
    types = [f"video.media.{each}" for each in MEDIA_TYPES]
    types += [
        f"video.mediaAI.{each}.ready" for each in ("summary", "chapters", "named-entities", "moderation")
    ]
    async with desk(database_url) as d:
        for number, each in enumerate([*types, "video.media.something.new", "video.clip.ready"]):
            d.api.add_media(f"m-{number}", "ready")
            await d.arrive(each, f"m-{number}", object_type=named)
        await d.work()
        assert d.differences() == []
        assert {status for (status,) in d.rows('select "processStatus" from fastpix.webhook_events')} == {
            "processed"
        }


async def test_every_type_of_live_stream_event_is_a_signal_to_look(database_url: str) -> None:
    types = [f"video.live_stream.{each}" for each in STREAM_TYPES]
    async with desk(database_url) as d:
        for number, each in enumerate(types):
            d.api.add_stream(f"s-{number}")
            await d.arrive(each, f"s-{number}", object_type="live_stream")
        # A target has an id of its own; the stream is named beside it.
        d.api.add_stream("s-t")
        await d.arrive(
            "video.live_stream.simulcast_target.updated", "target-1", object_type="simulcast", streamId="s-t"
        )
        await d.work()
        assert d.differences() == []


async def test_a_type_that_names_nothing_the_api_has_ends_as_ignored(database_url: str) -> None:
    async with desk(database_url) as d:
        await d.arrive("account.changed", "a-1", object_type="account")
        await d.arrive("video.playlist.created", "l-1", object_type="playlist")
        await d.arrive("video.media.ready", "../live/streams?x=1")
        await d.work()
        assert [s for (s,) in d.rows('select "processStatus" from fastpix.webhook_events')] == ["ignored"] * 3
        assert d.api.calls == []


async def test_a_track_of_a_medium_makes_the_medium_be_fetched(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1", "ready")
        await d.arrive("video.media.track.ready", "track-9", mediaId="m-1")
        await d.work()
        assert d.differences() == [] and len(d.rows("select from fastpix.media")) == 1


class TestUploads:
    async def test_an_upload_is_looked_for_in_its_list(self, database_url: str) -> None:
        async with desk(database_url) as d:
            for number in range(70):
                d.api.add_upload(f"u-{number}")
            await d.arrive("video.media.upload", "u-3", object_type="media", uploadId="u-3")
            assert await d.work() == Ran(done=1)
            found = row(d, "uploads")
            assert (found["uploadId"], found["status"], found["timeout"], found["corsOrigin"]) == (
                "u-3",
                "waiting",
                14400,
                "*",
            )
            assert d.api.calls.count("on-demand/uploads") == 2

    async def test_jobs_that_look_for_one_at_the_same_time_share_the_list(self, database_url: str) -> None:
        async with desk(database_url) as d:
            for number in range(40):
                d.api.add_upload(f"u-{number}")
                await d.arrive("video.upload.created", f"u-{number}", object_type="upload")
            async with working(d.app, d.url, concurrency=10):
                await until(lambda: not d.rows("select from redrive.webhook_event where status = 'received'"))
            assert d.differences() == []
            # Alone each of the forty reads it at least once; how many meet depends on the machine.
            assert d.api.calls.count("on-demand/uploads") <= 36

    async def test_one_that_became_a_medium_says_which(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_upload("u-1")
            await d.arrive("video.media.upload", "u-1", uploadId="u-1")
            await d.work()
            del d.api.uploads["u-1"]
            d.api.add_media("m-1")
            await d.arrive(
                "video.upload.media_created", "u-1", object_type="upload", uploadId="u-1", mediaId="m-1"
            )
            await d.work()
            found = row(d, "uploads")
            assert (found["status"], found["mediaId"]) == ("media_created", "m-1")
            assert found["timeout"] == 14400, "what was known of it stays"
            assert row(d, "media")["id"] == "m-1"

    async def test_one_that_has_its_mediums_id_says_so_too(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_media("x-1", "ready")
            await d.arrive("video.upload.media_created", "x-1")
            await d.work()
            found = row(d, "uploads")
            assert (found["uploadId"], found["status"], found["mediaId"]) == ("x-1", "media_created", "x-1")

    async def test_a_late_word_of_it_does_not_make_it_wait_again(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_media("m-1", "ready")
            await d.arrive(
                "video.upload.media_created", "u-1", object_type="upload", uploadId="u-1", mediaId="m-1"
            )
            await d.arrive("video.media.upload", "u-1", uploadId="u-1")
            await d.work()
            found = row(d, "uploads")
            assert (found["status"], found["mediaId"]) == ("media_created", "m-1")

    async def test_one_that_vanished_without_a_medium_has_ended(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_upload("u-1")
            await d.arrive("video.media.upload", "u-1", uploadId="u-1")
            await d.work()
            del d.api.uploads["u-1"]
            await d.arrive("video.media.upload.cancelled", "u-1", uploadId="u-1")
            await d.work()
            assert row(d, "uploads")["status"] == "ended"


async def test_no_secret_reaches_the_tables(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_stream("s-1", metadata={"token": "the account's own word"})
        d.api.add_upload("u-1")
        await d.arrive("video.live_stream.created", "s-1", object_type="live_stream")
        await d.arrive("video.media.upload", "u-1", uploadId="u-1")
        await d.work()
        d.rows("delete from fastpix.live_streams returning 1")
        d.rows("delete from fastpix.uploads returning 1")
        report = await d.reconcile()
        assert sum(each.sent for each in report.values()) == 2
        await d.work()
        assert d.differences() == []
        everything = str(
            d.rows(
                "select to_jsonb(t) from fastpix.live_streams t union all "
                "select to_jsonb(t) from fastpix.uploads t"
            )
        )
        everything += str(
            d.rows("select payload, raw, last_error from redrive.webhook_event where origin = 'reconcile'")
        )
        for secret in (
            "streamkey-secret",
            "srt-secret",
            "simulcast-secret",
            "signed-secret",
            TOKEN_ID,
            SECRET_KEY,
        ):
            assert secret not in everything
        assert row(d, "live_streams")["metadata"] == {"token": "the account's own word"}
        assert row(d, "live_streams")["simulcastResponses"] == [{"simulcastId": "x", "url": "rtmp://there"}]


class TestOrder:
    async def test_an_answer_that_was_asked_for_earlier_is_dropped(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_media("m-1", "created")
            held = d.api.hold("on-demand/m-1")
            async with working(d.app, d.url, concurrency=2):
                first = await d.arrive("video.media.created", "m-1")
                await until(held.reached.is_set)
                d.api.media["m-1"]["status"] = "ready"
                second = await d.arrive("video.media.ready", "m-1")
                await until(lambda: _status(d, second) == "processed")
                assert row(d, "media")["status"] == "ready"
                held.release()
                await until(lambda: _status(d, first) == "processed")
            assert row(d, "media")["status"] == "ready", "the old answer came last"

    async def test_an_old_answer_does_not_bring_back_what_was_deleted(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_media("m-1", "ready")
            held = d.api.hold("on-demand/m-1")
            async with working(d.app, d.url, concurrency=2):
                first = await d.arrive("video.media.ready", "m-1")
                await until(held.reached.is_set)
                del d.api.media["m-1"]
                second = await d.arrive("video.media.deleted", "m-1")
                await until(lambda: _status(d, second) == "processed")
                held.release()
                await until(lambda: _status(d, first) == "processed")
            assert d.rows("select from fastpix.media") == []

    async def test_no_connection_is_held_while_the_api_is_asked(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_media("m-1")
            held = d.api.hold("on-demand/m-1")
            async with working(d.app, d.url):
                event = await d.arrive("video.media.created", "m-1")
                await until(held.reached.is_set)
                open_transactions = d.rows(
                    "select query from pg_stat_activity where datname = current_database() "
                    "and xact_start is not null and pid <> pg_backend_pid()"
                )
                assert open_transactions == []
                held.release()
                await until(lambda: _status(d, event) == "processed")


class TestFaults:
    async def test_429_costs_no_attempt_and_waits_as_long_as_it_says(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_media("m-1")
            d.api.fail("on-demand/m-1", 429, times=9, retry_after="40")
            await d.arrive("video.media.created", "m-1")
            clock = Clock(d.url)
            for _ in range(9):
                assert await d.work() == Ran(snoozed=1)
                assert _due_in(d) == pytest.approx(40, abs=5)
                clock.advance(50)
            assert await d.work() == Ran(done=1)
            assert d.differences() == []
            assert d.rows("select attempts, last_error from redrive.webhook_event") == [(1, None)]

    @pytest.mark.parametrize(
        ("status", "said", "seconds"),
        [(503, "7", 7), (429, "0", 1), (429, "999999", 3600), (429, "soon", 30), (429, "", 30)],
    )
    async def test_what_the_api_asks_for_is_bounded(
        self, database_url: str, status: int, said: str, seconds: int
    ) -> None:
        async with desk(database_url) as d:
            d.api.fail("on-demand/m-1", status, retry_after=said)
            await d.arrive("video.media.created", "m-1")
            assert await d.work() == Ran(snoozed=1)
            assert _due_in(d) == pytest.approx(seconds, abs=3)

    @pytest.mark.parametrize("status", [500, 502, 503, 504, 408])
    async def test_a_failing_api_is_a_failed_attempt(self, database_url: str, status: int) -> None:
        async with desk(database_url) as d:
            d.api.add_media("m-1")
            d.api.fail("on-demand/m-1", status)
            await d.arrive("video.media.created", "m-1")
            clock = Clock(d.url)
            ran = await d.work()
            assert (ran.retried, ran.dead) == (1, 0)
            [(error,)] = d.rows("select last_error from redrive.webhook_event where attempts = 1")
            assert f"FastPix answered GET on-demand/m-1 with {status}" in error
            clock.advance(60)
            assert (await d.work()).done == 1
            assert d.rows("select status, last_error from redrive.webhook_event") == [("processed", None)]

    @pytest.mark.parametrize("status", [401, 403])
    async def test_refused_credentials_name_the_setting_and_not_the_secret(
        self, database_url: str, status: int
    ) -> None:
        async with desk(database_url) as d:
            d.api.fail("on-demand/m-1", status)
            event = await d.arrive("video.media.created", "m-1")
            ran = await d.work()
            assert ran.dead == 1
            [(error,)] = d.rows("select last_error from redrive.webhook_event where status = 'failed'")
            assert "FASTPIX_SECRET_KEY" in error and str(status) in error
            assert SECRET_KEY not in error and TOKEN_ID not in error
            assert _status(d, event) == "failed"

    async def test_another_refusal_is_final(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.fail("on-demand/m-1", 422)
            await d.arrive("video.media.created", "m-1")
            assert (await d.work()).dead == 1

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"<html>",
            b"[]",
            b'{"data": null}',
            b'{"data": {"id": "m-2"}}',
            b'{"data": NaN}',
            b"[" * 100_000,
        ],
    )
    async def test_an_answer_of_no_known_shape_is_tried_again(self, database_url: str, body: bytes) -> None:
        async with desk(database_url) as d:
            d.api.fail("on-demand/m-1", 200, body=body)
            await d.arrive("video.media.created", "m-1")
            assert (await d.work()).retried == 1
            assert d.rows("select from fastpix.media") == []

    async def test_values_that_fit_no_column_stand_in_the_state(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.fail(
                "on-demand/m-1",
                200,
                body=b'{"data": {"id": "m-1", "status": null, "title": "a\\u0000b\\ud800", "duration": 12.5,'
                b' "isAudioOnly": "perhaps", "createdAt": "yesterday", "big": 1e999, "x": '
                + b"9" * 500
                + b"}}",
            )
            await d.arrive("video.media.created", "m-1")
            assert await d.work() == Ran(done=1)
            found = row(d, "media")
            assert (found["duration"], found["isAudioOnly"], found["createdAt"], found["title"]) == (
                "12.5",
                None,
                None,
                "a␀b?",
            )
            assert found["state"]["isAudioOnly"] == "perhaps" and found["state"]["big"] is None

    async def test_a_slow_answer_is_given_up(self, database_url: str) -> None:
        async with desk(database_url, timeout=0.3) as d:
            d.api.add_media("m-1")
            held = d.api.hold("on-demand/m-1")
            await d.arrive("video.media.created", "m-1")
            ran = await d.work()
            held.release()
            assert ran.retried == 1 and "did not answer GET on-demand/m-1 within 0.3 s" in ran.errors[0]

    async def test_an_api_out_of_reach_is_a_failed_attempt(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.fastpix._calls._base_url = "http://127.0.0.1:1/v1/"
            await d.arrive("video.media.created", "m-1")
            ran = await d.work()
            assert ran.retried == 1 and "FastPix is out of reach" in ran.errors[0]

    async def test_an_event_dies_after_seven_attempts(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.fail("on-demand/m-1", 500, times=100)
            event = await d.arrive("video.media.created", "m-1")
            clock = Clock(d.url)
            for _ in range(7):
                await d.work()
                clock.advance(4000)
            assert _status(d, event) == "failed"
            assert len(d.api.calls) == 7


async def test_a_signed_webhook_ends_as_a_row(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1", "ready")
        payload = {"type": "video.media.ready", "object": {"type": "video.media", "id": "m-1"}, "id": "e-77"}
        body = json.dumps(payload | {"data": {"id": "m-1"}, "attempts": []}).encode()
        headers = sign("fastpix", secret=SIGNING_SECRET, body=body)
        transport = httpx.ASGITransport(asgi(d.app))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            answers = [
                await client.post("/webhooks/fastpix", content=body, headers=headers),
                await client.post("/webhooks/fastpix", content=body, headers=headers),
                await client.post("/webhooks/fastpix", content=body + b" ", headers=headers),
            ]
        assert [each.status_code for each in answers] == [200, 200, 401]
        assert await d.work() == Ran(done=1)
        assert d.differences() == []
        assert d.rows('select "eventId", "processStatus" from fastpix.webhook_events') == [
            ("e-77", "processed")
        ]


async def test_an_apps_own_handler_may_refetch_too(database_url: str) -> None:
    async with desk(database_url) as d:
        seen: list[str] = []

        @d.app.on("fastpix", "video.media.*")
        async def media_changed(event: Event, job: Job) -> None:
            await refetch(event, job, d.fastpix)
            seen.append(event.type)

        d.api.add_media("m-1", "ready")
        await d.arrive("video.media.created", "m-1")
        assert await d.work() == Ran(done=1)
        assert seen == ["video.media.created"] and d.differences() == []


async def test_closing_the_app_closes_its_connections_to_the_api(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1", "ready")
        await d.fastpix.fetch("media:m-1")
        assert len(d.fastpix._calls._clients) == 1
        await d.app.close()
        assert d.fastpix._calls._clients == {}
        assert await d.fastpix.fetch("media:m-1") is not None


class TestSetup:
    def test_the_queue_has_the_policy_of_the_article(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert FastPix().policy == {"max_attempts": 7, "concurrency": 10}
        monkeypatch.setenv("FASTPIX_MAX_READ_CT", "3")
        assert FastPix().policy["max_attempts"] == 3
        for wrong in ("0", "", "-1", "seven", "3\n", "2147483648", "9" * 5_000):
            monkeypatch.setenv("FASTPIX_MAX_READ_CT", wrong)
            with pytest.raises(ConfigError, match=r"FASTPIX_MAX_READ_CT is '.{0,50}'; it must be a whole"):
                assert FastPix().policy

    async def test_missing_tables_name_the_command(self, database_url: str) -> None:
        async with desk(database_url) as d:
            with connect(d.url) as connection:
                connection.execute("drop schema fastpix cascade")
            d.api.add_media("m-1")
            await d.arrive("video.media.created", "m-1")
            ran = await d.work()
            assert ran.retried == 1 and "redrive migrate --app" in ran.errors[0]

    def test_an_owner_that_may_make_no_schema_is_told_so(self, database_url: str, roles: Roles) -> None:
        owner = roles.create("plain_owner")
        with connect(database_url) as connection:
            connection.execute(f'alter schema redrive owner to "{owner}"'.encode())
            with pytest.raises(SetupError, match=r"permission denied.*let it create schemas"):
                install_tables(connection, {"fastpix": FastPix()})

    async def test_a_second_account_is_refused_before_it_deletes_the_firsts_rows(
        self, database_url: str
    ) -> None:
        async with desk(database_url) as d:
            d.api.add_media("m-1", "ready")
            await d.arrive("video.media.ready", "m-1")
            await d.work()
            with (
                connect(d.url) as connection,
                pytest.raises(SetupError, match="those of inbox fastpix, and inbox second cannot share them"),
            ):
                install_tables(connection, {"second": d.fastpix})
            second = "those of inbox fastpix, not of inbox second alone"
            d.app.inbox(
                "second", provider="fastpix", secret=SIGNING_SECRET, queue="second_jobs", api=d.fastpix
            )
            with use_database(d.app, d.url):
                run = reconciliation(
                    d.app.inboxes["second"], d.database, None, dry_run=False, step=lambda done: None
                )
                with pytest.raises(SetupError, match=second):
                    await run.run()
                del d.api.media["m-1"]
                text = '{"type": "video.media.deleted", "object": {"id": "m-1"}}'
                await d.database.run(
                    events.receive(
                        "second", "e", "video.media.deleted", text, b"{}", {}, "second_jobs", resource="m-1"
                    )
                )
                ran = await d.work()
            assert ran.retried == 1 and second in ran.errors[0]
            assert len(d.rows("select from fastpix.media")) == 1

    async def test_a_renamed_inbox_takes_its_tables_along(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.rows("update fastpix.inbox set source = 'before' returning 1")
            with (
                connect(d.url) as connection,
                pytest.raises(SetupError, match=r"delete from fastpix\.inbox where source <> 'fastpix'"),
            ):
                install_tables(connection, {"fastpix": d.fastpix})
            with pytest.raises(SetupError, match=r"delete from fastpix\.inbox where source <> 'fastpix'"):
                await d.reconcile()
            d.rows("delete from fastpix.inbox where source <> 'fastpix' returning 1")
            with pytest.raises(SetupError, match="belong to no inbox; run `redrive migrate --app"):
                await d.reconcile()
            with connect(d.url) as connection:
                install_tables(connection, {"fastpix": d.fastpix})
            await d.reconcile()

    @pytest.mark.parametrize(
        ("before", "said"),
        [
            (
                'create table fastpix.webhook_events (id text, "eventId" text, "processStatus" text)',
                "fastpix.webhook_events is there already and is not what redrive .* it is a table; rename it",
            ),
            (
                "create table fastpix.media (id text primary key, status text, payload jsonb)",
                "fastpix.media is there already .*: it has no column createdAt, .*fetchedAt; rename it",
            ),
            (
                "create view fastpix.uploads as select 1 as id",
                "fastpix.uploads is .* it is a view; rename it",
            ),
            (
                'create view fastpix.webhook_events as select 1 as "eventId", 2 as "processStatus"',
                "something else stands where the tables of FastPix belong; rename it",
            ),
            ("create type fastpix.media as (x int)", "rename it"),
        ],
    )
    def test_what_somebody_else_made_there_is_named(self, database_url: str, before: str, said: str) -> None:
        with connect(database_url) as connection:
            connection.execute("create schema fastpix")
            connection.execute(before.encode())
            with pytest.raises(SetupError, match=said):
                install_tables(connection, {"fastpix": FastPix()})
            assert connection.execute("select to_regclass('fastpix.inbox')").fetchall() == [(None,)]

    async def test_a_role_with_part_work_can_write_them(self, database_url: str, roles: Roles) -> None:
        async with desk(database_url) as d:
            role = roles.create("fastpix_worker", "login")
            with connect(d.url) as connection:
                grants.grant(connection, role, "work")
                for _ in range(2):
                    install_tables(connection, {"fastpix": d.fastpix})
                url = roles.url(connection.info, role)
            d.api.add_media("m-1", "ready")
            event = await d.arrive("video.media.ready", "m-1")
            async with working(d.app, url):
                await until(lambda: _status(d, event) == "processed")
            assert d.differences() == []


def _status(d: Desk, event_id: str) -> str:
    [(status,)] = d.rows("select status from redrive.webhook_event where id = %s::uuid", event_id)
    return status


def _due_in(d: Desk) -> float:
    [(seconds,)] = d.rows(f"select extract(epoch from vt - redrive.clock()) from pgmq.q_{QUEUE}")
    return float(seconds)
