"""Heartbeat: keeps what this process holds, from a thread of its own.

Guarantees  every message held, waiting ones too, is extended before half of its visibility timeout has
            passed, whatever the event loop does; younger ones cost nothing;
            a handler that outlives its timeout and grace is no longer kept alive;
            whatever the store no longer calls ours is handed to `lost`, on the event loop.
Not given   that a message is ours between two beats: the fence decides.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence

from redrive.errors import RedriveError, Unavailable
from redrive.worker.held import Held
from redrive.worker.lane import Lane
from redrive.worker.protocol import Engine
from redrive.worker.service import until
from redrive.worker.stats import Stats

log = logging.getLogger("redrive.worker")

# A beat is due at a third of the visibility timeout, looked for four times as often.
_SHARE = 3
_LOOKS = 4
_LONGEST_PAUSE = 1.0
_LEAVING = 2.0


class Heartbeat:
    """`engine` makes the thread's own connection; `lost` is called on the loop that called `start`."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        lanes: Sequence[Lane],
        stats: Stats,
        lost: Callable[[Iterable[Held]], None],
    ) -> None:
        self._make_engine = engine
        self._lanes = lanes
        self._stats = stats
        self._lost = lost
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._quit = asyncio.Event()
        self._main: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        if self._thread is not None:
            return
        self._main = asyncio.get_running_loop()
        ready = asyncio.Event()
        self._thread = threading.Thread(
            target=self._live, args=(ready,), name="redrive-heartbeat", daemon=True
        )
        self._thread.start()
        await ready.wait()

    async def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None or self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(self._quit.set)
        except RuntimeError:
            pass
        # A beat under way ends by its deadline; who is leaving need not wait for it.
        await asyncio.to_thread(thread.join, _LEAVING)

    def _live(self, ready: asyncio.Event) -> None:
        try:
            asyncio.run(self._beat(ready))
        except Exception:
            log.exception("the heartbeat stopped", extra={"event": "heartbeat_stopped"})

    async def _beat(self, ready: asyncio.Event) -> None:
        assert self._main is not None
        self._loop = asyncio.get_running_loop()
        self._main.call_soon_threadsafe(ready.set)
        engine = self._make_engine()
        failing = False
        try:
            while not self._quit.is_set():
                shortest = min((lane.vt for lane in self._lanes), default=60.0)
                await until(self._quit, min(_LONGEST_PAUSE, shortest / _SHARE / _LOOKS))
                try:
                    for lane in self._lanes:
                        await self._extend(engine, lane)
                    failing = False
                except Unavailable as error:
                    if not failing:
                        log.warning("heartbeat: %s", error, extra={"event": "heartbeat_outage"})
                    failing = True
                except Exception as error:
                    if not failing:
                        log.error("heartbeat: %s", error, extra={"event": "heartbeat_failed"})
                    failing = True
        finally:
            await engine.close()

    async def _extend(self, engine: Engine, lane: Lane) -> None:
        now = time.monotonic()
        due = [
            held
            for held in list(lane.held)
            if now - held.beaten_at >= lane.vt / _SHARE
            and now < held.beat_until
            and held.called_off != "lost"
        ]
        if not due:
            return
        try:
            owned = await engine.extend(lane.queue, [held.name for held in due], lane.vt)
        except Unavailable:
            raise
        except RedriveError as error:
            # Its queue is gone or closed to us: the claimer says so; the other queues' messages are beaten
            # on.
            log.debug("heartbeat of %s: %s", lane.queue, error)
            return
        self._stats.beats += 1
        for held in due:
            held.beaten_at = now
        gone = [held for held in due if held.name not in owned and not held.ended]
        if gone and self._main is not None:
            try:
                self._main.call_soon_threadsafe(self._lost, gone)
            except RuntimeError:
                pass  # the loop has ended: so has everything it held
