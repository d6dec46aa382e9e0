"""What of a payload's type becomes SQL, and what is refused because SQL could not check it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from annotated_types import Predicate
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    IPvAnyAddress,
    JsonValue,
    NaiveDatetime,
    PastDate,
    PrivateAttr,
    SecretStr,
    StringConstraints,
    create_model,
    field_validator,
    model_validator,
)

from redrive import ConfigError, Redrive
from redrive.supabase.functions import ApiFunction
from redrive.supabase.intents import function, section


class Inner(BaseModel):
    x: int


class Big(IntEnum):
    TOO = 2**63


class Flags(IntFlag):
    A = 1
    B = 2


class Odd(Enum):
    A = "a"
    B = 1


class Guess(StrEnum):
    A = "a"

    @classmethod
    def _missing_(cls, value: object) -> Guess:
        return cls.A


def made(
    model: type[BaseModel], app: Redrive | None = None, name: str = "enqueue", **options: Any
) -> ApiFunction:
    app = app or Redrive("postgresql://nowhere/none")

    def work(payload: Any) -> None: ...

    work.__annotations__["payload"] = model
    given = {"role": "service_role", "requester": None} | options
    app.rpc(name, **given)(app.job("jobs")(work))
    return function(app.rpcs[name])


def of(annotation: Any, default: Any = ..., **config: Any) -> type[BaseModel]:
    return create_model("Sent", __config__=ConfigDict(**config), x=(annotation, default))


def refusal(model: type[BaseModel], **options: Any) -> str:
    with pytest.raises(ConfigError) as raised:
        made(model, **options)
    said = str(raised.value)
    assert re.match(r"rpc 'enqueue' of .*work \(line \d+\): ", said)
    return said


@pytest.mark.parametrize(
    ("annotation", "problem"),
    [
        (Annotated[str, AfterValidator(str.strip)], "a validator of its own, str.strip"),
        (Annotated[int, Predicate(lambda x: x != 5)], "a validator of its own"),
        (Annotated[str, StringConstraints(strip_whitespace=True)], "strip_whitespace changes the text"),
        (Annotated[str, StringConstraints(to_lower=True)], "to_lower changes the text"),
        (Annotated[str, Field(pattern=r"^\d+$")], r"its pattern '\^\\\\d\+\$' may mean another thing"),
        (Annotated[str, Field(pattern=re.compile("^a$"))], "may mean another thing"),
        (Annotated[float, Field(multiple_of=0.1)], "a float is a multiple"),
        (Annotated[Decimal, Field(multiple_of=2)], "multiple_of of a Decimal; say decimal_places"),
        (Annotated[dict[str, Any], Field(max_length=0)], "it has max_length=0, which SQL does not check"),
        (Annotated[int | str, Field()], "it is a union"),
        (Inner, "a model inside the payload"),
        (list[Inner], "a model inside the payload"),
        (list[list[int]], r"lists of that; make it list\[Any\]"),
        (list[dict[str, Any]], "lists of that"),
        (dict[str, int], r"make it dict\[str, Any\]"),
        (dict[int, Any], r"make it dict\[str, Any\]"),
        (set[int], "make it a list"),
        (tuple[int, str], "make it a list"),
        (timedelta, "a number of seconds"),
        (time, "a number of seconds, or text"),
        (HttpUrl, "does not check URLs"),
        (SecretStr, "validator of its own|does not check"),
        (IPvAnyAddress, "validator of its own|does not check"),
        (bytes, "does not check pydantic's bytes"),
        (JsonValue, "does not check"),
        (NaiveDatetime, "make it an AwareDatetime"),
        (
            Annotated[datetime, Field(gt=datetime(2020, 1, 1))],
            "bound gt=2020-01-01T00:00:00 has no time zone",
        ),
        (PastDate, "may have changed until the job reads it"),
        (Literal["a", 1], "of the types int, str"),
        (Literal["a\0"], "is none that Postgres holds"),
        (Literal[9223372036854775808], "is beyond what a bigint holds"),
        (Big, "is beyond what a bigint holds"),
        (Odd, "of the types int, str"),
        (Guess, "_missing_ of its own"),
        (Flags, "one of flags"),
    ],
)
def test_a_field_that_sql_cannot_check_is_refused_by_name(annotation: Any, problem: str) -> None:
    assert re.search(rf"field x: .*({problem})", refusal(of(annotation)))


def test_so_is_a_default_that_is_made_by_a_function_or_does_not_fit() -> None:
    assert "its default comes from a function" in refusal(of(list[int], Field(default_factory=list)))
    assert "its default 0 does not fit its own type (Input should be greater than 0)" in refusal(
        of(Annotated[int, Field(gt=0)], 0)
    )
    assert "its default None does not fit" in refusal(of(int, None))
    for default in ("a\0", float("inf"), datetime(2020, 1, 1)):
        assert "none that JSON holds" in refusal(of(type(default), default))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"extra": "allow"}, "takes members of any name"),
        ({"str_strip_whitespace": True}, "configured with str_strip_whitespace"),
        ({"regex_engine": "python-re"}, "its pattern"),
    ],
)
def test_so_is_what_the_model_is_configured_with(config: Any, problem: str) -> None:
    assert problem in refusal(of(Annotated[str, Field(pattern="^a$")], **config))


def test_so_is_a_models_own_code() -> None:
    class Checked(BaseModel):
        x: int

        @model_validator(mode="after")
        def whole(self) -> Checked:
            return self

    class Before(BaseModel):
        x: int

        @model_validator(mode="before")
        @classmethod
        def whole(cls, value: Any) -> Any:
            return value

    class Each(BaseModel):
        x: int = 1

        @field_validator("x")
        @classmethod
        def even(cls, value: int) -> int:
            return value

    class Init(BaseModel):
        x: int

        def __init__(self, **data: Any) -> None:
            super().__init__(**data)

    class Private(BaseModel):
        x: int
        _y: int = PrivateAttr(1)

    assert "Checked has a validator of its own" in refusal(Checked)
    assert "Before has a validator of its own" in refusal(Before)
    assert "field x: it has a validator of its own" in refusal(Each) and "even" in refusal(Each)
    assert "__init__ of its own" in refusal(Init)
    assert "private attributes" in refusal(Private)


def test_a_strict_model_is_refused_where_fractions_are_read_as_decimals() -> None:
    app = Redrive("postgresql://nowhere/none", decimals=True)
    assert "is strict, and Redrive(decimals=True)" in refusal(of(UUID, strict=True), app=app)


def test_names_are_as_long_and_as_many_as_postgres_has_them() -> None:
    assert made(create_model("Sent", **{"x" * 61: (int, ...)})).text.count("p_" + "x" * 61) > 1  # type: ignore[call-overload]
    assert "at most 61 ASCII letters" in refusal(create_model("Sent", **{"x" * 62: (int, ...)}))  # type: ignore[call-overload]
    assert "ASCII" in refusal(create_model("Sent", **{"größe": (int, ...)}))  # type: ignore[call-overload]
    assert "ASCII" in refusal(create_model("Sent", **{'x text) is null; --"': (int, ...)}))  # type: ignore[call-overload]
    many: Any = {f"f{n}": (int, 0) for n in range(101)}
    assert "101 parameters, and Postgres takes 100" in refusal(create_model("Sent", **many))


def test_two_fields_of_one_member_are_refused() -> None:
    class Twice(BaseModel):
        a: int = Field(alias="b")
        b: int

    assert "reads two fields from one member" in refusal(Twice)


def test_the_function_is_closed_to_all_but_its_role_and_says_what_it_takes() -> None:
    class Email(BaseModel):
        user_id: UUID
        template: Literal["welcome", "weekly_digest"]
        copies: int | None = Field(1, ge=1)

    found = made(Email, role="authenticated", requester="user_id", key="email:{template}:{user_id}:{date}")
    assert (found.signature, found.role) == ("public.enqueue(text, bigint)", "authenticated")
    assert found.about.splitlines() == [
        "Puts the caller's job into queue jobs and answers its id.",
        "",
        "p_template: one of: welcome, weekly_digest",
        "p_copies: a whole number or null; may be left out",
    ]
    assert "security definer set search_path = pg_catalog, pg_temp" in found.text
    assert "p_template text default null,\n    p_copies bigint default 1)" in found.text
    assert "p_user_id" not in found.text


def test_the_text_is_the_same_wherever_the_code_stands() -> None:
    """A migration is written again when it differs: a moved line must not make one."""
    first = made(of(int))
    exec(
        "\n" * 7 + "from tests.unit.test_intent_generation import made, of\nagain = made(of(int))",
        found := {},
    )
    assert found["again"] == first


def test_a_text_of_code_stays_a_text() -> None:
    found = made(of(Literal["$rpc$", "it's; drop table x", "$rpc1$"]))
    assert "as $rpc2$\n" in found.text and "'it''s; drop table x'" in found.text


def test_the_section_has_an_object_and_checks_for_each() -> None:
    app = Redrive("postgresql://nowhere/none")
    assert section(app) is None
    made(of(int), app)
    found = section(app, "api")
    assert found and found.objects == ("function api.enqueue(bigint)",) and len(found.checks) >= 2
    with pytest.raises(ConfigError, match="schema 'pgmq_public' cannot hold"):
        section(app, "pgmq_public")


class Keyed(BaseModel):
    user_id: UUID
    owner: str = ""
    template: Literal["welcome", "a:b"] = "welcome"
    kind: Literal["x", "y"] = "x"
    to: str = Field("", max_length=100)
    subject: str = Field("", max_length=440)
    body: str = ""
    count: int = 0
    price: Decimal = Decimal(0)
    at: datetime | None = None
    day: date = date(2026, 1, 1)
    maybe: int | None = None


def keyed(key: str, requester: str = "user_id") -> Callable[[], ApiFunction]:
    return lambda: made(Keyed, role="authenticated", requester=requester, key=key)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("a:{user_id}:{price}", "a decimal number can be written in several ways"),
        ("a:{user_id}:{at}", "a time can be written in several ways"),
        ("a:{user_id}:{maybe}", "maybe, which may be null"),
        ("a:{user_id}:{to}:{subject}", "text of the caller's choice in to and subject"),
        ("a:{user_id}:{count}{to}", "no separator between count and to"),
        ("a:{user_id}:{count}-{day}", "no separator between count and day"),
        ("a:{user_id}:{template}:{to}", "separates by ':', which stands in a value of template"),
        ("a:{user_id}:{body}", "body, which has no max_length"),
        ("a" * 35 + ":{subject}:{user_id}", "may have 513 characters, and 512 are the most"),
    ],
)
def test_a_key_that_two_messages_could_share_is_refused(key: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        keyed(key)()


@pytest.mark.parametrize(
    ("key", "expression"),
    [
        ("100%:{user_id}", "format('100%%:%s', v_requester::text)"),
        ("{{{user_id}}}", "format('{%s}', v_requester::text)"),
        (
            "a:{user_id}/{template}/{to}",
            "format('a:%s/%s/%s', v_requester::text, p_template, p_to)",
        ),
        (
            "a:{to}:{user_id}:{count}:{day}",
            "format('a:%s:%s:%s:%s', p_to, v_requester::text, p_count::text, to_char(p_day, 'YYYY-MM-DD'))",
        ),
        (
            "a:{date}:{user_id}",
            "format('a:%s:%s', to_char(redrive.clock() at time zone 'UTC', 'YYYY-MM-DD'), v_requester::text)",
        ),
    ],
)
def test_a_key_that_tells_messages_apart_is_an_expression(key: str, expression: str) -> None:
    assert f"v_key := {expression};" in keyed(key)().text


def test_a_callers_id_of_text_has_an_end() -> None:
    assert "format('a:%s', v_requester)" in keyed("a:{owner}", "owner")().text
    with pytest.raises(ConfigError, match="in owner and to"):
        keyed("a:{owner}:{to}", "owner")()


def test_the_key_stands_in_the_message_where_the_job_lets_it() -> None:
    """pgmq without headers has no other place for it."""
    key: dict[str, Any] = {"key": "a:{x}"}
    assert "'idempotency_key', v_key)" in made(of(int), **key).text
    assert "'idempotency_key'" not in made(of(int, extra="forbid"), **key).text
    assert "'idempotency_key'" not in made(of(int)).text

    class Own(BaseModel):
        x: int
        idempotency_key: str

    assert "v_key)" not in made(Own, **key).text


def test_aliases_are_what_the_job_reads() -> None:
    class Aliased(BaseModel):
        a: int = Field(alias="theA")
        b: int = Field(validation_alias="theB")

    found = made(Aliased).text
    assert "'theA', p_a" in found and "'theB', p_b" in found


def test_so_is_the_name_where_aliases_do_not_count() -> None:
    class ByName(BaseModel):
        model_config = ConfigDict(validate_by_alias=False, validate_by_name=True)

        a: int = Field(alias="theA")

    assert "'a', p_a" in made(ByName).text


@pytest.mark.parametrize("alias", [AliasPath("nested", "b"), AliasPath("b"), AliasChoices("b", "c")])
def test_a_member_among_several_or_inside_of_one_is_refused(alias: Any) -> None:
    class Aliased(BaseModel):
        b: int = Field(validation_alias=alias)

    with pytest.raises(ConfigError, match="field b: it is read from one of several members"):
        made(Aliased)


def test_words_of_sql_are_quoted_where_they_are_names() -> None:
    app = Redrive("postgresql://nowhere/none")
    made(Keyed, app, role="user", requester="user_id")
    found = section(app, "order")
    assert found and 'grant usage on schema "order" to "user";' in found.sql
    assert 'create function "order".enqueue(' in found.sql
