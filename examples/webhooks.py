"""GitHub's webhooks: pushes are announced, everything else is logged by its name."""

from redrive import Event, Job, Redrive

app = Redrive()
app.inbox("github", provider="github", queue="github_events")


@app.on("github", "push")
async def pushed(event: Event, job: Job) -> None:
    push = event.payload
    job.logger.info("%s pushed to %s of %s", push["pusher"]["name"], push["ref"], event.resource)


@app.on("github", "*")
async def otherwise(event: Event, job: Job) -> None:
    job.logger.info("%s in %s", event.name, event.resource)
