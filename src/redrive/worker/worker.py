"""Worker: one process: a claimer, a runner, a heartbeat, a beat and a listener, started and drained together.

Guarantees  after `drain` nothing of what was claimed is held: it is settled, or given back without charge;
            whatever the store did not take in time comes back by its visibility timeout.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Mapping
from functools import partial

from redrive.errors import ConfigError, RedriveError
from redrive.job import JobDefinition
from redrive.store.database import Database
from redrive.worker.beat import Beat
from redrive.worker.claimer import PATIENCE, Claimer
from redrive.worker.engine import PostgresEngine
from redrive.worker.heartbeat import Heartbeat
from redrive.worker.held import Held
from redrive.worker.isolation import Isolation
from redrive.worker.jobs import Jobs
from redrive.worker.lane import Lane
from redrive.worker.link import DEADLINE
from redrive.worker.listener import Listener
from redrive.worker.options import EXIT_OK, EXIT_REPLACE, WorkerOptions
from redrive.worker.runner import Runner
from redrive.worker.service import end, spawn
from redrive.worker.settler import Settler
from redrive.worker.signal import Signal
from redrive.worker.stats import Stats
from redrive.worker.tally import Telling

log = logging.getLogger("redrive.worker")

_POLICY_EVERY = 30.0
# How long handlers may take to end after drain has cancelled them.
_DRAIN_GRACE = 2.0


class Worker:
    """Works the queues of `definitions` as `options` say; make it inside the event loop that is to run it.

    `visitor` names one that comes for a while, again and again: it hears no notifications, its beginning and
    end are no news, and between its visits the queue is known to be attended by this name.
    """

    def __init__(
        self,
        definitions: Mapping[str, JobDefinition],
        options: WorkerOptions,
        *,
        visitor: str | None = None,
    ) -> None:
        self.name = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.stats = Stats()
        self.changed: Signal[None] = Signal()
        """A handler ended, or what was claimed was dropped."""
        self.options = options
        self._visitor = visitor
        self._news = logging.INFO if visitor is None else logging.DEBUG
        self._definitions = chosen(definitions, options.queues)
        self._lanes = {queue: Lane(queue, options.poll) for queue in self._definitions}
        self.telling = Telling({queue: lane.tally for queue, lane in self._lanes.items()})
        self._engine = PostgresEngine(options.url, self.name)
        self._settler = Settler(self.stats, _forget)
        self.claimer = Claimer(
            self._engine,
            self._lanes,
            self._settler,
            self.stats,
            partial(self._declare, create=False),  # whoever dropped a queue meant it
        )
        self._jobs = Jobs(options.url, self.name, concurrency=options.concurrency)
        self.runner = Runner(
            self._definitions,
            self._settler,
            self.stats,
            self._jobs,
            Isolation(options, self.name),
            concurrency=options.concurrency,
            changed=self._changed,
            stuck=self._stuck,
        )
        self.claimer.bind(self.runner, options.concurrency)
        self.heartbeat = Heartbeat(
            self._beating_engine,
            list(self._lanes.values()),
            self.stats,
            self.runner.lost,
        )
        self.beat = Beat(self._engine, list(self._lanes.values()), options.concurrency)
        self.listener = Listener(options.url, self.name, self.claimer.nudge, self._engine.call)
        self._ending = asyncio.Event()
        self._code = EXIT_OK
        self._idle = asyncio.Event()
        self._refresher: asyncio.Task[None] | None = None
        self._drained = False
        self._started = False

    async def run(self) -> int:
        """Work until `end`; returns the exit code."""
        await self.start()
        await self._ending.wait()
        await self.drain()
        return self._code

    def end(self) -> None:
        """Begin to drain; at once, from the event loop. Twice is fine."""
        self._ending.set()

    async def start(self, knowing: Database | None = None) -> None:
        """Declare the policies and begin to work. Raises `SetupError`, `QueueMissing`, `Unavailable`.

        `knowing`: another way into the same database, which may know already which one that is.
        """
        try:
            for lane in self._lanes.values():
                await self._declare(lane)
            await self._jobs.start(knowing)
        except BaseException:
            await self._engine.close()
            await self._jobs.close()
            raise
        await self.heartbeat.start()
        await self.claimer.start()
        await self.beat.start()
        if self._visitor is None:
            await self.listener.start()
        self._refresher = spawn(self._refresh(), "redrive-policy")
        self._started = True
        log.log(
            self._news,
            "worker %s: %s, %d at once",
            self.name,
            ", ".join(self._lanes),
            self.options.concurrency,
            extra={"event": "worker_started"},
        )

    @property
    def ready(self) -> bool:
        """Whether the store answers and work is being claimed."""
        return self._started and not self._ending.is_set() and self.claimer.in_reach

    @property
    def paused(self) -> bool:
        """Whether every one of its queues is, as it was last looked at."""
        return all(lane.paused for lane in self._lanes.values())

    @property
    def holding(self) -> bool:
        """Whether something runs, waits to be started, or has ended and is not settled."""
        return bool(self.runner.running or self.runner.waiting or self._settler.unsettled)

    async def drain(self) -> None:
        """Claim no more, give back what has not started, let the rest end, cancel it, settle, say goodbye."""
        if self._drained:
            return
        self._drained = True
        self._ending.set()
        log.log(self._news, "draining: %d running", self.runner.running, extra={"event": "worker_draining"})
        await self.listener.stop()
        await end(self._refresher)
        self.claimer.pause()
        self.runner.release_waiting()
        if not await self._until_idle(self.options.drain_timeout):
            log.warning(
                "drain timeout of %g s: %d cancelled",
                self.options.drain_timeout,
                self.runner.running,
                extra={"event": "drain_timeout"},
            )
            self.runner.call_off("drain", _DRAIN_GRACE)
            await self._until_idle(_DRAIN_GRACE + 1.0)
        await self.claimer.stop(PATIENCE)
        await self.heartbeat.stop()
        # Else a late one would bring the worker back that the goodbye has ended.
        await self.beat.stop()
        await self._goodbye()
        self.runner.close()
        await self._jobs.close()
        log.log(
            self._news,
            "worker %s ended: %d done, %d unsettled",
            self.name,
            self.stats.done,
            self._settler.unsettled,
            extra={"event": "worker_ended"},
        )

    def _beating_engine(self) -> PostgresEngine:
        # A beat that hangs must be over while there is still time for another.
        shortest = min(lane.vt for lane in self._lanes.values())
        return PostgresEngine(self.options.url, self.name, deadline=max(1.0, min(DEADLINE, shortest / 3)))

    async def _until_idle(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.runner.running or self.runner.waiting:
            self._idle.clear()
            try:
                async with asyncio.timeout(max(0.0, deadline - time.monotonic())):
                    await self._idle.wait()
            except TimeoutError:
                return False
        return True

    async def _goodbye(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._engine.goodbye(self._visitor)
        except (RedriveError, TimeoutError) as error:
            log.debug("goodbye: %s", error)
        await self._engine.close()

    async def _declare(self, lane: Lane, *, create: bool = True) -> None:
        declared = self._definitions[lane.queue].policy.declared()
        for field, ours, override in await self._engine.declare(lane.queue, declared, create=create):
            log.warning(
                "policy of %s: %s is %r in the code, but an operator has set %r; "
                "`redrive queue policy %s --reset %s` takes that back",
                lane.queue,
                field,
                ours,
                override,
                lane.queue,
                field,
                extra={"event": "policy_overridden", "queue": lane.queue},
            )
        lane.adopt(await self._engine.policy(lane.queue))

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(_POLICY_EVERY)
            for lane in self._lanes.values():
                try:
                    lane.adopt(await self._engine.policy(lane.queue))
                except RedriveError as error:
                    log.debug("policy of %s: %s", lane.queue, error)

    def _changed(self) -> None:
        if self._drained and not self.runner.running:
            self._idle.set()
        self.claimer.changed()
        self.changed.fire(None)

    def _stuck(self) -> None:
        if not self._ending.is_set():
            self._code = EXIT_REPLACE
            self._ending.set()


def chosen(definitions: Mapping[str, JobDefinition], queues: tuple[str, ...]) -> dict[str, JobDefinition]:
    """The definitions to work. Raises `ConfigError` for a queue without a job, or for none at all."""
    if not definitions:
        raise ConfigError("the app declares no job; declare one with @app.job(...)")
    for queue in queues:
        if queue not in definitions:
            raise ConfigError(
                f"queue {queue} has no job in this app; it has: {', '.join(sorted(definitions))}"
            )
    return {queue: definitions[queue] for queue in (queues or definitions)}


def _forget(held: Held) -> None:
    held.lane.held.discard(held)
