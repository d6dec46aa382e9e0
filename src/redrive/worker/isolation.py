"""Isolation: a delivery under suspicion runs in a process of its own, whose death is its failure alone.

The parent keeps claim, heartbeat and settle; the child (`redrive.worker.isolated`) is a fresh interpreter
that imports the app, runs this one handler and says how it ended. Both speak JSON lines over two pipes:

    parent ─▶ child   {"options": …, "worker": …, "delivery": …, "policy": …}, then perhaps {"stop": why}
    child ─▶ parent   one decision; no line before the end of the pipe means it died

Guarantees  a child never outlives its worker: it ends when its pipe does;
            one that the worker ends itself (drain, loss) is not charged.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from redrive.worker.held import CalledOff, Held
from redrive.worker.options import WorkerOptions
from redrive.worker.outcome import Decision, given_up

# Each is an interpreter with the app in it; the other suspects wait, kept alive by the heartbeat.
MOST_AT_ONCE = 4
_LONGEST_LINE = 1_000_000
# Kept back from the grace for the killing.
_KILLING = 0.5


class Isolation:
    """Runs a delivery in a child of this process, at most four at once."""

    def __init__(self, options: WorkerOptions, worker: str) -> None:
        self._options = options
        self._worker = worker
        self._room = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(self, held: Held, began: Callable[[Held], None]) -> Decision:
        """How the handler ended, or that its process died."""
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            return given_up(held.called_off, held.lane.timeout)
        try:
            child = await _Child.start(self._order(held))
            began(held)
            try:
                return await self._watch(child, held)
            finally:
                await child.end()
        finally:
            self._room.release()

    def _order(self, held: Held) -> dict[str, Any]:
        return {
            "options": self._options.to_json(),
            "worker": self._worker,
            "delivery": {**asdict(held.delivery), "isolated": False},
            "max_attempts": held.lane.max_attempts,
        }

    async def _watch(self, child: _Child, held: Held) -> Decision:
        try:
            line = await child.line()
        except asyncio.CancelledError:
            return await self._stop(child, held, held.called_off or "drain")
        if line:
            return Decision(**json.loads(line))
        return Decision("crashed", None, "Crashed", _death(await child.wait()))

    async def _stop(self, child: _Child, held: Held, why: CalledOff) -> Decision:
        child.tell({"stop": why})
        try:
            async with asyncio.timeout(max(0.0, held.deadline - time.monotonic() - _KILLING)):
                line = await child.line()
        except TimeoutError:
            line = b""
        return Decision(**json.loads(line)) if line else given_up(why, held.lane.timeout)


class _Child:
    """A process and the two pipes to it."""

    def __init__(
        self, process: asyncio.subprocess.Process, to_child: int, reader: asyncio.StreamReader
    ) -> None:
        self._process = process
        self._to_child = to_child
        self._reader = reader

    @classmethod
    async def start(cls, order: dict[str, Any]) -> _Child:
        theirs_in, to_child = os.pipe()
        from_child, theirs_out = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "redrive.app.isolated",
                str(theirs_in),
                str(theirs_out),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs_in, theirs_out),
            )
        except BaseException:
            os.close(to_child)
            os.close(from_child)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(from_child, "rb", 0)
        )
        child = cls(process, to_child, reader)
        # The payload may be larger than the pipe holds, and the child may take a second until it reads.
        await asyncio.to_thread(child.tell, order)
        return child

    def tell(self, what: dict[str, Any]) -> None:
        try:
            with open(self._to_child, "wb", buffering=0, closefd=False) as pipe:
                data = memoryview(json.dumps(what).encode() + b"\n")
                while data:
                    data = data[pipe.write(data) :]
        except OSError:
            pass  # it is dead: reading says so

    async def line(self) -> bytes:
        """What it says; empty when it ended without a word."""
        line = await self._reader.readline()
        return line if line.endswith(b"\n") else b""

    async def wait(self) -> int:
        return await self._process.wait()

    async def end(self) -> None:
        """It has said all it will say."""
        os.close(self._to_child)
        try:
            async with asyncio.timeout(_KILLING):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


def _death(code: int) -> str:
    if code >= 0:
        return f"the process that ran it alone ended with exit code {code} before the handler did"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    return f"the process that ran it alone was ended by signal {-code} ({name}) before the handler ended"
