"""Refusals: what was turned away, counted and sampled in bounded memory, told to the database now and then.

Guarantees  a refusal costs memory and no database; at most `_SAMPLES` of one source and reason wait, the
            newest, whatever was sent and however long the database is away;
            no header that carries a credential is kept.
Not given   that a count is exact: what was under way when the database went away may be counted twice, what
            the process had not told when it was killed is not counted.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from redrive.errors import InvalidArgument
from redrive.inbox.keeping import kept
from redrive.store import events
from redrive.store.database import Database

log = logging.getLogger("redrive.inbox")

_EVERY = 3.0
# Of each source and reason, between two flushes: enough to see what goes wrong.
_SAMPLES = 10
_BODY = 4_096
_DETAIL = 500


@dataclass(slots=True)
class _Tally:
    count: int = 0
    samples: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_SAMPLES))


class Refusals:
    """`database` is asked for when there is something to tell; `clock` gives seconds since the epoch."""

    def __init__(self, database: Callable[[], Database], clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._tallies: dict[tuple[str, str], _Tally] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """Refusals the database has not been told."""
        return sum(tally.count for tally in self._tallies.values())

    def note(
        self,
        source: str,
        reason: str,
        detail: str,
        headers: Iterable[tuple[bytes, bytes]],
        body: bytes,
        size: int,
    ) -> None:
        """Keep one, and see to it that the database will be told; of `reason` there must be few."""
        tally = self._tallies.setdefault((source, reason), _Tally())
        tally.count += 1
        tally.samples.append(
            {
                "at": datetime.fromtimestamp(self._clock(), UTC).isoformat(),
                "detail": detail[:_DETAIL],
                "headers": kept(headers),
                "body_base64": base64.b64encode(body[:_BODY]).decode(),
                "size": size,
                "event_id": None,
            }
        )
        # Lazily: where a mounted application's start and end are not told, this still runs.
        if self._task is None or self._task.done() or self._task.get_loop() is not asyncio.get_running_loop():
            self._task = asyncio.create_task(self._tell_later(), name="redrive-refusals")

    async def flush(self) -> None:
        """Tell the database now. Raises what it says; then everything is kept for the next time."""
        told, self._tallies = self._tallies, {}
        if not told:
            return
        try:
            await self._tell(told)
        except BaseException:
            self._take_back(told)
            raise

    async def _tell(self, told: dict[tuple[str, str], _Tally]) -> None:
        """With samples; where the database cannot hold one of them, without."""
        database = self._database()
        try:
            await database.run(events.note_refusals(_items(told, samples=True)))
        except InvalidArgument as error:
            log.warning("the quarantine takes no samples: %s", error, extra={"event": "no_samples"})
            await database.run(events.note_refusals(_items(told, samples=False)))

    async def close(self, within: float) -> None:
        """Tell the database what is left, in so many seconds or not at all."""
        if self._task is not None and self._task.get_loop() is asyncio.get_running_loop():
            self._task.cancel()
            await asyncio.wait({self._task})
        self._task = None
        try:
            async with asyncio.timeout(within):
                await self.flush()
        except Exception as error:
            log.warning("%d refusals were not recorded: %s", self.waiting, error, extra={"event": "untold"})

    async def _tell_later(self) -> None:
        """Ends when there is nothing left to tell."""
        failing = False
        while self._tallies:
            await asyncio.sleep(_EVERY)
            try:
                await self.flush()
                failing = False
            except Exception as error:
                if not failing:
                    log.warning("refusals wait: %s", error, extra={"event": "refusals_wait"})
                failing = True

    def _take_back(self, told: dict[tuple[str, str], _Tally]) -> None:
        for key, tally in told.items():
            newer = self._tallies.get(key)
            if newer is not None:
                tally.count += newer.count
                tally.samples.extend(newer.samples)
            self._tallies[key] = tally


def _items(told: dict[tuple[str, str], _Tally], *, samples: bool) -> list[dict[str, Any]]:
    return [
        {
            "source": source,
            "reason": reason,
            "count": tally.count,
            "samples": list(tally.samples) if samples else [],
        }
        for (source, reason), tally in told.items()
    ]
