"""Deadlines: one timer for all running handlers, armed for the earliest of their deadlines.

A timer a job would cost more than the job; most deadlines never come, and each is later than those before it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable

from redrive.worker.held import Held


class Deadlines:
    """Calls `late` for each of `running` whose `deadline` has passed."""

    def __init__(self, running: Iterable[Held], late: Callable[[Held], None]) -> None:
        self._running = running
        self._late = late
        self._next = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, deadline: float) -> None:
        """A handler has this deadline from now on."""
        if deadline < self._next:
            self._arm(deadline)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, deadline: float) -> None:
        self.close()
        self._next = deadline
        pause = max(0.0, deadline - time.monotonic())
        self._timer = asyncio.get_running_loop().call_later(pause, self._sweep)

    def _sweep(self) -> None:
        now = time.monotonic()
        self._next = math.inf
        for held in [each for each in self._running if each.deadline <= now]:
            self._late(held)
        earliest = min((each.deadline for each in self._running), default=math.inf)
        if earliest < self._next:
            self._arm(earliest)
