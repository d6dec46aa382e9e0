"""Service: the one contract of everything that runs in the background, and what two of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol


class Service(Protocol):
    """start() returns when the service is ready; stop() when it has finished.

    stop() twice, and stop() before start(), are both fine.
    """

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


async def until(event: asyncio.Event, seconds: float | None) -> bool:
    """Wait for the event, `seconds` at most (None: for ever); True when it is set."""
    if event.is_set():
        return True
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
    return event.is_set()


async def ended(task: asyncio.Task[Any], seconds: float) -> bool:
    """Wait for the end of a task, `seconds` at most; whether it came."""
    done, _ = await asyncio.wait([task], timeout=seconds)
    return bool(done)


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task that holds nothing; wait for its end, but not for a network that hears no cancelling."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task], timeout=1.0)


def spawn(coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(coroutine, name=name)
