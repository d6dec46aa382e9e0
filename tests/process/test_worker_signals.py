"""How real worker processes end, and what their end costs the messages they held."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.working import Journal, WorkerProcess, count, fetch, make_queue, send, until_blocking

Db = psycopg.Connection[Any]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


@pytest.fixture(autouse=True)
def queues(db: Db) -> None:
    make_queue(db, "work")
    make_queue(db, "threads")
    db.execute("create table effects (name text)")


def done(db: Db, queue: str = "work") -> int:
    return count(db, f"a_{queue}", "outcome = 'done'")


def row(db: Db, msg_id: int, queue: str = "work") -> dict[str, Any]:
    [found] = fetch(db, "select redrive.message(%s, %s)", queue, msg_id)
    return found[0]


class TestSigterm:
    def test_lets_the_running_job_finish(self, db: Db, database_url: str, journal: Journal) -> None:
        with WorkerProcess(database_url, journal.path) as worker:
            msg_id = send(db, "work", {"do": "sleep", "for": 1.5})
            until_blocking(lambda: bool(journal.starts(msg_id)))
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        assert done(db) == 1 and len(journal.starts(msg_id)) == 1

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_gives_back_what_does_not_finish_in_time_at_once_and_free(
        self, db: Db, database_url: str, journal: Journal, number: int
    ) -> None:
        with WorkerProcess(database_url, journal.path, drain_timeout=0.5) as worker:
            msg_id = send(db, "work", {"do": "sleep", "for": 60})
            until_blocking(lambda: bool(journal.starts(msg_id)))
            asked = time.monotonic()
            worker.signal(number)
            assert worker.wait() == 0
            assert time.monotonic() - asked < 5
        assert row(db, msg_id)["state"] == "ready"
        with WorkerProcess(database_url, journal.path, drain_timeout=0.1):
            until_blocking(lambda: len(journal.starts(msg_id)) == 2)
        assert [start["attempt"] for start in journal.starts(msg_id)] == [1, 1]
        assert row(db, msg_id)["attempts"] == 0

    def test_gives_back_what_has_not_started_in_its_old_place(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        with WorkerProcess(database_url, journal.path, drain_timeout=0.2, concurrency=5) as worker:
            blocker = send(db, "work", {"do": "block", "for": 1.5})
            until_blocking(lambda: bool(journal.starts(blocker)))
            # Sent while the loop is blocked: claimed behind it at most, never started.
            waiting = [send(db, "work", {"do": "sleep", "for": 60}) for _ in range(8)]
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        left = fetch(db, "select msg_id, vt, enqueued_at from pgmq.q_work order by vt")
        assert [r.msg_id for r in left] == waiting
        assert all(r.vt - r.enqueued_at < timedelta(seconds=0.1) for r in left)
        assert all(row(db, msg_id)["attempts"] == 0 for msg_id in waiting)

    def test_twice_ends_it_at_once(self, db: Db, database_url: str, journal: Journal) -> None:
        with WorkerProcess(database_url, journal.path, drain_timeout=60) as worker:
            msg_id = send(db, "work", {"do": "sleep", "for": 60})
            until_blocking(lambda: bool(journal.starts(msg_id)))
            worker.signal(signal.SIGTERM)
            worker.await_line("worker_draining")
            children = worker.pids()
            worker.signal(signal.SIGTERM)
            assert worker.wait(5) == 128 + signal.SIGTERM
        until_blocking(lambda: not any(alive(pid) for pid in children))

    def test_to_a_worker_process_alone_drains_it_and_it_is_replaced(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        with WorkerProcess(database_url, journal.path) as worker:
            worker.await_line("worker_started")
            [pid] = worker.pids()
            os.kill(pid, signal.SIGTERM)
            worker.await_line("worker_replaced", code=0)
            msg_id = send(db, "work", {})
            until_blocking(lambda: done(db) == 1)
            assert journal.starts(msg_id)[0]["pid"] != pid

    def test_says_goodbye_in_the_store(self, db: Db, database_url: str, journal: Journal) -> None:
        with WorkerProcess(database_url, journal.path) as worker:
            send(db, "work", {})
            until_blocking(lambda: done(db) == 1)
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        assert fetch(db, "select worker, done from redrive.worker where queue = 'work'") == [("", 1)]


class TestADeadSupervisor:
    def test_makes_its_processes_drain(self, db: Db, database_url: str, journal: Journal) -> None:
        with WorkerProcess(database_url, journal.path, processes=2) as worker:
            msg_id = send(db, "work", {"do": "sleep", "for": 1.5})
            until_blocking(lambda: bool(journal.starts(msg_id)))
            children = worker.pids()
            assert len(children) == 2
            worker.signal(signal.SIGKILL)
            until_blocking(lambda: not any(alive(pid) for pid in children))
        assert done(db) == 1 and len(journal.starts(msg_id)) == 1


class TestADeadWorkerProcess:
    def test_is_replaced_and_its_message_runs_again_charged_once(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        with WorkerProcess(database_url, journal.path) as worker:
            msg_id = send(db, "work", {"do": "sleep", "for": 3})
            until_blocking(lambda: bool(journal.starts(msg_id)))
            [pid] = worker.pids()
            os.kill(pid, signal.SIGKILL)
            worker.await_line("worker_replaced", code=-signal.SIGKILL)
            until_blocking(lambda: done(db) == 1)
        assert [start["attempt"] for start in journal.starts(msg_id)] == [1, 2]

    def test_that_a_job_kills_again_and_again_loses_nobody_but_that_job(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        with WorkerProcess(database_url, journal.path) as worker:
            good = [send(db, "work", {"do": "sleep", "for": 0.2}) for _ in range(25)]
            killer = send(db, "work", {"do": "exit", "code": 7})
            good += [send(db, "work", {"do": "sleep", "for": 0.2}) for _ in range(25)]
            until_blocking(lambda: done(db) == 50 and count(db, "q_work_dlq") == 1, within=60)
            started = worker.events("worker_started")
        starts = journal.starts(killer)
        assert [start["attempt"] for start in starts] == [1, 2, 3, 4]
        # Two deaths of the whole process, two of a process of its own.
        assert len(started) == 3
        workers = {line["pid"] for line in journal.entries() if line["msg_id"] in good}
        assert {s["pid"] for s in starts[:2]} <= workers and not {s["pid"] for s in starts[2:]} & workers
        [dead] = fetch(db, "select * from redrive.dead_letters('work')")
        assert (dead.reason, dead.attempts, dead.original_msg_id) == ("crashed", 4, killer)
        assert "exit code 7" in dead.error
        assert count(db, "q_work") == 0


class TestAnIsolatedDelivery:
    def isolate(self, db: Db, msg_id: int) -> None:
        # As after two deliveries that were given back, one of which had marked it.
        headers = '{"x-redrive-isolated": true, "x-redrive-settled": 2, "x-redrive-credit": 2}'
        db.execute(
            "update pgmq.q_work set read_ct = 2, headers = %s::jsonb where msg_id = %s", (headers, msg_id)
        )

    def test_that_works_is_archived_as_any_other(self, db: Db, database_url: str, journal: Journal) -> None:
        msg_id = send(db, "work", {"do": "effect", "name": "x", "die": "never"})
        self.isolate(db, msg_id)
        with WorkerProcess(database_url, journal.path) as worker:
            until_blocking(lambda: done(db) == 1)
            [parent] = worker.pids()
        assert journal.starts(msg_id)[0]["pid"] != parent
        assert fetch(db, "select name from effects") == [("x",)]

    def test_is_not_called_lost_when_it_goes_on_after_completing_itself(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        msg_id = send(db, "work", {"do": "effect", "name": "x", "die": "never", "linger": 2.5})
        self.isolate(db, msg_id)
        with WorkerProcess(database_url, journal.path) as worker:
            until_blocking(lambda: any(entry["what"] == "end" for entry in journal.entries()))
            assert worker.events("job_lost") == []
        assert done(db) == 1

    def test_that_fails_keeps_its_error(self, db: Db, database_url: str, journal: Journal) -> None:
        msg_id = send(db, "work", {"do": "fail"})
        self.isolate(db, msg_id)
        with WorkerProcess(database_url, journal.path):
            until_blocking(lambda: count(db, "q_work_dlq") == 1)
        [dead] = fetch(db, "select * from redrive.dead_letters('work')")
        assert dead.reason == "failed" and "template missing" in dead.error
        assert "worker_app.py" in dead.failures[0]["traceback"]

    def test_that_is_killed_has_crashed_with_its_signal(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        msg_id = send(db, "work", {"do": "kill"})
        self.isolate(db, msg_id)
        with WorkerProcess(database_url, journal.path) as worker:
            until_blocking(lambda: count(db, "q_work_dlq") == 1)
            assert len(worker.events("worker_started")) == 1
        [dead] = fetch(db, "select * from redrive.dead_letters('work')")
        assert dead.reason == "crashed" and "SIGKILL" in dead.error
        assert len(journal.starts(msg_id)) == 4

    def test_is_given_back_free_by_a_drain(self, db: Db, database_url: str, journal: Journal) -> None:
        msg_id = send(db, "work", {"do": "sleep", "for": 60})
        self.isolate(db, msg_id)
        with WorkerProcess(database_url, journal.path, drain_timeout=0.5) as worker:
            until_blocking(lambda: bool(journal.starts(msg_id)))
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        child = journal.starts(msg_id)[0]["pid"]
        until_blocking(lambda: not alive(child))
        assert row(db, msg_id)["state"] == "ready" and row(db, msg_id)["attempts"] == 0

    def test_ends_with_its_worker(self, db: Db, database_url: str, journal: Journal) -> None:
        msg_id = send(db, "work", {"do": "block", "for": 60})
        self.isolate(db, msg_id)
        with WorkerProcess(database_url, journal.path) as worker:
            until_blocking(lambda: bool(journal.starts(msg_id)))
            child = journal.starts(msg_id)[0]["pid"]
            [parent] = worker.pids()
            os.kill(parent, signal.SIGKILL)
            until_blocking(lambda: not alive(child))


class TestAnEventLoopBlockedForEver:
    @pytest.mark.timeout(150)
    def test_is_replaced_and_the_job_that_blocks_it_ends_up_alone(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        make_queue(db, "hang")
        with WorkerProcess(database_url, journal.path, app="tests.support.hanging_app:app") as worker:
            hanging = send(db, "hang", {"hang": True})
            until_blocking(lambda: count(db, "q_hang_dlq") == 1, within=90)
            assert [line["code"] for line in worker.events("worker_replaced")] == [70, 70]
            assert "hang (" in worker.events("worker_hung")[0]["message"]
            send(db, "hang", {})
            until_blocking(lambda: count(db, "a_hang", "outcome = 'done'") == 1)
        starts = journal.starts(hanging)
        assert [start["attempt"] for start in starts] == [1, 2, 3]
        [dead] = fetch(db, "select * from redrive.dead_letters('hang')")
        assert "timeout of 3 s" in dead.error


class TestAHandlerThatDoesNotEndWhenCancelled:
    @pytest.mark.parametrize("payload", [{"do": "swallow"}, {"do": "leave behind", "for": 120}])
    def test_is_given_back_by_a_drain_and_holds_up_nobody(
        self, db: Db, database_url: str, journal: Journal, payload: dict[str, Any]
    ) -> None:
        with WorkerProcess(database_url, journal.path, drain_timeout=0.2) as worker:
            msg_id = send(db, "work", payload)
            until_blocking(lambda: bool(journal.starts(msg_id)))
            worker.signal(signal.SIGTERM)
            assert worker.wait(15) == 0
            assert not worker.events("worker_overdue")
        assert row(db, msg_id)["state"] == "ready" and row(db, msg_id)["attempts"] == 0


class TestAThreadThatDoesNotStop:
    def test_makes_its_process_be_replaced_after_the_others_have_finished(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        with WorkerProcess(database_url, journal.path, drain_timeout=20) as worker:
            stuck = send(db, "threads", {"do": "stick", "for": 300})
            until_blocking(lambda: bool(journal.starts(stuck)))
            worker.await_line("job_stuck", msg_id=stuck, within=30)
            worker.await_line("worker_replaced", code=75)
            until_blocking(lambda: len(journal.starts(stuck)) == 2)
        assert row(db, stuck, "threads")["failures"][0]["error_type"] == "Timeout"

    def test_is_no_reason_when_it_heeds_cancelled(self, db: Db, database_url: str, journal: Journal) -> None:
        with WorkerProcess(database_url, journal.path) as worker:
            send(db, "threads", {"do": "heed"})
            until_blocking(lambda: count(db, "q_threads_dlq") == 1)
            assert len(worker.events("worker_started")) == 1 and not worker.events("job_stuck")


class TestATransactionKilled:
    @pytest.mark.parametrize("die", ["inside", "after"])
    def test_has_one_effect_wherever_it_is_killed(
        self, db: Db, database_url: str, journal: Journal, die: str
    ) -> None:
        with WorkerProcess(database_url, journal.path):
            msg_id = send(db, "work", {"do": "effect", "name": "once", "die": die})
            until_blocking(lambda: any(e["what"] == "die" for e in journal.entries()))
            until_blocking(lambda: done(db) == 1)
        assert fetch(db, "select name from effects") == [("once",)]
        assert len(journal.starts(msg_id)) == (2 if die == "inside" else 1)


class TestKeyedJobs:
    def test_one_killed_before_its_settle_starts_again(
        self, db: Db, database_url: str, journal: Journal
    ) -> None:
        with WorkerProcess(database_url, journal.path) as worker:
            msg_id = send(db, "work", {"do": "sleep", "for": 1}, key="k")
            until_blocking(lambda: bool(journal.starts(msg_id)))
            os.kill(worker.pids()[0], signal.SIGKILL)
            until_blocking(lambda: done(db) == 1)
            again = send(db, "work", {}, key="k")
            until_blocking(lambda: count(db, "a_work", "outcome = 'duplicate'") == 1)
        assert len(journal.starts(msg_id)) == 2 and journal.starts(again) == []


class TestWorkersKilledEverySecond:
    @pytest.mark.timeout(180)
    def test_lose_no_job_and_kill_no_innocent(self, db: Db, database_url: str, journal: Journal) -> None:
        options = {"concurrency": 10, "queues": ("work",)}
        db.execute("select redrive.set_policy('work', '{\"max_attempts\": 20}')")
        jobs = json.dumps([{"do": "sleep", "for": 0.05}] * 600)
        db.execute("select redrive.send_batch('work', %s::jsonb)", (jobs,))
        with (
            WorkerProcess(database_url, journal.path, **options) as one,
            WorkerProcess(database_url, journal.path, **options) as two,
        ):
            one.await_line("worker_started")
            two.await_line("worker_started")
            for n in range(8):
                for pid in (one, two)[n % 2].pids():
                    os.kill(pid, signal.SIGKILL)
                time.sleep(1)
            until_blocking(lambda: done(db) == 600, within=90)
        assert count(db, "q_work") == 0 and count(db, "q_work_dlq") == 0
        assert count(db, "a_work") == 600


def alive(pid: int) -> bool:
    """Whether the process runs; one that waits for its parent to look has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
