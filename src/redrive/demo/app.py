"""The demo's app. Its timeouts and backoffs are short so that the story is; otherwise it is like any."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Literal
from uuid import UUID

from pydantic import BaseModel

from redrive import Backoff, Job, Redrive
from redrive.demo.starts import started

app = Redrive()

QUICK = Backoff(base=0.2, factor=2, cap=1, jitter=0.1)
VIDEO_SECONDS = 9
VIDEO_TIMEOUT = 3
REPORT_SECONDS = 3


class Email(BaseModel):
    template: Literal["welcome", "weekly_digest"] | None
    user_id: UUID | None = None


class Thumbnail(BaseModel):
    image: str


@app.job("email_jobs", max_attempts=5, backoff=QUICK)
async def send_email(email: Email, job: Job) -> None:
    """Has a bug: an email without a template fails."""
    started(job)
    if email.template is None:
        raise ValueError("template missing")
    await asyncio.sleep(0.02)


@app.job("invoice_jobs")
async def send_invoice(invoice: dict[str, int], job: Job) -> None:
    started(job)


@app.job("thumbnail_jobs", max_attempts=5, visibility_timeout=3, backoff=QUICK)
async def make_thumbnail(thumbnail: Thumbnail, job: Job) -> None:
    """One image kills the process that looks at it, as a fault in a C library would."""
    started(job)
    if thumbnail.image == "bomb.tiff":
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(0.3)


@app.job("video_jobs", visibility_timeout=VIDEO_TIMEOUT)
async def encode_video(job: Job) -> None:
    """Takes three times its visibility timeout."""
    started(job)
    await asyncio.sleep(VIDEO_SECONDS)


@app.job("report_jobs")
async def write_report(job: Job) -> None:
    started(job)
    await asyncio.sleep(REPORT_SECONDS)
