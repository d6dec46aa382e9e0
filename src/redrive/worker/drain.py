"""Drain: works one queue for a while: under a lease, until nothing in it is ready or its time is over.

     lease ─▶ claim, run, settle … ─▶ nothing ready, or the budget nears ─▶ `told` ─▶ what still runs ends

Guarantees  one drain of a queue at a time, wherever it runs, for as long as the lease can be renewed;
            claims, handlers, heartbeats and settles are a worker's; it claims no more when the budget is
            nearly over, gives back at no charge what has not started, and is `told` by its end;
            what runs then goes on, held by its heartbeat, to its own end or timeout: else a job that takes
            longer than a budget would never end;
            `hurry` ends it as SIGTERM ends a worker: what does not end soon is cancelled, at no charge.
Not given   that a drain whose lease was lost, since its process hung, runs alone: the fence decides.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from redrive.errors import RedriveError, Unavailable
from redrive.job import JobDefinition
from redrive.store import leases
from redrive.store.database import Database
from redrive.worker.options import WorkerOptions
from redrive.worker.protocol import Answer
from redrive.worker.service import end, spawn, until
from redrive.worker.worker import Worker

log = logging.getLogger("redrive.worker")

# What a queue's health shows of one between two ticks.
VISITOR = "tick"
# A process that was killed holds up the others for so long.
LEASE = 30.0
_RENEW = LEASE / 3
# The end of the budget, kept back for what was started before it.
_SHARE = 0.1
_LEAST, _MOST = 0.05, 2.0
# An empty claim may have looked at a thousand messages in front that could not be handed out.
_EMPTY_CLAIMS = 3

BUSY = "another tick works this queue"
PAUSED = "the queue is paused"
ENDING = "this process is ending"
LOST = "its lease was lost: this process did nothing for half a minute"


@dataclass(frozen=True, slots=True)
class Drained:
    """How many deliveries ended how. `running`: not yet; `reason`: why this was not all there is.

    processed  done, and webhooks that no handler takes
    failed     charged: they will be tried again, or are dead letters
    skipped    not charged: snoozed, or given back
    """

    processed: int = 0
    failed: int = 0
    skipped: int = 0
    running: int = 0
    reason: str | None = None


class Drain:
    """One drain of the queue of `definition`; `options` as of a worker, `database` keeps the lease."""

    def __init__(self, definition: JobDefinition, options: WorkerOptions, database: Database) -> None:
        self.told = asyncio.Event()
        """There is an answer: it has ended, failed, or its budget is over."""
        self.error: Exception | None = None
        self._queue = definition.queue
        self._lease = f"redrive.tick:{definition.queue}"
        self._database = database
        self._worker = Worker({definition.queue: definition}, options, visitor=VISITOR)
        self._worker.claimer.turned.tell(self._turned)
        self._worker.changed.tell(self._changed)
        self._reason: str | None = None
        self._empty = 0
        self._enough = asyncio.Event()
        """It claims no more."""
        self._still = asyncio.Event()
        """Nothing is held any more, or nothing is waited for any more."""
        self._hurried = False

    @property
    def given_up(self) -> int:
        """Handlers that did not stop when told to, and run on."""
        return self._worker.runner.given_up

    @property
    def result(self) -> Drained:
        """What has come of it so far."""
        stats = self._worker.stats
        return Drained(
            processed=stats.done + stats.ignored,
            failed=stats.retried + stats.rejected + stats.malformed + stats.crashed,
            skipped=stats.snoozed + stats.released,
            running=self._worker.runner.running,
            reason=self._reason,
        )

    async def run(self, budget: float) -> None:
        """Work for `budget` seconds at most, and until what was started has ended. Never raises."""
        deadline = time.monotonic() + budget
        try:
            token = await self._database.run(leases.acquire(self._lease, LEASE))
            if token is None:
                self._reason = BUSY
                return
            renewing = spawn(self._renew(token), "redrive-tick-lease")
            try:
                await self._work(budget, deadline)
            finally:
                await end(renewing)
                await self._release(token)
        except Exception as error:
            self.error = error
        finally:
            self.told.set()

    def end(self, reason: str = ENDING) -> None:
        """Claim no more; what runs may end. From the event loop."""
        if not self._enough.is_set():
            self._reason = reason
            self._enough.set()

    def hurry(self) -> None:
        """`end`, and cancel what has not ended after the options' drain_timeout."""
        self.end()
        self._hurried = True
        self._still.set()

    async def _work(self, budget: float, deadline: float) -> None:
        await self._worker.start(self._database)
        if self._worker.paused:
            self.end(PAUSED)
        kept = min(_MOST, max(_LEAST, _SHARE * budget))
        try:
            if not await until(self._enough, max(0.0, deadline - kept - time.monotonic())):
                self.end(f"the budget of {budget:g} s was spent")
            self._worker.claimer.pause()
            self._worker.runner.release_waiting()
            self._look()
            if not await until(self._still, max(0.0, deadline - time.monotonic())):
                if not self._worker.claimer.in_reach:
                    self.error = Unavailable(
                        "the database went away; what was done is told to it when it is back"
                    )
                self.told.set()
                await self._still.wait()
        finally:
            # Waits for what runs only when hurried: else nothing does.
            await self._worker.drain()

    # --- what the worker tells ---

    def _turned(self, answer: Answer) -> None:
        if (refused := answer.refused.get(self._queue)) is not None:
            self.error = refused
            self.end()
        elif (got := answer.claimed.get(self._queue)) is not None:
            self._empty = 0 if got else self._empty + 1
            # None: it holds nothing at all. 0: it holds something that may be claimed, and was not.
            due = answer.due.get(self._queue, 0.0)
            idle = self._empty and (due != 0.0 or self._empty >= _EMPTY_CLAIMS)
            if idle and not self._worker.holding and not self._enough.is_set():
                self._enough.set()
        self._look()

    def _changed(self, _: None) -> None:
        runner = self._worker.runner
        if runner.given_up:
            self.end("a handler did not stop when told to")
        elif not runner.running and not runner.waiting:
            # What it has sent, or was waited for, can be claimed with the turn that settles it.
            self._worker.claimer.nudge(self._queue)
        self._look()

    def _look(self) -> None:
        if self._enough.is_set() and not self._worker.holding:
            self._still.set()

    # --- the lease ---

    async def _renew(self, token: int) -> None:
        while True:
            await asyncio.sleep(_RENEW)
            try:
                if not await self._database.run(leases.renew(self._lease, token, LEASE)):
                    log.warning(
                        "tick of %s: %s; it claims no more",
                        self._queue,
                        LOST,
                        extra={"event": "tick_lease_lost", "queue": self._queue},
                    )
                    self.end(LOST)
                    return
            except RedriveError as error:
                log.debug("lease of the tick of %s: %s", self._queue, error)

    async def _release(self, token: int) -> None:
        try:
            await self._database.run(leases.release(self._lease, token), deadline=2.0)
        except RedriveError as error:
            log.debug("lease of the tick of %s: %s", self._queue, error)
