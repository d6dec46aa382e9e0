"""jobs: the app the benchmarks' workers run: `redrive worker --app benchmarks.jobs:app`.

Its handlers do nothing, or say when they began, as a datagram to the socket that BENCH_EAR names.
"""

from __future__ import annotations

import os
import socket
import time
from typing import Any

from benchmarks.posting import SECRET
from redrive import Event, Job, Redrive

DRAIN = "bench_drain"
PICKUP = "bench_pickup"
MEMORY = "bench_memory"
SPARE = "bench_spare"
INBOX = "bench_inbox"
SOURCE = "fastpix"
SAY_EVERY = 1_000

app = Redrive()
app.inbox(SOURCE, provider="fastpix", secret=SECRET, queue=INBOX)
_mouth = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
_done = 0


@app.job(DRAIN)
async def drain(payload: dict[str, Any]) -> None: ...


@app.on(SOURCE, "*")
async def handle(event: Event) -> None: ...


@app.job(SPARE)
async def spare(payload: dict[str, Any]) -> None: ...


@app.job(PICKUP)
async def pick_up(payload: dict[str, Any], job: Job) -> None:
    now = time.monotonic()
    _say(f"{job.msg_id} {now!r}")


@app.job(MEMORY)
async def remember(payload: dict[str, Any]) -> None:
    global _done
    _done += 1
    if _done % SAY_EVERY == 0:
        _say(f"{_done} {_resident()}")


def _say(text: str) -> None:
    _mouth.sendto(text.encode(), os.environ["BENCH_EAR"])


def _resident() -> int:
    """Bytes of memory this process has; 0 where the system has no /proc."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0
