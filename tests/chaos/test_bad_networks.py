"""Networks that swallow every byte, or cut a connection before the answer is through."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.chaos.conftest import APP, Db, Health, send_many, set_policy
from tests.support.proxy import Proxy, proxied
from tests.support.server import with_database
from tests.support.working import Journal, WorkerProcess, count, fetch, until_blocking


@pytest.fixture
def proxy(url: str, server_tcp_url: str) -> Generator[Proxy]:
    with proxied(with_database(server_tcp_url, str(conninfo_to_dict(url)["dbname"]))) as opened:
        yield opened


def starts(journal: Journal) -> list[dict[str, Any]]:
    return [each for each in journal.entries() if each["what"] == "start"]


class TestANetworkThatSwallowsEveryByte:
    @pytest.mark.timeout(90)
    def test_costs_no_job_and_the_worker_works_again_within_30_s(
        self, db: Db, url: str, proxy: Proxy, journal: Journal
    ) -> None:
        set_policy(db, "diary", visibility_timeout=30)
        with WorkerProcess(proxy.url, journal.path, app=APP, queues=("diary",)) as worker:
            send_many(db, "diary", {"for": 0.5}, 10)
            send_many(db, "diary", {"for": 10}, 4)
            until_blocking(lambda: len(starts(journal)) == 14)
            swallowed = time.monotonic()
            proxy.swallow = True
            worker.await_line("database_away", within=40)
            # New ones pass again; those that lost bytes look well and stay mute.
            proxy.swallow = False
            send_many(db, "diary", {"for": 0}, 20)
            until_blocking(lambda: count(db, "a_diary") == 34, within=30)
            assert time.monotonic() - swallowed < 30
            assert not worker.events("worker_replaced")
        assert len(starts(journal)) == 34
        assert fetch(db, "select outcome, count(*) from pgmq.a_diary group by 1") == [("done", 34)]

    @pytest.mark.timeout(90)
    def test_from_one_moment_on_for_every_old_connection_is_noticed_in_time_by_the_heartbeat(
        self, db: Db, url: str, proxy: Proxy, journal: Journal
    ) -> None:
        set_policy(db, "diary", visibility_timeout=4)
        health = Health()
        with WorkerProcess(
            proxy.url, journal.path, app=APP, queues=("diary",), health=health.where
        ) as worker:
            worker.await_line("worker_started")
            send_many(db, "diary", {"for": 10}, 4)
            until_blocking(lambda: health.counters().get("beats", 0) > 0)
            # Another one, with a network of its own, would take whatever is not kept.
            with WorkerProcess(url, journal.path, app=APP, queues=("diary",)):
                proxy.strand()
                until_blocking(lambda: count(db, "a_diary") == 4, within=30)
            assert not worker.events("job_lost")
        assert len(starts(journal)) == 4


class TestANetworkThatCutsConnections:
    @pytest.mark.timeout(120)
    def test_before_the_answer_is_through_costs_no_job_and_runs_none_twice(
        self, db: Db, url: str, proxy: Proxy, journal: Journal
    ) -> None:
        set_policy(db, "diary", visibility_timeout=2, max_attempts=20)
        health = Health()
        options: dict[str, Any] = {"app": APP, "queues": ("diary",), "concurrency": 5}
        with WorkerProcess(proxy.url, journal.path, health=health.where, **options) as worker:
            worker.await_line("worker_started")
            proxy.cut_answers = 75
            send_many(db, "diary", {"for": 0.1}, 200)
            until_blocking(lambda: count(db, "q_diary") == 0, within=90)
            assert proxy.cut_answers == 0
            # Some of what it had settled it reported again, as nobody had answered.
            until_blocking(lambda: health.counters()["repeated"] > 0, within=3)
            assert not worker.events("worker_replaced")
        assert fetch(db, "select outcome, count(*) from pgmq.a_diary group by 1") == [("done", 200)]
        assert len(starts(journal)) == 200
