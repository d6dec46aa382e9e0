"""Running: the event loop of a command, which ends when the command does.

Guarantees  what still blocks in a thread, such as a name server that does not answer, holds up no end:
            neither the loop nor the interpreter waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, but see above."""
    with runner() as made:
        return made.run(main)


def runner() -> asyncio.Runner:
    """`asyncio.Runner`, but see above."""
    return asyncio.Runner(loop_factory=_new_loop)


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Daemons())
    return loop


class _Daemons(ThreadPoolExecutor):
    """A daemon thread a call. asyncio takes none but this class, whose own threads are waited for."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=call, name="redrive-call", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing is waited for."""
