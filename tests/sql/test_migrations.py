"""Migrations: all or nothing, once, on whatever pgmq there is; and what they refuse, in one sentence each."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from redrive.errors import InvalidArgument, SetupError
from redrive.sql import function_files, table_files
from redrive.store import migrations
from redrive.store.database import Database, connect
from redrive.store.migrations import check, check_statement, migrate
from tests.support.layouts import NEWEST, scripts
from tests.support.packages import SqlPackage
from tests.support.roles import Roles

Connection = psycopg.Connection[Any]

TWICE = """-- twice: for these tests
-- part: read
create function redrive.twice(n integer) returns integer language sql as $$ select n * 2 $$;
revoke all on function redrive.twice(integer) from public;
"""


@pytest.fixture
def layout() -> str:
    return NEWEST


@pytest.fixture
def empty(empty_database_url: str) -> Generator[Connection]:
    """A connection to a database with nothing in it."""
    with connect(empty_database_url) as connection:
        yield connection


@pytest.fixture
def package(tmp_path: Path) -> SqlPackage:
    return SqlPackage(tmp_path)


def oids(db: Connection) -> dict[str, int]:
    """The functions of schema redrive: a replaced one has another oid."""
    return dict(
        db.execute("select proname, oid from pg_proc where pronamespace = 'redrive'::regnamespace").fetchall()
    )


class TestOnAnEmptyDatabase:
    def test_pgmq_tables_and_functions_are_installed_and_nothing_is_left_to_do(
        self, empty: Connection
    ) -> None:
        done = migrate(empty)

        assert done.changed
        assert done.pgmq == "sql"
        assert done.tables == tuple(file.name for file in table_files())
        assert done.functions == tuple(file.name for file in function_files())
        assert check(empty) == []
        empty.execute("select redrive.create_queue('mails'), redrive.send('mails', '{}'::jsonb)")

        again = migrate(empty)
        assert not again.changed
        assert again.pgmq == "found"

    def test_a_file_that_fails_leaves_nothing_behind(self, empty: Connection, package: SqlPackage) -> None:
        package.function("broken", "-- broken: no SQL\ncreate function redrive.broken() returns nonsense;")
        with pytest.raises(psycopg.Error) as failed:
            migrate(empty, folder=package.folder)
        assert "in: -- broken: no SQL" in failed.value.__notes__
        assert empty.execute(
            "select count(*) from pg_namespace where nspname in ('redrive', 'pgmq')"
        ).fetchall() == [(0,)]

    def test_a_plain_owner_of_the_database_is_enough(self, roles: Roles, empty: Connection) -> None:
        owner = roles.create("owner", "login")
        empty.execute(
            sql.SQL("grant create on database {} to {}").format(
                sql.Identifier(empty.info.dbname), sql.Identifier(owner)
            )
        )
        with roles.connect(empty.info, owner) as theirs:
            migrate(theirs)
            theirs.execute("select redrive.create_queue('mails'), redrive.send('mails', '{}'::jsonb)")


class TestPgmq:
    @pytest.mark.parametrize("found", ["1.5.1", "1.5.1+last_read_at", "1.4.4"])
    def test_an_existing_one_is_adopted_untouched(self, empty: Connection, found: str) -> None:
        for script in scripts(found):
            empty.execute(script.encode())
        before = empty.execute(
            "select oid from pg_proc where pronamespace = 'pgmq'::regnamespace order by 1"
        ).fetchall()

        assert migrate(empty).pgmq == "found"
        after = empty.execute(
            "select oid from pg_proc where pronamespace = 'pgmq'::regnamespace order by 1"
        ).fetchall()
        assert after == before

    def test_an_empty_schema_of_its_name_counts_as_none(self, empty: Connection) -> None:
        empty.execute("create schema pgmq")
        assert migrate(empty).pgmq == "sql"

    @pytest.mark.parametrize(
        ("damage", "lacks"),
        [
            ("drop function pgmq.create(text)", r"lacks the function pgmq\.create\(text\)"),
            ("alter table pgmq.meta drop column is_unlogged", r"lacks column pgmq\.meta\.is_unlogged"),
            (
                "create function pgmq.drop_queue(queue_name text, partitioned boolean default false) "
                "returns boolean language sql as 'select true'",
                r"lacks a unique function pgmq\.drop_queue\(text\)",
            ),
        ],
    )
    def test_one_that_lacks_what_we_need_is_refused_with_the_way_out(
        self, empty: Connection, damage: str, lacks: str
    ) -> None:
        empty.execute(scripts("1.5.1")[0].encode())
        if damage.startswith("create function"):
            empty.execute("drop function pgmq.drop_queue(text, boolean)")
        empty.execute(damage.encode())
        with pytest.raises(SetupError, match=rf"{lacks}.*alter extension pgmq update"):
            migrate(empty)
        assert empty.execute("select to_regnamespace('redrive')").fetchall() == [(None,)]

    def test_one_we_may_not_use_is_refused_naming_its_owner(self, roles: Roles, empty: Connection) -> None:
        empty.execute(scripts("1.5.1")[0].encode())
        guest = roles.create("guest", "login")
        empty.execute(
            sql.SQL("grant create on database {} to {}").format(
                sql.Identifier(empty.info.dbname), sql.Identifier(guest)
            )
        )
        with (
            roles.connect(empty.info, guest) as theirs,
            pytest.raises(SetupError, match="which belongs to postgres"),
        ):
            migrate(theirs)


class TestFunctions:
    def test_only_those_whose_file_changed_are_replaced(self, db: Connection, package: SqlPackage) -> None:
        before = oids(db)
        package.edit_function("backoff")
        package.function("twice", TWICE)

        done = migrate(db, folder=package.folder)

        assert done.functions == ("backoff", "twice")
        after = oids(db)
        assert after["backoff"] != before["backoff"]
        assert {name: oid for name, oid in after.items() if name not in ("backoff", "twice")} == {
            name: oid for name, oid in before.items() if name != "backoff"
        }

    def test_a_changed_signature_leaves_no_overload_behind(self, db: Connection, package: SqlPackage) -> None:
        package.function("twice", TWICE)
        migrate(db, folder=package.folder)
        package.function("twice", TWICE.replace("integer", "bigint"))
        migrate(db, folder=package.folder)
        assert db.execute(
            "select oid::regprocedure::text from pg_proc where proname = 'twice'"
        ).fetchall() == [("redrive.twice(bigint)",)]

    def test_one_whose_file_is_gone_is_dropped(self, db: Connection, package: SqlPackage) -> None:
        package.function("twice", TWICE)
        migrate(db, folder=package.folder)
        package.remove_function("twice")
        assert migrate(db, folder=package.folder).dropped == ("twice",)
        assert "twice" not in oids(db)

    def test_one_that_somebody_dropped_comes_back(self, db: Connection) -> None:
        db.execute("drop function redrive.backoff")
        assert check(db) == ["function backoff is missing"]
        migrate(db)
        assert "backoff" in oids(db)
        assert check(db) == []

    def test_somebody_elses_object_stops_it_by_name(self, db: Connection, package: SqlPackage) -> None:
        before = oids(db)
        db.execute("create view public.delays as select redrive.backoff(1, 30, 2, 3600, 0)")
        package.edit_function("backoff")
        package.edit_function("clock")
        with pytest.raises(
            SetupError, match=r"redrive\.backoff.* cannot be replaced: view public\.delays depends on"
        ):
            migrate(db, folder=package.folder)
        assert oids(db) == before

    def test_one_of_our_name_that_is_not_ours_is_left_alone(self, db: Connection) -> None:
        db.execute("create function redrive.theirs() returns integer language sql as 'select 1'")
        migrate(db)
        assert "theirs" in oids(db)

    def test_nobody_is_let_in_by_default_privileges(
        self, db: Connection, package: SqlPackage, roles: Roles
    ) -> None:
        guest = roles.create("anon")
        name = sql.Identifier(guest)
        db.execute(sql.SQL("alter default privileges grant execute on functions to {}").format(name))
        try:
            package.function("twice", TWICE)
            migrate(db, folder=package.folder)
            allowed = db.execute(
                "select has_function_privilege(%s, 'redrive.twice(integer)', 'execute')", (guest,)
            )
            assert allowed.fetchall() == [(False,)]
        finally:
            db.execute(sql.SQL("alter default privileges revoke execute on functions from {}").format(name))


class TestTables:
    def test_a_new_file_is_applied_once(self, db: Connection, package: SqlPackage) -> None:
        package.table(
            "9000_more", "create table redrive.more (n integer); insert into redrive.more values (1);"
        )
        assert migrate(db, folder=package.folder).tables == ("9000_more",)
        assert migrate(db, folder=package.folder).tables == ()
        assert db.execute("select n from redrive.more").fetchall() == [(1,)]

    def test_an_applied_file_that_was_edited_is_refused(self, db: Connection, package: SqlPackage) -> None:
        package.table("9000_more", "create table redrive.more ();")
        migrate(db, folder=package.folder)
        package.table("9000_more", "create table redrive.more (n integer);")
        with pytest.raises(SetupError, match="9000_more was edited after it was applied"):
            migrate(db, folder=package.folder)


class TestReleases:
    def test_a_newer_release_than_the_schema_finds_something_missing(
        self, db: Connection, package: SqlPackage
    ) -> None:
        package.function("twice", TWICE)
        package.edit_function("claim")
        package.table("9000_more", "create table redrive.more ();")
        assert check(db, folder=package.folder) == [
            "table 9000_more is missing",
            "function twice is missing",
            "function claim differs",
        ]

    def test_an_older_release_than_the_schema_works_and_takes_nothing_back(
        self, db: Connection, package: SqlPackage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package.function("twice", TWICE)
        package.edit_function("claim")
        with monkeypatch.context() as later:
            later.setattr(migrations, "version", lambda _: "99.1.0")
            migrate(db, folder=package.folder)
        before = oids(db)

        assert check(db) == []
        done = migrate(db)
        assert not done.changed
        assert done.newer is not None and "redrive 99.1.0" in done.newer
        assert oids(db) == before

    async def test_a_role_without_any_right_on_tables_can_ask(
        self, db: Connection, database_url: str, roles: Roles
    ) -> None:
        worker = roles.create("worker", "login")
        migrations.grants.grant(db, worker, "work")
        database = Database(roles.url(db.info, worker))
        try:
            assert await database.run(check_statement()) == []
        finally:
            await database.close()

    def test_an_empty_database_lacks_it_all(self, empty: Connection) -> None:
        [said] = check(empty)
        assert "redrive migrate" in said

    def test_a_dropped_pgmq_is_noticed(self, db: Connection) -> None:
        db.execute("drop schema pgmq cascade")
        assert check(db) == ["pgmq is missing"]


class TestRefused:
    def test_a_role_that_may_not_create_schemas(self, roles: Roles, empty: Connection) -> None:
        guest = roles.create("guest", "login")
        with (
            roles.connect(empty.info, guest) as theirs,
            pytest.raises(SetupError, match="may not create schemas"),
        ):
            migrate(theirs)

    def test_a_role_that_is_not_the_schemas_owner(self, roles: Roles, db: Connection) -> None:
        guest = roles.create("guest", "login")
        with (
            roles.connect(db.info, guest) as theirs,
            pytest.raises(SetupError, match="belongs to role postgres"),
        ):
            migrate(theirs)

    def test_a_read_only_session(self, empty: Connection) -> None:
        empty.execute("set default_transaction_read_only = on")
        with pytest.raises(SetupError, match="read-only"):
            migrate(empty)

    def test_a_connection_in_a_transaction(self, empty: Connection) -> None:
        empty.execute("begin")
        with pytest.raises(InvalidArgument, match="no transaction"):
            migrate(empty)

    def test_a_lock_that_is_not_had_in_time(
        self, db: Connection, database_url: str, package: SqlPackage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(migrations.install, "_WAIT_FOR_A_TABLE", "100ms")
        package.table("9000_more", "alter table redrive.queue add column more integer;")
        with connect(database_url) as reader:
            reader.execute("begin; select from redrive.queue")
            with pytest.raises(SetupError, match="did not get a lock in time"):
                migrate(db, folder=package.folder)
        assert migrate(db, folder=package.folder).tables == ("9000_more",)

    def test_a_superuser_stays_out_of_a_plain_owners_functions(
        self, roles: Roles, empty: Connection, package: SqlPackage
    ) -> None:
        owner = roles.create("owner", "login")
        empty.execute(
            sql.SQL("grant create on database {} to {}").format(
                sql.Identifier(empty.info.dbname), sql.Identifier(owner)
            )
        )
        with roles.connect(empty.info, owner) as theirs:
            migrate(theirs)
        package.edit_function("claim")
        migrate(empty, folder=package.folder)
        owners = empty.execute(
            "select distinct proowner::regrole::text from pg_proc "
            "where pronamespace = 'redrive'::regnamespace"
        ).fetchall()
        assert owners == [(owner,)]
