"""Watchdog: notices an event loop that no longer turns, from a thread that does not need it.

A handler that blocks the loop stops all its neighbours. After a few seconds a line says which, with its
stack; after a minute the process ends, so that its supervisor puts a working one in its place: the delivery
counts as crashed, and a handler that does it again ends up in a process of its own, where it harms nobody.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

from redrive.worker.options import EXIT_HUNG

log = logging.getLogger("redrive.worker")

_PULSE = 0.5
_WARN_AFTER = 5.0
HANG_AFTER = 60.0


class Watchdog:
    """`tell` is called about once a second with the seconds since the loop last turned; it must not block."""

    def __init__(
        self, tell: Callable[[float], None] | None = None, *, hang_after: float | None = None
    ) -> None:
        self._tell = tell
        self._hang_after = HANG_AFTER if hang_after is None else hang_after
        self._turned = time.monotonic()
        self._quit = threading.Event()
        self._thread: threading.Thread | None = None
        self._pulse: asyncio.TimerHandle | None = None
        self._watched = 0

    @property
    def silence(self) -> float:
        """Seconds since the loop last turned."""
        return time.monotonic() - self._turned

    async def start(self) -> None:
        if self._thread is not None:
            return
        self._watched = threading.get_ident()
        self._beat()
        self._thread = threading.Thread(target=self._watch, name="redrive-watchdog", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        self._quit.set()
        if self._pulse is not None:
            self._pulse.cancel()

    def _beat(self) -> None:
        self._turned = time.monotonic()
        self._pulse = asyncio.get_running_loop().call_later(_PULSE, self._beat)

    def _watch(self) -> None:
        warned = False
        before = time.monotonic()
        self._told(0.0)
        while not self._quit.wait(1.0):
            # If this thread did not run either, the machine or the process was suspended: nobody's fault.
            now = time.monotonic()
            if now - before > 3 * _WARN_AFTER:
                self._turned = now
            before = now
            silence = self.silence
            self._told(silence)
            if silence > self._hang_after:
                self._end(silence)
            if silence > _WARN_AFTER and not warned:
                log.warning(
                    "the event loop is blocked for %.0f s, by: %s",
                    silence,
                    self._stack(),
                    extra={"event": "loop_blocked"},
                )
            warned = silence > _WARN_AFTER

    def _told(self, silence: float) -> None:
        if self._tell is not None:
            self._tell(silence)

    def _end(self, silence: float) -> None:
        log.critical(
            "the event loop is blocked for %.0f s; this process ends with code %d, by: %s",
            silence,
            EXIT_HUNG,
            self._stack(),
            extra={"event": "worker_hung"},
        )
        logging.shutdown()
        os._exit(EXIT_HUNG)

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._watched)  # pyright: ignore[reportPrivateUsage]
        if frame is None:
            return "(no stack)"
        return " < ".join(
            f"{f.name} ({f.filename}:{f.lineno})" for f in reversed(traceback.extract_stack(frame)[-6:])
        )
