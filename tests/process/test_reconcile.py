"""Reconciliation: whatever was lost on the way, the tables come to say what the API says."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import permutations

import httpx
import pytest

from redrive import ConfigError, Redrive
from redrive.inbox import source as sources
from redrive.inbox.reconcile import Tally, reconciliation
from redrive.inbox.source import ApiError
from redrive.inbox.sources.github import GitHub
from redrive.job import Reject
from redrive.testing import Ran
from redrive.web import asgi
from redrive.web.access import Access
from redrive.web.tick import Ticks
from tests.support.fastpix_api import Fault
from tests.support.fastpix_inbox import QUEUE, Desk, desk
from tests.support.working import until, working

pytestmark = pytest.mark.timeout(110)

DAY = timedelta(hours=24)


def sent(report: dict[str, Tally]) -> int:
    return sum(tally.sent for tally in report.values())


def arrivals() -> Iterator[tuple[int, tuple[int, ...]]]:
    """How far a film got (1 upload, 2 medium, 3 ready, 4 deleted), and which events came, in their order."""
    for reached in range(1, 5):
        for many in range(reached + 1):
            for order in permutations(range(1, reached + 1), many):
                yield reached, order


class Film:
    """One upload and its medium. `live_until(n)` makes the API as it is after step n."""

    def __init__(self, d: Desk, number: int, reached: int, order: tuple[int, ...], *, one_id: bool) -> None:
        self.d, self.reached, self.order = d, reached, order
        self.upload = f"f-{number}"
        self.media = self.upload if one_id else f"m-{number}"
        self.lived = 0

    def live_until(self, step: int) -> None:
        for each in range(self.lived + 1, step + 1):
            match each:
                case 1:
                    self.d.api.add_upload(self.upload)
                case 2:
                    del self.d.api.uploads[self.upload]
                    self.d.api.add_media(self.media, "created")
                case 3:
                    self.d.api.media[self.media] |= {"status": "ready", "duration": "00:00:42"}
                case _:
                    del self.d.api.media[self.media]
        self.lived = max(self.lived, step)

    async def tell(self, step: int) -> None:
        """An event comes when what it tells has happened, and whatever else has happened until then."""
        self.live_until(step)
        match step:
            case 1:
                await self.d.arrive("video.media.upload", self.upload, uploadId=self.upload)
            case 2:
                named = {"uploadId": self.upload, "mediaId": self.media}
                await self.d.arrive("video.upload.media_created", self.media, **named)
            case 3:
                await self.d.arrive("video.media.ready", self.media)
            case _:
                await self.d.arrive("video.media.deleted", self.media)


@pytest.mark.parametrize(("window", "one_id"), [(None, False), (DAY, True)], ids=["full", "24 h"])
async def test_in_every_order_and_with_losses_the_tables_come_to_equal_the_api(
    database_url: str, window: timedelta | None, one_id: bool
) -> None:
    async with desk(database_url) as d:
        films = [Film(d, n, *each, one_id=one_id) for n, each in enumerate(arrivals())]
        assert len(films) == 88
        for turn in range(4):
            for film in films:
                if turn < len(film.order):
                    await film.tell(film.order[turn])
            await d.drain()
        for film in films:
            film.live_until(film.reached)
        # Nothing is to be mended where the last event of a film's life came, and what ended its upload.
        lost = {
            n for n, film in enumerate(films) if not {film.reached, min(2, film.reached)} <= {*film.order}
        }
        assert {int(each.partition("-")[2].partition(":")[0]) for each in d.differences()} <= lost
        assert d.differences(), "a test of reconciliation needs losses"

        report = await d.reconcile(window)
        assert sent(report) > 0
        await d.drain()
        assert d.differences() == []

        again = await d.reconcile(window)
        assert sent(again) == sum(t.waiting + t.missing + t.changed + t.gone for t in again.values()) == 0
        # Each that became a medium says which, whoever told.
        assert (
            d.rows("select from fastpix.uploads where status = 'media_created' and \"mediaId\" is null") == []
        )


async def test_what_waits_already_is_not_sent_again(database_url: str) -> None:
    async with desk(database_url) as d:
        for number in range(5):
            d.api.add_media(f"m-{number}", "ready")
        assert (await d.reconcile())["media"] == Tally(listed=5, missing=5, sent=5)
        assert (await d.reconcile())["media"] == Tally(listed=5, missing=5, waiting=5)
        assert await d.work() == Ran(done=5)
        assert d.differences() == []
        assert (await d.reconcile())["media"] == Tally(listed=5)


async def test_a_state_that_comes_back_is_sent_again(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1", "created")
        for status in ("created", "ready", "created", "ready", "created"):
            d.api.media["m-1"]["status"] = status
            assert sent(await d.reconcile()) == 1
            await d.work()
            assert d.differences() == []


async def test_what_has_failed_is_sent_again(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1", "ready")
        d.api.fail("on-demand/m-1", 403)
        assert sent(await d.reconcile()) == 1
        assert (await d.work()).dead == 1
        assert sent(await d.reconcile()) == 1
        assert (await d.reconcile())["media"].sent == 1, (
            "the first one failed, and is not what the second waits for"
        )
        await d.work()
        assert d.differences() == []
        assert sent(await d.reconcile()) == 0


async def test_events_are_recorded_as_what_they_are(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1", "ready")
        d.api.add_stream("s-1")
        d.api.add_upload("u-1")
        await d.reconcile()
        assert d.rows(
            "select type, resource, origin, status, payload->'object'->>'id', payload->'data'->>'status',"
            " payload->>'id' = event_id, convert_from(raw, 'utf8')::jsonb = payload"
            " from redrive.webhook_event order by type"
        ) == [
            ("video.live_stream.created", "s-1", "reconcile", "received", "s-1", "idle", True, True),
            ("video.media.ready", "m-1", "reconcile", "received", "m-1", "ready", True, True),
            ("video.upload.created", "u-1", "reconcile", "received", "u-1", "waiting", True, True),
        ]
        assert d.rows('select distinct "origin" from fastpix.webhook_events') == [("reconcile",)]


async def test_an_apps_own_handler_gets_them_too(database_url: str) -> None:
    async with desk(database_url) as d:
        got: list[str] = []

        @d.app.on("fastpix", "video.media.ready")
        async def ready(event):  # type: ignore
            got.append(f"{event.origin} {event.resource} {event.payload['data']['duration']}")

        d.api.add_media("m-1", "ready")
        await d.reconcile()
        await d.work()
        assert got == ["reconcile m-1 00:00:10"]


async def test_dry_run_finds_the_same_and_sends_nothing(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add_media("m-1")
        report = await d.reconcile(dry_run=True)
        assert report["media"] == Tally(listed=1, missing=1)
        assert d.rows("select from redrive.webhook_event") == []


class TestWindow:
    async def test_pages_are_read_until_it_is_covered(self, database_url: str) -> None:
        async with desk(database_url) as d:
            for number in range(400):
                d.api.add_media(f"m-{number}", "ready", age=timedelta(hours=number))
            report = await d.reconcile(timedelta(hours=60))
            assert d.api.calls.count("on-demand") == 2
            assert report["media"] == Tally(listed=100, missing=100, sent=100)
            await d.drain()
            assert sent(await d.reconcile(timedelta(hours=60))) == 0
            full = await d.reconcile()
            assert full["media"] == Tally(listed=400, missing=300, sent=300)

    async def test_older_rows_that_are_not_finished_are_asked_for_one_by_one(self, database_url: str) -> None:
        async with desk(database_url) as d:
            week = timedelta(days=7)
            for ident, status in (
                ("m-done", "ready"),
                ("m-open", "created"),
                ("m-gone", "created"),
                ("m-still", "created"),
            ):
                d.api.add_media(ident, status, age=week)
            for number in range(60):
                d.api.add_media(f"m-{number}", "ready", age=timedelta(days=2))
            await d.reconcile()
            await d.drain()
            assert d.differences() == []
            d.api.media["m-open"]["status"] = "ready"
            del d.api.media["m-gone"]
            d.api.media["m-done"]["title"] = "renamed"
            d.api.calls.clear()
            report = await d.reconcile(DAY)
            assert report["media"] == Tally(listed=50, checked=3, changed=1, gone=1, sent=2)
            assert sorted(each for each in d.api.calls if "m-" in each) == [
                f"on-demand/m-{n}" for n in ("gone", "open", "still")
            ]
            await d.drain()
            assert d.differences() == ["media m-done: title is 'film m-done'"], (
                "beyond the window, and finished"
            )
            await d.reconcile()
            await d.drain()
            assert d.differences() == []

    async def test_what_was_deleted_within_it_is_noticed(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.add_media("m-1", "ready")
            d.api.add_stream("s-1")
            d.api.add_upload("u-1")
            await d.reconcile(DAY)
            await d.work()
            d.api.media.clear()
            d.api.streams.clear()
            d.api.uploads.clear()
            report = await d.reconcile(DAY)
            assert report["media"] == Tally(checked=1, gone=1, sent=1)
            assert report["live_stream"] == Tally(checked=1, gone=1, sent=1)
            assert report["upload"] == Tally(checked=1, gone=1, sent=1)
            assert d.rows(
                "select type from redrive.webhook_event where status = 'received' order by type"
            ) == [
                ("video.live_stream.deleted",),
                ("video.media.deleted",),
                ("video.upload.ended",),
            ]
            await d.work()
            assert d.differences() == []
            assert sent(await d.reconcile(DAY)) == 0

    async def test_uploads_that_are_listed_beyond_it_are_not_taken_for_gone(self, database_url: str) -> None:
        async with desk(database_url) as d:
            week = (datetime.now(UTC) - timedelta(days=7)).isoformat()
            for number in range(70):
                d.api.add_upload(f"u-old-{number}", createdAt=week)
            await d.reconcile()
            await d.drain()
            for number in range(60):
                d.api.add_upload(f"u-{number}", createdAt=datetime.now(UTC).isoformat())
            del d.api.uploads["u-old-7"]
            report = await d.reconcile(DAY)
            assert report["upload"] == Tally(listed=129, checked=1, missing=60, gone=1, sent=61)
            await d.drain()
            assert d.differences() == []
            assert (await d.reconcile(DAY))["upload"] == Tally(listed=129)


async def test_numbers_are_compared_by_value(database_url: str) -> None:
    async with desk(database_url) as d:
        numbers = [1e23, 1.5e-7, 0.1, -0.0, 2**70, 1e300, 5e-324, 123456789.125, 1.0]
        d.api.add_media("m-1", "ready", metadata={"numbers": numbers, "deep": [{"n": 1e22}]})
        assert sent(await d.reconcile()) == 1
        await d.work()
        assert (await d.reconcile())["media"] == Tally(listed=1)
        d.api.media["m-1"]["metadata"]["numbers"] = [1e24, *numbers[1:]]
        assert (await d.reconcile())["media"] == Tally(listed=1, changed=1, sent=1)


class TestPages:
    @pytest.mark.parametrize("total", [None, 10**15, -1])
    async def test_an_api_that_does_not_turn_them_is_not_asked_for_ever(
        self, database_url: str, total: int | None
    ) -> None:
        async with desk(database_url) as d:
            for number in range(50):
                d.api.add_media(f"m-{number}", "ready")
            page = [dict(each) for each in d.api.media.values()]
            body = json.dumps({"data": page, "pagination": {} if total is None else {"totalRecords": total}})
            d.api.fail("on-demand?", 200, times=100, body=body.encode())
            d.api.fail("on-demand", 200, times=100, body=body.encode())
            if total == -1:
                assert (await d.reconcile(dry_run=True))["media"].listed == 50
                return
            with pytest.raises(ApiError, match="GET on-demand with a page that has nothing new, after 100"):
                await d.reconcile(dry_run=True)
            assert len(d.api.calls) == 2

    async def test_new_entries_shift_the_pages_and_are_counted_once(self, database_url: str) -> None:
        async with desk(database_url) as d:
            for number in range(120):
                d.api.add_media(f"m-{number}", "ready")
            more = iter(range(1000, 1030))

            def one_more(path: str, number: int) -> None:
                if path == "on-demand" and (each := next(more, None)) is not None:
                    d.api.add_media(f"m-{each}", "ready")

            d.api.after_page = one_more
            report = await d.reconcile()
            d.api.after_page = lambda path, number: None
            assert report["media"].listed == report["media"].sent <= len(d.api.media)
            await d.drain()
            await d.reconcile()
            await d.drain()
            assert d.differences() == []

    async def test_deletions_shift_the_pages_and_hide_nothing(self, database_url: str) -> None:
        async with desk(database_url) as d:
            for number in range(120):
                d.api.add_media(f"m-{number:03}", "ready")

            def delete_some(path: str, number: int) -> None:
                # Ten that were just shown: the next page begins ten entries later than it did.
                if path == "on-demand" and number == 1 and len(d.api.media) == 120:
                    for each in range(110, 120):
                        del d.api.media[f"m-{each:03}"]

            d.api.after_page = delete_some
            report = await d.reconcile()
            assert report["media"].listed == 120
            await d.drain()
            assert d.differences() == []

    async def test_a_list_that_never_holds_still_is_given_up_and_the_rest_comes_next_time(
        self, database_url: str
    ) -> None:
        async with desk(database_url) as d:
            for number in range(130):
                d.api.add_media(f"m-{number:03}", "ready")

            def delete_one(path: str, number: int) -> None:
                if path == "on-demand" and len(d.api.media) > 60:
                    del d.api.media[max(d.api.media)]

            d.api.after_page = delete_one
            await d.reconcile()
            assert d.api.calls.count("on-demand") <= 3 * 5
            d.api.after_page = lambda path, number: None
            await d.reconcile()
            await d.drain()
            assert d.differences() == []

    async def test_an_api_that_gives_fewer_a_page_than_asked_for_is_read_to_the_end(
        self, database_url: str
    ) -> None:
        async with desk(database_url) as d:
            d.api.most = 7
            for number in range(30):
                d.api.add_media(f"m-{number}", "ready")
                d.api.add_upload(f"u-{number}")
            report = await d.reconcile()
            assert report["media"].listed == report["upload"].listed == 30
            await d.drain()
            assert d.differences() == []


class TestFaults:
    async def test_429_while_listing_is_waited_for(
        self, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        slept = _no_sleep(monkeypatch)
        async with desk(database_url) as d:
            d.api.add_media("m-1")
            d.api.fail("on-demand", 429, times=2, retry_after="120")
            d.api.fail("live/streams", 500, times=5)
            assert sent(await d.reconcile()) == 1
            assert slept == [120, 120, 1, 2, 4, 8, 16]

    async def test_an_api_that_wants_to_be_left_alone_for_long_ends_it(
        self, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _no_sleep(monkeypatch)
        async with desk(database_url) as d:
            d.api.add_media("m-1")
            d.api.fail("live/streams", 429, times=99, retry_after="600")
            with pytest.raises(ApiError, match="left alone for 600 s"):
                await d.reconcile()
            await d.work()
            assert d.differences() == [], "what was found until then is sent"

    async def test_refused_credentials_end_it_at_once(self, database_url: str) -> None:
        async with desk(database_url) as d:
            d.api.fail("on-demand", 401)
            with pytest.raises(Reject, match="FASTPIX_ACCESS_TOKEN_ID"):
                await d.reconcile()
            assert d.api.calls == ["on-demand"]

    async def test_an_inbox_without_an_api_is_refused(self, database_url: str) -> None:
        app = Redrive()
        app.inbox("fastpix", provider="fastpix", secret="x", queue="q")
        async with desk(database_url) as d:
            with pytest.raises(ConfigError, match="api=FastPix"):
                reconciliation(app.inboxes["fastpix"], d.database, None, dry_run=False, step=lambda n: None)


async def test_what_live_traffic_has_fetched_since_is_newer_than_the_list(database_url: str) -> None:
    async with desk(database_url, timeout=30) as d:
        d.api.add_media("m-1", "created")
        await d.arrive("video.media.created", "m-1")
        await d.work()
        first, later = d.api.hold("on-demand"), d.api.hold("on-demand/uploads")
        sweep = asyncio.create_task(d.reconcile())
        await until(first.reached.is_set)
        # The list says "created" still, on its way here.
        d.api.media["m-1"]["status"] = "ready"
        await d.arrive("video.media.ready", "m-1")
        await d.work()
        first.release()
        await until(later.reached.is_set)
        # The list of media has been read, and did not have this one.
        d.api.add_media("m-2", "created")
        await d.arrive("video.media.created", "m-2")
        await d.work()
        later.release()
        assert (await sweep)["media"] == Tally(listed=1)
        assert d.differences() == []


async def test_beside_live_traffic_nothing_is_lost_and_nothing_wrong_is_written(database_url: str) -> None:
    choose = random.Random(7)
    async with desk(database_url) as d:
        for number in range(60):
            d.api.add_media(f"m-{number:03}", "created")
        made = 60

        async def live() -> None:
            nonlocal made
            for _ in range(150):
                match choose.randrange(3):
                    case 0:
                        made += 1
                        ident = f"m-{made:03}"
                        d.api.add_media(ident, "created")
                        told = ("video.media.created", ident)
                    case 1:
                        ident = choose.choice(list(d.api.media))
                        d.api.media[ident] |= {"status": "ready", "title": f"title {choose.random()}"}
                        told = ("video.media.ready", ident)
                    case _:
                        ident = choose.choice(list(d.api.media))
                        del d.api.media[ident]
                        told = ("video.media.deleted", ident)
                if choose.random() < 0.5:
                    await d.arrive(*told)
                await asyncio.sleep(0.005)

        async with working(d.app, d.url, concurrency=5):
            traffic = asyncio.create_task(live())
            while not traffic.done():
                await d.reconcile(choose.choice([None, DAY]))
            await traffic
            await until(lambda: _waiting(d) == 0, within=60)
            await d.reconcile()
            await until(lambda: _waiting(d) == 0, within=60)
        assert d.differences() == []
        assert sent(await d.reconcile()) == 0


def _waiting(d: Desk) -> int:
    [(number,)] = d.rows("select count(*) from redrive.webhook_event where status = 'received'")
    return number


def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(sources, "sleep", sleep)
    return slept


async def test_its_schedules_message_reconciles_the_last_day_and_ticks_do_the_rest(database_url: str) -> None:
    async with desk(database_url, reconcile="0 * * * *") as d:
        assert d.app.schedules["reconcile-fastpix"].queue == "schedules"
        transport = httpx.ASGITransport(asgi(d.app, ticks=Ticks(d.app, Access([]))), client=("127.0.0.1", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=30) as http:
            for queue in ("schedules", QUEUE):
                assert (await http.post(f"/tick/{queue}")).json()["processed"] == 0
            # A page each; the first one that is wholly older than a day is the last that is read.
            d.api.most = 1
            for hours in (0, 23, 25, 27):
                d.api.add_media(f"m-{hours}", "ready", age=timedelta(hours=hours))
            # What the database's scheduler, or a job of pg_cron's, sends.
            message = {"schedule": "reconcile-fastpix", "tick": "2026-11-30T10:00:00+00:00"}
            await d.app.send("schedules", message)
            assert (await http.post("/tick/schedules")).json() == {"processed": 1, "failed": 0, "skipped": 0}
            assert (await http.post(f"/tick/{QUEUE}")).json() == {"processed": 3, "failed": 0, "skipped": 0}
            assert d.rows('select "id" from fastpix.media order by 1') == [("m-0",), ("m-23",), ("m-25",)]
            assert d.rows("select distinct origin from redrive.webhook_event") == [("reconcile",)]
            d.api.faults = [Fault("/v1/", 401)]
            await d.app.send("schedules", message)
            assert (await http.post("/tick/schedules")).json() == {"processed": 0, "failed": 1, "skipped": 0}


def test_on_a_schedule_it_takes_an_api_that_can_tell_and_a_time_that_can_be() -> None:
    with pytest.raises(
        ConfigError, match=r"reconcile: inbox github has no API .* declare it with api=\.\.\."
    ):
        Redrive().inbox("github", provider="github", queue="hooks", reconcile="0 * * * *")
    with pytest.raises(ConfigError, match="schedule 'reconcile-github': cron text 'hourly'"):
        Redrive().inbox("github", provider="github", queue="hooks", api=GitHub(app=True), reconcile="hourly")
    app = Redrive()

    @app.job("schedules")
    async def mine() -> None: ...

    with pytest.raises(
        ConfigError, match=r"queue 'schedules' has the job .*mine.*; reconcile of inbox 'github'"
    ):
        app.inbox("github", provider="github", queue="hooks", api=GitHub(app=True), reconcile=3600)
