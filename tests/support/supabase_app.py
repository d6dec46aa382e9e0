"""An app as a Supabase project might have it: a job, an inbox with an API, a schedule of each kind."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from redrive import Job, Redrive, Tick
from redrive.inbox.sources.fastpix import FastPix

app = Redrive()


class Email(BaseModel):
    template: Literal["welcome", "weekly_digest"]
    to: str = "nobody"


@app.rpc("remind", role="service_role", requester=None)
@app.job("email_jobs", max_attempts=3, timeout=60, archive_retention=None)
async def send_email(email: Email, job: Job) -> None:
    print(f"sent {email.template} to {email.to}", flush=True)


@app.schedule(60, name="weekly digest", payload={"template": "weekly_digest", "to": "it's \\ 'all'"})
@app.job("digest_jobs")
async def send_digest(email: Email) -> None: ...


@app.schedule("0 3 * * *", tz="Europe/Berlin")
async def nightly(tick: Tick) -> None: ...


app.inbox("fastpix", provider="fastpix", queue="webhook_jobs", secret="s3cret", api=FastPix())
