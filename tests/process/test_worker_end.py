"""What a worker process leaves behind when it ends."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psycopg

from tests.support.working import WorkerProcess, count, make_queue, send, until_blocking


def test_a_drained_process_closes_its_app(
    db: psycopg.Connection[Any], database_url: str, tmp_path: Path
) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    for queue in ("coroutine", "thread", "later"):
        make_queue(db, queue)
    send(db, "coroutine", {})
    send(db, "thread", {})
    with WorkerProcess(database_url, journal, app="tests.support.sending_app:app") as worker:
        until_blocking(lambda: count(db, "a_coroutine") + count(db, "a_thread") == 2)
        [pid] = worker.pids()
        assert journal.read_text() == ""
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0
    assert journal.read_text() == f"closed in {pid}\n"
    assert count(db, "q_later") == 2
