"""Crew: the story's processes, real ``redrive worker``s whose log is overheard.

Guarantees  none of them outlives the story: `close` ends those that are left, and each ends by itself when
            the story's process is gone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from redrive.demo.starts import VARIABLE
from redrive.errors import SetupError

_TOLD = {
    "job_retry",
    "job_crashed",
    "job_dead",
    "job_release",
    "worker_replaced",
    "worker_draining",
    "drain_timeout",
}
_START_WITHIN = 30.0
_END_WITHIN = 20.0
_RUN_WITHIN = 60.0
_IDLE_END_WITHIN = 2.0


class Member:
    """One ``redrive worker``."""

    def __init__(
        self, name: str, process: subprocess.Popen[str], overheard: Callable[[str, str], None]
    ) -> None:
        self.name = name
        self.process = process
        self._overheard = overheard
        self._ready = threading.Event()
        self._said: list[str] = []
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def wait_until_ready(self) -> None:
        """Return when it claims. Raises `SetupError` with what it said when it does not."""
        if not self._ready.wait(_START_WITHIN) or self.process.poll() is not None:
            raise SetupError(f"worker {self.name} did not start:\n" + "\n".join(self._said))

    def terminate(self) -> int:
        """SIGTERM, as a deploy sends it; the exit code when it has drained."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def end(self) -> int:
        """Wait for its end; killed when that takes too long."""
        try:
            self.process.wait(_END_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._listener.join(1.0)
        return self.process.returncode

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._said.append(line.rstrip())
            try:
                event: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            if event.get("event") == "worker_started":
                self._ready.set()
            elif event.get("event") in _TOLD:
                self._overheard(self.name, _sentence(event))
        self._ready.set()


class Crew:
    """Starts processes that work on `url` and note their starts in `starts`."""

    def __init__(self, url: str, starts: Path, overheard: Callable[[str, str], None]) -> None:
        self._overheard = overheard
        self._folder = starts.parent
        # What the surroundings say of databases and settings is none of the story's.
        kept = {k: v for k, v in os.environ.items() if not k.startswith("REDRIVE_") and k != "DATABASE_URL"}
        self._environment = {**kept, "REDRIVE_DATABASE_URL": url, VARIABLE: str(starts)}
        self._members: list[Member] = []

    def hire(self, name: str, app: str, *queues: str, drain_timeout: float = 10) -> Member:
        """Start a worker of `queues`; it may not be ready yet."""
        chosen = [argument for queue in queues for argument in ("--queue", queue)]
        member = Member(
            name,
            self._start(
                "worker", "--app", app, *chosen, "--drain-timeout", str(drain_timeout), "--log-format", "json"
            ),
            self._overheard,
        )
        self._members.append(member)
        return member

    def run(self, *arguments: str) -> tuple[int, str]:
        """``redrive ARGUMENTS``: its exit code and what it printed. Raises `TimeoutExpired` after 60 s."""
        done = subprocess.run(
            [sys.executable, "-m", "redrive.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self._folder,
            env={**self._environment, "COLUMNS": "120"},
            timeout=_RUN_WITHIN,
            check=False,
        )
        return done.returncode, done.stdout

    def close(self) -> None:
        """End whoever is left: idle ones drain, busy ones do not get the time."""
        deadline = time.monotonic() + _IDLE_END_WITHIN
        for _signal in range(2):
            for member in self._members:
                if member.process.poll() is None:
                    member.process.send_signal(signal.SIGTERM)
            while any(member.process.poll() is None for member in self._members):
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
        for member in self._members:
            member.end()

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "redrive.demo.member", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self._folder,
            env=self._environment,
            # Ctrl-C is the story's; it tells them.
            start_new_session=True,
        )


def _sentence(event: dict[str, Any]) -> str:
    text = str(event.get("message", "")).splitlines()[0]
    if "msg_id" not in event:
        return text
    return f"{event['queue']} {event['msg_id']}: {text}"
