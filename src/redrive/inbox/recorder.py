"""Recorder: verified events into the database, those that arrive together in one call and one commit.

A call at a time costs a receiver half of its processor time. What arrives while calls are under way goes with
the next one; what arrives alone waits for nobody.

Guarantees  an event is answered for only after its commit; one that the database cannot hold as it is, or
            whose inbox has no queue, is recorded, or fails, alone: its neighbours do not notice;
            a call that hangs holds up what is in it, and nothing else for longer than a moment.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from redrive.errors import InvalidArgument, Unavailable
from redrive.inbox.examine import Examined
from redrive.inbox.inbox import Inbox
from redrive.store import events
from redrive.store.database import Database
from redrive.store.events import Arrival, Received

log = logging.getLogger("redrive.inbox")

# More are no faster: measured with 16 senders at once, two calls of eight each took the least of everything.
_AT_ONCE = 2
# A call that takes longer does not count as one of the two: another may begin.
_MOMENT = 0.25
_MOST_EVENTS = 64
_MOST_BYTES = 1_000_000
# Until it is called off, a call holds a connection that others could use once the network is back.
_DEADLINE = 8.0


@dataclass(slots=True, eq=False)
class _Waiting:
    inbox: Inbox
    found: Examined
    answer: asyncio.Future[Received]


class Recorder:
    """`database` is asked for with each call: it may be named late."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._waiting: deque[_Waiting] = deque()
        self._quick = 0
        self._about_to = False
        self._calls: set[asyncio.Task[None]] = set()

    def record(self, inbox: Inbox, found: Examined) -> asyncio.Future[Received]:
        """What became of it, once it is committed; else what `Database.run` raises."""
        entry = _Waiting(inbox, found, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        self._begin()
        return entry.answer

    async def close(self, within: float) -> None:
        """Let what is under way or waits end, in `within` seconds at most."""
        until = asyncio.get_running_loop().time() + within
        while self._calls and (left := until - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(self._calls, timeout=left)

    def _begin(self) -> None:
        """A call more, unless one is about to take all there is, or enough are under way."""
        if self._waiting and not self._about_to and self._quick < _AT_ONCE:
            self._about_to = True
            self._quick += 1
            call = asyncio.create_task(self._call(), name="redrive-receive")
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self) -> None:
        quick = True

        def over() -> None:
            nonlocal quick
            if quick:
                quick = False
                self._quick -= 1
                self._begin()

        self._about_to = False
        batch = self._batch()
        self._begin()
        timer = asyncio.get_running_loop().call_later(_MOMENT, over)
        try:
            await self._record(batch)
        finally:
            timer.cancel()
            over()

    def _batch(self) -> list[_Waiting]:
        """What waits, in its order: so many events, or so many bytes, but one at least."""
        batch: list[_Waiting] = []
        size = 0
        while self._waiting and len(batch) < _MOST_EVENTS:
            size += len(self._waiting[0].found.raw)
            if batch and size > _MOST_BYTES:
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _record(self, batch: list[_Waiting]) -> None:
        try:
            answers = await self._run([_arrival(each.inbox, each.found) for each in batch])
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
                [answer] = await self._run([_arrival(entry.inbox, form)])
            except Exception as again:
                error = again
            else:
                if not entry.answer.done():
                    entry.answer.set_result(answer)
                return
        _fail([entry], error)

    async def _run(self, arrivals: list[Arrival]) -> list[Received]:
        database = self._database()
        if len(arrivals) > 1:
            return await database.run(events.receive_many(arrivals), deadline=_DEADLINE)
        # With nothing to unfold: half of what it costs with a small body, a third with one of 20 MB.
        return [await database.run(events.receive(**arrivals[0]._asdict()), deadline=_DEADLINE)]


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
