"""On Supabase: signed-in users ask for emails by a function of the API, and FastPix posts its webhooks.

redrive supabase init --app examples.supabase_email:app

In the browser, one call a template and day, however often it is clicked:

    const { data: id, error } = await supabase.rpc("enqueue_email", { p_template: "export_ready" })
"""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from redrive import Event, Job, Redrive

app = Redrive()


class Email(BaseModel):
    """Each field but `user_id`, who asks, is a parameter: p_template, p_note, p_copies_to."""

    template: Literal["welcome", "weekly_digest", "export_ready"]
    user_id: UUID
    note: str | None = Field(None, max_length=200)
    copies_to: list[Annotated[str, Field(pattern="^[^@ ]+@[^@ ]+$", max_length=100)]] = Field(
        [], max_length=3
    )


@app.rpc("enqueue_email", role="authenticated", key="email:{template}:{user_id}:{date}")
@app.job("email_jobs", max_attempts=5, visibility_timeout=60, timeout=300)
async def send_email(email: Email, job: Job) -> None:
    """Render the template and hand it to the email provider."""
    job.logger.info("sent %s to %s", email.template, email.user_id)


app.inbox("fastpix", provider="fastpix", queue="webhook_jobs")


@app.on("fastpix", "video.media.*")
async def media_changed(event: Event, job: Job) -> None:
    job.logger.info("%s: %s", event.name, event.resource)
