"""Signal: a moment that somebody may be told of, or wait for in a test. Unobserved it costs one check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Signal(Generic[T]):
    """`fire` marks the moment and calls whom `tell` named; after `watch`, a test awaits `next`."""

    def __init__(self) -> None:
        self._seen: asyncio.Queue[T] | None = None
        self._listener: Callable[[T], object] | None = None

    def fire(self, value: T) -> None:
        if self._listener is not None:
            self._listener(value)

    def tell(self, listener: Callable[[T], object]) -> None:
        """Call it for each moment from now on, in place of whoever was told before."""
        self._listener = listener

    def watch(self) -> Signal[T]:
        self._seen = asyncio.Queue()
        self.tell(self._seen.put_nowait)
        return self

    async def next(self, within: float = 5.0) -> T:
        """The next value fired since `watch`; TimeoutError after `within` seconds."""
        assert self._seen is not None, "call watch() before the moment may come"
        async with asyncio.timeout(within):
            return await self._seen.get()
