"""Bridge: lets blocking code wait for a coroutine, on an event loop in a thread of its own.

So blocking senders have the same pool, deadlines and retries as async ones, and may even be called on a
thread whose own event loop is running.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


# A database that does not answer is not worth waiting for at the end of a script.
_CLOSE_WITHIN = 5.0


class Bridge:
    """Starts its thread with the first call; after a fork, again. `last` is awaited before the loop ends:
    on `close`, or when the interpreter does.
    """

    def __init__(self, last: Callable[[], Awaitable[None]]) -> None:
        self._last = last
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Block until `work` is done."""
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Await `last` on the loop and end it; nothing when it never ran."""
        with self._starting:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is None or thread is None or self._process != os.getpid():
            return

        async def end() -> None:
            try:
                async with asyncio.timeout(_CLOSE_WITHIN):
                    await self._last()
            except TimeoutError:
                pass

        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None or self._process != os.getpid():
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_serve, args=(self._loop,), name="redrive-sync", daemon=True
                )
                self._thread.start()
                atexit.register(_close_at_exit, weakref.ref(self))
            return self._loop


def _close_at_exit(bridge: weakref.ref[Bridge]) -> None:
    if (left_open := bridge()) is not None:
        left_open.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
