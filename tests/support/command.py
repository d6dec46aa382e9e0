"""A long-running ``redrive ...`` as a process of its own, whose output is waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self


class Command:
    """Runs in `folder` with none of our settings but `environment`; killed at the end of the block."""

    def __init__(self, *arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> None:
        plain = {k: v for k, v in os.environ.items() if not k.startswith("REDRIVE_") and k != "DATABASE_URL"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "redrive.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env={**plain, **(environment or {})},
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._news = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(10)
        assert self.process.stdout is not None
        self.process.stdout.close()

    @property
    def said(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, text: str, *, after: int = 0, within: float = 60) -> int:
        """The number of the first line at or beyond `after` that contains `text`, plus one."""
        deadline = time.monotonic() + within
        with self._news:
            while True:
                for number, line in enumerate(self.lines[after:], after + 1):
                    if text in line:
                        return number
                left = deadline - time.monotonic()
                assert left > 0 and not self._ended, f"it did not say {text!r}:\n{self.said}"
                self._news.wait(left)

    def end(self, number: int | None = None, within: float = 60) -> int:
        """Send a signal, if any, and wait for the exit code."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(within)
        self._reader.join(10)
        return code

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()
