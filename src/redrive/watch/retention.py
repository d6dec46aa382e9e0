"""Retention: deletes what the rules say is over, in small committed batches, by one process at a time.

Guarantees  a batch is a transaction of a fraction of a second that waits for nobody: a settle is not held up;
            whatever ends this process, the next run goes on where it stopped, however much there is;
            nothing goes that the database's own rules would keep.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from decimal import Decimal

import psycopg

from redrive.errors import QueueMissing, RedriveError
from redrive.store import retention, schedules
from redrive.store.database import Database
from redrive.store.schedules import Declaration
from redrive.watch.scheduler import Plan
from redrive.worker.service import end, spawn, until

log = logging.getLogger("redrive.retention")

# In the tables of schedules, so that it is listed, paused and fired once like any other.
NAME = "redrive.retention"
_EVERY = 600.0
_BUDGET = 30.0
# Between two budgets of a run that is behind: the database belongs to others too.
_BREATH = 15.0
# 5,000 rows take some 60 ms; a batch that takes longer than a second is followed by a smaller one.
_LEAST_BATCH = 100
_SLOW = 1.0
_QUICK = 0.2
# A run that could not do all is done again after so long.
_AGAIN = 60.0
_LONGEST_SLEEP = 10.0
_DEADLINE = 30.0
_LEAVING = 0.5


class Retention:
    """Runs when its schedule's tick falls to this process: every `every` seconds, `budget` seconds long."""

    def __init__(self, database: Database, *, every: float = _EVERY, budget: float = _BUDGET) -> None:
        self._database = database
        self._every = every
        self._budget = budget
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._declared = False
        # What could not be done, by what it was of: told once, until it can be.
        self._troubles: dict[str, str] = {}
        self._again_at = math.inf

    async def start(self) -> None:
        if self._task is None:
            self._task = spawn(self._run(), "redrive-retention")

    async def stop(self) -> None:
        """A batch under way is called off, and is as if it had not begun."""
        self._stopping.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait([task], timeout=_LEAVING)
            await end(task)

    async def turn(self) -> float:
        """Run if the tick is ours; in how many seconds to look again. Raises what the database does."""
        await self._declare()
        for due in await self._database.run(schedules.due([NAME]), deadline=_DEADLINE):
            plan = Plan(due)
            if plan.ticks or plan.next_at != due.next_at:
                fired = await self._database.run(
                    schedules.fire(NAME, plan.ticks, next_at=plan.next_at, revision=due.revision),
                    deadline=_DEADLINE,
                )
                if fired:
                    await self.run()
            if time.monotonic() >= self._again_at:
                await self.run()
            return min(_LONGEST_SLEEP, max(0.0, (plan.next_at - due.now).total_seconds()))
        return _LONGEST_SLEEP

    async def run(self) -> dict[str, int]:
        """Delete all that is over, with a pause after each budget; how many rows went, by kind."""
        gone: dict[str, int] = {}
        self._again_at = math.inf
        while True:
            done, behind = await self._spend(gone)
            if not behind or await until(self._stopping, _BREATH):
                break
            log.info(
                "retention: %d rows deleted, more to come", done, extra={"event": "retention_behind", **gone}
            )
        if gone:
            told = ", ".join(f"{number} of {what}" for what, number in gone.items())
            log.info("retention: deleted %s", told, extra={"event": "retention", **gone})
        return gone

    async def _spend(self, gone: dict[str, int]) -> tuple[int, bool]:
        """Delete for one budget; how many rows, and whether there are more."""
        deadline = time.monotonic() + self._budget
        total = 0
        for kept in await self._database.run(retention.listing(), deadline=_DEADLINE):
            if kept.what in ("archive", "letters") and kept[2:5] == (None, None, None):
                continue
            batch, short = retention.BATCH, False
            name = f"{kept.what} of queue {kept.queue}" if kept.queue else kept.what
            while True:
                if self._stopping.is_set():
                    return total, False
                if time.monotonic() > deadline:
                    return total, True
                began = time.monotonic()
                try:
                    done = await self._database.run(
                        retention.purge_due(kept.what, kept.queue, batch=batch), deadline=_DEADLINE
                    )
                    self._troubles.pop(name, None)
                except QueueMissing:
                    break  # dropped meanwhile
                except (RedriveError, psycopg.Error) as error:
                    # One table that is locked, or broken, keeps nothing else.
                    self._complain(name, error)
                    self._again_at = time.monotonic() + _AGAIN
                    break
                if done:
                    total += done
                    gone[kept.what] = gone.get(kept.what, 0) + done
                took = time.monotonic() - began
                # A kind of several tables says what it left out once nothing else goes.
                if not done or (done < batch and short):
                    break
                short = done < batch
                batch = _next_batch(batch, took)
                # As long again for everybody else, where the server is busy.
                await until(self._stopping, min(took, _SLOW) if took > _QUICK else 0)
        return total, False

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                seconds = await self.turn()
                self._troubles.pop("", None)
            except Exception as error:
                self._complain("", error)
                seconds = _LONGEST_SLEEP
            await until(self._stopping, seconds)

    async def _declare(self) -> None:
        mine = Declaration(NAME, None, None, None, Decimal(str(self._every)), "UTC", "one", "allow")
        await self._database.run(schedules.declare([mine], again=self._declared), deadline=_DEADLINE)
        self._declared = True

    def _complain(self, what: str, error: Exception) -> None:
        """One line a trouble, not one a try."""
        trouble = f"{what}: {error}"
        if trouble != self._troubles.get(what):
            self._troubles[what] = trouble
            log.warning("retention: %s", trouble.removeprefix(": "), extra={"event": "retention_failing"})


def _next_batch(batch: int, took: float) -> int:
    if took > _SLOW:
        return max(_LEAST_BATCH, batch // 4)
    return min(retention.BATCH, batch * 2) if took < _QUICK else batch
