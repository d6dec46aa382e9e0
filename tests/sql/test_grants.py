"""Grants, over the whole catalogue: a role with a part can do exactly this part, and touch no table."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from redrive.errors import InvalidArgument, SetupError
from redrive.sql import PARTS, function_files
from redrive.store.database import connect
from redrive.store.grants import grant, revoke
from redrive.store.migrations import migrate
from tests.support.databases import Databases
from tests.support.layouts import NEWEST
from tests.support.packages import SqlPackage
from tests.support.roles import Roles

Connection = psycopg.Connection[Any]


@pytest.fixture
def layout() -> str:
    """Rights do not depend on pgmq."""
    return NEWEST


@pytest.fixture
def role(roles: Roles) -> str:
    return roles.create("app", "login")


@pytest.fixture
def theirs(db: Connection, roles: Roles, role: str) -> Generator[Connection]:
    """A connection as the role."""
    with roles.connect(db.info, role) as connection:
        yield connection


def functions_of(*parts: str) -> set[str]:
    return {file.name for file in function_files() if set(file.parts) & set(parts)}


def executable(db: Connection, role: str) -> set[str]:
    """The functions of schema redrive that `role` can execute: by the function's right and the schema's."""
    rows = db.execute(
        """
        select proname from pg_proc where pronamespace = 'redrive'::regnamespace
           and has_function_privilege(%(role)s, oid, 'execute')
           and has_schema_privilege(%(role)s, 'redrive', 'usage')
        """,
        {"role": role},
    ).fetchall()
    return {name for (name,) in rows}


def rights_on_relations(db: Connection, role: str) -> list[Any]:
    return db.execute(
        """
        select c.oid::regclass::text as name
          from pg_class c
         where c.relnamespace in ('redrive'::regnamespace, 'pgmq'::regnamespace)
           and case c.relkind
                    when 'S' then has_sequence_privilege(%(role)s, c.oid, 'usage, select, update')
                    when 'r' then has_table_privilege(%(role)s, c.oid,
                        'select, insert, update, delete, truncate, references, trigger')
                    when 'v' then has_table_privilege(%(role)s, c.oid, 'select, insert, update, delete')
                    else false end
        union all select 'schema pgmq' where has_schema_privilege(%(role)s, 'pgmq', 'usage, create')
        union all select 'schema redrive' where has_schema_privilege(%(role)s, 'redrive', 'create')
        """,
        {"role": role},
    ).fetchall()


class TestTheCatalogue:
    def test_public_can_execute_nothing(self, db: Connection) -> None:
        open_to_all = db.execute(
            "select oid::regprocedure::text from pg_proc "
            "cross join lateral aclexplode(coalesce(proacl, acldefault('f', proowner))) a "
            "where pronamespace = 'redrive'::regnamespace and a.grantee = 0"
        ).fetchall()
        assert open_to_all == []

    def test_every_function_looks_for_names_among_the_callers_temporary_objects_last(
        self, db: Connection
    ) -> None:
        exposed = db.execute(
            "select oid::regprocedure::text from pg_proc "
            "where pronamespace = 'redrive'::regnamespace "
            "and not coalesce(proconfig @> array['search_path=pg_catalog, pg_temp'], false)"
        ).fetchall()
        assert exposed == []

    @pytest.mark.parametrize("part", PARTS)
    def test_a_role_with_a_part_can_execute_exactly_its_functions(
        self, db: Connection, role: str, part: str
    ) -> None:
        assert executable(db, role) == set()
        grant(db, role, part)
        assert executable(db, role) == functions_of(part)
        assert rights_on_relations(db, role) == []

    def test_no_internal_function_belongs_to_a_part(self) -> None:
        assert {name for name in functions_of(*PARTS) if name.startswith("_")} == set()


class TestWhatTheyCanDo:
    @pytest.fixture(autouse=True)
    def queue(self, db: Connection) -> None:
        db.execute("select redrive.create_queue('mails')")

    @pytest.mark.parametrize(
        ("part", "statement"),
        [
            ("send", "select redrive.send('mails', '{}'::jsonb)"),
            ("work", "select * from redrive.claim('mails', 30, 1, 'w')"),
            ("send", "select redrive.receive_event('s', 'e', 't', '{}', '', '{}', 'mails')"),
            ("send", "select redrive.note_refusals('[]')"),
            ("send", "select redrive.check_inbox('{mails}')"),
            ("work", "select redrive.note_fetch('s', 'r', redrive.clock())"),
            ("work", "select * from redrive.event(gen_random_uuid())"),
            ("operate", "select * from redrive.replay_events('{}')"),
            ("operate", "select * from redrive.list_events()"),
            ("read", "select * from redrive.inbox_status()"),
            ("read", "select * from redrive.refusals()"),
            ("operate", "select redrive.create_queue('more')"),
            ("operate", "select redrive.pause_queue('mails')"),
            ("read", "select * from redrive.metrics('mails')"),
            ("read", "select * from redrive.dead_letters('mails')"),
        ],
    )
    def test_what_their_part_says_and_not_without_it(
        self, db: Connection, theirs: Connection, role: str, part: str, statement: str
    ) -> None:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            theirs.execute(statement.encode())
        grant(db, role, part)
        theirs.execute(statement.encode())

    def test_a_worker_works_a_message_to_its_end(self, db: Connection, theirs: Connection, role: str) -> None:
        grant(db, role, "work")
        db.execute("select redrive.send('mails', '{}'::jsonb, p_key => 'k')")
        [(msg_id, read_ct)] = theirs.execute(
            "select msg_id, read_ct from redrive.claim('mails', 30, 10, 'w')"
        ).fetchall()
        assert theirs.execute(
            "select verdict from redrive.settle(p_queue => 'mails', p_msg_ids => array[%s::bigint], "
            "p_read_cts => array[%s::integer], p_outcomes => array['done'], p_worker => 'w')",
            (msg_id, read_ct),
        ).fetchall() == [("ok",)]

    def test_a_schedule_is_declared_and_fired_by_who_may_send_too(
        self, db: Connection, theirs: Connection, role: str
    ) -> None:
        declare = (
            """select redrive.declare_schedules('[{"name": "s", "queue": "mails", "every_sec": 1, """
            """"tz": "UTC", "missed": "one", "overlap": "allow"}]')"""
        )
        own = declare.replace('"mails"', "null").replace('"s"', '"redrive.own"')
        fire = "select redrive.fire_schedule('{}', '{{}}')"
        grant(db, role, "work")
        theirs.execute(own.encode())
        theirs.execute(fire.format("redrive.own").encode())
        db.execute(declare.encode())
        for statement in (declare, fire.format("s")):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="schedule s sends, and role"):
                theirs.execute(statement.encode())
        grant(db, role, "send")
        for statement in (declare, fire.format("s")):
            theirs.execute(statement.encode())

    def test_a_worker_moves_an_event_that_a_receiver_recorded(
        self, db: Connection, theirs: Connection, role: str
    ) -> None:
        for part in ("send", "work"):
            grant(db, role, part)
        theirs.execute("select redrive.receive_event('s', 'e', 't', '{}', '', '{}', 'mails')")
        theirs.execute(
            "select redrive.settle('mails', array[msg_id], array[read_ct], array['ignored']) "
            "from redrive.claim('mails', 30, 10, 'w')"
        )
        assert db.execute("select status from redrive.list_events()").fetchall() == [("ignored",)]

    def test_no_table_can_be_read(self, db: Connection, theirs: Connection, role: str) -> None:
        for part in PARTS:
            grant(db, role, part)
        for table in ("redrive.queue", "redrive.schema_file", "redrive.webhook_event", "pgmq.q_mails"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                theirs.execute(f"select from {table}".encode())


class TestGrant:
    def test_it_holds_after_a_migrate_that_replaced_the_functions(
        self, db: Connection, role: str, tmp_path: Path
    ) -> None:
        grant(db, role, "work")
        package = SqlPackage(tmp_path)
        package.edit_function("claim")
        package.function(
            "twice",
            "-- twice: for this test\n-- part: work\n"
            "create function redrive.twice() returns integer language sql as 'select 2';\n"
            "revoke all on function redrive.twice() from public;\n",
        )
        assert migrate(db, folder=package.folder).functions == ("claim", "twice")
        assert executable(db, role) == functions_of("work") | {"twice"}

    def test_twice_is_fine(self, db: Connection, role: str) -> None:
        grant(db, role, "send")
        grant(db, role, "send")
        assert executable(db, role) == functions_of("send")

    def test_a_role_with_an_odd_name(self, db: Connection, roles: Roles) -> None:
        odd = roles.create('O\'Brien "x"'.replace('"', ""), "login")
        grant(db, odd, "read")
        assert executable(db, odd) == functions_of("read")

    @pytest.mark.parametrize(("part", "said"), [("admin", "part 'admin' is unknown"), ("", "is unknown")])
    def test_an_unknown_part_is_refused(self, db: Connection, role: str, part: str, said: str) -> None:
        with pytest.raises(InvalidArgument, match=said):
            grant(db, role, part)

    @pytest.mark.parametrize("name", ["nobody_like_it", "public", ""])
    def test_an_unknown_role_is_refused(self, db: Connection, name: str) -> None:
        with pytest.raises(InvalidArgument, match="does not exist"):
            grant(db, name, "send")

    def test_the_owner_needs_none(self, db: Connection) -> None:
        with pytest.raises(InvalidArgument, match="owns redrive"):
            grant(db, "postgres", "send")

    def test_only_the_owner_can(self, db: Connection, theirs: Connection, role: str) -> None:
        with pytest.raises(SetupError, match="only it can grant"):
            grant(theirs, role, "send")

    def test_a_database_without_redrive_says_migrate(self, empty_database_url: str, role: str) -> None:
        with connect(empty_database_url) as empty, pytest.raises(SetupError, match="redrive migrate"):
            grant(empty, role, "send")


class TestRevoke:
    def test_what_another_part_covers_stays(self, db: Connection, role: str) -> None:
        grant(db, role, "send")
        grant(db, role, "work")
        revoke(db, role, "work")
        assert executable(db, role) == functions_of("send")

    def test_the_last_part_takes_the_schema_with_it_and_does_not_come_back(
        self, db: Connection, role: str
    ) -> None:
        grant(db, role, "work")
        revoke(db, role, "work")
        migrate(db)
        assert executable(db, role) == set()
        usage = db.execute("select has_schema_privilege(%s, 'redrive', 'usage')", (role,)).fetchall()
        assert usage == [(False,)]


class TestRolesThatComeAndGo:
    def test_one_that_was_dropped_is_passed_over_by_name(self, db: Connection, server_url: str) -> None:
        name = f"gone_{db.info.dbname}"
        db.execute(sql.SQL("create role {}").format(sql.Identifier(name)))
        grant(db, name, "send")
        db.execute(sql.SQL("drop owned by {}").format(sql.Identifier(name)))
        db.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))
        assert migrate(db).lost_roles == (name,)

    def test_service_role_gets_work_and_send(self, databases: Databases) -> None:
        url = databases.empty()
        try:
            with connect(url) as fresh:
                fresh.execute("create role service_role")
                try:
                    migrate(fresh)
                    assert executable(fresh, "service_role") == functions_of("work", "send")
                    assert rights_on_relations(fresh, "service_role") == []
                finally:
                    fresh.execute("drop owned by service_role")
                    fresh.execute("drop role service_role")
        finally:
            databases.drop(url)
