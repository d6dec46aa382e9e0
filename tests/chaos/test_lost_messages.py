"""A worker that stood still for longer than its visibility timeout, and has lost its message to another."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from redrive import Job, Redrive
from tests.chaos.conftest import APP, Db, Health, set_policy
from tests.support.working import (
    Journal,
    WorkerProcess,
    count,
    fetch,
    make_queue,
    send,
    until,
    until_blocking,
    working,
)


@dataclass
class Scene:
    """Worker one is stopped in mid-job, and two has claimed its message."""

    db: Db
    journal: Journal
    one: WorkerProcess
    two: WorkerProcess
    one_says: Health
    two_says: Health
    msg_id: int
    gate: Path

    def wake_one(self) -> None:
        """It goes on, and its handler ends before its heartbeat can tell it anything."""
        self.open(1)
        os.kill(self.one.pids()[0], signal.SIGCONT)

    def open(self, attempt: int) -> None:
        self.gate.with_suffix(f".{attempt}").touch()

    def row(self) -> Any:
        [found] = fetch(
            self.db,
            """select read_ct, headers, vt - clock_timestamp() between '0 s' and '5 s' as held
                 from pgmq.q_gate""",
        )
        return found

    def pids(self) -> list[int]:
        return [start["pid"] for start in self.journal.starts(self.msg_id)]


@contextmanager
def scene(db: Db, url: str, journal: Journal, gate: Path, then: str) -> Generator[Scene]:
    set_policy(db, "gate", visibility_timeout=2)
    one_says, two_says = Health(), Health()
    options: dict[str, Any] = {"app": APP, "queues": ("gate",), "drain_timeout": 0.5}
    with WorkerProcess(url, journal.path, health=one_says.where, **options) as one:
        msg_id = send(db, "gate", {"gate": str(gate), "then": then}, key="k")
        until_blocking(lambda: len(journal.starts(msg_id)) == 1)
        [stopped] = one.pids()
        os.kill(stopped, signal.SIGSTOP)
        try:
            with WorkerProcess(url, journal.path, health=two_says.where, **options) as two:
                until_blocking(lambda: len(journal.starts(msg_id)) == 2)
                yield Scene(db, journal, one, two, one_says, two_says, msg_id, gate)
        finally:
            if stopped in one.pids():
                os.kill(stopped, signal.SIGCONT)


def lost(health: Health) -> int:
    return health.counters()["lost"]


class TestTheFirstWorker:
    @pytest.mark.parametrize("outcome", ["raise", "snooze", "reject", "extend"])
    def test_can_no_longer_postpone_fail_or_extend_it_and_says_so(
        self, db: Db, url: str, journal: Journal, tmp_path: Path, outcome: str
    ) -> None:
        with scene(db, url, journal, tmp_path / "gate", outcome) as s:
            before = s.row()
            s.wake_one()
            s.one.await_line("job_lost", msg_id=s.msg_id)
            until_blocking(lambda: lost(s.one_says) == 1)
            now = s.row()
            assert (now.read_ct, now.headers, now.held) == (before.read_ct, before.headers, True)
            assert fetch(db, "select error_type from redrive.attempt") == [("crashed",)]
            # The other one is undisturbed: its job ends as if nothing had been.
            s.open(2)
            until_blocking(lambda: count(db, "a_gate", "outcome = 'done'") == 1)
            assert lost(s.two_says) == 0 and not s.two.events("job_lost")
            if outcome == "extend":
                # Refused, unless its heartbeat had it cancelled while it asked.
                assert {"Lost", "CancelledError"} & {entry["what"] for entry in journal.entries()}
        assert len(s.pids()) == 2 and count(db, "q_gate_dlq") == 0
        assert fetch(db, "select state from redrive.key where key = 'k'") == [("done",)]

    def test_may_still_say_that_it_is_done_and_then_the_second_ones_word_is_lost(
        self, db: Db, url: str, journal: Journal, tmp_path: Path
    ) -> None:
        with scene(db, url, journal, tmp_path / "gate", "done") as s:
            s.wake_one()
            s.one.await_line("job_late", msg_id=s.msg_id)
            until_blocking(lambda: count(db, "a_gate", "outcome = 'done'") == 1)
            s.open(2)
            s.two.await_line("job_lost", msg_id=s.msg_id)
            until_blocking(lambda: lost(s.two_says) == 1)
            until_blocking(lambda: s.one_says.counters()["late"] == 1)
        assert count(db, "a_gate") == 1 and count(db, "q_gate") == 0 and count(db, "q_gate_dlq") == 0

    def test_that_drains_gives_nothing_back(self, db: Db, url: str, journal: Journal, tmp_path: Path) -> None:
        with scene(db, url, journal, tmp_path / "gate", "wait") as s:
            before = s.row()
            [stopped] = s.one.pids()
            os.kill(stopped, signal.SIGTERM)
            s.wake_one()
            s.one.await_line("job_lost", msg_id=s.msg_id)
            s.one.await_line("worker_ended")
            now = s.row()
            assert (now.read_ct, now.headers, now.held) == (before.read_ct, before.headers, True)
            s.open(2)
            until_blocking(lambda: count(db, "a_gate", "outcome = 'done'") == 1)
        assert len(s.pids()) == 2


async def test_a_release_that_comes_too_late_is_refused_told_and_counted(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = Redrive()
    started = asyncio.Event()

    @app.job("mail")
    async def handle(payload: Any, job: Job) -> None:
        started.set()
        await asyncio.sleep(60)

    # No beat is due in this minute: nothing but the release itself can learn of the loss.
    async with working(app, database_url, drain_timeout=0.1, concurrency=1) as worker:
        send(db, "mail", {})
        await asyncio.wait_for(started.wait(), 10)
        db.execute("update pgmq.q_mail set vt = clock_timestamp()")
        [theirs] = fetch(db, "select * from redrive.claim('mail', 60, 1, 'other')")
        await worker.drain()
        assert (worker.stats.lost, worker.stats.released) == (1, 0)
    await until(lambda: worker.runner.running == 0)
    [now] = fetch(db, "select read_ct, vt, headers from pgmq.q_mail")
    assert (now.read_ct, now.vt) == (theirs.read_ct, theirs.vt)
    verdict = "select verdict from redrive.settle('mail', array[%s::bigint], array[%s::integer], '{done}')"
    assert fetch(db, verdict, theirs.msg_id, theirs.read_ct) == [("ok",)]
