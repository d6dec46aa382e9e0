"""Turns: the loop of everything that watches: a turn every few seconds, until stopped.

Guarantees  a turn that fails ends nothing: the next one comes, and a line is logged when the trouble begins,
            when it becomes another, and when it is over, not with every turn;
            `stop` interrupts a turn and returns within a second or so.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

import psycopg
from psycopg.errors import InsufficientPrivilege

from redrive.errors import RedriveError, SetupError
from redrive.worker.service import end, spawn

log = logging.getLogger("redrive.watch")


class Turns:
    """A `Service`. `what` is what a turn does, such as "checking health".

    `first` seconds at most before the first turn; `quiet`: a role without the right is no news.
    """

    def __init__(
        self,
        what: str,
        turn: Callable[[], Awaitable[object]],
        *,
        seconds: float,
        first: float = 0.0,
        quiet: bool = False,
    ) -> None:
        self._turn = turn
        self._seconds = seconds
        self._first = first
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.trouble = Trouble(what, quiet=quiet)

    async def start(self) -> None:
        if self._task is None:
            self._task = spawn(self._run(), "redrive-watch")

    async def stop(self) -> None:
        await end(self._task)

    def nudge(self) -> None:
        """The next turn comes now, or after the one that runs."""
        self._nudged.set()

    async def _run(self) -> None:
        # Processes that start together do not all ask together.
        await asyncio.sleep(self._first * random.random())
        while True:
            self._nudged.clear()
            try:
                await self._turn()
            except Exception as error:
                self.trouble.met(error)
            else:
                self.trouble.over()
            try:
                async with asyncio.timeout(self._seconds * random.uniform(0.9, 1.0)):
                    await self._nudged.wait()
            except TimeoutError:
                pass


class Trouble:
    """Says once that something is not done and why, and once that it is again."""

    def __init__(self, what: str, *, event: str = "watch", quiet: bool = False) -> None:
        self._what = what
        self._event = event
        self._quiet = quiet
        self._kind: str | None = None

    def met(self, error: Exception) -> None:
        """It was not done; `error` is told where its kind is another than before."""
        self.say(type(error).__name__, str(error), error)

    def say(self, kind: str, why: str, error: Exception | None = None) -> None:
        if kind == self._kind:
            return
        self._kind = kind
        level = logging.DEBUG if self._quiet and _lacks_right(error) else logging.WARNING
        extra = {"event": f"{self._event}_failing"}
        # Only a fault of our own shows where it happened.
        ours = error is None or isinstance(error, (RedriveError, psycopg.Error))
        log.log(level, "%s fails: %s", self._what, why, extra=extra, exc_info=None if ours else error)

    def over(self) -> None:
        """It was done."""
        if self._kind is not None:
            self._kind = None
            log.info("%s works again", self._what, extra={"event": f"{self._event}_working"})


def _lacks_right(error: Exception | None) -> bool:
    return isinstance(error, SetupError) and isinstance(error.__cause__, InsufficientPrivilege)
