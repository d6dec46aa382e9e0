"""What the examples do on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest

from examples import email
from redrive import Reject, SyncJob
from redrive.job import BlockingCompletion, BlockingPool
from tests.support.layouts import newest_only

pytestmark = pytest.mark.once

USER = UUID("8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33")


class Port(BlockingCompletion):
    def extend(self, seconds: float) -> None: ...


FACTS: dict[str, Any] = {
    "msg_id": 1,
    "read_ct": 1,
    "attempt": 1,
    "max_attempts": 5,
    "key": None,
    "headers": None,
    "enqueued_at": datetime.now(UTC),
}


@pytest.fixture
def queues(db: psycopg.Connection[Any], database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(email.app, "database_url", database_url)
    for queue in email.app.jobs:
        db.execute("select redrive.create_queue(%s)", (queue,))


@pytest.fixture
def pool(database_url: str) -> Generator[BlockingPool]:
    made = BlockingPool(database_url)
    yield made
    made.close()


@newest_only
async def test_one_welcome_a_day_however_often_it_is_asked_for(
    queues: None, db: psycopg.Connection[Any]
) -> None:
    sent = await asyncio.gather(*(email.welcome(USER) for _ in range(5)))
    assert sorted(each.duplicate for each in sent) == [False, True, True, True, True]
    await email.app.close()


@newest_only
async def test_an_export_ends_together_with_its_email(
    queues: None, db: psycopg.Connection[Any], pool: BlockingPool
) -> None:
    sent = await email.export.send(email.Export(user_id=USER))
    db.execute("select redrive.claim('export_jobs', 60, 1, 'me')")
    job = SyncJob(Port(pool, "export_jobs", sent.id, 1, "me"), queue="export_jobs", **FACTS)
    await asyncio.to_thread(email.export, email.Export(user_id=USER), job)
    assert db.execute("select outcome from pgmq.a_export_jobs").fetchone() == ("done",)
    assert db.execute("select message ->> 'template' from pgmq.q_email_jobs").fetchone() == ("export_ready",)
    with pytest.raises(Reject):
        email.export(email.Export(user_id=USER, rows=2_000_000), job)
    await email.app.close()
