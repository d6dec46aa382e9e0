"""run_until_idle: works a test database's queues in this process, until nothing in them is ready.

Guarantees  claims, handlers, outcomes and settles are production's: its SQL, its engine, its runner;
            one message at a time, each settled before the next is claimed, the oldest due of a queue first,
            the queues in turn: the same test runs the same way every time;
            what is due later stays: `Clock.advance` makes it due.
Not given   heartbeats, notifications and parallel jobs. A message that production would run alone in a
            process of its own runs in this one too: a handler that kills its process kills the test.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from redrive.app import Redrive
from redrive.errors import RedriveError
from redrive.job import JobDefinition
from redrive.policy import check_seconds
from redrive.testing.database import database_of
from redrive.worker.engine import PostgresEngine
from redrive.worker.held import Held
from redrive.worker.jobs import Jobs
from redrive.worker.lane import Lane
from redrive.worker.outcome import Decision
from redrive.worker.protocol import Answer, Want
from redrive.worker.runner import Runner
from redrive.worker.service import until
from redrive.worker.settler import Settler
from redrive.worker.stats import Stats
from redrive.worker.worker import chosen

log = logging.getLogger("redrive.testing")

# How long a handler may take to end after it was told to, when the time is up.
_GRACE = 2.0


@dataclass(frozen=True, slots=True)
class Ran:
    """How many deliveries ended how; equal to another with the same counts.

    `retried` failed and will be tried again, `dead` became dead letters, `ignored` are webhooks that no
    handler takes. `errors` has a line for each that did not end well; their tracebacks are in the log of
    ``redrive.testing``.
    """

    done: int = 0
    retried: int = 0
    snoozed: int = 0
    dead: int = 0
    ignored: int = 0
    errors: tuple[str, ...] = field(default=(), compare=False)


async def run_until_idle(app: Redrive, *, queues: Iterable[str] | None = None, timeout: float = 30.0) -> Ran:
    """Run what is ready in the queues of `app` (or only in `queues`), and what that sends; what came of it.

    The app is pointed at a test database: ``redrive_use(app)``. In a test without an event loop:
    ``asyncio.run(run_until_idle(app))``. Failed attempts are counted, not raised; one that may be repeated at
    once is. Raises `TimeoutError` when there is still work after `timeout` seconds, after giving back what
    runs, `ConfigError` for a queue without a job or an app outside a test, and what the database says.

        assert await run_until_idle(app) == Ran(done=1)
    """
    check_seconds(timeout, "run_until_idle(timeout)", above=True)
    definitions = chosen(app.jobs, () if queues is None else tuple(queues))
    line = _Line(database_of(app), definitions, time.monotonic() + timeout)
    try:
        await line.work()
    except TimeoutError as late:
        raise TimeoutError(f"run_until_idle was not idle after {timeout:g} s: {late}") from None
    finally:
        await line.close()
    return line.ran()


class _Line:
    """One worker with one slot. The names of its parts are those of `redrive.worker.worker`."""

    def __init__(self, url: str, definitions: Mapping[str, JobDefinition], deadline: float) -> None:
        name = f"test:{os.getpid()}:{secrets.token_hex(4)}"
        self._deadline = deadline
        self._definitions = definitions
        self._engine = PostgresEngine(url, name)
        self._lanes = [Lane(queue, 1.0) for queue in definitions]
        stats = Stats()
        self._settler = Settler(stats, _forget)
        self._tally = _Tally(self._settler)
        self._jobs = Jobs(url, name, concurrency=1)
        self._changed = asyncio.Event()
        self._runner = Runner(
            definitions,
            self._tally,
            stats,
            self._jobs,
            None,
            concurrency=1,
            changed=self._changed.set,
            stuck=self._changed.set,
        )

    async def work(self) -> None:
        for lane in self._lanes:
            await self._engine.declare(lane.queue, self._definitions[lane.queue].policy.declared())
            lane.adopt(await self._engine.policy(lane.queue))
        empty = 0
        for lane in itertools.cycle(self._lanes):
            if empty >= len(self._lanes) and not self._settler.unsettled:
                return
            empty = 0 if await self._turn(lane) else empty + 1
            if (locked := self._settler.locked_in(time.monotonic())) is not None:
                await asyncio.sleep(locked)

    def ran(self) -> Ran:
        return self._tally.ran()

    async def close(self) -> None:
        if self._runner.running:
            self._runner.call_off("drain", _GRACE)
            await self._until_free(time.monotonic() + _GRACE + 1.0)
        try:
            if self._settler.unsettled:
                await self._exchange([])
            await self._engine.goodbye()
        except RedriveError as error:
            log.debug("goodbye: %s", error)
        await self._engine.close()
        self._runner.close()
        await self._jobs.close()

    async def _turn(self, lane: Lane) -> bool:
        """Settle, claim one message of this queue, run it; whether there was one."""
        if time.monotonic() > self._deadline:
            raise TimeoutError(self._late("there is more to do"))
        answer = await self._exchange([Want(lane.queue, lane.vt, 1)])
        if lane.queue in answer.refused:
            raise answer.refused[lane.queue]
        if not (got := answer.claimed.get(lane.queue)):
            return False
        lane.busy += len(got)
        self._runner.take(lane, got, time.monotonic())
        await self._until_free(self._deadline)
        if self._runner.running or self._runner.given_up:
            running = f"message {got[0].msg_id} of queue {lane.queue} (attempt {got[0].attempt}) still runs"
            raise TimeoutError(self._late(running))
        return True

    def _late(self, why: str) -> str:
        return (
            f"{self._tally.ended} deliveries have ended and {why}; "
            "does a handler wait for ever, or a job send to itself, or retry without a pause?"
        )

    async def _exchange(self, wants: list[Want]) -> Answer:
        reports, releases = self._settler.take(time.monotonic())
        answer = await self._engine.turn(reports, releases, wants)
        self._settler.settled(answer, time.monotonic())
        self._tally.judged(answer)
        return answer

    async def _until_free(self, deadline: float) -> None:
        while self._runner.running or self._runner.waiting:
            self._changed.clear()
            if not await until(self._changed, max(0.0, deadline - time.monotonic())):
                return


class _Tally:
    """Counts what ended, on its way to the settler."""

    def __init__(self, settler: Settler) -> None:
        self._settler = settler
        self._counts = {"done": 0, "retried": 0, "snoozed": 0, "dead": 0, "ignored": 0}
        self._errors: list[str] = []
        self.ended = 0

    def add(self, held: Held, decision: Decision, duration: float | None) -> None:
        self._settler.add(held, decision, duration)
        self.ended += 1
        d = held.delivery
        match decision.outcome:
            case "done" | "ignored":
                self._counts[decision.outcome] += 1
            case "nothing" if held.job is not None and held.job.committed:
                self._counts["done"] += 1
            case "retry" | "crashed":
                self._counts["retried"] += 1
            case "snooze":
                self._counts["snoozed"] += 1
            case _:
                pass
        if decision.error is not None:
            where = f"{d.queue} {d.msg_id}, attempt {d.attempt}"
            self._errors.append(f"{where}: {decision.error_type}: {decision.error}")
            if decision.traceback is not None:
                log.warning("%s\n%s", where, decision.traceback)

    def judged(self, answer: Answer) -> None:
        for report, verdict in answer.verdicts:
            if verdict == "dead":
                self._counts["dead"] += 1
                # It was to be tried again, and had no attempt left.
                self._counts["retried"] -= report.outcome in ("retry", "crashed")

    def ran(self) -> Ran:
        return Ran(**self._counts, errors=tuple(self._errors))


def _forget(held: Held) -> None:
    held.lane.held.discard(held)
