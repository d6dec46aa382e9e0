"""Functions for PostgREST's clients: made once, closed to all but one role, never in place of another's."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from redrive.errors import ConfigError
from redrive.supabase.functions import ApiFunction, check_schema, identifier, section
from tests.support.project import Project, Projects

TEXT = """create function public.double(p_one integer, p_by integer default 2) returns integer
language sql immutable set search_path = ''
as $$ select p_one * p_by $$"""
ROLES = ("anon", "authenticated", "service_role")


def made(text: str = TEXT, *, arguments: str = "integer, integer", role: str = "service_role") -> ApiFunction:
    return ApiFunction("public", "double", arguments, text, role, "Doubles, and says so in it's own words.")


@pytest.fixture(scope="module")
def shared(projects: Projects) -> Generator[Project]:
    project = projects.make()
    yield project
    projects.drop(project)


@pytest.fixture
def owner(shared: Project) -> Generator[psycopg.Connection[Any]]:
    """In a transaction that is rolled back, with the settings that a migration begins with."""
    with psycopg.connect(shared.url) as connection:
        connection.execute("set local search_path = ''")
        yield connection
        connection.rollback()


def run(owner: psycopg.Connection[Any], *functions: ApiFunction) -> None:
    owner.execute(section("functions", functions).sql.encode())


def rows(owner: psycopg.Connection[Any]) -> list[Any]:
    return owner.execute(
        "select p.oid, p.xmin::text, p.proacl::text, obj_description(p.oid, 'pg_proc'), "
        "oidvectortypes(p.proargtypes) from pg_proc p where p.proname = 'double' order by 1"
    ).fetchall()


def wrong(owner: psycopg.Connection[Any], *functions: ApiFunction) -> list[str]:
    return [
        each.problem
        for each in section("functions", functions).checks
        if owner.execute(f"select {each.sql}".encode()).fetchone() != (True,)
    ]


def refused(owner: psycopg.Connection[Any], *functions: ApiFunction) -> str:
    with pytest.raises(psycopg.Error) as raised:
        run(owner, *functions)
    assert raised.value.sqlstate == "RD002"
    return str(raised.value.diag.message_primary)


def test_one_role_alone_may_execute_it(owner: psycopg.Connection[Any]) -> None:
    run(owner, made())
    may = "select has_function_privilege(%s, 'public.double(integer, integer)', 'execute')"
    assert [owner.execute(may, [role]).fetchone() for role in ROLES] == [(False,), (False,), (True,)]
    assert wrong(owner, made()) == []


@pytest.mark.parametrize("schema", ["order", "user", "left", "none"])
def test_a_schema_may_be_called_by_a_word_of_sql(owner: psycopg.Connection[Any], schema: str) -> None:
    text = TEXT.replace("public.", f"{identifier(schema)}.")
    function = ApiFunction(schema, "double", "integer, integer", text, "service_role", "Doubles.")
    for _ in range(2):
        run(owner, function)
        assert wrong(owner, function) == []


def test_every_word_that_is_no_name_of_a_schema_is_quoted(owner: psycopg.Connection[Any]) -> None:
    words = owner.execute("select word from pg_get_keywords() where catcode in ('R', 'T')").fetchall()
    assert [word for (word,) in words if identifier(word) == word] == []


def test_running_it_again_changes_no_row_of_the_catalogue(owner: psycopg.Connection[Any]) -> None:
    run(owner, made())
    before = rows(owner)
    owner.commit()
    run(owner, made())
    assert rows(owner) == before
    owner.execute("drop function public.double(integer, integer)")
    owner.commit()


def test_another_text_takes_the_place_of_ours(owner: psycopg.Connection[Any]) -> None:
    run(owner, made())
    other = made(TEXT.replace("*", "+"))
    assert wrong(owner, other) == [
        "function public.double(integer, integer) is missing, or not as this redrive makes it"
    ]
    run(owner, other)
    assert owner.execute("select public.double(5)").fetchone() == (7,)


def test_one_that_takes_more_takes_the_place_of_ours(owner: psycopg.Connection[Any]) -> None:
    run(owner, made())
    more = made(
        TEXT.replace("default 2)", "default 2, p_more text default '')"), arguments="integer, integer, text"
    )
    run(owner, more)
    assert [each[-1] for each in rows(owner)] == ["integer, integer, text"]


def test_what_depends_on_ours_stops_the_migration(owner: psycopg.Connection[Any]) -> None:
    run(owner, made())
    owner.execute("create view public.doubled as select public.double(4)")
    said = refused(owner, made(TEXT.replace("*", "+")))
    assert "public.double(integer, integer) cannot be replaced: view public.doubled depends on" in said


def test_a_function_of_somebody_elses_is_never_replaced(owner: psycopg.Connection[Any]) -> None:
    owner.execute(TEXT)
    assert refused(owner, made()) == (
        "function public.double(integer, integer) is there, and is not redrive's; "
        "drop or rename it, or let redrive's have another schema or name"
    )


@pytest.mark.parametrize(
    ("arguments", "types"),
    [
        ("p_one integer", "integer"),
        ("p_one text, p_by integer", "text,integer"),
        ("p_by bigint, p_one bigint, p_more integer default 1", "bigint,bigint,integer"),
    ],
)
def test_nor_is_one_made_beside_it_that_a_call_could_mean_too(
    owner: psycopg.Connection[Any], arguments: str, types: str
) -> None:
    owner.execute(
        f"create function public.double({arguments}) returns integer language sql as 'select 1'".encode()
    )
    assert (
        f"a call of function public.double(integer, integer) could mean public.double({types}) as well"
        in refused(owner, made())
    )


@pytest.mark.parametrize(
    "arguments", ["p_two integer", "p_one integer, p_three text", "integer, integer, integer"]
)
def test_one_that_no_call_could_mean_is_left_alone(owner: psycopg.Connection[Any], arguments: str) -> None:
    owner.execute(
        f"create function public.double({arguments}) returns integer language sql as 'select 1'".encode()
    )
    run(owner, made())
    assert len(rows(owner)) == 2


def test_the_articles_functions_are_said_to_be_replaceable(owner: psycopg.Connection[Any]) -> None:
    owner.execute(
        "create function public.claim_job(p_key text) returns boolean language sql as 'select true'"
    )
    text = (
        "create function public.claim_job(p_key text, p_queue text default '') returns boolean "
        "language sql as 'select true'"
    )
    ours = ApiFunction("public", "claim_job", "text, text", text, "service_role", "The article's.")
    assert "--replace-recipe" in refused(owner, ours)


def test_rights_that_were_given_away_are_found_and_taken_back(owner: psycopg.Connection[Any]) -> None:
    run(owner, made())
    for change in (
        "grant execute on function public.double to public",
        "grant execute on function public.double to anon",
        "revoke execute on function public.double from service_role",
    ):
        owner.execute(change.encode())
        assert wrong(owner, made()) == [
            "function public.double(integer, integer) is not executable by service_role alone"
        ]
        run(owner, made())
        assert wrong(owner, made()) == []


def test_a_function_that_was_dropped_or_edited_is_found(owner: psycopg.Connection[Any]) -> None:
    run(owner, made())
    owner.execute(TEXT.replace("create", "create or replace").replace("*", "-").encode())
    assert wrong(owner, made()) == [
        "function public.double(integer, integer) is missing, or not as this redrive makes it"
    ]
    owner.execute("drop function public.double(integer, integer)")
    assert len(wrong(owner, made())) == 2


@pytest.mark.parametrize("schema", ["pgmq_public", "redrive", "Public", "a-b", "pg_temp", "", "auth"])
def test_a_schema_of_somebody_elses_is_refused(schema: str) -> None:
    with pytest.raises(ConfigError, match="cannot hold functions"):
        check_schema(schema)
    assert check_schema("api") == "api"
