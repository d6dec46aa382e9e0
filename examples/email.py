"""Emails and exports: two queues, one of which sends to the other.

redrive worker --app examples.email:app
redrive send email_jobs '{"template": "welcome", "user_id": "8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33"}'
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from pydantic import BaseModel

from redrive import Backoff, Job, Redrive, Reject, Sent, SyncJob

app = Redrive()

Template = Literal["welcome", "weekly_digest", "export_ready"]


class Email(BaseModel):
    """An unknown template does not fit and is dead at once; that there is none, the handler finds out."""

    template: Template | None
    user_id: UUID | None = None


class Export(BaseModel):
    user_id: UUID
    rows: int = 1000


@app.job(
    "email_jobs",
    max_attempts=5,
    visibility_timeout=60,
    timeout=300,
    backoff=Backoff(base=30, factor=2, cap=3600, jitter=0.2),
)
async def send_email(email: Email, job: Job) -> None:
    """Render the template and hand it to the email provider."""
    if email.template is None:
        raise ValueError("template missing")
    job.logger.info("sent %s to %s, attempt %s", email.template, email.user_id, job.attempt)


@app.job("export_jobs", timeout=900, concurrency=2)
def export(wanted: Export, job: SyncJob) -> None:
    """A blocking handler, in a thread. The export's end and the email about it are committed together."""
    if wanted.rows > 1_000_000:
        raise Reject(f"{wanted.rows} rows are more than an export may have")
    for _ in range(wanted.rows):
        if job.cancelled:
            return
    with job.transaction() as connection:
        send_email.sync.send(
            Email(template="export_ready", user_id=wanted.user_id),
            key=f"email:export_ready:{job.msg_id}",
            connection=connection,
        )


async def welcome(user_id: UUID) -> Sent:
    """What the sign-up calls. However often it does on one day, one email leaves."""
    today = datetime.now(UTC).date()
    return await send_email.send(
        Email(template="welcome", user_id=user_id),
        key=f"email:welcome:{user_id}:{today}",
        unique=True,
    )
