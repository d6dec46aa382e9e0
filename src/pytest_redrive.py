"""The pytest fixtures of redrive; see `redrive.testing`.

A module outside the package, and without an import of it: pytest loads this in every run, also of tests that
have nothing to do with redrive.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from redrive import Redrive
    from redrive.testing import Clock, Databases


@pytest.fixture(scope="session")
def redrive_server() -> Generator[str]:
    """The URL of a Postgres for this run. Define it in your conftest.py to use a server of your own."""
    from redrive.testing import embedded_server

    with embedded_server() as url:
        yield url


@pytest.fixture(scope="session")
def _redrive_databases(redrive_server: str) -> Generator[Databases]:
    from redrive.testing import Databases

    made = Databases(redrive_server)
    yield made
    made.close()


@pytest.fixture
def redrive_database(_redrive_databases: Databases) -> Generator[str]:
    """The URL of a migrated database of this test's own."""
    from redrive.testing.database import in_use

    url = _redrive_databases.create()
    with in_use(url):
        yield url
    _redrive_databases.drop(url)


@pytest.fixture
def redrive_use(redrive_database: str) -> Generator[Callable[[Redrive], Redrive]]:
    """``redrive_use(app)`` points the app at this test's database, makes its queues, and returns it."""
    from redrive.testing import use_database

    with ExitStack() as stack:
        yield lambda app: stack.enter_context(use_database(app, redrive_database))


@pytest.fixture
def redrive_clock(redrive_database: str) -> Clock:
    """This test's clock: ``redrive_clock.advance(30)``."""
    from redrive.testing import Clock

    return Clock(redrive_database)
