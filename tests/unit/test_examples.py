"""The examples, as a unit test of a user's own handlers would call them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from examples import email
from redrive import Job
from redrive.app import load_app
from redrive.job import Malformed

USER = UUID("8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33")


def test_the_app_can_be_named_on_the_command_line() -> None:
    assert set(load_app("examples.email:app").jobs) == {"email_jobs", "export_jobs"}
    webhooks = load_app("examples.webhooks:app")
    assert (set(webhooks.jobs), set(webhooks.inboxes)) == ({"github_events"}, {"github"})
    supabase = load_app("examples.supabase_email:app")
    assert (set(supabase.rpcs), set(supabase.inboxes)) == ({"enqueue_email"}, {"fastpix"})


async def test_an_email_without_a_template_fails_and_with_an_unknown_one_does_not_fit() -> None:
    port: Any = None  # this handler does not act on its delivery
    job = Job(
        port,
        queue="email_jobs",
        msg_id=1,
        read_ct=1,
        attempt=1,
        max_attempts=5,
        key=None,
        headers=None,
        enqueued_at=datetime.now(UTC),
    )
    decode = email.send_email.definition.decode
    fits: Any = decode(f'{{"template": "welcome", "user_id": "{USER}"}}')
    await email.send_email(fits, job)
    poison: Any = decode('{"template": null}')
    with pytest.raises(ValueError, match="template missing"):
        await email.send_email(poison, job)
    with pytest.raises(Malformed, match=r"\$\.template: Input should be 'welcome'"):
        decode('{"template": "newsletter"}')
