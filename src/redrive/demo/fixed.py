"""The deploy that mends the bug: an email without a template gets the usual one."""

from __future__ import annotations

import asyncio

from redrive import Job, Redrive
from redrive.demo.app import QUICK, Email
from redrive.demo.starts import started

app = Redrive()


@app.job("email_jobs", max_attempts=5, backoff=QUICK)
async def send_email(email: Email, job: Job) -> None:
    started(job)
    template = email.template or "welcome"
    job.logger.debug("sending %s", template)
    await asyncio.sleep(0.02)
