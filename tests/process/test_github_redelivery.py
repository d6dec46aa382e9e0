"""Redeliveries from GitHub: what has no record is asked for again, and nothing else."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from redrive import ConfigError, Redrive
from redrive.inbox import source as sources
from redrive.inbox.reconcile import Tally, reconciliation
from redrive.inbox.source import ApiError
from redrive.inbox.sources.github import GitHub
from redrive.job import Reject
from redrive.store import adapters, events
from redrive.store.database import Database, connect
from redrive.testing import run_until_idle, use_database
from tests.support.github_api import TOKEN, GitHubApi
from tests.support.serving import Serving

PATH = "repos/octo/shop/hooks/42/deliveries"


@dataclass
class Desk:
    app: Redrive
    api: GitHubApi
    github: GitHub
    database: Database
    url: str

    def arrive(self, guid: str) -> None:
        """As the receiver records it."""
        text = json.dumps({"ref": "main"})
        with connect(self.url) as connection:
            adapters.run_blocking(
                events.receive("github", guid, "push", text, text.encode(), {}, "webhook_jobs"), connection
            )

    async def reconcile(self, hours: float | None = 24, *, dry_run: bool = False) -> Tally:
        since = None if hours is None else await self.database.run(events.now()) - timedelta(hours=hours)
        run = reconciliation(
            self.app.inboxes["github"], self.database, since, dry_run=dry_run, step=lambda done: None
        )
        await run.run()
        return run.report["delivery"]


@asynccontextmanager
async def desk(url: str) -> AsyncGenerator[Desk]:
    api = GitHubApi(PATH)
    with Serving(api.app) as served:
        github = GitHub("octo/shop", hook_id=42, token=lambda: TOKEN, base_url=f"{served.url}/")
        app = Redrive()
        app.inbox("github", provider="github", secret="x" * 20, queue="webhook_jobs", api=github)
        database = Database(url)
        with use_database(app, url):
            try:
                yield Desk(app, api, github, database, url)
            finally:
                await github.close()
                await database.close()


async def test_what_was_never_recorded_is_asked_for_again(database_url: str) -> None:
    async with desk(database_url) as d:
        for guid in ("lost-1", "got-1", "lost-2"):
            d.api.add(guid)
        d.api.add("ping-1", "ping")
        # GitHub saw a time-out, and yet it was recorded.
        d.arrive("got-1")
        d.api.on_redelivery = lambda delivery: d.arrive(delivery["guid"])
        assert await d.reconcile() == Tally(listed=3, missing=2, sent=2)
        assert sorted(d.api.redelivered) == [1000, 1002]
        assert await d.reconcile() == Tally(listed=3)


async def test_each_event_is_asked_for_once_however_often_it_failed(database_url: str) -> None:
    async with desk(database_url) as d:
        for _ in range(3):
            d.api.add("lost-1")
        assert await d.reconcile() == Tally(listed=1, missing=1, sent=1)
        assert d.api.redelivered == [1002]


async def test_pages_are_followed_until_the_window_is_covered(database_url: str) -> None:
    async with desk(database_url) as d:
        for number in range(350, 0, -1):
            d.api.add(f"g-{number}", age=timedelta(minutes=number * 10))
        # 24 hours are 144 of them; 256 stand on three pages.
        assert await d.reconcile(dry_run=True) == Tally(listed=143, missing=143)
        assert d.api.calls == [f"GET /{PATH}"] * 2
        assert d.api.redelivered == []
        assert (await d.reconcile(None, dry_run=True)).listed == 350


async def test_many_records_are_looked_through(database_url: str) -> None:
    async with desk(database_url) as d:
        with connect(database_url) as connection:
            connection.execute(
                "select redrive.receive_event('github', 'g-' || n, 'push', '{}', '{}', '{}', 'webhook_jobs')"
                " from generate_series(1, 1100) n"
            )
        for number in (1, 550, 1100, 1101):
            d.api.add(f"g-{number}")
        assert await d.reconcile() == Tally(listed=4, missing=1, sent=1)


async def test_an_old_event_that_was_redelivered_lately_is_not_asked_for_again(database_url: str) -> None:
    async with desk(database_url) as d:
        d.arrive("got-1")
        with connect(database_url) as connection:
            connection.execute("update redrive.webhook_event set received_at = now() - interval '40 days'")
        d.api.add("got-1", age=timedelta(hours=30))
        d.api.add("got-1", age=timedelta(hours=2), status=200)
        assert await d.reconcile() == Tally(listed=1)
        assert await d.reconcile(None) == Tally(listed=1)


async def test_the_window_may_begin_with_time_itself(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add("lost-1")
        run = reconciliation(
            d.app.inboxes["github"],
            d.database,
            datetime(1, 1, 1, tzinfo=UTC),
            dry_run=False,
            step=lambda done: None,
        )
        await run.run()
        assert run.report["delivery"] == Tally(listed=1, missing=1, sent=1)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ('<https://[half>; rel="next"', "names a next page without a cursor"),
        ('<http://[::1?cursor=x>; rel="next"', "names a next page without a cursor"),
        ('<https://x/?page=2>; rel="next"', "names a next page without a cursor"),
        ('<https://x/?cursor=v1_1000>; rel="next"', "its next page is one that it had before"),
    ],
)
async def test_a_list_that_leads_nowhere_ends_it(database_url: str, link: str, said: str) -> None:
    async with desk(database_url) as d:
        d.api.add("lost-1")
        d.api.link = link
        with pytest.raises(ApiError, match=said):
            await d.reconcile()
        assert len(d.api.calls) <= 2


async def test_a_delivery_that_no_record_could_name_is_passed_over(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add("nul\x00")
        d.api.add("half\ud800")
        d.api.add("lost-1")
        assert await d.reconcile() == Tally(listed=1, missing=1, sent=1)


async def test_what_github_will_not_send_again_stops_nothing(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.add("lost-1")
        d.api.add("lost-2")
        d.api.faults.append(("POST", 422, {}))
        assert await d.reconcile() == Tally(listed=2, missing=2, sent=1, gone=1)


async def test_its_rate_limit_is_waited_for(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(sources, "sleep", sleep)
    async with desk(database_url) as d:
        d.api.add("lost-1")
        d.api.faults.append(("GET", 403, {"retry-after": "60"}))
        d.api.faults.append(("GET", 429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"}))
        assert (await d.reconcile()).sent == 1
        assert slept == [60, 1]


async def test_a_refused_token_is_named_and_not_shown(database_url: str) -> None:
    async with desk(database_url) as d:
        d.api.faults.append(("GET", 403, {}))
        with pytest.raises(Reject, match="GITHUB_TOKEN") as refused:
            await d.reconcile()
        assert TOKEN not in str(refused.value)


async def test_an_event_without_a_handler_is_ignored(database_url: str) -> None:
    async with desk(database_url) as d:
        d.arrive("got-1")
        ran = await run_until_idle(d.app)
        assert ran.dead == ran.retried == 0
        with connect(database_url) as connection:
            assert connection.execute("select status from redrive.webhook_event").fetchall() == [("ignored",)]


def test_a_webhook_is_named_in_one_of_three_ways() -> None:
    assert "orgs/octo/hooks/7/deliveries" in repr(GitHub(org="octo", hook_id=7))
    assert "app/hook/deliveries" in repr(GitHub(app=True))
    wrongs: list[dict[str, Any]] = [
        {},
        {"repository": "octo/shop"},
        {"org": "a/b", "hook_id": 1},
        {"app": True, "hook_id": 1},
        {"repository": "octo/shop", "org": "octo", "hook_id": 1},
    ]
    for wrong in wrongs:
        with pytest.raises(ConfigError, match="GitHub"):
            GitHub(**wrong)
    for name in ("shop", "octo/../shop", "octo/shop?x", "octo/.."):
        with pytest.raises(ConfigError, match="owner/name"):
            GitHub(name, hook_id=1)
