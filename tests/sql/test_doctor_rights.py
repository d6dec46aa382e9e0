"""The doctor on rights: each fault is made on a real database, named, and mended by what is printed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from redrive.store.grants import grant
from redrive.watch.doctor import Surroundings
from tests.support.databases import Databases
from tests.support.examining import Doctor
from tests.support.roles import Roles

Connection = psycopg.Connection[Any]


@pytest.fixture
def db(doctor: Doctor) -> Connection:
    """A connection as the owner."""
    return doctor.db


@pytest.fixture
def role(roles: Roles) -> str:
    return roles.create("crew", "login")


@pytest.fixture(scope="module")
def owned(databases: Databases, roles: Roles) -> Generator[Doctor]:
    """A database whose schemas belong to a role that is no superuser, with a queue; each test mends it."""
    owner = roles.create("owner", "login")
    admin_url = databases.empty()
    with psycopg.connect(admin_url, autocommit=True) as admin:
        admin.execute(f'alter database "{admin.info.dbname}" owner to {owner}'.encode())
        url = roles.url(admin.info, owner)
    doctor = Doctor(url, admin_url)
    doctor.command("migrate", "--yes")
    doctor.command("queue", "create", "jobs")
    yield doctor
    doctor.close()
    databases.drop(admin_url)


class TestTheWorkersRole:
    def test_what_a_role_lacks_is_named_and_granted_as_printed(
        self, doctor: Doctor, db: Connection, role: str
    ) -> None:
        around = Surroundings(role=role)
        found = doctor.one("role_rights", around=around)
        assert found.severity == "error" and not found.safe
        assert f"role {role} cannot work: it lacks usage on schema redrive" in found.problem
        assert f"redrive grant {role} work" in found.fix
        assert found.fix[-1].startswith("grant execute on function redrive.abandon_job(text,text,text), ")

        doctor.follow(found)
        assert doctor.is_fine("role_rights", around=around)

    def test_a_role_whose_name_has_to_be_quoted(self, doctor: Doctor, roles: Roles) -> None:
        around = Surroundings(role=roles.create("odd crew", "login"))
        doctor.follow(doctor.one("role_rights", around=around))
        assert doctor.is_fine("role_rights", around=around)

    def test_the_grants_alone_are_enough_too(self, doctor: Doctor, db: Connection, role: str) -> None:
        around = Surroundings(role=role)
        for line in doctor.one("role_rights", around=around).fix:
            if line.endswith(";"):
                db.execute(line.encode())
        assert doctor.is_fine("role_rights", around=around)

    def test_one_function_that_was_taken_away(self, doctor: Doctor, db: Connection, role: str) -> None:
        grant(db, role, "work")
        db.execute(f"revoke all on function redrive.settle from {role}".encode())
        found = doctor.one("role_rights", around=Surroundings(role=role))
        assert "it lacks execute on redrive.settle(" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("role_rights", around=Surroundings(role=role))

    def test_one_that_only_looks_is_asked_whose_rights_were_meant(
        self, doctor: Doctor, db: Connection, role: str, roles: Roles
    ) -> None:
        grant(db, role, "read")
        found = Doctor(roles.url(db.info, role)).one("role_rights")
        assert found.severity == "note" and "name the workers' with --role" in found.problem
        assert doctor.one("role_rights", around=Surroundings(role=role)).severity == "error"

    def test_a_role_that_does_not_exist(self, doctor: Doctor) -> None:
        found = doctor.one("role_rights", around=Surroundings(role="nobody here"))
        assert (found.problem, found.fix) == (
            'role "nobody here" does not exist',
            ('create role "nobody here" login;',),
        )
        # A word that the server alone knows for a keyword.
        found = doctor.one("role_rights", around=Surroundings(role="current_user"))
        assert found.fix == ('create role "current_user" login;',)

    def test_the_owner_may_do_everything(self, doctor: Doctor, owned: Doctor) -> None:
        assert doctor.is_fine("role_rights") and owned.is_fine("role_rights")


class TestRecordedGrants:
    def test_what_was_taken_away_behind_redrives_back_is_granted_again(
        self, doctor: Doctor, db: Connection, role: str
    ) -> None:
        grant(db, role, "send")
        db.execute(f"revoke usage on schema redrive from {role}".encode())
        db.execute(f"revoke all on function redrive.send from {role}".encode())
        found = doctor.one("recorded_grants")
        assert f"role {role} was granted send, and lacks 2 of the rights" in found.problem and found.safe
        doctor.mend("recorded_grants")

    def test_a_role_that_is_gone_is_forgotten(self, doctor: Doctor, db: Connection) -> None:
        db.execute("insert into redrive.role_grant values ('who was here', 'work')")
        found = doctor.one("recorded_grants")
        assert 'role "who was here" was granted work and does not exist any more' in found.problem
        doctor.mend("recorded_grants")


class TestRowSecurity:
    def test_rows_hidden_from_the_owner_of_redrive_are_an_error_and_no_empty_queue(
        self, owned: Doctor
    ) -> None:
        with psycopg.connect(owned.admin_url, autocommit=True) as admin:
            admin.execute("alter table pgmq.q_jobs owner to postgres")
            admin.execute("alter table pgmq.q_jobs enable row level security")
        found = owned.one("row_security")
        assert found.severity == "error" and not found.safe
        assert "row security on pgmq.q_jobs and no policy" in found.problem
        assert "looks like an empty table" in found.problem
        Doctor(owned.admin_url).follow(found)
        assert owned.is_fine("row_security")

    def test_forced_row_security(self, owned: Doctor) -> None:
        with psycopg.connect(owned.admin_url, autocommit=True) as admin:
            admin.execute("alter table pgmq.a_jobs enable row level security")
            admin.execute("alter table pgmq.a_jobs force row level security")
        found = owned.one("row_security")
        assert found.fix == ("alter table pgmq.a_jobs no force row level security;",)
        owned.follow(found)
        assert owned.is_fine("row_security")

    def test_rows_hidden_from_a_role_that_may_read_the_table(self, owned: Doctor, role: str) -> None:
        around = Surroundings(role=role)
        assert owned.is_fine("row_security", around=around)
        with psycopg.connect(owned.url, autocommit=True) as owner:
            owner.execute(f"grant select on pgmq.q_jobs to {role}".encode())
        found = owned.one("row_security", around=around)
        assert found.severity == "warning" and f"can be seen by {role}, the workers' role" in found.problem
        owned.follow(found)
        [left] = owned.all("row_security", around=around) or [None]
        assert left is None or "a policy decides" in left.problem


class TestTheOwnersRights:
    def test_a_queue_table_that_belongs_to_somebody_else(self, owned: Doctor) -> None:
        with psycopg.connect(owned.admin_url, autocommit=True) as admin:
            admin.execute("alter table pgmq.q_jobs owner to postgres")
        found = owned.one("owner_rights")
        assert "may not select, insert, update, delete on pgmq.q_jobs, which belongs to" in found.problem
        Doctor(owned.admin_url).follow(found)
        assert owned.is_fine("owner_rights")


class TestWhatAnybodyMayDo:
    def test_functions_that_everybody_may_execute(self, doctor: Doctor, db: Connection) -> None:
        db.execute("grant execute on function redrive.clock() to public")
        found = doctor.one("open_functions")
        assert "everybody (PUBLIC) may execute redrive.clock()" in found.problem and found.safe
        doctor.mend("open_functions")

    def test_a_table_that_everybody_may_read(self, doctor: Doctor, db: Connection) -> None:
        db.execute("grant select, insert on redrive.attempt to public")
        found = doctor.one("open_tables")
        assert found.problem == "everybody (PUBLIC) may insert, select on redrive.attempt" and found.safe
        doctor.mend("open_tables")

    def test_a_queues_table_that_everybody_may_read_is_the_owners_to_decide(
        self, doctor: Doctor, db: Connection
    ) -> None:
        doctor.command("queue", "create", "jobs")
        db.execute("grant select on pgmq.q_jobs to public")
        found = doctor.one("open_tables")
        assert found.subject == "pgmq.q_jobs" and not found.safe
        doctor.follow(found)
        assert doctor.is_fine("open_tables")

    @pytest.mark.parametrize(
        "body",
        [
            "language sql security definer as $$ select redrive.send('jobs', '{}') $$",
            "language sql security definer begin atomic select redrive.send('jobs'::text, '{}'::jsonb); end",
            """language sql security definer as $$ select "redrive" . send('jobs', '{}') $$""",
            "language sql security definer set search_path = redrive as $$ select send('jobs', '{}') $$",
        ],
    )
    def test_a_function_elsewhere_that_lends_out_rights(
        self, doctor: Doctor, db: Connection, body: str
    ) -> None:
        db.execute(f"create function public.enqueue(p text) returns bigint {body}".encode())
        db.execute(
            "create function public.harmless() returns int language sql security definer as 'select 1'"
        )
        found = doctor.one("definer_functions")
        assert "everybody (PUBLIC) may execute public.enqueue(text), a SECURITY DEFINER" in found.problem
        doctor.follow(found)
        assert doctor.is_fine("definer_functions")
        db.execute("drop function public.enqueue, public.harmless")


class TestOnSupabase:
    def test_an_rpc_is_for_the_one_role_it_was_made_for(self, supabase: Doctor) -> None:
        supabase.sql(
            "create function public.enqueue() returns bigint language sql security definer "
            "set search_path = '' as $$ select redrive.send('jobs', '{}') $$"
        )
        supabase.sql("revoke all on function public.enqueue() from public, anon, authenticated")
        supabase.sql("grant execute on function public.enqueue() to authenticated")
        assert "role authenticated may execute public.enqueue()" in supabase.one("definer_functions").problem
        supabase.sql("comment on function public.enqueue() is 'Enqueues. (redrive 0123456789abcdef)'")
        assert supabase.is_fine("definer_functions")
        supabase.sql("grant execute on function public.enqueue() to anon")
        assert "role anon and role authenticated may" in supabase.one("definer_functions").problem
        supabase.sql("revoke execute on function public.enqueue() from anon, authenticated")
        supabase.sql("grant execute on function public.enqueue() to public")
        assert "everybody (PUBLIC) may" in supabase.one("definer_functions").problem
        supabase.sql("drop function public.enqueue()")

    """Default privileges let anon and authenticated at every function of a schema."""

    def test_anon_is_anybody(self, supabase: Doctor) -> None:
        supabase.sql("grant execute on function redrive.list_queues() to anon")
        supabase.sql("grant select on redrive.queue to anon, authenticated")
        assert "role anon may execute redrive.list_queues()" in supabase.one("open_functions").problem
        assert {found.problem for found in supabase.all("open_tables")} == {
            "role anon may select on redrive.queue",
            "role authenticated may select on redrive.queue",
        }
        supabase.mend("open_functions")
        supabase.mend("open_tables")

    def test_what_anon_may_as_a_member_of_another_role(self, supabase: Doctor, role: str) -> None:
        grant(supabase.db, role, "send")
        supabase.sql(f"grant select (queue) on redrive.queue to {role}")
        supabase.sql(f"grant {role} to anon")
        found = supabase.one("open_functions")
        assert f"role anon is a member of {role}, and may execute " in found.problem and not found.safe
        assert "read or write 1 of these tables through it" in supabase.one("open_tables").problem
        supabase.follow(found)
        assert supabase.is_fine("open_functions") and supabase.is_fine("open_tables")
        supabase.sql(f"revoke select (queue) on redrive.queue from {role}")


def test_without_rights_on_redrives_tables_it_says_what_was_not_checked(
    doctor: Doctor, db: Connection, role: str, roles: Roles
) -> None:
    found = Doctor(roles.url(db.info, role)).one("queue_tables")
    assert found.severity == "not checked"
    assert (
        found.problem == "permission denied for schema redrive; run the doctor as the owner of schema redrive"
    )
