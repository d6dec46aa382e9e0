"""What may be declared as a function for PostgREST's clients, and what is refused where it is declared."""

from __future__ import annotations

from typing import Any, Literal, cast
from uuid import UUID

import pytest
from pydantic import BaseModel, RootModel

from redrive import ConfigError, Job, Redrive
from redrive.app.intents import WRAPPERS
from redrive.sql import function_files
from redrive.supabase import wrappers


class Email(BaseModel):
    template: Literal["welcome", "weekly_digest"]
    user_id: UUID
    to: str = ""


@pytest.fixture
def app() -> Redrive:
    return Redrive("postgresql://nowhere/none")


def declared(app: Redrive, name: str = "enqueue_email", payload: Any = Email, **options: Any) -> None:
    async def send_email(email: Any, job: Job) -> None: ...

    send_email.__annotations__["email"] = payload
    app.rpc(name, **options)(app.job("email_jobs")(send_email))


def test_a_job_stays_the_job_it_was(app: Redrive) -> None:
    @app.rpc("enqueue_email", key="email:{template}:{user_id}:{date}")
    @app.rpc("enqueue_for_user", role="service_role", requester=None)
    @app.job("email_jobs")
    async def send_email(email: Email, job: Job) -> None: ...

    assert send_email.queue == "email_jobs" and list(app.jobs) == ["email_jobs"]
    assert {name: (each.role, each.requester, each.key) for name, each in app.rpcs.items()} == {
        "enqueue_for_user": ("service_role", None, None),
        "enqueue_email": ("authenticated", "user_id", "email:{template}:{user_id}:{date}"),
    }
    assert app.rpcs["enqueue_email"].job is send_email.definition


def test_a_second_one_of_a_name_is_refused_naming_both_jobs(app: Redrive) -> None:
    declared(app)

    @app.job("other_jobs")
    async def other(email: Email) -> None: ...

    with pytest.raises(
        ConfigError, match=r"rpc 'enqueue_email' sends to .*send_email.*; .*other.* a second one"
    ):
        app.rpc("enqueue_email")(other)


@pytest.mark.parametrize("name", ["", "Enqueue", "1st", "enqueue-email", "e" * 64, "_hidden", "a.b", "été"])
def test_a_name_that_no_function_should_have_is_refused(app: Redrive, name: str) -> None:
    with pytest.raises(ConfigError, match="a name begins with a lower-case letter"):
        app.rpc(name)


def test_so_is_a_decorator_without_a_name(app: Redrive) -> None:
    with pytest.raises(ConfigError, match="say the function's name"):
        app.rpc(cast("Any", lambda: None))


@pytest.mark.parametrize("name", ["claim_job", "read_with_dlq", "settle"])
def test_a_workers_function_is_no_rpcs_name(app: Redrive, name: str) -> None:
    with pytest.raises(ConfigError, match="a function that redrive makes for workers"):
        app.rpc(name)


def test_the_names_kept_for_workers_are_those_of_the_wrappers() -> None:
    made = {
        each.removeprefix("function public.").split("(")[0] for each in wrappers.section("public").objects
    }
    assert made == WRAPPERS
    assert {file.name for file in function_files()} >= WRAPPERS


def test_only_a_typed_job_of_this_app_has_parameters(app: Redrive) -> None:
    with pytest.raises(ConfigError, match=r"is no job; put @app.rpc above its @app.job"):
        app.rpc("enqueue")(lambda: None)
    with pytest.raises(ConfigError, match="a job of another app"):
        Redrive("x").rpc("enqueue")(app.job("others")(lambda: None))
    for payload in (dict, Any, Email | None, RootModel[list[int]], "missing"):
        with pytest.raises(ConfigError, match=r"its payload is no pydantic model|cannot be found"):
            declared(Redrive("x"), payload=payload)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"role": "anon"}, "anon has no user to be stamped"),
        ({"role": "public"}, "'public' is no role that can be granted"),
        ({"role": "pg_monitor"}, "'pg_monitor' is no role"),
        ({"role": "Admin"}, "'Admin' is no role"),
        ({"role": "service_role"}, "service_role has no user that could be user_id"),
        ({"requester": None}, "only service_role calls without a user"),
        (
            {"requester": "owner"},
            "Email has no field 'owner' for the caller.*there are template, user_id, to",
        ),
        ({"requester": "template"}, "its field template takes the caller's id; make it a UUID or str"),
        ({"key": ""}, "its key is empty"),
        (
            {"key": "email:{templat}"},
            r"names \{templat\}; there are \{template\}, \{user_id\}, \{to\}, \{date\}",
        ),
        ({"key": "email:{}"}, r"names \{\}"),
        ({"key": "email:{template.value}"}, r"names \{template.value\}"),
        ({"key": "email:{template!r}"}, r"formats template; write \{template\} alone"),
        ({"key": "email:{date:%Y}"}, "formats date"),
        ({"key": "email:{template"}, "is no template"),
        ({"key": "email:{template}:{date}"}, r"lacks \{user_id\}: a user could take the key of another's"),
        ({"key": "once"}, r"lacks \{user_id\}"),
        ({"key": "{user_id}:{template}"}, "begins with a field, and keys of msg: are redrive's own"),
        ({"key": "msg:{user_id}"}, "begins with 'msg:', and keys of msg: are"),
        ({"key": "m{user_id}"}, "begins with 'm'"),
    ],
)
def test_what_cannot_work_is_refused_where_it_stands(
    app: Redrive, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ConfigError, match=rf"rpc 'enqueue_email' of .*send_email.*{problem}"):
        declared(app, **options)
    assert not app.rpcs


def test_the_caller_may_be_text_or_left_out(app: Redrive) -> None:
    class Note(BaseModel):
        author: str | None = None
        text: str

    declared(app, payload=Note, requester="author")
    assert app.rpcs["enqueue_email"].requester == "author"


def test_a_field_named_date_cannot_be_told_from_the_day(app: Redrive) -> None:
    class Report(BaseModel):
        user_id: UUID
        date: str

    with pytest.raises(ConfigError, match="the day in UTC and a field as well"):
        declared(app, payload=Report, key="report:{user_id}:{date}")


@pytest.mark.parametrize(
    ("first", "second", "meets"),
    [
        ({"key": "own:{user_id}"}, {"key": "own:{user_id}:{to}"}, True),
        ({"key": "own:{user_id}"}, {"key": "o{to}:{user_id}"}, True),
        ({"key": "own:{user_id}"}, {"key": "own", "role": "service_role", "requester": None}, True),
        ({"key": "own:{user_id}:{to}"}, {"key": "own:{user_id}:{to}", "requester": "to"}, True),
        ({"key": "own:{user_id}"}, {"key": "own:{user_id}"}, False),
        (
            {"key": "own:{user_id}"},
            {"key": "own:{user_id}", "role": "service_role", "requester": None},
            False,
        ),
        ({"key": "own:{user_id}"}, {"key": "noted:{user_id}:{to}"}, False),
        ({"key": "own:{user_id}"}, {}, False),
    ],
)
def test_two_of_a_queue_may_not_make_the_same_key(
    app: Redrive, first: dict[str, Any], second: dict[str, Any], meets: bool
) -> None:
    @app.rpc("own", **first)
    @app.job("email_jobs")
    async def send_email(email: Email) -> None: ...

    @app.job("other_jobs")
    async def send_other(email: Email) -> None: ...

    app.rpc("elsewhere", **second)(send_other)
    if meets:
        with pytest.raises(
            ConfigError, match=r"could be one that rpc 'own' makes of 'own:.*for the same queue"
        ):
            app.rpc("second", **second)(send_email)
    else:
        app.rpc("second", **second)(send_email)
