"""Workers that are killed again and again, by the operating system and by their own jobs."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import psycopg
import pytest

from tests.chaos.conftest import APP, Db, send_many, set_policy
from tests.support.working import Journal, WorkerProcess, count, fetch, send, until_blocking

# Two runs of one message, the first not over when the second began, and its worker not killed before that.
TWO_AT_ONCE = """
select a.msg_id, a.pid as first, b.pid as second
  from run a join run b on b.queue = a.queue and b.msg_id = a.msg_id and b.started_at > a.started_at
 where coalesce(a.ended_at, 'infinity') > b.started_at
   and not exists (select from killed k where k.pid in (a.pid, a.parent) and k.at < b.started_at)"""


class TestAWorkerKilledEverySecond:
    @pytest.mark.timeout(150)
    def test_loses_no_job_condemns_no_innocent_and_runs_none_twice_at_once(
        self, db: Db, url: str, journal: Journal
    ) -> None:
        db.execute("create table killed (pid integer, at timestamptz default clock_timestamp())")
        set_policy(db, "ledger", visibility_timeout=10)
        send_many(db, "ledger", {"for": 0.25}, 2000)
        options: dict[str, Any] = {"app": APP, "queues": ("ledger",), "processes": 2, "concurrency": 10}
        with (
            WorkerProcess(url, journal.path, **options) as one,
            WorkerProcess(url, journal.path, **options) as two,
        ):
            for nth in range(20):
                second = time.monotonic()
                self.kill_one_at_work(db, (one, two)[nth % 2])
                time.sleep(max(0.0, second + 1 - time.monotonic()))
            until_blocking(lambda: count(db, "q_ledger") == 0, within=90)
        assert fetch(db, "select outcome, count(*) from pgmq.a_ledger group by 1") == [("done", 2000)]
        assert count(db, "q_ledger_dlq") == 0
        assert fetch(db, TWO_AT_ONCE) == []
        # It was chaos: every kill hit somebody in the middle of a job, and those jobs ran again.
        [hit] = fetch(
            db, "select count(*) as runs, count(distinct pid) as workers from run where ended_at is null"
        )
        assert hit.workers >= 20 and hit.runs >= 20
        assert fetch(db, "select from run group by msg_id having bool_and(ended_at is null)") == []

    def kill_one_at_work(self, db: Db, worker: WorkerProcess) -> None:
        found: list[Any] = []

        def at_work() -> bool:
            found[:] = fetch(
                db,
                """select pid from run where ended_at is null and pid = any (%s)
                   and pid not in (select pid from killed) order by id desc limit 1""",
                worker.pids(),
            )
            return bool(found)

        until_blocking(at_work)
        os.kill(found[0].pid, signal.SIGKILL)
        db.execute("insert into killed (pid) values (%s)", (found[0].pid,))


class TestAJobThatKillsItsProcess:
    def test_is_dead_alone_after_its_last_attempts_in_a_process_of_its_own(
        self, db: Db, url: str, journal: Journal
    ) -> None:
        set_policy(db, "killers", visibility_timeout=2)
        send_many(db, "killers", {"for": 0.2}, 25)
        killer = send(db, "killers", {"exit": 3})
        send_many(db, "killers", {"for": 0.2}, 25)
        with WorkerProcess(url, journal.path, app=APP, queues=("killers",)) as worker:
            until_blocking(lambda: count(db, "q_killers") == 0, within=60)
            assert len(worker.events("worker_started")) == 3
        assert count(db, "a_killers", "outcome = 'done'") == 50
        [dead] = fetch(db, "select * from redrive.dead_letters('killers')")
        assert (dead.original_msg_id, dead.reason, dead.attempts) == (killer, "crashed", 5)
        assert "exit code 3" in dead.error
        starts = fetch(db, "select attempt, pid, parent from run where msg_id = %s order by id", killer)
        assert [start.attempt for start in starts] == [1, 2, 3, 4, 5]
        assert len({start.pid for start in starts}) == 5
        # The first two in a worker process, beneath the supervisor; the others in a child of one.
        assert [start.parent == worker.pid for start in starts] == [True, True, False, False, False]

    def test_may_do_so_in_any_way_and_in_company(self, db: Db, url: str, journal: Journal) -> None:
        set_policy(db, "killers", visibility_timeout=2)
        ways = [{"exit": 2}, {"signal": signal.SIGSEGV}]
        for way in ways:
            send(db, "killers", way)
            send_many(db, "killers", {"for": 0.2}, 10)
        options: dict[str, Any] = {"app": APP, "queues": ("killers",), "concurrency": 10}
        with WorkerProcess(url, journal.path, **options), WorkerProcess(url, journal.path, **options):
            until_blocking(lambda: count(db, "q_killers") == 0, within=80)
        assert count(db, "a_killers", "outcome = 'done'") == 20
        dead = fetch(db, "select * from redrive.dead_letters('killers') order by original_msg_id")
        assert [(d.payload, d.reason, d.attempts) for d in dead] == [(way, "crashed", 5) for way in ways]
        for letter, cause in zip(dead, ["exit code 2", "SIGSEGV"], strict=True):
            assert cause in letter.error


class TestAJobWithOneAttempt:
    def test_that_is_killed_has_started_once_and_is_a_dead_letter(
        self, db: Db, url: str, journal: Journal
    ) -> None:
        set_policy(db, "once", visibility_timeout=2)
        msg_id = send(db, "once", {})
        with WorkerProcess(url, journal.path, app=APP, queues=("once",)) as worker:
            worker.await_line("worker_replaced", code=-signal.SIGKILL)
            until_blocking(lambda: count(db, "q_once") == 0)
        assert len(journal.starts(msg_id)) == 1
        [dead] = fetch(db, "select * from redrive.dead_letters('once')")
        assert (dead.reason, dead.attempts, dead.original_msg_id) == ("crashed", 1, msg_id)


class TestAKeyedJob:
    def test_killed_before_its_settle_has_committed_starts_again_and_completes_once(
        self, db: Db, url: str, journal: Journal
    ) -> None:
        set_policy(db, "diary", visibility_timeout=2)
        msg_id = send(db, "diary", {"for": 0.5}, key="k")
        with WorkerProcess(url, journal.path, app=APP, queues=("diary",)) as worker:
            until_blocking(lambda: bool(journal.starts(msg_id)))
            with psycopg.connect(url) as holder:
                # Somebody holds the row: the handler ends, its settle cannot.
                holder.execute("select from pgmq.q_diary where msg_id = %s for update", (msg_id,))
                until_blocking(lambda: [e["what"] for e in journal.entries()] == ["start", "end"])
                assert count(db, "a_diary") == 0
                os.kill(worker.pids()[0], signal.SIGKILL)
                worker.await_line("worker_replaced", code=-signal.SIGKILL)
            until_blocking(lambda: count(db, "a_diary") == 1)
            second = send(db, "diary", {"for": 0}, key="k")
            until_blocking(lambda: count(db, "q_diary") == 0)
        assert [start["attempt"] for start in journal.starts(msg_id)] == [1, 2]
        assert journal.starts(second) == []
        assert fetch(db, "select outcome from pgmq.a_diary order by msg_id") == [("done",), ("duplicate",)]


EFFECTS = ["effects", "blocking_effects", "own_effects"]


class TestAnEffectInThisDatabase:
    @pytest.fixture(autouse=True)
    def quick(self, db: Db, url: str) -> None:
        for queue in EFFECTS:
            db.execute(b"select redrive.set_policy('" + queue.encode() + b"', '{\"visibility_timeout\": 1}')")

    @pytest.mark.parametrize("queue", EFFECTS)
    def test_happens_once_whichever_line_its_job_is_killed_on(
        self, db: Db, url: str, journal: Journal, queue: str
    ) -> None:
        lines = {"before it begins": 2, "begun": 2, "worked": 2, "committed": 1}
        ids = {line: send(db, queue, {"name": line, "die": line}) for line in lines}
        # One after the other: each kills the process it runs in.
        with WorkerProcess(url, journal.path, app=APP, queues=(queue,), concurrency=1):
            until_blocking(lambda: count(db, f"q_{queue}") == 0, within=40)
        assert count(db, f"a_{queue}", "outcome = 'done'") == 4
        assert sorted(r.name for r in fetch(db, "select name from effect")) == sorted(lines)
        assert {line: len(journal.starts(ids[line])) for line in lines} == lines

    @pytest.mark.parametrize("queue", EFFECTS)
    def test_happens_once_when_its_job_is_killed_while_it_commits(
        self, db: Db, url: str, journal: Journal, queue: str
    ) -> None:
        db.execute(
            """create function hold() returns trigger language plpgsql as $$
               begin perform pg_advisory_xact_lock_shared(42); return null; end $$"""
        )
        db.execute(
            """create constraint trigger hold after insert on effect
               deferrable initially deferred for each row execute function hold()"""
        )
        waiting = (
            "select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'"
        )
        with (
            psycopg.connect(url) as holder,
            WorkerProcess(url, journal.path, app=APP, queues=(queue,)) as worker,
        ):
            holder.execute("select pg_advisory_xact_lock(42)")
            msg_id = send(db, queue, {"name": "once", "die": "never"})
            until_blocking(lambda: len(fetch(db, waiting)) == 1)
            os.kill(worker.pids()[0], signal.SIGKILL)
            worker.await_line("worker_replaced", code=-signal.SIGKILL)
            # Longer than its visibility timeout: others look, and leave alone what is being committed.
            db.execute("select pg_sleep(1.5)")
            holder.commit()
            until_blocking(lambda: count(db, f"a_{queue}", "outcome = 'done'") == 1)
        assert fetch(db, "select name from effect") == [("once",)]
        assert len(journal.starts(msg_id)) == 1
