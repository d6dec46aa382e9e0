"""Child: a contender in a process of its own, told to go once its queue is full.

    python -m benchmarks.peers.bare drain URL QUEUE 100 20000

It says `ready` on its output, waits for a line, works, says how many seconds that took, and stays,
connections and all, until it is no longer needed.
"""

from __future__ import annotations

import subprocess
import sys
from types import TracebackType
from typing import Self


class Child:
    """Starts `python -m module arguments…` and awaits its `ready`."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._expect("ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        return self._process.pid

    def go(self) -> str:
        """Let it work; the first line it says."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self.line()

    def line(self) -> str:
        """The next line it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self._process.args} ended with {self._process.wait()} and said nothing")
        return line

    def _expect(self, word: str) -> None:
        if (line := self.line()) != word:
            raise RuntimeError(f"{self._process.args} said {line!r}, not {word!r}")


def wait_for_go() -> None:
    """The child's side: ready; returns when told to go."""
    print("ready", flush=True)
    sys.stdin.readline()


def tell(seconds: float) -> None:
    """The child's side: this is what it took; returns when nobody needs this process any more."""
    print(seconds, flush=True)
    sys.stdin.read()
