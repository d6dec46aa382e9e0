"""Who may do what, over everything that redrive makes in a project, as the catalogue has it.

Nothing is listed here that a new function or table could be missing from: the lists are of what is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from redrive.sql import function_files
from redrive.supabase import wrappers
from tests.support.catalogue import made, rights
from tests.support.project import OWNER, Project, Projects
from tests.support.whole_app import INTENTS, OPTIONS, app, apply

# What the articles' clients know, and what their two-phase keys, leases and fenced reports need.
WRAPPERS = {
    "read_with_dlq", "queue_archive", "claim_job", "begin_job", "finish_job", "abandon_job",
    "claim_worker_lease", "acquire_lease", "renew_lease", "release_lease", "lease_is_mine",
    "extend", "release", "settle", "backoff", "receive_event", "check_queue_health",
}  # fmt: skip
CLIENTS = ("anon", "authenticated")
SLIPS = {
    "function slip()": "create function public.slip() returns integer language sql as 'select 1'",
    "select on slip": "create table public.slip (id int); grant select (id) on public.slip to authenticated",
    "sequence slip": "create sequence public.slip; grant usage on sequence public.slip to authenticated",
    "select on redrive.slip": "create view redrive.slip as select * from redrive.queue; "
    "grant select on redrive.slip to public; grant usage on schema redrive to authenticated",
    "usage on schema redrive": "grant usage on schema redrive to authenticated",
    "create on schema slip": "create schema slip; grant create on schema slip to authenticated",
    "type slip": "create type public.slip as (id bigint)",
}


def may(project: Project, role: str) -> set[str]:
    with project.connect() as owner:
        return rights(owner, role, owner=OWNER)


def names(granted: set[str], kind: str = "function") -> set[str]:
    """Of "function public.claim_job(text)" the name, without the schema where it is `public`."""
    return {re.sub(r"\(.*", "", each).removeprefix(f"{kind} ") for each in granted if each.startswith(kind)}


def inbox_tables(project: Project, parts: tuple[str, ...]) -> Iterator[str]:
    rows = project.read("select schema_name, table_name, part, rights from redrive.api_table")
    for schema, table, part, granted in rows:
        if part in parts:
            yield from (f"{right} on {schema}.{table}" for right in granted)


def test_anon_may_use_nothing_at_all(whole: Project) -> None:
    assert may(whole, "anon") == set()


def test_authenticated_may_call_the_declared_intents_alone(whole: Project) -> None:
    granted = may(whole, "authenticated")
    assert names(granted) == {*INTENTS}
    assert {each for each in granted if not each.startswith("function ")} == set()


def test_service_role_may_call_the_wrappers_its_intents_and_two_parts_of_redrive(whole: Project) -> None:
    granted = may(whole, "service_role")
    parts = {f"redrive.{file.name}" for file in function_files() if {"work", "send"} & set(file.parts)}
    intents = {rpc.name for rpc in app.rpcs.values() if rpc.role == "service_role"}
    assert names(granted) == WRAPPERS | intents | parts

    rest = {each for each in granted if not re.match("function |type ", each)}
    schemas = {"usage on schema redrive", *(f"usage on schema {each}" for each in ("fastpix",))}
    assert rest == schemas | set(inbox_tables(whole, ("work", "send")))


def test_the_wrappers_are_those_that_the_section_lists(whole: Project) -> None:
    assert OPTIONS.api_schema is not None
    listed = wrappers.section(OPTIONS.api_schema).objects
    assert {each.removeprefix("function public.").partition("(")[0] for each in listed} == WRAPPERS


def test_nobody_else_may_use_anything(whole: Project) -> None:
    """A role without memberships has what PUBLIC has."""
    with whole.admin() as admin:
        admin.execute("create role nobody_at_all")
        try:
            assert rights(admin, "nobody_at_all", owner=OWNER) == set()
        finally:
            admin.execute("drop role nobody_at_all")


def test_the_tables_of_queues_have_row_security(whole: Project) -> None:
    """Those of schema redrive have none: whoever may read them would see nothing, without a word."""
    unguarded = whole.read(
        "select c.oid::regclass::text from pg_class c where c.relnamespace = 'pgmq'::regnamespace "
        "and c.relkind in ('r', 'p') and c.relname ~ '^[qa]_' and not c.relrowsecurity"
    )
    assert unguarded == []


@pytest.mark.parametrize("role", CLIENTS)
def test_what_is_not_allowed_is_refused_when_it_is_tried(whole: Project, role: str) -> None:
    """By doing: each function called with nulls, each table read and written, each sequence drawn from."""
    with whole.connect() as owner:
        everything = made(owner, owner=OWNER)
        calls = owner.execute(
            "select 'function ' || oid::regprocedure, format('select %s(%s)', oid::regproc, "
            "(select string_agg(format('null::%s', format_type(t, null)), ', ' order by n) "
            "   from unnest(proargtypes) with ordinality a(t, n))) "
            "from pg_proc where proowner = current_user::regrole and prokind = 'f' "
            "and prorettype <> 'trigger'::regtype"
        ).fetchall()
    statements = {name: call for name, call in calls if names({name}) & {*INTENTS} == set()}
    for name in everything - set(statements):
        kind, _, object = name.partition(" ")
        if kind == "table":
            statements[name] = f"select * from {object}"
            statements[f"{name} (write)"] = f"delete from {object} where true"
        elif kind == "sequence":
            statements[name] = f"select nextval('{object}')"
    assert len(statements) > 200

    allowed = []
    with whole.api(role) as request:
        for name, statement in sorted(statements.items()):
            try:
                with request.transaction():
                    request.execute(statement.encode())
                allowed.append(name)
            except psycopg.errors.InsufficientPrivilege:
                pass
            except psycopg.Error as error:
                allowed.append(f"{name}: {error}")
    assert allowed == []


def test_a_pgmq_public_that_is_there_stays_as_it_is_and_opens_nothing_of_ours(projects: Projects) -> None:
    exposed = projects.make()
    try:
        # As the dashboard's switch makes it: who may call what in pgmq is Supabase's and the user's affair.
        exposed.read("select standin.expose_queues()")
        theirs = (
            "select p.oid, p.xmin::text, p.proacl::text from pg_proc p "
            "where p.pronamespace = 'pgmq_public'::regnamespace order by 1"
        )
        before = exposed.read(theirs)
        apply(exposed)
        assert exposed.read(theirs) == before != []
        for role, intents in (("anon", set[str]()), ("authenticated", {*INTENTS})):
            ours = {each for each in may(exposed, role) if not re.search(r"\bpgmq(_public)?\b", each)}
            assert names(ours) == intents
            assert len(ours) == len(intents)
            with exposed.api(role) as request, pytest.raises(psycopg.errors.InsufficientPrivilege):
                request.execute("select pgmq_public.send('email_jobs', '{}')")
        with exposed.api("service_role") as request:
            request.execute("select pgmq_public.send('email_jobs', '{}')")
            assert request.execute("select * from public.read_with_dlq('email_jobs', 30, 1)").fetchall()
    finally:
        projects.drop(exposed)


def test_what_is_kept_of_the_recipe_is_closed_to_clients_whoever_could_read_it_before(
    projects: Projects,
) -> None:
    replaced = projects.make()
    try:
        # As projects had them whose tables were granted to everyone by themselves.
        replaced.read(
            "create table public.processed_jobs (idempotency_key text primary key, number bigserial); "
            "create table public.worker_leases (worker_name text primary key, lease_until timestamptz); "
            "grant all on all tables in schema public to anon, authenticated, service_role; "
            "grant select (idempotency_key) on public.processed_jobs to public, anon"
        )
        apply(replaced, replace(OPTIONS, replace_recipe=True))
        with replaced.connect() as owner:
            kept = {each for each in made(owner, owner=OWNER) if "_before_redrive" in each}
        assert kept == {"table processed_jobs_before_redrive", "table worker_leases_before_redrive"}
        assert may(replaced, "anon") == set()
        granted = may(replaced, "authenticated")
        assert names(granted) == {*INTENTS}
        assert len(granted) == len(INTENTS)
    finally:
        projects.drop(replaced)


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_any_kind_would_be_found(projects: Projects, whole: Project, slip: str) -> None:
    copy = projects.copy(whole)
    try:
        before = may(copy, "authenticated")
        copy.read(SLIPS[slip])
        assert slip in may(copy, "authenticated") - before
    finally:
        projects.drop(copy)
