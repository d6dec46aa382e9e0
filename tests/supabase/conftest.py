"""The ring of Supabase: projects on a server that speaks TCP, and the tools that a project's owner has.

    project    a database of this test's own: stand-in roles and schemas, pgmq 1.5.1 of `supabase_postgres`
    migrated   the same after `redrive migrate` by that role
    projects   makes more: ``projects.make("1.4.4")``, ``make(None)`` without pgmq, ``make(migrated=True)``;
               ``projects.copy(of)`` of one that nobody is connected to; ``projects.drop(project)``.
               Tests that can share a database get it from a module-scoped fixture of theirs.
    whole      one, shared by all tests of a process, with everything that an app's migrations make
    node       the pinned tools: ``node.supabase("db", "push", "--db-url", url, "--yes", folder=path)``,
               ``node.deno("check", "index.ts", folder=path)``; or, for a process of a test's own,
               ``node.supabase_binary`` and ``node.deno_binary`` with ``node.environment``
    binaries   the server's programs, for a server of a test's own: ``Server(settings, binaries)``

A `Project` (tests/support/project.py) has ``url`` (its owner's), ``admin_url`` (a superuser's),
``url_of(role)``, ``connect(role)``, ``admin()``, ``read(query)`` and ``api(role, user=..., claims=...)``: one
request as PostgREST makes it, with its timeouts and safeupdate's rule. Roles belong to the server, of which
each pytest process has its own.

The ring runs on Debian's Postgres 15, whose packages bring plpgsql_check and pg_cron; REDRIVE_PG_BIN names
another.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.node import Node, install
from tests.support.project import Project, Projects
from tests.support.server import Server
from tests.support.whole_app import apply

DEBIAN = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture(scope="session")
def binaries() -> Path | None:
    """Where the server's programs are; None for the embedded ones, which have neither of the extensions."""
    if os.environ.get("REDRIVE_PG_BIN"):
        return Path(os.environ["REDRIVE_PG_BIN"])
    return DEBIAN if (DEBIAN / "initdb").exists() else None


@pytest.fixture(scope="session")
def projects(binaries: Path | None) -> Generator[Projects]:
    server = Server(binaries=binaries)
    try:
        server.start()
        made = Projects(server)
        yield made
        made.close()
    finally:
        server.stop()


@pytest.fixture
def project(projects: Projects) -> Generator[Project]:
    made = projects.make()
    yield made
    projects.drop(made)


@pytest.fixture
def migrated(projects: Projects) -> Generator[Project]:
    made = projects.make(migrated=True)
    yield made
    projects.drop(made)


@pytest.fixture(scope="session")
def node() -> Node:
    """Installs them from npm where the environment does not have them yet."""
    return install()


@pytest.fixture(scope="session")
def whole(projects: Projects) -> Project:
    """A project with all that the migrations of `tests.support.whole_app` make, applied by its owner.

    Shared and not to be changed: a test that does takes ``projects.copy(whole)``.
    """
    made = projects.make()
    apply(made)
    return made
