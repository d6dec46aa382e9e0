"""The app that real worker processes run in tests: one queue, and payloads that say what the handler does.

{"do": "exit", "code": 1}    os._exit        {"do": "kill"}               SIGKILL to its own process
{"do": "sleep", "for": 3}    await sleep     {"do": "fail"}               raise
{"do": "block", "for": 3}    time.sleep on the loop
{"do": "swallow"}            never ends, cancelled or not
{"do": "leave behind", "for": 3}    await a thread that sleeps
{"do": "effect", "name": x, "die": "inside" | "after" | "never", "linger": 3}   in job.transaction()
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from typing import Any

from redrive import Backoff, Job, Redrive, SyncJob

app = Redrive()
QUICK = Backoff(base=0.05, factor=1, jitter=0)


def note(what: str, job: Job | SyncJob, **more: Any) -> None:
    line = {
        "what": what,
        "msg_id": job.msg_id,
        "attempt": job.attempt,
        "pid": os.getpid(),
        "at": time.time(),
        **more,
    }
    with open(os.environ["REDRIVE_TEST_JOURNAL"], "a") as journal:
        journal.write(json.dumps(line) + "\n")


def die(job: Job) -> None:
    note("die", job)
    os.kill(os.getpid(), signal.SIGKILL)


@app.job("work", max_attempts=4, visibility_timeout=2, backoff=QUICK)
async def work(payload: dict[str, Any], job: Job) -> None:
    note("start", job)
    match payload.get("do"):
        case "exit":
            os._exit(payload["code"])
        case "kill":
            die(job)
        case "sleep":
            await asyncio.sleep(payload["for"])
        case "block":
            time.sleep(payload["for"])
        case "leave behind":
            # Its thread outlives the coroutine that was cancelled.
            await asyncio.to_thread(time.sleep, payload["for"])
        case "swallow":
            while True:
                try:
                    await asyncio.sleep(600)
                except asyncio.CancelledError:
                    pass
        case "fail":
            raise ValueError("template missing")
        case "effect":
            await effect(payload, job)
        case _:
            pass
    note("end", job)


async def effect(payload: dict[str, Any], job: Job) -> None:
    first = job.attempt == 1
    async with job.transaction() as connection:
        await connection.execute("insert into effects (name) values (%s)", (payload["name"],))
        if first and payload["die"] == "inside":
            die(job)
    if first and payload["die"] == "after":
        die(job)
    await asyncio.sleep(payload.get("linger", 0))


@app.job("threads", max_attempts=3, visibility_timeout=2, timeout=1, backoff=QUICK)
def threads(payload: dict[str, Any], job: SyncJob) -> None:
    note("start", job)
    match payload.get("do"):
        case "stick":
            time.sleep(payload["for"])
        case "heed":
            job.cancelled.wait(30)
        case _:
            pass
    note("end", job)
