"""The SQL ring runs on every pgmq layout; `tests.support.layouts` has marks for those that cannot."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from tests.support import contract
from tests.support.contract import Contract
from tests.support.databases import Databases
from tests.support.layouts import LAYOUTS


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def shared_database(databases: Databases) -> Generator[Callable[[str], str]]:
    """A layout's database that the tests of this process share one after the other; its time can be moved."""
    urls: dict[str, str] = {}

    def url(layout: str) -> str:
        if layout not in urls:
            urls[layout] = databases.migrated(layout)
            contract.prepare(urls[layout])
        return urls[layout]

    yield url
    for each in urls.values():
        databases.drop(each)


@pytest.fixture
def sql(shared_database: Callable[[str], str], layout: str) -> Generator[Contract]:
    """The verbs of the contract on a database without queues."""
    opened = Contract(shared_database(layout))
    yield opened
    opened.close()
    contract.empty(shared_database(layout))
