"""The SQL ring runs on every pgmq layout; `tests.support.layouts` has marks for those that cannot."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support import contract
from tests.support.contract import Contract
from tests.support.databases import Databases
from tests.support.examining import Doctor
from tests.support.layouts import LAYOUTS, NEWEST

SUPABASE = Path(__file__).parents[1] / "support" / "supabase_like_roles.sql"
# What it makes in the whole server: whoever runs it drops them again, after its database.
SUPABASE_ROLES = ("authenticator", "supabase_postgres", "anon", "authenticated", "service_role")


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def contracts(databases: Databases) -> Generator[dict[str, Contract]]:
    """By layout: what the tests of this process share, one after the other."""
    opened: dict[str, Contract] = {}
    yield opened
    for each in opened.values():
        each.close()
        databases.drop(each.url)


@pytest.fixture
def sql(contracts: dict[str, Contract], databases: Databases, layout: str) -> Generator[Contract]:
    """The verbs of the contract on a database without queues."""
    if layout not in contracts:
        url = databases.migrated(layout)
        contract.prepare(url)
        contracts[layout] = Contract(url)
    yield contracts[layout]
    contracts[layout].reset()


@pytest.fixture(scope="module")
def doctor(databases: Databases) -> Generator[Doctor]:
    """The doctor at a database that a module's tests share: each mends what it breaks."""
    made = Doctor(databases.migrated(NEWEST))
    yield made
    made.close()
    databases.drop(made.url)


@pytest.fixture(scope="module")
def supabase(databases: Databases) -> Generator[Doctor]:
    """The same with stand-ins for what Supabase has: roles, Vault, pg_net, pg_cron.

    Its roles are the whole server's, and go at the end, with what a migrate meanwhile granted to one of them.
    """
    made = Doctor(databases.migrated(NEWEST))
    # What begins with a backslash is psql's own.
    made.sql("\n".join(line for line in SUPABASE.read_text().splitlines() if not line.startswith("\\")))
    yield made
    made.close()
    databases.drop(made.url)
    databases.drop_roles(*SUPABASE_ROLES)
