"""Recorder: verified events into the database, those that arrive together in one call and one commit.

A call at a time costs a receiver half of its processor time. What arrives while calls are under way goes with
the next one; what arrives alone waits for nobody.

Guarantees  an event is answered for only after its commit; one that the database cannot hold as it is, or
            whose inbox has no queue, is recorded, or fails, alone: its neighbours do not notice;
            a call that hangs holds up what is in it, and nothing else for longer than a moment;
            large events stand in a line of their own, one call at a time: small ones pass them by.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import psycopg

from redrive.errors import InvalidArgument, Unavailable
from redrive.inbox.examine import Examined
from redrive.inbox.inbox import Inbox
from redrive.store import events
from redrive.store.database import Database
from redrive.store.events import Arrival, Received

log = logging.getLogger("redrive.inbox")

# The larger the calls, the less an event costs. With 16 senders: one call at once takes 390 µs of all
# processors for each, two 430, three 500.
_AT_ONCE = 1
# A call that takes longer does not count: another may begin.
_MOMENT = 0.25
_MOST_EVENTS = 64
_MOST_BYTES = 1_000_000
# Postgres makes jsonb of some 10 to 20 MB a second.
_BYTES_A_SECOND = 8_000_000
# Until it is called off, a call holds a connection that others could use once the network is back.
_DEADLINE = 8.0


@dataclass(slots=True, eq=False)
class _Waiting:
    inbox: Inbox
    found: Examined
    answer: asyncio.Future[Received]


def allowance(found: Examined) -> float:
    """Seconds that recording it may take longer than a small event."""
    return found.size / _BYTES_A_SECOND if found.size > _MOST_BYTES else 0.0


class Recorder:
    """`database` is asked for with each call: it may be named late."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._small = _Line(self._record, at_once=_AT_ONCE, moment=_MOMENT)
        self._large = _Line(self._record, at_once=1, moment=None)

    def record(self, inbox: Inbox, found: Examined) -> asyncio.Future[Received]:
        """What became of it, once it is committed; else what `Database.run` raises."""
        entry = _Waiting(inbox, found, asyncio.get_running_loop().create_future())
        (self._large if found.size > _MOST_BYTES else self._small).add(entry)
        return entry.answer

    async def close(self, within: float) -> None:
        """Let what is under way or waits end, in `within` seconds at most."""
        until = asyncio.get_running_loop().time() + within
        while calls := self._small.calls | self._large.calls:
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return
            await asyncio.wait(calls, timeout=left)

    async def _record(self, batch: list[_Waiting]) -> None:
        try:
            answers = await self._run(batch)
        except Unavailable as error:
            _fail(batch, error)
        except Exception as error:
            if len(batch) == 1:
                await self._record_raw(batch[0], error)
                return
            for each in batch:
                await self._record([each])
        else:
            for each, answer in zip(batch, answers, strict=True):
                if not each.answer.done():
                    each.answer.set_result(answer)

    async def _record_raw(self, entry: _Waiting, error: Exception) -> None:
        """Without its payload; else raw, under names that every Postgres can hold."""
        for form in (entry.found.without_payload(), entry.found.without_anything()):
            if not _cannot_hold(error):
                break
            log.debug("inbox %s: not held so: %s", entry.inbox.source, error)
            try:
                [answer] = await self._run([replace(entry, found=form)])
            except Exception as again:
                error = again
            else:
                if not entry.answer.done():
                    entry.answer.set_result(answer)
                return
        _fail([entry], error)

    async def _run(self, batch: Sequence[_Waiting]) -> list[Received]:
        arrivals = [_arrival(each.inbox, each.found) for each in batch]
        deadline = _DEADLINE + max(allowance(each.found) for each in batch)
        if len(arrivals) > 1:
            return await self._database().run(events.receive_many(arrivals), deadline=deadline)
        # With nothing to unfold: half of what it costs with a small body, a third with one of 20 MB.
        return [await self._database().run(events.receive(**arrivals[0]._asdict()), deadline=deadline)]


class _Line:
    """Events that wait, and calls of `record` that take them, at most `at_once` and as many as fit into one.

    A call that takes longer than `moment` seconds does not count any more: another may begin.
    """

    def __init__(
        self, record: Callable[[list[_Waiting]], Awaitable[None]], *, at_once: int, moment: float | None
    ) -> None:
        self._record = record
        self._at_once = at_once
        self._moment = moment
        self._waiting: deque[_Waiting] = deque()
        self._counted = 0
        self._about_to = False
        self.calls: set[asyncio.Task[None]] = set()

    def add(self, entry: _Waiting) -> None:
        self._waiting.append(entry)
        self._begin()

    def _begin(self) -> None:
        """A call more, unless one is about to take all there is, or enough are under way."""
        if self._waiting and not self._about_to and self._counted < self._at_once:
            self._about_to = True
            self._counted += 1
            call = asyncio.create_task(self._call(), name="redrive-receive")
            self.calls.add(call)
            call.add_done_callback(self.calls.discard)

    async def _call(self) -> None:
        counted = True

        def over() -> None:
            nonlocal counted
            if counted:
                counted = False
                self._counted -= 1
                self._begin()

        self._about_to = False
        batch = self._batch()
        self._begin()
        loop = asyncio.get_running_loop()
        timer = None if self._moment is None else loop.call_later(self._moment, over)
        try:
            await self._record(batch)
        finally:
            if timer is not None:
                timer.cancel()
            over()

    def _batch(self) -> list[_Waiting]:
        """What waits, in its order: so many events, or so many bytes, but one at least."""
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < _MOST_EVENTS:
            size += self._waiting[0].found.size
            if batch and size > _MOST_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch


def _fail(batch: list[_Waiting], error: Exception) -> None:
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(error)
            # Whoever asked may have answered 503 long ago, and look no more.
            each.answer.exception()


def _arrival(inbox: Inbox, found: Examined) -> Arrival:
    return Arrival(
        inbox.source,
        found.event_id,
        found.type,
        found.payload,
        found.raw,
        found.headers,
        inbox.queue,
        found.resource,
        inbox.provider.volatile,
        found.derived,
    )


def _cannot_hold(error: Exception) -> bool:
    """Whether the database says that a value is none it can hold (22), or too much of one (54)."""
    cause = error if isinstance(error, psycopg.Error) else error.__cause__
    return (
        isinstance(error, (InvalidArgument, psycopg.Error))
        and isinstance(cause, psycopg.Error)
        and (cause.sqlstate or "")[:2] in ("22", "54")
    )
