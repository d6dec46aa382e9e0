"""Beat: says every ten seconds that this process lives, how much it runs, and which messages it holds.

Guarantees  a worker that is full of long jobs, and so claims nothing, is seen all the same;
            the work does not wait for it, and a beat that fails costs nothing but itself.
Not given   that what the database shows is of now: it is up to ten seconds old, and of a full minute ago
            where the process is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import psycopg

from redrive.errors import RedriveError
from redrive.worker.lane import Lane
from redrive.worker.protocol import Engine
from redrive.worker.service import end, ended, spawn, until

log = logging.getLogger("redrive.worker")

EVERY = 10.0
# More would say no more; a row of them is 8 kB.
MOST_HELD = 1000
_LEAVING = 1.0


class Beat:
    """Through `engine`, between its turns."""

    def __init__(self, engine: Engine, lanes: Sequence[Lane], concurrency: int) -> None:
        self._engine = engine
        self._lanes = lanes
        self._concurrency = concurrency
        self._quit = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._task is None:
            self._task = spawn(self._run(), "redrive-beat")

    async def stop(self) -> None:
        self._quit.set()
        # Cut off, it would take the connection with it.
        if self._task is not None and not await ended(self._task, _LEAVING):
            await end(self._task)

    async def _run(self) -> None:
        while not self._quit.is_set():
            await self.beat()
            await until(self._quit, EVERY)

    async def beat(self) -> None:
        """Once; what goes wrong is a line for those who listen."""
        running = {lane.queue: sum(not held.ended for held in lane.held) for lane in self._lanes}
        held = {
            lane.queue: [each.delivery.msg_id for each, _ in zip(lane.held, range(MOST_HELD), strict=False)]
            for lane in self._lanes
        }
        try:
            await self._engine.beat(running, held, self._concurrency)
        except (RedriveError, psycopg.Error) as error:
            log.debug("beat: %s", error)
