"""GitHub's webhooks: pushes are announced, everything else is logged by name.

export GITHUB_WEBHOOK_SECRET=...                 # the one in GitHub's form; here any text will do
redrive dev --app examples.webhooks:app          # a Postgres and a worker
redrive serve --app examples.webhooks:app        # the receiver, at http://127.0.0.1:8000/webhooks/github
redrive inbox send-test github                   # a push, signed as GitHub would
"""

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
