"""Signal: a moment a test may wait for. Unobserved it costs one attribute check."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

T = TypeVar("T")


class Signal(Generic[T]):
    """`fire` marks the moment; a test that called `watch` beforehand awaits `next`."""

    def __init__(self) -> None:
        self._seen: asyncio.Queue[T] | None = None

    def fire(self, value: T) -> None:
        if self._seen is not None:
            self._seen.put_nowait(value)

    def watch(self) -> Signal[T]:
        self._seen = asyncio.Queue()
        return self

    async def next(self, within: float = 5.0) -> T:
        """The next value fired since `watch`; TimeoutError after `within` seconds."""
        assert self._seen is not None, "call watch() before the moment may come"
        async with asyncio.timeout(within):
            return await self._seen.get()
