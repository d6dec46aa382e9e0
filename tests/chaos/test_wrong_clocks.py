"""Workers whose clocks are wrong: only the database's counts."""

from __future__ import annotations

import glob
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.chaos.conftest import APP, Db, set_policy
from tests.support.working import Journal, WorkerProcess, count, fetch, send, until_blocking

FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")


@pytest.mark.skipif(not FAKETIME, reason="libfaketime is missing: apt-get install libfaketime")
def test_an_hour_ahead_and_an_hour_behind_they_share_their_work_as_if_nothing_were(
    db: Db, url: str, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_policy(db, "ledger", visibility_timeout=3)
    set_policy(db, "fickle", backoff={"base": 1, "factor": 1, "cap": 1, "jitter": 0})
    monkeypatch.setenv("LD_PRELOAD", FAKETIME[0])
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    workers: list[WorkerProcess] = []
    bug = tmp_path / "bug"
    bug.touch()
    try:
        for skew in ("+3600", "-3600"):
            monkeypatch.setenv("FAKETIME", skew)
            workers.append(
                WorkerProcess(url, journal.path, app=APP, queues=("ledger", "fickle"), concurrency=5)
            )
        started = [worker.await_line("worker_started") for worker in workers]
        send(db, "fickle", {"while": str(bug)})
        delayed = send(db, "ledger", {"for": 0}, delay=2)
        first = send(db, "ledger", {"for": 4}, key="k")
        second = send(db, "ledger", {"for": 0}, key="k")
        # More than twice their visibility timeout, on both workers.
        long = [send(db, "ledger", {"for": 7}) for _ in range(8)]
        until_blocking(lambda: count(db, "q_ledger") == count(db, "q_fickle") == 0)
    finally:
        for worker in workers:
            worker.__exit__(None, None, None)
    [now] = fetch(db, "select clock_timestamp() as now")
    ahead, behind = (datetime.fromisoformat(line["time"]) - now.now for line in started)
    assert ahead > timedelta(minutes=50) and behind < timedelta(minutes=-50)

    runs = fetch(db, "select * from run order by id")
    assert sorted(run.msg_id for run in runs) == sorted([delayed, first, *long])
    assert len({run.pid for run in runs if run.msg_id in long}) == 2
    [due] = fetch(
        db,
        """select r.started_at - a.enqueued_at as after from run r
             join pgmq.a_ledger a using (msg_id) where msg_id = %s""",
        delayed,
    )
    assert timedelta(seconds=2) <= due.after < timedelta(seconds=5)
    outcomes = fetch(
        db, "select outcome from pgmq.a_ledger where msg_id in (%s, %s) order by msg_id", first, second
    )
    assert outcomes == [("done",), ("duplicate",)]
    first_failure, second_failure = (
        each.at for each in fetch(db, "select at from redrive.attempt order by at")
    )
    assert timedelta(seconds=1) <= second_failure - first_failure < timedelta(seconds=4)
