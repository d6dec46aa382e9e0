"""Workers for tests: in this process, and as the real thing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from redrive.app import Redrive
from redrive.worker.options import WorkerOptions
from redrive.worker.worker import Worker

APP = "tests.support.worker_app:app"
_SUPERVISE = (
    "import sys; from redrive.worker.options import WorkerOptions; "
    "from redrive.worker.supervisor import supervise; "
    "sys.exit(supervise(WorkerOptions.from_json(sys.argv[1])))"
)


@asynccontextmanager
async def working(app: Redrive, url: str, **options: Any) -> AsyncGenerator[Worker]:
    """A worker in this process, drained at the end."""
    settings = {"app_spec": APP, "url": url, "poll": 0.5, "drain_timeout": 5.0, **options}
    worker = Worker(app.jobs, WorkerOptions(**settings))
    await worker.start()
    try:
        yield worker
    finally:
        await worker.drain()


def make_queue(db: psycopg.Connection[Any], queue: str, **policy: Any) -> None:
    db.execute("select redrive.create_queue(%s, %s::jsonb)", (queue, json.dumps(policy)))


def send(
    db: psycopg.Connection[Any], queue: str, payload: object, key: str | None = None, delay: float = 0
) -> int:
    row = db.execute(
        "select redrive.send(%s, %s::jsonb, %s, p_delay => %s::numeric)",
        (queue, json.dumps(payload), key, delay),
    ).fetchone()
    assert row is not None
    return row[0]


def count(db: psycopg.Connection[Any], table: str, where: str = "true") -> int:
    """Rows of pgmq.`table`, such as q_mail, a_mail or q_mail_dlq."""
    row = db.execute(f"select count(*) from pgmq.{table} where {where}".encode()).fetchone()
    assert row is not None
    return row[0]


def fetch(db: psycopg.Connection[Any], sql: str, *params: Any) -> list[Any]:
    return db.execute(sql.encode(), params).fetchall()


async def until(condition: Callable[[], bool], within: float = 15.0) -> None:
    """Ask again and again, as there is nobody to tell us; AssertionError when it takes too long."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within} s"
        await asyncio.sleep(0.02)


def until_blocking(condition: Callable[[], bool], within: float = 20.0) -> None:
    """`until`, for tests without an event loop."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not so within {within} s"
        time.sleep(0.02)


class WorkerProcess:
    """`redrive worker` with its supervisor, its JSON log read line by line."""

    def __init__(self, url: str, journal: Path, *, app: str = APP, **options: Any) -> None:
        settings = {"drain_timeout": 5.0, "poll": 0.2, "log_format": "json", **options}
        self.lines: list[dict[str, Any]] = []
        self._more = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SUPERVISE, WorkerOptions(app_spec=app, url=url, **settings).to_json()],
            stderr=subprocess.PIPE,
            env={**os.environ, "REDRIVE_TEST_JOURNAL": str(journal)},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                for pid in self.pids():
                    os.kill(pid, signal.SIGKILL)
                self._process.kill()
        self._process.wait()
        self._reader.join(10)
        assert self._process.stderr is not None
        self._process.stderr.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def pids(self) -> list[int]:
        """The worker processes beneath the supervisor."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        return [int(pid) for pid in children.read_text().split()] if children.exists() else []

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self, within: float = 20.0) -> int:
        """The supervisor's exit code."""
        code = self._process.wait(within)
        self._reader.join(10)
        return code

    def await_line(self, event: str, within: float = 20.0, after: int = 0, **fields: Any) -> dict[str, Any]:
        """The first log line of this event, from line `after` on, waiting for it when there is none yet."""
        deadline = time.monotonic() + within
        with self._more:
            while True:
                for line in self.lines[after:]:
                    if line.get("event") == event and all(line.get(k) == v for k, v in fields.items()):
                        return line
                left = deadline - time.monotonic()
                assert left > 0 and not self._ended, f"no {event} {fields or ''} in:\n{self.log()}"
                self._more.wait(left)

    def events(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line.get("event") == event]

    def log(self) -> str:
        return "\n".join(json.dumps(line) for line in self.lines)

    def _read(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            try:
                line = json.loads(raw)
            except ValueError:
                line = {"raw": raw.decode(errors="replace").rstrip()}
            with self._more:
                self.lines.append(line)
                self._more.notify_all()
        with self._more:
            self._ended = True
            self._more.notify_all()


class Journal:
    """What the handlers of `worker_app` wrote down: a line a start or an end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def entries(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def starts(self, msg_id: int) -> list[dict[str, Any]]:
        return [e for e in self.entries() if e["what"] == "start" and e["msg_id"] == msg_id]
