"""A push reaches its handler: signed as GitHub would, received, and worked. Run as test_email.py is."""

import httpx

from examples.webhooks import app
from redrive.inbox.signing import sign
from redrive.testing import Ran, assert_sent, run_until_idle
from redrive.web import asgi

SECRET = "only for this test"
PUSH = b'{"ref": "refs/heads/main", "repository": {"full_name": "octo/hello"}, "pusher": {"name": "octocat"}}'


async def test_a_push_is_handled_once_however_often_it_is_delivered(redrive_use, monkeypatch):
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)
    redrive_use(app)
    headers = sign("github", secret=SECRET, body=PUSH, event_id="72d3162e", type="push")
    receiver = httpx.ASGITransport(asgi(app))
    async with httpx.AsyncClient(transport=receiver, base_url="http://test") as github:
        answers = [(await github.post("/webhooks/github", content=PUSH, headers=headers)).text for _ in "12"]
    assert answers == ["ok\n", "duplicate\n"]
    assert_sent("github_events", {"ref": "refs/heads/main"})
    assert await run_until_idle(app) == Ran(done=1)
