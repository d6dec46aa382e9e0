"""Threads: a blocking function called from an `async def` handler, on a thread of its own."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from redrive.job.given import SyncJob


async def in_thread(call: Callable[[], Any], job: SyncJob) -> object:
    """Run it in a thread of its own. Cancelled once, it is told and waited for; twice, it is left."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[tuple[object, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def finish(value: object, error: BaseException | None) -> None:
        if not ended.done():
            ended.set_result((value, error))

    def run() -> None:
        value, error = None, None
        try:
            value = context.run(call)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(finish, value, error)
        except RuntimeError:
            pass  # it was given up, and the loop has ended since

    # No pool: the worker bounds how many run at once, and one that never ends must not hold up its exit.
    threading.Thread(target=run, name="redrive-handler", daemon=True).start()
    try:
        await asyncio.wait({ended})
    except asyncio.CancelledError:
        job.cancelled.set()
        await asyncio.wait({ended})
    value, error = ended.result()
    if error is not None:
        raise error
    return value
