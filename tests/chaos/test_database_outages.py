"""A database that goes away under load, all of it or a connection at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.conftest import APP, Db, look, send_many, set_policy
from tests.support.server import Server
from tests.support.working import Journal, WorkerProcess, count, fetch, until_blocking

CONCURRENCY = 10


class Load:
    """Two workers on queue `diary`, and everything they are asked to do."""

    def __init__(self, url: str, journal: Journal, one: WorkerProcess, two: WorkerProcess) -> None:
        self.url = url
        self.journal = journal
        self.workers = (one, two)
        self.sent = 0

    def send(self, seconds: float, number: int) -> None:
        with look(self.url) as db:
            send_many(db, "diary", {"for": seconds}, number)
        self.sent += number

    def await_started(self, number: int) -> None:
        until_blocking(lambda: len(self.starts()) >= number)

    def starts(self) -> list[dict[str, Any]]:
        return [each for each in self.journal.entries() if each["what"] == "start"]

    def await_archived(self, within: float) -> None:
        with look(self.url) as db:
            until_blocking(lambda: count(db, "q_diary") == 0, within=within)
            assert fetch(db, "select outcome, count(*) from pgmq.a_diary group by 1") == [("done", self.sent)]
            assert count(db, "q_diary_dlq") == 0

    def charged_unstarted(self) -> int:
        """Attempts charged for deliveries that no handler ever saw."""
        with look(self.url) as db:
            [charged] = fetch(
                db,
                """select sum((redrive.message('diary', msg_id) ->> 'attempts')::int)::int as n
                     from pgmq.a_diary""",
            )
        return charged.n - len(self.starts())

    def assert_started_once_by_the_first_processes(self) -> None:
        starts = self.starts()
        assert len(starts) == len({start["msg_id"] for start in starts}) == self.sent
        assert {start["pid"] for start in starts} == {pid for worker in self.workers for pid in worker.pids()}
        for worker in self.workers:
            assert not worker.events("worker_replaced")


@contextmanager
def loaded(url: str, path: Path) -> Generator[Load]:
    options: dict[str, Any] = {"app": APP, "queues": ("diary",), "concurrency": CONCURRENCY}
    journal = Journal(path)
    with (
        WorkerProcess(url, journal.path, **options) as one,
        WorkerProcess(url, journal.path, **options) as two,
    ):
        for each in (one, two):
            each.await_line("notify_listening")
        yield Load(url, journal, one, two)


class TestAServerThatStops:
    @pytest.mark.timeout(180)
    @pytest.mark.parametrize(("mode", "seconds", "jobs"), [("fast", 20.0, 800), ("immediate", 2.0, 400)])
    def test_under_load_costs_no_job_no_worker_and_no_attempt(
        self, own_server: Server, tmp_path: Path, mode: str, seconds: float, jobs: int
    ) -> None:
        with loaded(own_server.url, tmp_path / "journal") as load:
            # Some end while it is away, some later; most have not started.
            load.send(seconds / 2, 4)
            load.send(seconds + 5, 2)
            load.send(0.2, jobs)
            load.await_started(100)
            own_server.pause(mode)
            for worker in load.workers:
                worker.await_line("database_away")
            time.sleep(seconds)
            started = len(load.starts())
            own_server.resume()
            load.await_archived(within=110)
            assert started < load.sent
            load.assert_started_once_by_the_first_processes()
            # Of each worker one claim may have been answered to nobody.
            assert load.charged_unstarted() <= 2 * CONCURRENCY
            for worker in load.workers:
                worker.await_line("database_back")
                assert len(worker.events("database_away")) == 1


class TestConnectionsThatAreTerminated:
    @pytest.mark.timeout(150)
    def test_again_and_again_under_load_cost_no_job_and_run_none_twice(
        self, own_server: Server, tmp_path: Path
    ) -> None:
        with look(own_server.url) as db:
            set_policy(db, "diary", visibility_timeout=3)
        with loaded(own_server.url, tmp_path / "journal") as load, look(own_server.url) as db:
            # Longer than their visibility timeout: they live by their heartbeats.
            load.send(7, 4)
            load.send(0.2, 600)
            load.await_started(50)
            ended = self.terminate(db, lambda: count(db, "q_diary") == 0)
            load.await_archived(within=60)
            load.assert_started_once_by_the_first_processes()
            # Claimers, heartbeats and listeners, each again and again.
            assert len(ended) > 40
            assert sum(name.endswith(" listen") for name in ended) > 5

    def test_while_listening_are_replaced(self, url: str, journal: Journal, db: Db) -> None:
        with WorkerProcess(url, journal.path, app=APP, queues=("diary",), poll=60) as worker:
            worker.await_line("notify_listening")
            seen = len(worker.lines)
            db.execute(
                """select pg_terminate_backend(pid) from pg_stat_activity
                   where datname = current_database() and application_name like 'redrive % listen'"""
            )
            worker.await_line("notify_away", after=seen)
            worker.await_line("notify_listening", after=seen)
            # And it hears: this queue is asked every minute only, unless somebody says there is something.
            send_many(db, "diary", {"for": 0}, 1)
            until_blocking(lambda: count(db, "a_diary") == 1, within=10)

    def terminate(self, db: Db, done: Callable[[], bool]) -> list[str]:
        """Cut any of the workers' connections, ten times a second; the names of those that were cut."""
        ended: list[str] = []
        until = time.monotonic() + 60
        while not done() and time.monotonic() < until:
            ended += [
                row.name
                for row in fetch(
                    db,
                    """select application_name as name, pg_terminate_backend(pid) from (
                           select pid, application_name from pg_stat_activity
                            where datname = current_database() and application_name like 'redrive %%'
                            order by random() limit 1) one""",
                )
            ]
            time.sleep(0.1)
        return ended
