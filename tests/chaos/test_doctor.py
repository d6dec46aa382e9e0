"""The doctor through a PgBouncer in transaction mode, and on a network that swallows every answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator

import pytest
from psycopg.conninfo import conninfo_to_dict

from redrive.errors import Unavailable
from redrive.watch.doctor import Surroundings
from redrive.watch.doctor.patient import Patient
from tests.support.examining import Doctor
from tests.support.pgbouncer import PgBouncer
from tests.support.proxy import proxied
from tests.support.server import with_database


@pytest.fixture
def name(database_url: str) -> str:
    return str(conninfo_to_dict(database_url)["dbname"])


@pytest.fixture
def pooled(name: str, server_tcp_url: str) -> Generator[Doctor]:
    with PgBouncer(server_tcp_url) as bouncer:
        yield Doctor(bouncer.url(name))


def test_a_transaction_pooler_is_told_with_what_is_off_because_of_it(pooled: Doctor) -> None:
    found = pooled.one("pooler")
    assert found.severity == "note"
    assert "goes through a transaction pooler" in found.problem
    assert "LISTEN hears nothing through it" in found.problem


def test_the_other_checks_are_made_through_it(pooled: Doctor) -> None:
    for name in ("schema", "role_rights", "pgmq_mixed", "queue_ids", "read_only", "holders"):
        assert pooled.is_fine(name)


def test_a_network_that_swallows_every_answer_holds_it_up_for_seconds_only(
    name: str, server_tcp_url: str
) -> None:
    with proxied(with_database(server_tcp_url, name)) as proxy:

        async def swallowed() -> None:
            patient = await Patient.admit(proxy.url, Surroundings())
            proxy.swallow = True
            began = time.monotonic()
            with pytest.raises(Unavailable, match=r"did not answer a question within 0\.1 s"):
                await patient.rows("select 1", within=0.1)
            assert time.monotonic() - began < 10
            await patient.close()

        asyncio.run(swallowed())
