"""Rpcs as PostgREST calls them: who may, what is refused with which status, what a right call leaves."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

import psycopg
import pytest
from pydantic import BaseModel, Field

from examples.supabase_email import app as example
from redrive import Job, Redrive
from redrive.supabase.functions import ApiFunction
from redrive.supabase.intents import function, section
from redrive.testing import Clock, Ran, run_until_idle, use_database
from tests.support.project import USER, Project, Projects
from tests.support.temporary import caught, shadow

OTHER = UUID("00000000-0000-0000-0000-000000000002")
SECRET = "hunter2"


class Email(BaseModel):
    template: Literal["welcome", "weekly_digest"]
    user_id: UUID
    subject: str | None = Field(None, max_length=20)
    copies: int = Field(1, ge=1, le=10)
    tags: list[Annotated[str, Field(max_length=8)]] = Field([], max_length=2)
    api_token: str | None = Field(None, max_length=4)


class Note(BaseModel):
    author: str | None
    text: str


class Export(BaseModel):
    user_id: UUID
    rows: int = 1000


class Closed(BaseModel, extra="forbid"):
    n: int


class Works:
    """An app on a project, and what its handlers were given."""

    def __init__(self, url: str) -> None:
        self.app = Redrive(url, max_payload=2000)
        self.seen: list[Email] = []

        @self.app.rpc("enqueue_email", key="email:{template}:{user_id}:{date}")
        @self.app.job("email_jobs")
        async def send_email(email: Email, job: Job) -> None:
            self.seen.append(email)

        @self.app.rpc("leave_note", requester="author")
        @self.app.job("note_jobs")
        async def keep(note: Note) -> None: ...

        @self.app.rpc("order_export", role="service_role", requester=None)
        @self.app.rpc("order_missing", role="authenticated")
        @self.app.job("export_jobs")
        async def export(export: Export) -> None: ...

        @self.app.rpc("count_once", role="service_role", requester=None, key="count:{n}")
        @self.app.job("count_jobs")
        async def counted(payload: Closed) -> None: ...


def install(project: Project) -> Works:
    works = Works(project.url)
    with project.connect() as owner:
        for queue in works.app.jobs:
            owner.execute("select redrive.create_queue(%s)", [queue])
        found = section(works.app)
        assert found
        owner.execute(found.sql.encode())
        wrong = [
            c.problem for c in found.checks if owner.execute(f"select {c.sql}".encode()).fetchone() != (True,)
        ]
        assert wrong == []
    return works


@pytest.fixture(scope="module")
def project(projects: Projects) -> Generator[Project]:
    project = projects.make(migrated=True)
    yield project
    projects.drop(project)


@pytest.fixture(scope="module")
def works(project: Project) -> Works:
    return install(project)


def types(made: ApiFunction) -> dict[str, str]:
    """By parameter, which stand one a line."""
    taken = made.text.partition(f".{made.name}(\n")[2].partition(")\nreturns bigint")[0]
    declared = (line.strip().partition(" default ")[0].partition(" ") for line in taken.splitlines())
    return {name: sql for name, _, sql in declared}


def call(
    project: Project, works: Works, name: str, body: Any, *, role: str = "authenticated", **who: Any
) -> int:
    """``POST /rpc/NAME`` with `body` as JSON: members become arguments, by their names."""
    text = body if isinstance(body, str) else json.dumps(body)
    known, given = types(function(works.app.rpcs[name])), list(json.loads(text))
    named = ", ".join(f"{each} => a.{each}" for each in given)
    typed = ", ".join(f"{each} {known[each]}" for each in given) or "none text"
    query = f"select public.{name}({named}) from json_to_record(%s::json) as a ({typed})"
    with project.api(role, **who) as request:
        row = request.execute(query.encode(), [text]).fetchone()
        assert row
        return row[0]


def refused(project: Project, works: Works, name: str, body: Any, **who: Any) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as raised:
        call(project, works, name, body, **who)
    return raised.value


def messages(project: Project, queue: str) -> list[Any]:
    return project.read(f"select msg_id, message, headers from pgmq.q_{queue} order by msg_id")


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({}, "p_template is missing: give one of: welcome, weekly_digest", "p_template"),
    ({"p_template": None}, "p_template is missing: give one of: welcome, weekly_digest", "p_template"),
    ({"p_template": "newsletter"}, "p_template must be one of: welcome, weekly_digest", "p_template"),
    ({"p_subject": "x" * 21}, "p_subject must have at most 20 characters", "p_subject"),
    ({"p_copies": 0}, "p_copies must be at least 1", "p_copies"),
    ({"p_copies": 11}, "p_copies must be at most 10", "p_copies"),
    ({"p_copies": None}, "p_copies must not be null: give a whole number", "p_copies"),
    ({"p_tags": ["a", "b", "c"]}, "p_tags must have at most 2 items", "p_tags"),
    ({"p_tags": ["a", None]}, "each item of p_tags must not be null", "p_tags"),
    ({"p_tags": ["much too long"]}, "each item of p_tags must have at most 8 characters", "p_tags"),
    ({"p_api_token": SECRET}, "p_api_token must have at most 4 characters", "p_api_token"),
]


@pytest.mark.parametrize(("body", "message", "parameter"), WRONG)
def test_a_wrong_value_is_a_400_that_names_the_parameter_and_the_rule(
    project: Project, works: Works, body: dict[str, Any], message: str, parameter: str
) -> None:
    given = body if "p_template" in body or not body else {"p_template": "welcome"} | body
    error = refused(project, works, "enqueue_email", given)
    assert (error.sqlstate, error.diag.message_primary) == ("PT400", message)
    assert error.diag.message_detail == f"parameter {parameter}"
    told = (error.diag.message_primary, error.diag.message_detail, error.diag.message_hint)
    assert SECRET not in str(told)
    assert messages(project, "email_jobs") == []


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ('{"p_template": "welcome", "p_copies": "many"}', "22P02"),
        ('{"p_template": "welcome", "p_copies": 9223372036854775808}', "22003"),
        ('{"p_template": "\\u0000"}', "22P05"),
        ('{"p_template": "welcome", "p_tags": "a"}', "22P02"),
    ],
)
def test_what_is_no_value_of_the_type_is_postgres_own_400(
    project: Project, works: Works, body: str, state: str
) -> None:
    assert refused(project, works, "enqueue_email", body).sqlstate == state


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ({"user": None}, "enqueue_email needs a user, and the request has none"),
        ({"claims": {"sub": ""}}, "enqueue_email needs a user, and the token's sub is no UUID"),
        ({"claims": {"sub": "auth0|42"}}, "enqueue_email needs a user, and the token's sub is no UUID"),
        ({"claims": {"sub": {"id": 1}}}, "enqueue_email needs a user, and the request has none"),
        ({"claims": {"sub": str(USER) + "\n"}}, "enqueue_email needs a user, and the token's sub is no UUID"),
        ({"claims": {"sub": "x" + str(USER)}}, "enqueue_email needs a user, and the token's sub is no UUID"),
    ],
)
def test_without_a_user_it_is_a_401(
    project: Project, works: Works, who: dict[str, Any], message: str
) -> None:
    error = refused(project, works, "enqueue_email", {"p_template": "welcome"}, **who)
    assert (error.sqlstate, error.diag.message_primary) == ("PT401", message)
    assert error.diag.message_hint == "send the access token of a signed-in user"


@pytest.mark.parametrize(
    "sub", [{"id": 1}, ["x"], 7, True, "", " ", "x\n", " x", "a\tb", "x" * 256, "\u00a0"]
)
def test_nor_is_anything_but_printable_text_a_user(project: Project, works: Works, sub: object) -> None:
    assert refused(project, works, "leave_note", {"p_text": "x"}, claims={"sub": sub}).sqlstate == "PT401"


def test_a_key_that_a_transaction_holds_is_a_503(project: Project, works: Works) -> None:
    with project.api("authenticated", user=OTHER) as holder:
        holder.execute("select public.enqueue_email(p_template => 'weekly_digest')")
        error = refused(project, works, "enqueue_email", {"p_template": "weekly_digest"}, user=OTHER)
        assert error.sqlstate == "PT503"
        assert error.diag.message_primary == (
            "queue email_jobs or the key is held by a transaction that has not ended; nothing was sent"
        )
        holder.rollback()


def test_nobody_but_its_role_may_call_it(project: Project, works: Works) -> None:
    for role in ("anon", "service_role"):
        error = refused(project, works, "enqueue_email", {"p_template": "welcome"}, role=role)
        assert error.sqlstate == "42501"
    for role in ("anon", "authenticated"):
        body = {"p_user_id": str(OTHER)}
        assert refused(project, works, "order_export", body, role=role).sqlstate == "42501"


def test_it_runs_nothing_of_the_callers_own(project: Project, works: Works) -> None:
    with project.api("authenticated", user=OTHER) as request:
        shadow(request)
        request.execute("select public.enqueue_email(p_template => 'welcome', p_tags => array['a'])")
        assert caught(request) is None
        request.rollback()


def test_a_message_beyond_the_apps_limit_is_a_413(project: Project, works: Works) -> None:
    error = refused(project, works, "leave_note", {"p_text": "x" * 2000})
    assert (error.sqlstate, error.diag.message_primary) == ("PT413", "the message is larger than 2,000 bytes")


async def test_a_right_call_is_one_message_of_the_callers_that_completes_once(
    project: Project, works: Works
) -> None:
    with project.admin() as admin:
        admin.execute(f"alter database {project.name} set timezone = 'Asia/Kolkata'".encode())
    # There it is the day after.
    Clock(project.url).set(datetime(2031, 6, 15, 20, tzinfo=UTC))
    body = {"p_template": "welcome", "p_tags": ["a"], "p_subject": "Grüße"}
    first, again = (call(project, works, "enqueue_email", body) for _ in range(2))
    key = f"email:welcome:{USER}:2031-06-15"
    ((found, message, headers),) = messages(project, "email_jobs")
    assert first == again == found
    assert message == {
        "template": "welcome", "user_id": str(USER), "subject": "Grüße", "copies": 1, "tags": ["a"],
        "api_token": None, "idempotency_key": key,
    }  # fmt: skip
    assert headers == {"x-redrive-key": key}

    other = call(project, works, "enqueue_email", {"p_template": "welcome"}, user=OTHER)
    with use_database(works.app, project.url):
        assert await run_until_idle(works.app, queues=["email_jobs"]) == Ran(done=2)
        assert [each.user_id for each in works.seen] == [USER, OTHER] and other != first
        assert call(project, works, "enqueue_email", body) == first
        assert await run_until_idle(works.app, queues=["email_jobs"]) == Ran()
    assert project.read("select count(*) from pgmq.a_email_jobs")[0][0] == 2


def test_the_older_claim_of_the_user_is_read_first(project: Project, works: Works) -> None:
    with project.api("authenticated") as request:
        request.execute("select set_config('request.jwt.claim.sub', 'someone else', true)")
        (found,) = request.execute("select public.leave_note(p_text => 'x')").fetchone() or (None,)
    assert messages(project, "note_jobs")[-1][:2] == (found, {"author": "someone else", "text": "x"})


def test_a_caller_without_a_user_has_every_field_as_a_parameter(project: Project, works: Works) -> None:
    found = call(project, works, "order_export", {"p_user_id": str(OTHER)}, role="service_role")
    assert (found, {"user_id": str(OTHER), "rows": 1000}, None) in messages(project, "export_jobs")


def test_a_queue_that_is_gone_is_a_503(projects: Projects, works: Works) -> None:
    project = projects.make(migrated=True)
    with project.connect() as owner:
        owner.execute(function(works.app.rpcs["order_missing"]).text.encode())
    error = refused(project, works, "order_missing", {})
    assert error.sqlstate == "PT503"
    assert error.diag.message_primary == "queue export_jobs cannot take the message; nothing was sent"
    assert (
        error.diag.message_detail == "queue export_jobs does not exist; run: redrive queue create export_jobs"
    )
    projects.drop(project)


@pytest.mark.parametrize("layout", ["1.4.4", "1.13.0"])
async def test_with_another_pgmq_and_without_schema_auth_it_is_the_same(
    projects: Projects, layout: str
) -> None:
    project = projects.make(layout, migrated=True)
    with project.admin() as admin:
        admin.execute("drop schema auth cascade")
    works = install(project)
    ids = {call(project, works, "enqueue_email", {"p_template": "welcome"}) for _ in range(2)}
    assert len(ids) == 1
    with use_database(works.app, project.url):
        assert await run_until_idle(works.app) == Ran(done=1)
    assert {call(project, works, "enqueue_email", {"p_template": "welcome"})} == ids
    projects.drop(project)


def test_a_key_that_an_older_pgmq_has_no_place_for_is_a_503(projects: Projects) -> None:
    """No headers there, and a payload that takes no other member."""
    project = projects.make("1.4.4", migrated=True)
    error = refused(project, install(project), "count_once", {"p_n": 1}, role="service_role")
    assert error.sqlstate == "PT503" and "pgmq without headers" in str(error.diag.message_detail)
    projects.drop(project)


def test_the_examples_function_takes_what_its_text_says(projects: Projects) -> None:
    project = projects.make(migrated=True)
    found = section(example)
    assert found
    with project.connect() as owner:
        owner.execute("select redrive.create_queue('email_jobs')")
        owner.execute(found.sql.encode())
    with project.api("authenticated") as request:
        call = (
            "select public.enqueue_email(p_template => 'export_ready', p_copies_to => array['a@b.example'])"
        )
        request.execute(call.encode())
        with pytest.raises(psycopg.Error, match="each item of p_copies_to must match"):
            request.execute(call.replace("@", "").encode())
    projects.drop(project)


def test_plpgsql_check_finds_nothing(project: Project, works: Works) -> None:
    with project.admin() as admin:
        admin.execute("create extension if not exists plpgsql_check")
        for name in works.app.rpcs:
            found = admin.execute(
                "select * from plpgsql_check_function(%s::regproc, extra_warnings => true, "
                "performance_warnings => true, security_warnings => true)",
                [f"public.{name}"],
            ).fetchall()
            assert found == []
        admin.execute("drop extension plpgsql_check")
