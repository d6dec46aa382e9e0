"""What `redrive supabase init` writes, applied by Supabase's own tool and by psql, as the project's role."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Generator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.store.database import connect
from redrive.store.migrations import check, migrate
from redrive.supabase import schema, writing
from tests.support.cli import Ran, fine, run
from tests.support.command import Command
from tests.support.node import Node
from tests.support.packages import SqlPackage
from tests.support.project import Project, Projects

APP = "tests.support.supabase_app:app"
CONFIG = """\
# A project of ours.
project_id = "shop"

[api]
enabled = true
schemas = ["public", "graphql_public"]   # who may be called
"""
ROOT = Path(__file__).parents[2]


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

    def run(self, project: Project) -> None:
        """Every file, by psql, which is to say nothing."""
        for file in self.files():
            assert psql(project, file) == ""


def psql(project: Project, file: Path, *, refused: bool = False) -> str:
    """What psql says of the file, which it runs whole, or which is refused."""
    done = subprocess.run(
        [project.server.program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(file), project.url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode != 0) == refused, done.stderr
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
    made.init("--api-schema", "public")
    return made


@pytest.fixture(scope="module")
def pushed(projects: Projects, folder: Folder) -> Generator[Project]:
    """A project to which everything was pushed; its tests only look."""
    made = projects.make()
    folder.push(made)
    yield made
    projects.drop(made)


@pytest.fixture
def applied(projects: Projects, pushed: Project) -> Generator[Project]:
    """A copy of it, for a test of its own."""
    made = projects.copy(pushed)
    with made.admin() as admin:
        # Whose jobs are in pg_cron's own database in truth.
        admin.execute("update cron.job set database = current_database()")
    yield made
    projects.drop(made)


def problems(project: Project, folder: Folder) -> str:
    """What --check finds, a line each."""
    with chdir(folder.path):
        arguments = ("supabase", "init", "--app", APP, "--check", "--database", project.url)
        ran, as_json = run(*arguments), run(*arguments, "--json")
    found = as_json.json["problems"]
    assert ran.code == as_json.code == (1 if found else 0)
    assert ran.out.splitlines() == (found or ["the database is as the migrations make it"])
    return "\n".join(found)


class TestPushed:
    def test_a_second_push_has_nothing_to_do(self, pushed: Project, folder: Folder) -> None:
        assert "up to date" in folder.push(pushed)

    def test_running_the_files_again_writes_to_no_table_at_all(self, pushed: Project, folder: Folder) -> None:
        before = snapshot(pushed)
        folder.run(pushed)
        assert snapshot(pushed) == before

    def test_migrate_has_nothing_to_do(self, pushed: Project) -> None:
        with connect(pushed.url) as owner:
            assert check(owner) == []
            assert not migrate(owner).changed

    def test_the_app_finds_its_queues_policies_and_schedules(self, pushed: Project) -> None:
        queues = pushed.read("select queue, declared from redrive.queue order by 1")
        assert [tuple(row) for row in queues] == [
            ("digest_jobs", {}),
            ("email_jobs", {"max_attempts": 3, "timeout": 60, "archive_retention": None}),
            ("schedules", {}),
            ("webhook_jobs", {"max_attempts": 7, "concurrency": 10}),
        ]
        schedules = pushed.read("select name, queue, payload, tz from redrive.schedule order by 1")
        assert [tuple(row) for row in schedules] == [
            ("nightly", "schedules", None, "Europe/Berlin"),
            ("weekly digest", "digest_jobs", {"template": "weekly_digest", "to": "it's \\ 'all'"}, "UTC"),
        ]

    def test_service_role_may_work_with_the_tables_of_an_inbox_s_api(self, pushed: Project) -> None:
        [(may,)] = pushed.read("select has_table_privilege('service_role', 'fastpix.media', 'update')")
        assert may

    def test_check_finds_nothing(self, pushed: Project, folder: Folder) -> None:
        assert problems(pushed, folder) == ""

    def test_check_says_as_whom_to_come_where_it_may_not_look(self, pushed: Project, folder: Folder) -> None:
        with chdir(folder.path):
            ran = run(
                "supabase", "init", "--app", APP, "--check", "--database", pushed.url_of("authenticator")
            )
        assert ran.code == 2 and "as the role that applied the migrations" in ran.err

    def test_init_again_writes_nothing(self, folder: Folder) -> None:
        before = folder.files()
        ran = folder.init()
        assert folder.files() == before
        assert ran.out.count("unchanged: ") == 2


class TestFoundThere:
    @pytest.mark.parametrize("layout", ["1.4.4", "1.13.0"])
    def test_every_pgmq_will_do(self, projects: Projects, folder: Folder, layout: str) -> None:
        project = projects.make(layout)
        folder.run(project)
        before = snapshot(project)
        folder.run(project)
        assert snapshot(project) == before
        with connect(project.url) as owner:
            assert not migrate(owner).changed
        projects.drop(project)

    def test_without_a_pgmq_to_be_had_nothing_is_made_and_the_way_out_is_said(
        self, projects: Projects, folder: Folder
    ) -> None:
        project = projects.make(None)
        said = psql(project, folder.files()[0], refused=True)
        assert "offers no extension pgmq" in said and "redrive migrate" in said
        assert project.read("select to_regnamespace('redrive')") == [(None,)]
        projects.drop(project)

    def test_the_app_s_file_alone_names_the_other_one(self, project: Project, folder: Folder) -> None:
        said = psql(project, folder.files()[1], refused=True)
        assert "run the newest ..._redrive_schema.sql first" in said

    def test_a_database_that_migrate_made_is_left_as_it_is(self, migrated: Project, folder: Folder) -> None:
        before = snapshot(migrated)
        psql(migrated, folder.files()[0])
        assert snapshot(migrated) == before

    def test_a_queue_that_is_there_is_adopted_with_its_messages_and_its_row_security(
        self, project: Project, folder: Folder
    ) -> None:
        project.read("select pgmq.create('email_jobs')")
        project.read("select pgmq.send('email_jobs', '{\"template\": \"welcome\"}')")
        folder.run(project)
        [(adopted, declared)] = project.read(
            "select adopted, declared ->> 'max_attempts' from redrive.queue where queue = 'email_jobs'"
        )
        assert (adopted, declared) == (True, "3")
        [(secured,)] = project.read("select relrowsecurity from pg_class where relname = 'q_email_jobs'")
        assert not secured
        assert len(project.read("select * from redrive.claim('email_jobs', 30, 5, 'w')")) == 1
        before = snapshot(project)
        folder.run(project)
        assert snapshot(project) == before


class TestAgain:
    def test_a_queue_whose_tables_were_lost_is_made_again(self, applied: Project, folder: Folder) -> None:
        applied.read("select pgmq.drop_queue('email_jobs')")
        assert "queue email_jobs is missing" in problems(applied, folder)
        folder.run(applied)
        applied.read("select redrive.send('email_jobs', '{}')")
        assert problems(applied, folder) == ""

    def test_what_an_operator_set_stays(self, applied: Project, folder: Folder) -> None:
        applied.read("select redrive.set_policy('email_jobs', '{\"max_attempts\": 9}')")
        applied.read("select redrive.pause_schedule('nightly')")
        applied.read("update redrive.schedule set upheld_at = upheld_at - interval '1 hour'")
        before = snapshot(applied)
        folder.run(applied)
        assert snapshot(applied) == before
        assert problems(applied, folder) == ""

    def test_what_is_declared_otherwise_is_found_and_mended(self, applied: Project, folder: Folder) -> None:
        applied.read("select redrive.declare_queue('email_jobs', '{}')")
        applied.read("update redrive.schedule set tz = 'UTC' where name = 'nightly'")
        applied.read("select cron.unschedule('redrive health')")
        applied.read("drop function redrive.backoff")
        found = problems(applied, folder)
        for each in ("queue email_jobs is", "schedule nightly is", "job redrive health is"):
            assert each in found
        folder.run(applied)
        assert problems(applied, folder) == ""

    def test_a_database_without_redrive_is_one_problem(self, project: Project, folder: Folder) -> None:
        assert problems(project, folder).count("redrive's schema is missing") == 1

    def test_an_older_schema_file_changes_nothing_of_a_newer_release(
        self, applied: Project, tmp_path: Path
    ) -> None:
        applied.read("update redrive.schema_file set release = '{99, 1}' where name = 'claim'")
        package = SqlPackage(tmp_path)
        package.edit_function("claim")
        package.remove_function("backoff")
        package.table("9999_more", "create table redrive.more ();")
        before = snapshot(applied)
        (tmp_path / "older.sql").write_text(schema.text(folder=package.folder))
        assert psql(applied, tmp_path / "older.sql") == ""
        assert snapshot(applied) == before

    def test_a_newer_schema_file_brings_what_is_new(self, applied: Project, tmp_path: Path) -> None:
        package = SqlPackage(tmp_path)
        package.edit_function("claim")
        package.remove_function("backoff")
        package.table("9999_more", "create table redrive.more ();")
        (tmp_path / "newer.sql").write_text(schema.text(folder=package.folder))
        psql(applied, tmp_path / "newer.sql")
        with connect(applied.url) as owner:
            assert check(owner, folder=package.folder) == []
        assert applied.read("select to_regproc('redrive.backoff'), to_regclass('redrive.more')::text") == [
            (None, "redrive.more")
        ]


def test_what_changes_in_the_app_is_pushed_alone(projects: Projects, tmp_path: Path, node: Node) -> None:
    folder, project = Folder(tmp_path, node), projects.make()

    def generate(*queues: str) -> None:
        app = Redrive()
        for queue in queues:
            app.job(queue)(work)
        with chdir(folder.path):
            writing.plan(app, {"worker": "resident"}).write()

    generate("old_jobs")
    folder.push(project)
    generate("email_jobs")
    said = folder.push(project)
    assert "_redrive_schema" not in said and said.count("Applying migration") == 1
    queues = "select queue from redrive.queue order by 1"
    assert project.read(queues) == [("email_jobs",), ("old_jobs",)]
    folder.run(project)
    assert project.read(queues) == [("email_jobs",), ("old_jobs",)]
    projects.drop(project)


def test_a_worker_starts_on_what_was_pushed_and_works(applied: Project) -> None:
    applied.read('select redrive.send(\'email_jobs\', \'{"template": "welcome", "to": "ada"}\')')
    environment = {
        "REDRIVE_DATABASE_URL": applied.url,
        "FASTPIX_ACCESS_TOKEN_ID": "x",
        "FASTPIX_SECRET_KEY": "y",
    }
    with Command("worker", "--app", APP, folder=ROOT, environment=environment) as worker:
        worker.wait_for("sent welcome to ada")
        assert worker.end(signal.SIGTERM) == 0, worker.said


async def work(payload: dict[str, Any]) -> None: ...
