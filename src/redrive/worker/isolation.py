"""Isolation: a delivery under suspicion runs in a process of its own, whose death is its failure alone.

The parent keeps claim, heartbeat and settle; the child (`redrive.worker.isolated`) is a fresh interpreter
that imports the app, runs this one handler and says how it ended. Both speak JSON lines over two pipes:

    parent ─▶ child   {"options": …, "worker": …, "delivery": …, "max_attempts": …}, perhaps {"stop": why}
    child ─▶ parent   {"completing": …} round its own transaction's settle; one decision, or none: it died

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
# After its answer: what the app does at the end of its interpreter.
_ENDING = 5.0
# A failed attempt, so that somebody hears of it: it ends as a dead letter that says why.
_NAMELESS = Decision(
    "retry",
    None,
    "NotIsolated",
    "two deliveries ended without a report, so it may run in a process of its own only, and this one does "
    "not know the app's name to give it: set REDRIVE_APP to module:attribute, or use `redrive serve`",
)


class Isolation:
    """Runs a delivery in a child of this process, at most four at once."""

    def __init__(self, options: WorkerOptions, worker: str) -> None:
        self._options = options
        self._worker = worker
        self._room = asyncio.Semaphore(MOST_AT_ONCE)

    async def run(self, held: Held, began: Callable[[Held], None]) -> Decision:
        """How the handler ended, or that its process died."""
        if not self._options.app_spec:
            return _NAMELESS
        try:
            await self._room.acquire()
        except asyncio.CancelledError:
            return given_up(held.called_off, held.lane.timeout)
        try:
            try:
                child = await _Child.start(self._order(held))
            except asyncio.CancelledError:
                return given_up(held.called_off, held.lane.timeout)
            began(held)
            try:
                return await self._watch(child, held)
            finally:
                await child.end(_KILLING if held.called_off else _ENDING)
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
            said = await self._follow(child, held)
        except asyncio.CancelledError:
            return await self._stop(child, held, held.called_off or "drain")
        return said or Decision("crashed", None, "Crashed", _death(await child.wait()))

    async def _follow(self, child: _Child, held: Held) -> Decision | None:
        """What it decides in the end; None when it dies before."""
        while line := await child.line():
            said = json.loads(line)
            if "completing" not in said:
                return Decision(**said)
            held.completing = said["completing"]
        return None

    async def _stop(self, child: _Child, held: Held, why: CalledOff) -> Decision:
        child.tell({"stop": why})
        said = None
        try:
            async with asyncio.timeout(max(0.0, held.deadline - time.monotonic() - _KILLING)):
                said = await self._follow(child, held)
        except TimeoutError:
            pass
        return said or given_up(why, held.lane.timeout)


class _Child:
    """A process and the two pipes to it."""

    def __init__(self, process: asyncio.subprocess.Process, to_child: int) -> None:
        self._process = process
        self._to_child = to_child
        self._reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        self._transport: asyncio.ReadTransport | None = None

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
        child = cls(process, to_child)
        try:
            await child.open(from_child)
            # The payload may be larger than the pipe holds, and the child may take a second until it reads.
            await asyncio.to_thread(child.tell, order)
        except BaseException:
            await child.end(0.0)
            raise
        return child

    async def open(self, from_child: int) -> None:
        loop, pipe = asyncio.get_running_loop(), os.fdopen(from_child, "rb", 0)
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), pipe
        )

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

    async def end(self, patience: float) -> None:
        """It has said all it will say, and has `patience` seconds to end by itself."""
        os.close(self._to_child)
        try:
            async with asyncio.timeout(patience):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        if self._transport is not None:
            self._transport.close()


def _death(code: int) -> str:
    if code >= 0:
        return f"the process that ran it alone ended with exit code {code} before the handler did"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    return f"the process that ran it alone was ended by signal {-code} ({name}) before the handler ended"
