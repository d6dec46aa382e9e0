"""A generated function takes a value exactly when pydantic does, and what it sends, the job reads."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import UUID4, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from redrive import Redrive
from redrive.supabase.intents import section
from redrive.supabase.patterns import understood
from tests.support.project import Project, Projects

Left = Enum("Left", "OUT")
OUT = Left.OUT


class Colour(StrEnum):
    RED = "red"
    BLUE = "dark blue"


class Size(IntEnum):
    SMALL = 1
    LARGE = 10


class Shape(Enum):
    ROUND = "round"
    FLAT = "flat's"


class Texts(BaseModel):
    """Text and enumerations."""

    plain: str
    short: str = Field(min_length=2, max_length=4)
    slug: str = Field("a-1", pattern="^[a-z][a-z0-9_-]{0,3}$")
    maybe: str | None = Field(None, max_length=3)
    template: Literal["welcome", "it's", "$rpc$"]
    kind: Literal["a", "b", None] = None
    colour: Colour = Colour.BLUE
    colours: list[Colour] = Field([Colour.RED], max_length=3)
    size: Size | None
    shape: Shape
    count: Literal[1, -2]
    sure: Literal[True]


class Numbers(BaseModel):
    """Numbers, strictly."""

    model_config = ConfigDict(strict=True, extra="forbid")

    whole: int
    few: int = Field(ge=-3, lt=10, multiple_of=2)
    number: float
    part: float = Field(0.25, gt=0, le=0.3)
    exact: Decimal
    price: Decimal = Field(Decimal("1.50"), max_digits=4, decimal_places=2, gt=-50)
    cents: Decimal = Field(max_digits=2, decimal_places=2)
    digits: Decimal | None = Field(max_digits=3)
    yes: bool
    wholes: list[Annotated[int, Field(ge=0)]] = Field(min_length=1, max_length=3)
    prices: list[Annotated[Decimal, Field(decimal_places=1)]] | None = None
    numbers: list[float] | None = []


class Others(BaseModel):
    """Ids, times and JSON, by aliases."""

    id: UUID = Field(alias="theId")
    fourth: UUID4 = UUID("8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33")
    day: date = Field(ge=date(2020, 1, 1), lt=date(2030, 1, 1))
    any_day: date
    at: AwareDatetime = Field(validation_alias="when")
    until: datetime | None = Field(None, gt=datetime(2020, 1, 1, tzinfo=UTC))
    times: list[datetime] = []
    maybes: list[UUID | None] = Field([], max_length=2)
    Upper: str = "x"
    meta: dict[str, Any] = {"a": ["it's", 1.5, None]}
    items: list[Any] = Field(max_length=2)
    any: Any = None


TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6),
    st.text("ab1_-A\n", max_size=6),
)
NUMBERS = st.one_of(st.integers(-4, 12), st.integers(-(2**63), 2**63 - 1))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
DECIMALS = st.one_of(
    st.decimals(-120, 120, allow_nan=False, places=2),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**6), max_value=10**6, places=4),
    st.sampled_from(
        [Decimal(each) for each in ("0", "0.0", "0.000", "1e3", "0.01", "99.99", "-0.10", "100")]
    ),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**20), max_value=10**20),
)
DAYS = st.one_of(st.dates(), st.dates(date(2019, 12, 30), date(2020, 1, 2)), st.just(date(2030, 1, 1)))
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
UUIDS = st.one_of(st.uuids(), st.uuids(version=4), st.just(UUID(int=0)))
# A float beyond 2**53 comes back from jsonb as the integer that its digits say.
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@dataclass(frozen=True)
class Type:
    """How values of a parameter's type are drawn, and which are tried in any case."""

    sql: str
    values: st.SearchStrategy[Any]
    likely: tuple[Any, ...] = ()

    @property
    def with_null(self) -> st.SearchStrategy[Any]:
        return self.values | st.none() | st.just(OUT)


def listed(item: Type, size: int = 4) -> Type:
    several = tuple([*item.likely][:n] for n in range(len(item.likely) + 1))
    repeated = tuple([each] * n for each in item.likely for n in range(1, size + 1))
    return Type(
        f"{item.sql}[]", st.lists(item.values | st.none(), max_size=size), (*several, *repeated, [None])
    )


TEXT = Type("text", TEXTS)
BIGINT = Type("bigint", NUMBERS)
DOUBLE = Type("double precision", FLOATS | st.floats(0, 0.4) | st.integers(-2, 2).map(float))
NUMERIC = Type("numeric", DECIMALS)
BOOLEAN = Type("boolean", st.booleans())
UID = Type("uuid", UUIDS)
DATE = Type("date", DAYS)
TIME = Type("timestamp with time zone", TIMES)
JSONB = Type("jsonb", JSON)


def of(type: Type, *likely: Any) -> Type:
    return Type(type.sql, st.sampled_from(likely) | type.values, likely)


PARAMETERS: dict[type[BaseModel], dict[str, Type]] = {
    Texts: {
        "plain": TEXT,
        "short": of(TEXT, "ab", "abcd", "éé", "𝒳𝒳𝒳𝒳", "abcde"),
        "slug": of(TEXT, "a", "a-1", "ab_9", "abcde", "a\n", "A"),
        "maybe": of(TEXT, "", "abc", "abcd"),
        "template": of(TEXT, "welcome", "it's", "$rpc$", "Welcome"),
        "kind": of(TEXT, "a", "b"),
        "colour": of(TEXT, "red", "dark blue", "blue"),
        "colours": listed(of(TEXT, "red", "dark blue")),
        "size": of(BIGINT, 1, 10),
        "shape": of(TEXT, "round", "flat's"),
        "count": of(BIGINT, 1, -2),
        "sure": BOOLEAN,
    },
    Numbers: {
        "whole": BIGINT,
        "few": of(BIGINT, -4, -3, -2, 0, 5, 8, 10),
        "number": DOUBLE,
        "part": of(DOUBLE, 0.0, 5e-324, 0.3, 0.30000000000000004),
        "exact": NUMERIC,
        "price": of(
            NUMERIC, *map(Decimal, ("-50", "-49.99", "99.99", "99.990", "100", "9.999", "1.5", "0", "0.000"))
        ),
        "cents": of(NUMERIC, Decimal("0"), Decimal("0.0"), Decimal("0.99"), Decimal("-.5"), Decimal("0.500")),
        "digits": of(NUMERIC, Decimal("123"), Decimal("12.3"), Decimal("0.0012"), Decimal("1000")),
        "yes": BOOLEAN,
        "wholes": listed(of(BIGINT, 0, 1)),
        "prices": listed(of(NUMERIC, Decimal("0.1"), Decimal("1.10"), Decimal("1.01"))),
        "numbers": listed(of(DOUBLE, 1e300, 1.5)),
    },
    Others: {
        "id": UID,
        "fourth": of(
            UID,
            *(
                UUID(f"8f3c2a10-4b6d-{each}-2f7a1d0e6b33")
                for each in ("4e21-8c58", "4e21-bc58", "4e21-7c58", "4e21-cc58", "5e21-9c58")
            ),
        ),
        "day": of(DATE, date(2019, 12, 31), date(2020, 1, 1), date(2029, 12, 31), date(2030, 1, 1)),
        "any_day": of(DATE, date(1, 1, 1), date(9999, 12, 31)),
        "at": TIME,
        "until": of(TIME, datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        "times": listed(of(TIME, datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, tzinfo=UTC))),
        "maybes": listed(of(UID, UUID(int=0)), 3),
        "Upper": TEXT,
        "meta": of(JSONB, {"a": 1}),
        "items": of(JSONB, [], [1, "a"], [1, 2, 3], {}),
        "any": JSONB,
    },
}  # fmt: skip
# Each of these is required and may be null: to SQL, left out is null.
NULL_WHEN_LEFT_OUT = {"size", "digits"}
MEMBERS = {"id": "theId", "at": "when"}


@pytest.fixture(scope="module")
def project(projects: Projects) -> Generator[Project]:
    project = projects.make(migrated=True)
    yield project
    projects.drop(project)


@pytest.fixture(scope="module")
def apps(project: Project) -> dict[type[BaseModel], Redrive]:
    made: dict[type[BaseModel], Redrive] = {}
    for model in PARAMETERS:
        app = made[model] = Redrive("postgresql://nowhere/none")

        def handler(payload: Any) -> None: ...

        handler.__annotations__["payload"] = model
        queue = f"{model.__name__.lower()}_jobs"
        app.rpc(f"send_{model.__name__.lower()}", role="service_role", requester=None)(
            app.job(queue)(handler)
        )
        found = section(app)
        assert found
        with project.connect() as owner:
            owner.execute("select redrive.create_queue(%s)", [queue])
            owner.execute(found.sql.encode())
    return made


@pytest.fixture(scope="module")
def owner(project: Project) -> Generator[psycopg.Connection[Any]]:
    with psycopg.connect(project.url) as connection:
        # What an owner may have set must not show in a message.
        connection.execute("set timezone = 'Asia/Kolkata'; set datestyle = 'German, DMY'")
        connection.commit()
        yield connection


def bound(type: str, value: Any) -> Any:
    """As a text that Postgres casts; lists through the adapter of each item."""
    if value is None:
        return None
    if type == "jsonb":
        return json.dumps(value)
    if isinstance(value, list):
        return [bound(type.removesuffix("[]"), each) for each in value]
    return value.isoformat() if isinstance(value, date) else str(value)


def plain(value: Any) -> Any:
    """The JSON that a client would have meant."""
    return TypeAdapter(Any).dump_python(value, mode="json")


def sent(owner: psycopg.Connection[Any], model: type[BaseModel], given: dict[str, Any]) -> str | None:
    """The message as text, or None where a rule refused it."""
    types = PARAMETERS[model]
    name = model.__name__.lower()
    named = ", ".join(f'"p_{each}" => %s::{types[each].sql}' for each in given)
    values = [bound(types[each].sql, value) for each, value in given.items()]
    try:
        with owner.transaction(force_rollback=True):
            owner.execute(f"select public.send_{name}({named})".encode(), values)
            ((message,),) = owner.execute(f"select message::text from pgmq.q_{name}_jobs".encode()).fetchall()
            return message
    except psycopg.Error as error:
        assert error.sqlstate == "PT400", error
        assert error.diag.message_detail in {f"parameter p_{each}" for each in types}
        return None


def accepted(model: type[BaseModel], given: dict[str, Any]) -> Any:
    members = {
        MEMBERS.get(name, name): None if value is OUT else plain(value)
        for name, value in given.items()
        if value is not OUT or name in NULL_WHEN_LEFT_OUT
    }
    try:
        return TypeAdapter(model).validate_json(json.dumps(members))
    except ValidationError:
        return None


def check(
    owner: psycopg.Connection[Any], apps: dict[type[BaseModel], Redrive], model: type[BaseModel], given: Any
) -> bool:
    expected = accepted(model, given)
    found = sent(owner, model, {name: value for name, value in given.items() if value is not OUT})
    assert (found is None) == (expected is None), (found, expected)
    if found is not None:
        (job,) = apps[model].jobs.values()
        assert job.decode(found) == expected
    return found is not None


VALID: dict[type[BaseModel], dict[str, Any]] = {
    Texts: {
        "plain": "x", "short": "abc", "slug": OUT, "maybe": OUT, "template": "it's", "kind": OUT,
        "colour": OUT, "colours": OUT, "size": None, "shape": "flat's", "count": -2, "sure": True,
    },
    Numbers: {
        "whole": 2**63 - 1, "few": 8, "number": 1e300, "part": OUT,
        "exact": Decimal("0.1234567890123456789012"),
        "price": OUT, "cents": Decimal("0.50"), "digits": None, "yes": False, "wholes": [0], "prices": OUT,
        "numbers": [1e300, 0.1, -5.0],
    },
    Others: {
        "id": UUID(int=7), "fourth": OUT, "day": date(2026, 2, 3), "any_day": date(1, 1, 1),
        "at": datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC), "until": OUT,
        "times": [datetime(9999, 12, 31, tzinfo=UTC)], "maybes": OUT, "Upper": OUT, "meta": OUT, "items": [1],
        "any": OUT,
    },
}  # fmt: skip


@pytest.mark.parametrize("model", list(PARAMETERS), ids=lambda model: model.__name__)
def test_what_fits_is_sent_with_the_defaults_that_the_model_has(
    owner: psycopg.Connection[Any], apps: dict[type[BaseModel], Redrive], model: type[BaseModel]
) -> None:
    assert check(owner, apps, model, VALID[model])


@pytest.mark.parametrize("model", list(PARAMETERS), ids=lambda model: model.__name__)
def test_at_every_bound_sql_is_of_pydantics_mind(
    owner: psycopg.Connection[Any], apps: dict[type[BaseModel], Redrive], model: type[BaseModel]
) -> None:
    taken = [
        check(owner, apps, model, VALID[model] | {name: value})
        for name, type in PARAMETERS[model].items()
        for value in (*type.likely, None, OUT)
    ]
    assert {*taken} == {True, False}


def one_drawn(model: type[BaseModel]) -> st.SearchStrategy[tuple[str, Any]]:
    """Of one field: most others have to fit for it to be looked at."""
    each: Callable[[str], st.SearchStrategy[tuple[str, Any]]] = lambda name: st.tuples(  # noqa: E731
        st.just(name), PARAMETERS[model][name].with_null
    )
    return st.sampled_from(sorted(PARAMETERS[model])).flatmap(each)


@pytest.mark.parametrize("model", list(PARAMETERS), ids=lambda model: model.__name__)
def test_sql_takes_a_value_exactly_when_pydantic_does(
    owner: psycopg.Connection[Any], apps: dict[type[BaseModel], Redrive], model: type[BaseModel]
) -> None:
    @settings(
        max_examples=100, deadline=None, database=None, derandomize=True,
        suppress_health_check=[HealthCheck.too_slow],
    )  # fmt: skip
    @given(st.lists(one_drawn(model), min_size=1, max_size=2))
    def compare(drawn: list[tuple[str, Any]]) -> None:
        check(owner, apps, model, VALID[model] | dict(drawn))

    compare()


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        (Numbers, "number", math.nan),
        (Numbers, "number", math.inf),
        (Numbers, "exact", Decimal("NaN")),
        (Numbers, "exact", Decimal("-Infinity")),
    ],
)
def test_what_json_has_no_word_for_is_refused(
    owner: psycopg.Connection[Any], apps: object, model: type[BaseModel], name: str, value: Any
) -> None:
    assert sent(owner, model, {n: v for n, v in VALID[model].items() if v is not OUT} | {name: value}) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("any_day", "infinity"),
        ("any_day", "0044-03-15 BC"),
        ("any_day", "10000-01-01"),
        ("at", "-infinity"),
        ("at", "9999-12-31 23:00:00-05"),
        ("times", "{infinity}"),
        ("maybes", "{{null},{null}}"),
        ("meta", "[]"),
        ("items", "{}"),
        ("items", "[1, 2, 3]"),
        ("any", '{"a":' * 200 + "[]" + "}" * 200),
        ("any", "1e4300"),
    ],
)
def test_what_postgres_holds_and_python_does_not_is_refused(
    owner: psycopg.Connection[Any], apps: object, name: str, value: str
) -> None:
    types = PARAMETERS[Others]
    given = {n: bound(types[n].sql, v) for n, v in VALID[Others].items() if v is not OUT} | {name: value}
    named = ", ".join(f'"p_{each}" => %s::{types[each].sql}' for each in given)
    with pytest.raises(psycopg.Error) as raised, owner.transaction():
        owner.execute(f"select public.send_others({named})".encode(), list(given.values()))
    assert raised.value.sqlstate == "PT400"
    assert raised.value.diag.message_detail == f"parameter p_{name}"


def test_the_deepest_json_that_is_taken_is_read(
    owner: psycopg.Connection[Any], apps: dict[type[BaseModel], Redrive]
) -> None:
    deep: Any = 1
    for _ in range(199):
        deep = [deep]
    assert check(owner, apps, Others, VALID[Others] | {"any": deep})
    assert (
        sent(owner, Others, {n: v for n, v in VALID[Others].items() if v is not OUT} | {"any": [deep]})
        is None
    )


ATOMS = st.sampled_from(["a", "_", "-", "@", " ", "\\.", "\\-", "[a-c]", "[^a]", "[0-9_.-]", "[^a-z-]"])
REPEATED = st.tuples(ATOMS, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,}", "{1,3}"])).map("".join)
SEQUENCES = st.tuples(
    st.sampled_from(["", "^"]),
    st.lists(REPEATED, min_size=1, max_size=3).map("".join),
    st.sampled_from(["", "$"]),
).map("".join)
PATTERNS = st.recursive(
    st.lists(SEQUENCES, min_size=1, max_size=2).map("|".join),
    lambda inner: st.tuples(st.sampled_from(["(", "(?:"]), inner, st.sampled_from([")", ")+", ")?"])).map(
        "".join
    ),
    max_leaves=2,
)


@settings(max_examples=200, deadline=None, database=None, derandomize=True)
@given(
    PATTERNS, st.lists(st.text("abcz09_-.@ A\n\u00e4\u0131\U0001d4b3", max_size=5), min_size=5, max_size=20)
)
def test_a_pattern_that_is_taken_means_the_same_to_both(
    owner: psycopg.Connection[Any], pattern: str, texts: list[str]
) -> None:
    assert understood(pattern)
    python = TypeAdapter(Annotated[str, Field(pattern=pattern)])

    def fits(text: str) -> bool:
        try:
            python.validate_json(json.dumps(text))
            return True
        except ValidationError:
            return False

    found = owner.execute(
        "select t ~ %s from unnest(%s::text[]) with ordinality u (t, n) order by n", [pattern, texts]
    )
    assert [row[0] for row in found] == [fits(each) for each in texts]
