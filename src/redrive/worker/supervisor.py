"""Supervisor: keeps `--processes` worker processes running and passes on the word to stop.

Guarantees  each process is a fresh interpreter in a session of its own: Ctrl-C reaches the supervisor alone;
            one that dies is replaced, after a pause that grows to 5 s while it keeps dying early;
            one that says nothing for 90 s (a thread that never lets go of the interpreter) is killed and
            replaced;
            SIGTERM or SIGINT drains all of them, a second signal ends all of them at once.
Not given   that they outlive the supervisor for long: they drain when it is gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from redrive.errors import ConfigError
from redrive.store.url import redact
from redrive.worker.health import Answer, Health, Page
from redrive.worker.logs import configure
from redrive.worker.options import EXIT_CONFIG, EXIT_OK, EXIT_REPLACE, EXIT_UNAVAILABLE, WorkerOptions
from redrive.worker.process import STATUS_FD
from redrive.worker.stats import Stats
from redrive.worker.tally import Totals

log = logging.getLogger("redrive.worker")

_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# Whoever worked this long did not die of its start.
_SETTLED = 10.0
_SILENT = 90.0
# Beyond the drain timeout: cancelling, settling, goodbye.
_DRAIN_MORE = 20.0
_LIVE_WITHIN = 30.0
# The pipe of a process that has ended is read to its end; a child of its own could hold it open.
_LAST_WORDS = 1.0


class Metrics(Page, Protocol):
    """The page /metrics."""

    async def close(self) -> None: ...


def supervise(
    options: WorkerOptions, metrics: Callable[[Callable[[], Totals]], Metrics] | None = None
) -> int:
    """Run the workers until a signal; returns the exit code of `redrive worker`.

    `metrics` makes the page /metrics, given the sums of what the processes did.
    """
    configure(options.log_format)
    try:
        return asyncio.run(Supervisor(options, metrics).run())
    except ConfigError as error:
        log.critical("%s", error, extra={"event": "worker_refused"})
        return EXIT_CONFIG


class Supervisor:
    def __init__(
        self, options: WorkerOptions, metrics: Callable[[Callable[[], Totals]], Metrics] | None = None
    ) -> None:
        self._options = options
        self._metrics = None if metrics is None or options.health is None else metrics(self.totals)
        self.children = [Child(options, number) for number in range(options.processes)]
        self._ending = asyncio.Event()
        self._signals = 0
        self._code = EXIT_OK
        self.health: Health | None = None

    async def run(self) -> int:
        o = self._options
        log.info(
            "workers of %s: %d, on %s",
            o.app_spec,
            o.processes,
            redact(o.url),
            extra={"event": "supervisor_started"},
        )
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled, number)
        if o.health is not None:
            pages: dict[str, Page] = {} if self._metrics is None else {"/metrics": self._metrics}
            self.health = Health(o.health, {"/livez": self._live, "/readyz": self._ready}, pages)
            await self.health.start()
        try:
            await asyncio.gather(*(self._keep(child) for child in self.children))
        finally:
            if self.health is not None:
                await self.health.stop()
            if self._metrics is not None:
                await self._metrics.close()
        return self._code

    def totals(self) -> Totals:
        """What all processes have done since this one began, those that are gone too."""
        found = Totals()
        for child in self.children:
            child.add_to(found)
        return found

    async def _keep(self, child: Child) -> None:
        """One process after the other, until all are to end."""
        early = 0
        while not self._ending.is_set():
            started = time.monotonic()
            code = await child.run()
            if self._ending.is_set():
                return
            refused = child.refused
            if refused == EXIT_CONFIG or (refused == EXIT_UNAVAILABLE and not child.was_ready):
                self._end(refused)
                return
            early = 0 if time.monotonic() - started > _SETTLED or code == EXIT_REPLACE else early + 1
            pause = _PAUSES[min(early, len(_PAUSES) - 1)] * random.uniform(0.8, 1.2)
            log.warning(
                "worker process %d ended (%s); another follows in %.1f s",
                child.number,
                _described(code),
                pause,
                extra={"event": "worker_replaced", "code": code},
            )
            try:
                async with asyncio.timeout(pause):
                    await self._ending.wait()
            except TimeoutError:
                pass

    def _signalled(self, number: int) -> None:
        self._signals += 1
        if self._signals == 1:
            log.info("%s: draining", signal.Signals(number).name, extra={"event": "supervisor_draining"})
            self._end(EXIT_OK)
            return
        self._code = 128 + number
        for child in self.children:
            child.kill()

    def _end(self, code: int) -> None:
        self._code = self._code or code
        self._ending.set()
        for child in self.children:
            child.drain()

    def _live(self) -> Answer:
        return self._answer([child.is_live for child in self.children])

    def _ready(self) -> Answer:
        return self._answer([child.is_ready for child in self.children])

    def _answer(self, each: list[bool]) -> Answer:
        return all(each), {"ok": all(each), "processes": [child.status for child in self.children]}


class Child:
    """One worker process at a time."""

    def __init__(self, options: WorkerOptions, number: int) -> None:
        self.number = number
        self.was_ready = False
        """Whether any of its processes has ever been ready."""
        self.refused: int | None = None
        """Why its last process would not work: the exit code of its own words, not of a job that ended it."""
        self.status: dict[str, Any] = {}
        self._queues: dict[str, dict[str, Any]] = {}
        self._gone = Totals()
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self._heard_at = 0.0
        self._end_by: float | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return None if self._process is None else self._process.pid

    @property
    def is_live(self) -> bool:
        """Starting counts as alive: ending the supervisor would not make it start better."""
        return not self.status or (self._hears_well(_LIVE_WITHIN) and self.status["silence"] < _LIVE_WITHIN)

    @property
    def is_ready(self) -> bool:
        return self.is_live and bool(self.status.get("ready"))

    async def run(self) -> int:
        """Start a process and wait for its end; its exit code, negative for a signal."""
        theirs_in, theirs = os.pipe()
        self._gone.add(_counters(self.status), self._queues)
        self.status, self._queues, self._heard_at, self.refused = {}, {}, 0.0, None
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "redrive.app.process",
                stdin=asyncio.subprocess.PIPE,
                pass_fds=(theirs,),
                env={**os.environ, STATUS_FD: str(theirs)},
                start_new_session=True,
            )
        finally:
            os.close(theirs)
        self._order(self._options.to_json())
        if self._end_by is not None:
            self._order("drain")
        reading = asyncio.create_task(self._read(theirs_in))
        watching = asyncio.create_task(self._watch(process))
        try:
            code = await process.wait()
            await asyncio.wait([reading], timeout=_LAST_WORDS)
            return code
        finally:
            self._process = None
            watching.cancel()
            reading.cancel()
            await asyncio.wait([watching, reading])

    def add_to(self, totals: Totals) -> None:
        """What its processes did, the one that runs now and those before it."""
        totals.add(self._gone.stats, self._gone.queues)
        totals.add(_counters(self.status), self._queues)
        totals.processes += self._process is not None
        totals.running += 0 if self._process is None else self.status.get("running", 0)

    def drain(self) -> None:
        """Let it finish what it does; killed when that takes too long."""
        self._end_by = time.monotonic() + self._options.drain_timeout + _DRAIN_MORE
        self._order("drain")

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            try:
                self._process.kill()
            except ProcessLookupError:
                pass

    def _order(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(line.encode() + b"\n")

    def _hears_well(self, within: float) -> bool:
        return bool(self.status) and time.monotonic() - self._heard_at < within

    async def _read(self, status: int) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        pipe, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(status, "rb", 0)
        )
        try:
            while line := await reader.readline():
                said = json.loads(line)
                if "refused" in said:
                    self.refused = said["refused"]
                    continue
                if "queue" in said:
                    self._queues[said["queue"]] = said["tally"]
                    continue
                self.status, self._heard_at = said, time.monotonic()
                self.was_ready = self.was_ready or said["ready"]
        finally:
            pipe.close()

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        while True:
            await asyncio.sleep(1.0)
            if self.status and not self._hears_well(_SILENT):
                log.error(
                    "worker process %d says nothing; killed", self.number, extra={"event": "worker_silent"}
                )
                process.kill()
            if self._end_by is not None and time.monotonic() > self._end_by:
                log.error(
                    "worker process %d does not end; killed", self.number, extra={"event": "worker_overdue"}
                )
                process.kill()


def _counters(status: dict[str, Any]) -> dict[str, int]:
    return {name: status[name] for name in Stats.__slots__ if name in status}


def _described(code: int) -> str:
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    meaning = {EXIT_REPLACE: ", a handler did not stop", 70: ", its event loop hung"}.get(code, "")
    return f"exit code {code}{meaning}"
