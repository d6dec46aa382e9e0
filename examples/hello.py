"""The smallest app: one job, and a way to send to it."""

import asyncio
from typing import Literal
from uuid import UUID

from pydantic import BaseModel

from redrive import Job, Redrive

app = Redrive()


class Email(BaseModel):
    template: Literal["welcome", "weekly_digest"]
    user_id: UUID


@app.job("email_jobs", max_attempts=5, timeout=300)
async def send_email(email: Email, job: Job) -> None:
    job.logger.info("%s sent to %s", email.template, email.user_id)


async def main() -> None:
    email = Email(template="welcome", user_id=UUID("8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33"))
    print(await send_email.send(email, key=f"welcome:{email.user_id}", unique=True))
    await app.close()


if __name__ == "__main__":
    asyncio.run(main())
