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


async def end(task: asyncio.Task[Any] | None) -> None:
    """Cancel a task that holds nothing and wait for its end."""
    if task is None:
        return
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass


def spawn(coroutine: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    return asyncio.get_running_loop().create_task(coroutine, name=name)
