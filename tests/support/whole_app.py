"""An app that has something of everything, for tests over all that a generated migration makes."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import BaseModel, Field

from redrive import Job, Redrive
from redrive.inbox.sources.fastpix import FastPix
from redrive.supabase import arguments, migration, schema
from redrive.supabase.plan import Options
from tests.support.project import Project

OPTIONS = Options(worker="edge", api_schema="public", edge_functions=("worker", "receiver"))
INTENTS = ("enqueue_email", "enqueue_export")

app = Redrive()


class Email(BaseModel):
    """One field of each kind that a parameter can be."""

    template: Literal["welcome", "weekly_digest"]
    user_id: str
    subject: str = Field(default="", max_length=100)
    copies: int = Field(default=1, ge=1, le=10)
    urgent: bool = False


class Export(BaseModel):
    user_id: str
    rows: int = 1000


class Tidy(BaseModel):
    older_than_days: int = 30


@app.rpc("enqueue_email", key="email:{template}:{user_id}:{date}")
@app.job("email_jobs", max_attempts=5)
async def send_email(payload: Email, job: Job) -> None: ...


@app.rpc("enqueue_export")
@app.rpc("order_export", role="service_role", requester=None)
@app.job("exports")
async def export(payload: Export, job: Job) -> None: ...


@app.schedule(timedelta(hours=1), payload={"older_than_days": 7})
@app.job("tidying")
async def tidy(payload: Tidy, job: Job) -> None: ...


app.inbox("fastpix", provider="fastpix", queue="webhook_jobs", api=FastPix())
app.inbox("github", provider="github", queue="webhook_jobs")


def apply(project: Project, options: Options = OPTIONS) -> None:
    """Run both migrations, as the project's role."""
    sections = migration.sections(app, options)
    for text in (schema.text(), migration.text(sections, options=arguments.line(options))):
        with project.connect() as owner:
            owner.execute(text.encode())
