"""Runner: starts the handlers of what was claimed and decides what each ended in.

Guarantees  a coroutine runs in a task of its own, a function in a thread of its own, an isolated delivery in
            a process of its own; each ends in exactly one decision, whatever it raises or returns;
            a handler that outlives its timeout is told to stop, and given up when it does not within the
            grace.
Not given   that a thread ends: one that was given up keeps running until its process is replaced.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, cast

from redrive.job import JobDefinition, Outcome, SyncJob, tracing
from redrive.worker.deadlines import Deadlines
from redrive.worker.held import CalledOff, Held
from redrive.worker.jobs import Jobs, was_seen
from redrive.worker.lane import Lane
from redrive.worker.outcome import DONE, NOTHING, RELEASE, Decision, Ending, decide, given_up
from redrive.worker.protocol import Delivery
from redrive.worker.stats import Stats

log = logging.getLogger("redrive.worker")

# How long jobs that never wait are started one after the other, before the loop looks at its sockets again.
_STEP = 0.002
_IN_THE_PIPE = 0.25


class _Ride:
    """Whether a task of `_drive` is still in its first step."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


class Ledger(Protocol):
    """Where decisions go."""

    def add(self, held: Held, decision: Decision, duration: float | None) -> None: ...


class Isolation(Protocol):
    """Where isolated deliveries run; `began` is called when the handler is about to start."""

    async def run(self, held: Held, began: Callable[[Held], None]) -> Decision: ...


class Runner:
    """`changed` is called whenever a slot became free, `stuck` when a handler had to be given up."""

    def __init__(
        self,
        definitions: Mapping[str, JobDefinition],
        ledger: Ledger,
        stats: Stats,
        jobs: Jobs,
        isolation: Isolation | None,
        *,
        concurrency: int,
        changed: Callable[[], None],
        stuck: Callable[[], None],
    ) -> None:
        self._definitions = definitions
        self._ledger = ledger
        self._stats = stats
        self._jobs = jobs
        self._isolation = isolation
        self._concurrency = concurrency
        self._changed = changed
        self._stuck = stuck
        self._loop = asyncio.get_running_loop()
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: deque[Held] = deque()
        self._running: set[Held] = set()
        self._deadlines = Deadlines(self._running, self._late)
        self._tracer = tracing.tracer()
        self._given_up = 0
        self._feeding = False

    @property
    def waiting(self) -> int:
        """Claimed, not yet started."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def given_up(self) -> int:
        """Handlers that did not stop when told to; their threads may still run, and keep their slots."""
        return self._given_up

    @property
    def free(self) -> int:
        return self._concurrency - len(self._waiting) - len(self._running) - self._given_up

    def take(self, lane: Lane, deliveries: Sequence[Delivery], now: float) -> None:
        """Start these."""
        self._tracer = tracing.tracer()
        for delivery in deliveries:
            held = Held(delivery, lane, now)
            lane.held.add(held)
            self._waiting.append(held)
        if self._waiting and not self._feeding:
            self._feeding = True
            self._feed()

    def release_waiting(self) -> None:
        """Give back what has not started."""
        while self._waiting:
            self._drop(self._waiting.popleft(), RELEASE)

    def call_off(self, why: CalledOff, grace: float) -> None:
        """Tell everything that runs to stop within `grace` seconds."""
        for held in list(self._running):
            held.call_off(why, grace)
            self._deadlines.watch(held.deadline)

    def lost(self, found: Iterable[Held]) -> None:
        """The heartbeat learned that these are no longer ours."""
        found = list(found)
        # An isolated one may have completed its message itself: its word of that may still be in the pipe.
        self._loop.call_later(_IN_THE_PIPE, self._lose, [held for held in found if held.delivery.isolated])
        self._lose([held for held in found if not held.delivery.isolated])

    def _lose(self, found: list[Held]) -> None:
        for held in found:
            job = held.job
            if held.ended or held.called_off == "lost" or held.completing or (job and job.completed):
                continue
            self._stats.lost += 1
            held.lane.tally.lost += 1
            log.warning(
                "lost: another owns it or it has ended; its handler is cancelled",
                extra=about(held, "job_lost"),
            )
            if held in self._running:
                held.call_off("lost")
                # Also when it was called off before: nothing it says counts any more.
                held.called_off = "lost"
                self._deadlines.watch(held.deadline)
            elif held in self._waiting:
                self._waiting.remove(held)
                self._drop(held, NOTHING)

    def close(self) -> None:
        """No more deadlines, no more threads; those that still run are not waited for."""
        self._deadlines.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    # --- starting ---

    def _feed(self) -> None:
        """Start a task that runs waiting jobs one after the other, for as long as none of them waits."""
        if self._waiting:
            ride = _Ride()
            self._loop.create_task(self._drive(ride))
            # Comes when the task's first step is over: a job in it waits, or its time was up.
            self._loop.call_soon(self._stepped, ride)
        else:
            self._feeding = False
            self._changed()

    def _stepped(self, ride: _Ride) -> None:
        ride.over = True
        self._feed()

    async def _drive(self, ride: _Ride) -> None:
        # A task for each job would be half of what a short job costs. A job that waited has had the task to
        # itself from then on; one that changed the context or was cancelled leaves nothing behind: the task
        # ends with it.
        task = cast("asyncio.Task[None]", asyncio.current_task())
        context = contextvars.copy_context()
        until = time.perf_counter() + _STEP
        while self._waiting:
            held = self._waiting.popleft()
            definition = self._definitions[held.delivery.queue]
            self._running.add(held)
            self._stats.started += 1
            if held.delivery.isolated and self._isolation is not None:
                held.stop = self._loop.create_task(self._run_isolated(held, self._isolation)).cancel
            elif definition.is_async:
                held.stop = task.cancel
                await self._run_async(held, definition, task)
                if ride.over or task.cancelling() or contextvars.copy_context() != context:
                    return
            else:
                self._begin_in_thread(held, definition)
            if time.perf_counter() > until:
                return

    def _begin_in_thread(self, held: Held, definition: JobDefinition) -> None:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(self._concurrency, thread_name_prefix="redrive-job")
        self._began(held)
        if definition.wants_job:
            held.job = self._jobs.sync_job(held)
        context = contextvars.copy_context()
        self._threads.submit(context.run, self._run_in_thread, held, definition)

    def _began(self, held: Held) -> None:
        self._deadlines.watch(held.begin())

    async def _run_async(self, held: Held, definition: JobDefinition, task: asyncio.Task[None]) -> None:
        began = time.perf_counter()
        value: object = None
        error: BaseException | None = None
        self._began(held)
        span = self._trace(held)
        try:
            if definition.wants_job:
                held.job = self._jobs.job(held)
            value = await definition.handler(*arguments(definition, held))
        except BaseException as raised:
            # Thrown in from outside when the loop is gone and closes what it left: that is no outcome.
            if isinstance(raised, GeneratorExit) and not _runs(task):
                raise
            error = raised
        if span is not None:
            span.leave()
        self._end(held, definition, value, error, began)

    def _run_in_thread(self, held: Held, definition: JobDefinition) -> None:
        began = time.perf_counter()
        value: object = None
        error: BaseException | None = None
        span = self._trace(held)
        try:
            value = definition.handler(*arguments(definition, held))
        except BaseException as raised:
            error = raised
        if span is not None:
            span.leave()
        try:
            self._loop.call_soon_threadsafe(self._end, held, definition, value, error, began)
        except RuntimeError:
            pass  # it was given up, and the loop has ended since

    def _trace(self, held: Held) -> tracing.Processing | None:
        """The handler's span, which begins on the task or thread that is to run it."""
        if self._tracer is not None:
            d = held.delivery
            held.span = tracing.Processing(self._tracer, d.queue, d.msg_id, d.attempt, d.headers)
        return held.span

    async def _run_isolated(self, held: Held, isolation: Isolation) -> None:
        began = time.perf_counter()
        try:
            decision = await isolation.run(held, self._began)
        except Exception:
            log.exception("the isolated process could not be run", extra=about(held, "isolation_failed"))
            decision = Decision("snooze", 5.0)
        self._finish(held, decision, time.perf_counter() - began)

    # --- ending ---

    def _end(
        self, held: Held, definition: JobDefinition, value: object, error: BaseException | None, began: float
    ) -> None:
        job = held.job
        duration = time.perf_counter() - began
        if value is None and error is None and held.called_off is None and (job is None or not job.committed):
            self._finish(held, DONE, duration)
            return
        # A coroutine is told by its cancellation; but an inbox's may run its handler in a thread.
        in_thread = isinstance(job, SyncJob) or not definition.is_async
        told = held.called_off is not None and (was_seen(job) if in_thread else True)
        committed = job is not None and job.committed
        self._stats.done += committed
        if committed and error is not None:
            log.error(
                "raised after its transaction had completed it; it stays done: %r",
                error,
                extra=about(held, "job_raised_late"),
            )
        elif committed and value is not None:
            log.error(
                "returned %s after its transaction had completed it; it stays done",
                repr(value) if isinstance(value, Outcome) else type(value).__name__,
                extra=about(held, "job_returned_late"),
            )
        ending = Ending(value, error, held.called_off, told, committed, held.lane.timeout)
        self._finish(held, decide(ending), duration)

    def _finish(self, held: Held, decision: Decision, duration: float | None) -> None:
        held.stop = None
        if held.ended:
            log.warning(
                "ended after it was given up; its outcome does not count", extra=about(held, "job_ended_late")
            )
            return
        held.ended = True
        held.lane.busy -= 1
        outcome = decision.outcome
        if outcome == "nothing":
            outcome = "done" if held.job is not None and held.job.committed else "lost"
        held.lane.tally.ended(outcome, duration, decision.error_type)
        if held.span is not None:
            held.span.end(outcome, decision.error_type)
        self._running.discard(held)
        self._ledger.add(held, decision, duration)
        if decision is not DONE:
            tell(held, decision, duration)
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("done", extra={**about(held, "job_done"), "seconds": duration})
        self._changed()

    def _drop(self, held: Held, decision: Decision) -> None:
        """End what never started."""
        held.ended = True
        held.lane.busy -= 1
        self._ledger.add(held, decision, None)
        self._changed()

    def _late(self, held: Held) -> None:
        """Its deadline has passed: the timeout's, or the grace's after it was told to stop."""
        if held.called_off is None:
            self._stats.timeouts += 1
            held.call_off("timeout")
            return
        log.error(
            "did not stop when told to (%s); its process will be replaced",
            held.called_off,
            extra=about(held, "job_stuck"),
        )
        self._stats.stuck += 1
        self._given_up += 1
        decision = given_up(held.called_off, held.lane.timeout)
        self._finish(held, decision, time.monotonic() - held.started_at)
        self._stuck()


def _runs(task: asyncio.Task[None]) -> bool:
    try:
        return asyncio.current_task() is task
    except RuntimeError:
        return False


def arguments(definition: JobDefinition, held: Held) -> tuple[object, ...]:
    """What the handler is called with. Raises `Malformed`."""
    payload = None
    if definition.wants_payload:
        text = held.delivery.message
        # pgmq lets SQL's null be a message.
        payload = definition.decode("null" if text is None else text)
    return definition.arguments(payload, held.job)


def about(held: Held, event: str) -> dict[str, Any]:
    """The fields of a log line about one delivery."""
    d = held.delivery
    facts = {"event": event, "queue": d.queue, "msg_id": d.msg_id, "attempt": d.attempt, "key": d.key}
    if held.job is not None and (webhook := held.job.event) is not None:
        facts["webhook"] = webhook
    return facts


def tell(held: Held, decision: Decision, duration: float | None) -> None:
    """One line for whatever did not simply end well; a dead letter has its own, from the store's verdict."""
    extra = {
        **about(held, f"job_{decision.outcome}"),
        "seconds": None if duration is None else round(duration, 3),
    }
    match decision.outcome:
        case "retry" | "crashed":
            log.warning(
                "attempt %d of %d failed: %s: %s",
                held.delivery.attempt,
                held.lane.max_attempts,
                decision.error_type,
                decision.error,
                extra=extra,
            )
        case "reject" | "malformed":
            log.warning("%s: %s", decision.outcome, decision.error, extra=extra)
        case "snooze":
            log.info("snoozed for %g s", decision.delay or 0, extra=extra)
        case "release":
            log.info("given back without charge", extra=extra)
        case "done":
            how = "in a process of its own" if held.called_off is None else "although it was called off"
            log.info("done, %s", how, extra=extra)
        case "ignored":
            log.info("ignored: the app has no handler for this event", extra=extra)
        case "nothing":
            pass
