"""Reading: one costly question that many ask at once, answered for all of them together.

Guarantees  whoever asks gets an answer to a question that was put after they asked: nothing older;
            however many ask, one question is under way and at most one waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedReading(Generic[T]):
    """`read` puts the question. For one event loop; `close` ends what is under way."""

    def __init__(self, read: Callable[[], Awaitable[T]]) -> None:
        self._read = read
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        """The answer. Raises what `read` raises; whoever is cancelled leaves the others theirs."""
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
            # Nobody may be left to take a failure.
            self._next.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(self._next)

    async def close(self) -> None:
        """Call off what is under way."""
        left = [task for task in (self._next, self._running) if task is not None and not task.done()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _after(self, earlier: asyncio.Task[T] | None) -> T:
        if earlier is not None:
            await asyncio.wait({earlier})
        # From here on whoever asks may have seen something newer than this answer will show.
        self._running, self._next = self._next, None
        return await self._read()
