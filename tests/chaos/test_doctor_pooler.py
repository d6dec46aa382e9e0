"""The doctor through a PgBouncer in transaction mode: it says so, and makes its other checks all the same."""

from __future__ import annotations

from collections.abc import Generator

import psycopg
import pytest

from tests.support.examining import Doctor
from tests.support.pgbouncer import PgBouncer


@pytest.fixture
def pooled(database_url: str, server_tcp_url: str) -> Generator[Doctor]:
    with psycopg.connect(database_url) as connection:
        name = connection.info.dbname
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
