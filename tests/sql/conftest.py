"""The SQL ring runs on every pgmq layout; `tests.support.layouts` has marks for those that cannot."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.support import contract
from tests.support.contract import Contract
from tests.support.databases import Databases
from tests.support.layouts import LAYOUTS


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
