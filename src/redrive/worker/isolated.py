"""The isolated child: imports the app, runs one handler, says how it ended. See `redrive.worker.isolation`.

Run as ``python -m redrive.app.isolated READ_FD WRITE_FD`` by a worker process.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import IO, Any

from redrive.worker.held import GRACE, Held
from redrive.worker.jobs import Jobs
from redrive.worker.lane import Lane
from redrive.worker.loading import Load, app_of
from redrive.worker.logs import configure
from redrive.worker.options import WorkerOptions
from redrive.worker.outcome import Decision, failure
from redrive.worker.protocol import Delivery
from redrive.worker.runner import Runner
from redrive.worker.stats import Stats

_PR_SET_PDEATHSIG = 1


class _Verdict:
    """A ledger with one page."""

    def __init__(self) -> None:
        self.decided: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

    def add(self, held: Held, decision: Decision, duration: float | None) -> None:
        if not self.decided.done():
            self.decided.set_result(decision)


def main(load: Load) -> None:
    """Run the one delivery; `load` imports the app."""
    read_fd, write_fd = int(sys.argv[1]), int(sys.argv[2])
    for fd in (read_fd, write_fd):
        os.set_inheritable(fd, False)
    _die_with_parent()
    orders = os.fdopen(read_fd, "rb")
    order = json.loads(orders.readline())
    options = WorkerOptions.from_json(order["options"])
    configure(options.log_format)
    # The parent tells how the attempt ended.
    logging.getLogger("redrive.worker").setLevel(logging.CRITICAL)
    with os.fdopen(write_fd, "wb", buffering=0) as answer:

        def say(what: dict[str, Any]) -> None:
            answer.write(json.dumps(what).encode() + b"\n")

        decision, clean = asyncio.run(_run(load, options, order, orders, say))
        say(asdict(decision))
    if not clean:
        # A thread that did not stop would keep the interpreter from ending.
        logging.shutdown()
        os._exit(0)


async def _run(
    load: Load,
    options: WorkerOptions,
    order: dict[str, Any],
    orders: IO[bytes],
    say: Callable[[dict[str, Any]], None],
) -> tuple[Decision, bool]:
    """The decision, and whether every thread has ended."""
    try:
        definitions = app_of(load, options).jobs
        delivery = Delivery(**order["delivery"])
        definition = definitions[delivery.queue]
    except Exception as error:
        return failure(error), True
    lane = Lane(delivery.queue, options.poll)
    # The parent keeps the time: it says when to stop.
    lane.timeout = None
    lane.max_attempts = order["max_attempts"]
    verdict = _Verdict()
    jobs = Jobs(
        options.url,
        order["worker"],
        concurrency=1,
        # Said before the settle: the parent's heartbeat must not call it a loss that the message is gone.
        completing=lambda held, yes: say({"completing": yes}),
    )
    runner = Runner(
        {delivery.queue: definition},
        verdict,
        Stats(),
        jobs,
        None,
        concurrency=1,
        changed=lambda: None,
        stuck=lambda: None,
    )
    loop = asyncio.get_running_loop()
    _listen(orders, lambda why: loop.call_soon_threadsafe(runner.call_off, why, GRACE))
    runner.take(lane, [delivery], 0.0)
    decision = await verdict.decided
    runner.close()
    await jobs.close()
    return decision, not runner.given_up


def _listen(orders: IO[bytes], stop: Callable[[Any], object]) -> None:
    def follow() -> None:
        for line in orders:
            stop(json.loads(line)["stop"])
        # The worker is gone, and with it whoever would hear of this.
        os._exit(1)

    threading.Thread(target=follow, name="redrive-orders", daemon=True).start()


def _die_with_parent() -> None:
    """Where the kernel offers it: so ends also a handler that never lets another thread run."""
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass
