"""What `redrive supabase init` writes, applied by Supabase's own tool and by psql, as the project's role."""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from redrive.store.database import connect
from redrive.store.migrations import check, migrate
from tests.support.cli import Ran, fine
from tests.support.node import Node
from tests.support.project import Project, Projects

APP = "tests.support.supabase_app:app"
CONFIG = """\
# A project of ours.
project_id = "shop"

[api]
enabled = true
schemas = ["public", "graphql_public"]   # who may be called
"""


class Folder:
    """A Supabase project's folder, in which `init` is run and from which it is pushed."""

    def __init__(self, path: Path, node: Node) -> None:
        self.path = path
        self._node = node
        self.migrations = path / "supabase" / "migrations"
        self.migrations.parent.mkdir()
        (path / "supabase" / "config.toml").write_text(CONFIG)

    def init(self, *arguments: str, app: str = APP) -> Ran:
        with chdir(self.path):
            return fine("supabase", "init", "--app", app, *arguments)

    def push(self, project: Project) -> str:
        done = self._node.supabase("db", "push", "--db-url", project.url, "--yes", folder=self.path)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def files(self) -> list[Path]:
        return sorted(self.migrations.iterdir())

    def rerun(self, project: Project) -> None:
        """Every file again, by psql."""
        for file in self.files():
            psql(project, file)


def psql(project: Project, file: Path) -> str:
    done = subprocess.run(
        [project.server.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(file), project.url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def snapshot(project: Project) -> dict[str, Any]:
    """Each table of the catalogue, of redrive's, pgmq's and the stand-ins' schemas: its rows as written.

    A row that was written anew has another xmin, also where it says the same.
    """
    with project.admin() as db:
        tables = db.execute(
            "select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n "
            "on n.oid = c.relnamespace where c.relkind = 'r' and not c.relisshared "
            "and n.nspname !~ '^(pg_toast|pg_temp|information_schema)' "
            "and c.relname not in ('pg_statistic', 'pg_statistic_ext_data')"
        ).fetchall()
        return {
            name: db.execute(
                f"select count(*), sum(hashtextextended(xmin::text || ctid::text, 0)) from {name}".encode()
            ).fetchone()
            for (name,) in tables
        }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, node: Node) -> Folder:
    made = Folder(tmp_path_factory.mktemp("project"), node)
    made.init()
    return made


@pytest.fixture(scope="module")
def pushed(projects: Projects, folder: Folder) -> Generator[Project]:
    """A project to which everything was pushed."""
    made = projects.make()
    folder.push(made)
    yield made
    projects.drop(made)


class TestPushed:
    def test_a_second_push_has_nothing_to_do(self, pushed: Project, folder: Folder) -> None:
        assert "up to date" in folder.push(pushed)

    def test_running_the_files_again_changes_no_row_of_the_catalogue_or_of_any_table(
        self, pushed: Project, folder: Folder
    ) -> None:
        before = snapshot(pushed)
        folder.rerun(pushed)
        assert snapshot(pushed) == before

    def test_migrate_has_nothing_to_do(self, pushed: Project) -> None:
        with connect(pushed.url) as owner:
            assert check(owner) == []
            assert not migrate(owner).changed

    def test_check_finds_nothing(self, pushed: Project, folder: Folder) -> None:
        assert "as the migrations make it" in folder.init("--check", "--database", pushed.url).out

    def test_init_again_writes_nothing(self, folder: Folder) -> None:
        before = folder.files()
        ran = folder.init()
        assert folder.files() == before
        assert ran.out.count("unchanged: ") == 2
