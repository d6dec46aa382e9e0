"""Claimer: the worker's one conversation with its store, a turn after the other.

     pause ─▶ turn: settle what ended, give back what will not start, claim for free slots ─▶ start ─▶ …

Guarantees  claims never exceed the free slots; while a turn is under way, what ends meanwhile collects for
            the next;
            while the store is out of reach, what ended is kept and sent again, with pauses of at most 5 s;
            stop() returns when everything is settled or `patience` seconds have passed.
Not given   that a claim whose answer was lost with the connection costs nothing: its messages come back by
            timeout.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from redrive.errors import RedriveError, Unavailable
from redrive.job import tracing
from redrive.worker.lane import Lane, share
from redrive.worker.protocol import Answer, Engine, Report, Want
from redrive.worker.runner import Runner
from redrive.worker.service import ended, spawn, until
from redrive.worker.settler import Settler
from redrive.worker.signal import Signal
from redrive.worker.stats import Stats

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

log = logging.getLogger("redrive.worker")

_OUTAGE_PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
# What has ended waits this long for its neighbours that are about to start, and no longer.
_GATHER = 0.01
# How long the last reports may take at the end.
PATIENCE = 5.0
# How long a call needs to notice that its socket was shut.
_ABORTING = 0.5


class Claimer:
    """`bind` gives it the runner, which calls `changed` for every slot that became free.

    `declare` tells the store a lane's policy again, before a queue that was gone is claimed from.
    """

    def __init__(
        self,
        engine: Engine,
        lanes: Mapping[str, Lane],
        settler: Settler,
        stats: Stats,
        declare: Callable[[Lane], Awaitable[None]],
    ) -> None:
        self.turned: Signal[Answer] = Signal()
        self._engine = engine
        self._lanes = lanes
        self._settler = settler
        self._stats = stats
        self._declare = declare
        self._runner: Runner | None = None
        self._order = list(lanes.values())
        self._wake = asyncio.Event()
        self._claiming = True
        self._closing = False
        self._abandoned = False
        self._gather = 1
        self._first_ready = 0.0
        self._outages = 0
        self._task: asyncio.Task[None] | None = None

    def bind(self, runner: Runner, concurrency: int) -> None:
        self._runner = runner
        self._gather = max(1, concurrency // 2)

    @property
    def in_reach(self) -> bool:
        """Whether the store answered when it was last asked."""
        return self._stats.turns > 0 and not self._outages

    async def start(self) -> None:
        if self._task is None:
            self._task = spawn(self._run(), "redrive-claimer")

    async def stop(self, patience: float = PATIENCE) -> None:
        """Claim no more, settle what there is, end."""
        self.pause()
        self._closing = True
        self._wake.set()
        if self._task is None:
            return
        # A call that hangs is cut off at half-time: over a new connection the reports may still arrive.
        for last in (False, True):
            if await ended(self._task, patience / 2):
                return
            self._abandoned = last
            self._engine.abort()
        if not await ended(self._task, _ABORTING):
            self._task.cancel()
            await asyncio.wait([self._task])

    def pause(self) -> None:
        """Claim no more; go on settling. What the turn under way brings is given back."""
        self._claiming = False
        self._wake.set()

    def nudge(self, queue: str) -> None:
        """A queue, or with "" every one, may have something."""
        for lane in self._lanes.values() if queue == "" else filter(None, [self._lanes.get(queue)]):
            lane.nudge()
        self._wake.set()

    def changed(self) -> None:
        """A handler ended. Called for every job: it does not always wake the loop."""
        if self._gathered():
            self._wake.set()

    def _gathered(self) -> bool:
        """Whether it is worth a turn: nothing is about to start, or enough ended, or some waited enough."""
        assert self._runner is not None
        ready = self._settler.ready
        if not self._runner.waiting or ready >= self._gather:
            return True
        now = time.monotonic()
        if ready <= 1:
            self._first_ready = now
        return now - self._first_ready > _GATHER

    async def _run(self) -> None:
        while not (self._closing and not self._settler.unsettled):
            self._wake.clear()
            now = time.monotonic()
            pause = self._pause(now)
            if pause is None or pause > 0:
                await until(self._wake, pause)
                continue
            try:
                await self._turn(now)
                self._recovered()
            except RedriveError as error:
                self._settler.failed()
                if self._abandoned:
                    return
                await self._out_of_reach(error)
            except Exception:
                self._settler.failed()
                log.exception("the turn failed", extra={"event": "turn_failed"})
                await asyncio.sleep(1.0)

    def _pause(self, now: float) -> float | None:
        """Seconds until there is something to do: 0 for now, None when something has to happen first."""
        assert self._runner is not None
        if self._settler.ready and (self._gathered() or self._closing):
            return 0.0
        waits = [self._settler.locked_in(now)]
        if self._claiming and self._runner.free > 0 and self._gathered():
            free = self._runner.free
            waits += [lane.asks_in(now) for lane in self._order if lane.room(free) > 0]
        known = [wait for wait in waits if wait is not None]
        return min(known) if known else None

    async def _turn(self, now: float) -> None:
        assert self._runner is not None
        if self._claiming:
            await self._find_again(now)
        reports, releases = self._settler.take(now)
        wants: list[Want] = []
        if self._claiming:
            wants = [lane.want(qty) for lane, qty in share(self._order, self._runner.free, now)]
        # Whoever was asked first is asked last next time.
        self._order.append(self._order.pop(0))
        tracer = tracing.tracer()
        began = tracing.now()
        answer = await self._engine.turn(reports, releases, wants)
        now = time.monotonic()
        if tracer is not None:
            _trace(tracer, reports, answer, began)
        self._stats.turns += 1
        self._settler.settled(answer, now)
        for want in wants:
            self._take(want, answer, now)
        if not self._claiming:
            self._runner.release_waiting()
        self.turned.fire(answer)

    async def _find_again(self, now: float) -> None:
        for lane in [each for each in self._order if each.missing and each.asks_in(now) <= 0]:
            try:
                await self._declare(lane)
                lane.missing = False
            except Unavailable:
                raise
            except RedriveError as error:
                lane.refused(error, now)

    def _take(self, want: Want, answer: Answer, now: float) -> None:
        assert self._runner is not None
        lane = self._lanes[want.queue]
        if (error := answer.refused.get(want.queue)) is not None:
            lane.refused(error, now)
        elif (got := answer.claimed.get(want.queue)) is not None:
            self._stats.claimed += len(got)
            lane.answered(got, want.qty, answer.due.get(want.queue), now)
            self._runner.take(lane, got, now)

    async def _out_of_reach(self, error: RedriveError) -> None:
        if not self._outages:
            self._stats.outages += 1
            log.warning("database: %s; trying on", error, extra={"event": "database_away"})
        pause = _OUTAGE_PAUSES[min(self._outages, len(_OUTAGE_PAUSES) - 1)]
        self._outages += 1
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))

    def _recovered(self) -> None:
        if self._outages:
            log.info("database: back", extra={"event": "database_back", "unsettled": self._settler.unsettled})
            self._outages = 0


def _trace(tracer: Tracer, reports: Mapping[str, Sequence[Report]], answer: Answer, began: int) -> None:
    """Spans for what somebody may look for: a span for each settle that went well would cost more than it."""
    for queue, batch in reports.items():
        if any(report.outcome != "done" for report in batch):
            tracing.settled(tracer, queue, len(batch), began)
    for queue, got in answer.claimed.items():
        if got:
            tracing.received(tracer, queue, len(got), began)
