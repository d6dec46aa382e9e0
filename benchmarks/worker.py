"""Worker: `redrive worker` as users start it, and an ear for what its handlers say."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import LiteralString, Self

from benchmarks.place import Place, value

_READY_WITHIN = 30.0
_IDLE: LiteralString = "select exists (select from redrive.worker where queue = %s and waiting_until > now())"
_AT_WORK: LiteralString = "select exists (select from redrive.worker where queue = %s and done > 0)"


class Worker:
    """One worker process on one queue of `benchmarks.jobs`; ready and idle once the context is entered.

    `idle` False: its queue is full, and it is at work then.
    """

    def __init__(self, place: Place, queue: str, concurrency: int, *, idle: bool = True) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="redrive-ear-")
        path = str(Path(self._folder.name) / "ear")
        self._ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._ear.bind(path)
        self._ear.settimeout(30.0)
        self._log = (Path(self._folder.name) / "log").open("w+")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "redrive.cli", "worker", "--app", "benchmarks.jobs:app"),
                *("--queue", queue, "--concurrency", str(concurrency)),
            ],
            env={**os.environ, "REDRIVE_DATABASE_URL": place.url, "BENCH_EAR": path},
            stdout=self._log,
            stderr=self._log,
        )
        self._place = place
        self._queue = queue
        self._sign: LiteralString = _IDLE if idle else _AT_WORK

    @property
    def pid(self) -> int:
        """The supervisor's; the worker process is its child."""
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _wait(self) -> None:
        deadline = time.monotonic() + _READY_WITHIN
        with self._place.connect() as connection:
            while not value(
                connection,
                self._sign,
                self._queue,
            ):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self._log.seek(0)
                    raise RuntimeError(f"the worker is not ready: {self._log.read()}")
                time.sleep(0.05)
        # It looks at an idle queue after 10, 50 and 250 ms before it relies on being told.
        time.sleep(0.5)

    def _end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        self._ear.close()
        self._log.close()
        self._folder.cleanup()

    def hear(self) -> str:
        """The next thing a handler says. Raises `TimeoutError` after half a minute of silence."""
        return self._ear.recv(4096).decode()
