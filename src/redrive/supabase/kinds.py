"""Kinds: what a field may be in SQL: a parameter's type, the rules its values keep, how JSON writes them.

A rule is a condition in SQL that is true of a value that breaks it. Null breaks no rule: whether it is
allowed is the field's affair. What pydantic takes and a parameter's type cannot hold, such as an integer
beyond bigint, is no value of that parameter; Postgres refuses it with an error of class 22, PostgREST 400.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from redrive import payload as payloads

BIGINT = range(-(2**63), 2**63)
# In a message of the handler's own; the payload is the first level of 200, the field's value the second.
_DEPTH = payloads.MAX_DEPTH - 1
# More digits pydantic's reader does not take for an integer.
_MOST_DIGITS = "1e4300"
_SHOWN = 20


def literal(text: str) -> str:
    """`text` as a literal of SQL."""
    doubled = text.replace("'", "''")
    # A backslash stands for itself: standard_conforming_strings is on wherever this is run.
    return f"'{doubled}'"


@dataclass(frozen=True, slots=True)
class Rule:
    """`broken` turns an expression into the condition; `must` is what it, or `each` item of it, has to be."""

    broken: Callable[[str], str]
    must: str
    each: bool = False

    def says(self, parameter: str) -> str:
        return f"{'each item of ' if self.each else ''}{parameter} {self.must}"


def _itself(expression: str) -> str:
    return expression


def _as_text(expression: str) -> str:
    return f"{expression}::text"


@dataclass(frozen=True, slots=True)
class KeyText:
    """How a value stands in a key: at most `longest` characters, None for any number.

    `free` may hold whatever a caller likes, so also what separates the parts of a key; else `samples` are
    all there are, or, without them, letters, digits, ``-`` and ``.`` alone.
    """

    longest: int | None
    free: bool = False
    samples: tuple[str, ...] = ()
    write: Callable[[str], str] = _as_text


@dataclass(frozen=True, slots=True)
class Kind:
    """A parameter's type, and what holds of its values.

    sql     the type, as Postgres writes it
    what    it in words, for a reader of the function's comment
    rules   in the order in which they are asked
    json    an expression of that type as one that jsonb_build_object writes as the job reads it
    value   a valid Python value as an expression of that type
    key     None: no part of a key
    null    null is one of the values
    """

    sql: str
    what: str
    rules: tuple[Rule, ...] = ()
    json: Callable[[str], str] = _itself
    items: Callable[[str], str] = _itself
    value: Callable[[Any], str] = str
    key: KeyText | None = None
    null: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """ge, gt, le, lt of a schema: what SQL compares with what, in which words."""

    schema: dict[str, Any]
    value: Callable[[Any], str]

    def rules(self) -> tuple[Rule, ...]:
        found: list[Rule] = []
        for name, sign, words in (
            ("ge", "<", "at least"),
            ("gt", "<=", "more than"),
            ("le", ">", "at most"),
            ("lt", ">=", "less than"),
        ):
            if (bound := self.schema.get(name)) is not None:
                found.append(Rule(_compared(sign, self.value(bound)), f"must be {words} {_shown(bound)}"))
        return tuple(found)


def _compared(sign: str, bound: str) -> Callable[[str], str]:
    return lambda expression: f"{expression} {sign} {bound}"


def _shown(bound: object) -> str:
    return bound.isoformat() if isinstance(bound, date) else str(bound)


def text(low: int | None, high: int | None, pattern: str | None) -> Kind:
    rules: list[Rule] = []
    if low:
        rules.append(Rule(lambda x: f"length({x}) < {low}", f"must have at least {_characters(low)}"))
    if high is not None:
        rules.append(Rule(lambda x: f"length({x}) > {high}", f"must have at most {_characters(high)}"))
    if pattern is not None:
        rules.append(Rule(lambda x: f"{x} !~ {literal(pattern)}", f"must match {pattern}"))
    key = KeyText(high, free=True, write=_itself)
    return Kind("text", "text", tuple(rules), value=literal, key=key)


def _each(array: str, written: str) -> str:
    """An array of what is `written` of each.item."""
    return (
        f"case when {array} is not null then array(select {written} "
        f"from unnest({array}) with ordinality as each (item, place) order by each.place) end"
    )


def _characters(count: int) -> str:
    return f"{count} character{'' if count == 1 else 's'}"


def one_of(values: Sequence[str] | Sequence[int] | Sequence[bool], *, null: bool) -> Kind:
    """Of literals or an enumeration's members, all of one type; with `null`, None is one of them."""
    sql, value = _WRITTEN[type(values[0])]
    write = _itself if sql == "text" else _as_text
    written = [value(each) for each in values]
    shown = ", ".join(str(each).lower() if isinstance(each, bool) else str(each) for each in values[:_SHOWN])
    if more := len(values) - _SHOWN if len(values) > _SHOWN else 0:
        shown += f" and {more} more"
    samples = tuple(str(each).lower() if isinstance(each, bool) else str(each) for each in values)
    key = KeyText(max(map(len, samples)), samples=samples, write=write)
    rule = Rule(lambda x: f"{x} not in ({', '.join(written)})", f"must be one of: {shown}")
    return Kind(sql, f"one of: {shown}", (rule,), value=value, key=key, null=null)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


_WRITTEN: dict[type, tuple[str, Callable[[Any], str]]] = {
    str: ("text", literal),
    int: ("bigint", str),
    bool: ("boolean", _boolean),
}


def integer(schema: dict[str, Any]) -> Kind:
    rules = Bounds(schema, str).rules()
    if (step := schema.get("multiple_of")) is not None:
        rules += (Rule(lambda x: f"{x} % {step} <> 0", f"must be a multiple of {step}"),)
    return Kind("bigint", "a whole number", rules, key=KeyText(20))


def number(schema: dict[str, Any]) -> Kind:
    def value(found: Any) -> str:
        return f"'{float(found)!r}'::double precision"

    # JSON has no word for the others.
    finite = Rule(lambda x: f"{x} in ('NaN', 'Infinity', '-Infinity')", "must be a finite number")
    # jsonb writes 1e300 as an integer of 301 digits, which a strict float need not take; this keeps a point.
    # Through text, since a cast to numeric keeps 15 digits.
    return Kind(
        "double precision",
        "a number",
        (finite, *Bounds(schema, value).rules()),
        json=lambda x: f"{x}::text::numeric + 0.0",
        items=lambda x: _each(x, "each.item::text::numeric + 0.0"),
        value=value,
    )


def decimal(schema: dict[str, Any]) -> Kind:
    """Written as text, of which pydantic reads every digit; of a JSON number it reads a float."""

    def value(found: Any) -> str:
        # As pydantic does it: the float 0.1 is one tenth.
        return f"'{Decimal(str(found))}'::numeric"

    rules = [Rule(lambda x: f"{x} in ('NaN', 'Infinity', '-Infinity')", "must be a finite number")]
    digits, places = schema.get("max_digits"), schema.get("decimal_places")
    if digits is not None:
        rules.append(
            Rule(
                lambda x: (
                    f"case when abs({x}) < 1 then 0 else length(trunc(abs({x}))::text) end "
                    f"+ scale(trim_scale({x})) > {digits}"
                ),
                f"must have at most {digits} digits",
            )
        )
    if places is not None:
        rules.append(
            Rule(lambda x: f"scale(trim_scale({x})) > {places}", f"must have at most {places} decimal places")
        )
    if digits is not None and places is not None:
        whole = max(digits - places, 0)
        must = f"must have at most {whole} digits before the point"
        rules.append(Rule(lambda x: f"abs({x}) >= 1e{whole}", must))
        if not whole:
            # To pydantic a bare 0 has a digit before the point.
            rules.append(Rule(lambda x: f"{x} = 0 and scale({x}) = 0", must))
    rules += Bounds(schema, value).rules()
    return Kind(
        "numeric",
        "a decimal number",
        tuple(rules),
        json=lambda x: f"{x}::text",
        items=lambda x: f"{x}::text[]",
        value=value,
    )


def boolean() -> Kind:
    return Kind("boolean", "true or false", value=_boolean, key=KeyText(5))


def uuid(version: int | None) -> Kind:
    rules: tuple[Rule, ...] = ()
    if version is not None:
        layout = literal(f"^.{{14}}{version:x}.{{4}}[89ab]")
        rules = (Rule(lambda x: f"{x}::text !~ {layout}", f"must be a UUID of version {version}"),)
    return Kind("uuid", "a UUID", rules, value=lambda found: f"'{found}'::uuid", key=KeyText(36))


def day(schema: dict[str, Any]) -> Kind:
    def value(found: date) -> str:
        return f"'{found.isoformat()}'::date"

    years = Rule(lambda x: f"{x} not between '0001-01-01' and '9999-12-31'", "must be in the years 1 to 9999")
    key = KeyText(10, write=lambda x: f"to_char({x}, 'YYYY-MM-DD')")
    return Kind("date", "a date", (years, *Bounds(schema, value).rules()), value=value, key=key)


def moment(schema: dict[str, Any]) -> Kind:
    def value(found: datetime) -> str:
        return f"'{found.isoformat()}'::timestamptz"

    def written(expression: str) -> str:
        return f"""to_char({expression} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')"""

    years = Rule(
        lambda x: (
            f"{x} < '0001-01-01 00:00:00+00'::timestamptz or {x} >= '10000-01-01 00:00:00+00'::timestamptz"
        ),
        "must be in the years 1 to 9999",
    )
    return Kind(
        "timestamp with time zone",
        "a time",
        (years, *Bounds(schema, value).rules()),
        json=written,
        items=lambda x: _each(x, written("each.item")),
        value=value,
    )


def json(type: str | None, low: int | None = None, high: int | None = None) -> Kind:
    """Any JSON, or an ``object`` or ``array`` of any."""
    rules: list[Rule] = []
    if type is not None:
        rules.append(
            Rule(lambda x: f"jsonb_typeof({x}) <> {literal(type)}", f"must be {_ARTICLE[type]} of JSON")
        )
    if type == "array":
        rules += lengths(lambda x: f"jsonb_array_length({x})", low, high)
    deep = f'strict $.**{{{_DEPTH} to last}} ? (@.type() == "object" || @.type() == "array")'
    rules.append(
        Rule(lambda x: f"jsonb_path_exists({x}, {literal(deep)})", f"must be nested {_DEPTH} levels at most")
    )
    large = f'strict $.** ? (@.type() == "number" && (@ >= {_MOST_DIGITS} || @ <= -{_MOST_DIGITS}))'
    rules.append(
        Rule(lambda x: f"jsonb_path_exists({x}, {literal(large)})", "must hold numbers below 1e4300")
    )
    return Kind(
        "jsonb",
        "any JSON" if type is None else f"{_ARTICLE[type]} of JSON",
        tuple(rules),
        value=lambda found: f"{literal(payloads.encode(found))}::jsonb",
        null=type is None,
    )


_ARTICLE = {"object": "an object", "array": "an array"}


def lengths(count: Callable[[str], str], low: int | None, high: int | None) -> list[Rule]:
    """How many items a list may have."""
    rules: list[Rule] = []
    if low:
        rules.append(Rule(lambda x: f"{count(x)} < {low}", f"must have at least {_items(low)}"))
    if high is not None:
        rules.append(Rule(lambda x: f"{count(x)} > {high}", f"must have at most {_items(high)}"))
    return rules


def _items(count: int) -> str:
    return f"{count} item{'' if count == 1 else 's'}"


def array(item: Kind, *, nulls: bool, low: int | None, high: int | None) -> Kind:
    """A list of `item`; with `nulls`, null may be one."""
    rules = [
        Rule(lambda x: f"array_ndims({x}) > 1", "must be a list, not lists in a list"),
        *lengths(lambda x: f"cardinality({x})", low, high),
    ]
    if not nulls:
        rules.append(Rule(lambda x: f"array_position({x}, null) is not null", "must not be null", each=True))
    rules += [_of_every(rule) for rule in item.rules]

    def value(found: Sequence[Any]) -> str:
        written = ", ".join("null" if each is None else item.value(each) for each in found)
        return f"array[{written}]::{item.sql}[]"

    return Kind(f"{item.sql}[]", f"a list, each {item.what}", tuple(rules), json=item.items, value=value)


def _of_every(rule: Rule) -> Rule:
    return Rule(
        lambda x: f"exists (select from unnest({x}) as each (item) where {rule.broken('each.item')})",
        rule.must,
        each=True,
    )
