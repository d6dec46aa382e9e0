"""From release to release: every way of installing ends in the same schema, and work goes on meanwhile."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Barrier, Event
from typing import Any

import psycopg
import pytest
from psycopg import sql

from redrive.errors import SetupError
from redrive.sql import FOLDER
from redrive.store.database import connect
from redrive.store.migrations import Migration, check, migrate, plan_sql
from tests.support.databases import Databases
from tests.support.layouts import scripts
from tests.support.packages import SqlPackage
from tests.support.roles import Roles
from tests.support.server import Server

Connection = psycopg.Connection[Any]


@pytest.fixture
def empty(empty_database_url: str) -> Generator[Connection]:
    with connect(empty_database_url) as connection:
        yield connection


@pytest.fixture
def offered_extension(server_url: str) -> Generator[Path]:
    """A place with an extension pgmq in it, which the server's own user can read."""
    from pgmq.install import get_embedded_install_sql

    with psycopg.connect(server_url) as connection:
        if connection.info.server_version < 180000:
            pytest.skip("before Postgres 18 an extension can only be put into the server's own directories")
    with TemporaryDirectory() as place:
        folder = Path(place) / "extension"
        folder.mkdir()
        Path(place).chmod(0o755)
        (folder / "pgmq.control").write_text(
            "default_version = '1.13.0'\nrelocatable = false\nsuperuser = false\nschema = 'pgmq'\n"
        )
        (folder / "pgmq--1.13.0.sql").write_text(get_embedded_install_sql())
        yield Path(place)


def shape(db: Connection) -> list[Any]:
    """Everything that a migration can make in schemas redrive and pgmq, as rows that can be compared."""
    return db.execute(
        """
        with ours as (select oid, nspname from pg_namespace where nspname in ('redrive', 'pgmq'))
        select 'relation' as kind, c.oid::regclass::text as name, c.relkind::text as a,
               c.reloptions::text as b, c.relacl::text as c
          from pg_class c join ours on ours.oid = c.relnamespace
        union all
        select 'column', a.attrelid::regclass || '.' || a.attname, format_type(a.atttypid, a.atttypmod),
               a.attnotnull::text || a.attnum, pg_get_expr(d.adbin, d.adrelid)
          from pg_attribute a join pg_class c on c.oid = a.attrelid join ours on ours.oid = c.relnamespace
          left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
         where a.attnum > 0 and not a.attisdropped
        union all
        select 'constraint', k.conrelid::regclass || ' ' || k.conname, pg_get_constraintdef(k.oid), '', ''
          from pg_constraint k join ours on ours.oid = k.connamespace
        union all
        select 'index', i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid), '', ''
          from pg_index i join pg_class c on c.oid = i.indexrelid join ours on ours.oid = c.relnamespace
        union all
        select 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid), p.proowner::regrole::text,
               p.proacl::text
          from pg_proc p join ours on ours.oid = p.pronamespace where p.prokind = 'f'
        union all
        select 'file', kind || ' ' || name, checksum, release::text, '' from redrive.schema_file
        union all
        select 'grant', role, part, '', '' from redrive.role_grant
        order by 1, 2, 3
        """
    ).fetchall()


def run_psql(server: Server | None, url: str, script: Path) -> None:
    psql = server.program("psql") if server else shutil.which("psql")
    assert psql, "psql is not in PATH"
    done = subprocess.run(
        [psql, "--no-psqlrc", "--set", "ON_ERROR_STOP=1", "--quiet", "--file", str(script), url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class TestTheScript:
    def test_it_installs_what_migrate_installs_and_leaves_it_nothing_to_do(
        self,
        server: Server | None,
        db: Connection,
        empty_database_url: str,
        empty: Connection,
        tmp_path: Path,
    ) -> None:
        script = tmp_path / "plan.sql"
        script.write_text(plan_sql())
        run_psql(server, empty_database_url, script)

        assert shape(empty) == shape(db)
        assert not migrate(empty).changed
        run_psql(server, empty_database_url, script)
        assert shape(empty) == shape(db)

    def test_it_upgrades_too(
        self, server: Server | None, db: Connection, database_url: str, tmp_path: Path
    ) -> None:
        package = SqlPackage(tmp_path)
        package.edit_function("claim")
        package.remove_function("backoff")
        script = tmp_path / "plan.sql"
        script.write_text(plan_sql(folder=package.folder))
        run_psql(server, database_url, script)
        assert check(db, folder=package.folder) == []
        assert not migrate(db, folder=package.folder).changed


class TestEveryWay:
    def test_migrating_file_by_file_ends_where_installing_at_once_does(
        self, db: Connection, empty: Connection, tmp_path: Path
    ) -> None:
        step = tmp_path / "step"
        (step / "tables").mkdir(parents=True)
        (step / "functions").mkdir()
        (step / "functions" / "old.sql").write_text(
            "-- old: of a release of yore\n-- part: read\n"
            "create function redrive.old(integer) returns integer language sql as 'select $1';\n"
            "revoke all on function redrive.old(integer) from public;\n"
        )
        for file in sorted((FOLDER / "tables").glob("*.sql")):
            shutil.copy(file, step / "tables")
            migrate(empty, folder=step)
        migrate(empty)
        assert shape(empty) == shape(db)

    @pytest.mark.parametrize("layout", ["1.5.1", "1.4.4"])
    def test_a_queue_made_before_redrive_came_is_still_worked(self, empty: Connection, layout: str) -> None:
        for script in scripts(layout):
            empty.execute(script.encode())
        empty.execute("select pgmq.create('old_jobs'), pgmq.send('old_jobs', '{\"n\": 1}'::jsonb)")
        migrate(empty)
        empty.execute("select redrive.adopt_queue('old_jobs')")
        claimed = empty.execute(
            "select message::jsonb from redrive.claim('old_jobs', 30, 10, 'w')"
        ).fetchall()
        assert claimed == [({"n": 1},)]

    def test_a_half_upgraded_pgmq_that_has_what_we_need_is_taken(
        self, server: Server | None, empty_database_url: str, empty: Connection, tmp_path: Path
    ) -> None:
        """1.13.0's SQL over 1.5.1, errors passed over: what running the file again leaves behind."""
        from pgmq.install import get_embedded_install_sql

        empty.execute(scripts("1.5.1")[0].encode())
        script = tmp_path / "pgmq.sql"
        script.write_text(get_embedded_install_sql())
        psql = server.program("psql") if server else shutil.which("psql")
        subprocess.run(
            [str(psql), "--quiet", "--file", str(script), empty_database_url], capture_output=True, check=True
        )
        with pytest.raises(psycopg.errors.AmbiguousFunction):
            empty.execute("select pgmq.pop('q')")

        migrate(empty)
        empty.execute("select redrive.create_queue('mails'), redrive.send('mails', '{}'::jsonb)")
        assert len(empty.execute("select from redrive.claim('mails', 30, 10, 'w')").fetchall()) == 1

    @pytest.mark.parametrize("attributes", ["login superuser", "login"])
    def test_pgmq_is_taken_as_an_extension_where_the_server_offers_it(
        self, offered_extension: Path, empty: Connection, roles: Roles, attributes: str
    ) -> None:
        owner = roles.create("owner", attributes)
        database = sql.Identifier(empty.info.dbname)
        empty.execute(sql.SQL("alter database {} owner to {}").format(database, sql.Identifier(owner)))
        empty.execute(
            sql.SQL("alter database {} set extension_control_path = {}").format(
                database, sql.Literal(f"{offered_extension}:$system")
            )
        )
        with roles.connect(empty.info, owner) as theirs:
            assert migrate(theirs).pgmq == "extension"
            assert not migrate(theirs).changed
            theirs.execute("select redrive.create_queue('mails'), redrive.send('mails', '{}'::jsonb)")
            assert len(theirs.execute("select from redrive.claim('mails', 30, 10, 'w')").fetchall()) == 1


class TestAtOnce:
    @pytest.mark.parametrize("crowd", [5, 20])
    def test_any_number_may_migrate_at_once_and_one_does_it(self, databases: Databases, crowd: int) -> None:
        url = databases.empty()
        barrier = Barrier(crowd)

        def one(_: int) -> Migration:
            with connect(url) as connection:
                barrier.wait()
                return migrate(connection)

        try:
            with ThreadPoolExecutor(crowd) as pool:
                done = list(pool.map(one, range(crowd)))
            assert [each.changed for each in done].count(True) == 1
            with connect(url) as connection:
                assert check(connection) == []
        finally:
            databases.drop(url)

    def test_work_goes_on_while_every_function_is_replaced(
        self, db: Connection, database_url: str, tmp_path: Path
    ) -> None:
        db.execute("select redrive.create_queue('mails')")
        over, calls = Event(), [0, 0]

        def work(worker: int) -> None:
            with connect(database_url) as connection:
                while not over.is_set():
                    connection.execute("select redrive.send('mails', '{}'::jsonb)")
                    connection.execute("select from redrive.claim('mails', 30, 10, 'w')")
                    calls[worker] += 1

        package = SqlPackage(tmp_path)
        with ThreadPoolExecutor(2) as pool:
            working = [pool.submit(work, worker) for worker in range(2)]
            try:
                for _ in range(5):
                    before = list(calls)
                    for path in (package.folder / "functions").glob("*.sql"):
                        package.edit_function(path.stem)
                    assert len(migrate(db, folder=package.folder).functions) > 50
                    while not all(now > then for now, then in zip(calls, before, strict=True)):
                        assert not any(task.done() for task in working)
                        over.wait(0.01)
            finally:
                over.set()
            for task in working:
                task.result()


def test_a_replica_is_refused() -> None:
    """A server in recovery, as a standby is: it can be read, and says so itself."""
    server = Server()
    try:
        server.start()
        server.pause()
        server.into_recovery()
        server.resume()
        with connect(server.url) as connection, pytest.raises(SetupError, match="read replica"):
            migrate(connection)
    finally:
        server.stop()
