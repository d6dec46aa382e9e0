"""An app whose one job blocks the event loop for ever, in workers that do not wait a minute to say so."""

from __future__ import annotations

import time
from typing import Any

from redrive import Job, Redrive
from redrive.worker import held, watchdog
from tests.support.worker_app import QUICK, note

watchdog.HANG_AFTER = 1.5
held.GRACE = 1.5
app = Redrive()


@app.job("hang", max_attempts=3, visibility_timeout=2, timeout=3, backoff=QUICK)
async def hang(payload: dict[str, Any], job: Job) -> None:
    note("start", job)
    if payload.get("hang"):
        time.sleep(600)
    note("end", job)
