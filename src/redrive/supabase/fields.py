"""Fields: what pydantic makes of a model, read into parameters of SQL; what SQL cannot check is refused.

It is pydantic's own schema that is read, with every validator in it, and of that only what is known here by
name: whatever a new pydantic adds is refused until somebody has looked at it. Nothing is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, Flag
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from redrive import payload as payloads
from redrive.errors import PayloadError
from redrive.supabase import kinds
from redrive.supabase.kinds import BIGINT, Kind
from redrive.supabase.patterns import understood
from redrive.supabase.unfit import BY_HAND, Unfit, function_of, refusal

_LONGEST = 63
# Of no consequence for which values are valid. How Python writes a value is none of it: SQL writes this one.
_HARMLESS = frozenset({"type", "metadata", "ref", "serialization", "strict"})
_CONFIG = frozenset(
    {
        "title", "strict", "extra_fields_behavior", "str_max_length", "str_min_length",
        "str_strip_whitespace", "str_to_lower", "str_to_upper", "regex_engine", "validate_by_alias",
        "validate_by_name", "populate_by_name", "loc_by_alias", "from_attributes",
        "revalidate_instances", "validate_default",
        "frozen", "use_enum_values", "hide_input_in_errors", "allow_inf_nan", "coerce_numbers_to_str",
        "ser_json_timedelta", "ser_json_bytes", "ser_json_inf_nan", "ser_json_temporal", "val_json_bytes",
        "val_temporal_unit", "cache_strings", "validation_error_cause", "serialize_by_alias",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the payload.

    name      in the model
    written   the member of the payload that the job reads
    kind      null is no value of it unless `nullable`
    default   an expression of SQL, which stands for a parameter that was left out; None: it is required
    """

    name: str
    written: str
    kind: Kind
    nullable: bool
    default: str | None

    @property
    def parameter(self) -> str:
        return f"p_{self.name}"

    @property
    def identifier(self) -> str:
        """The parameter as SQL reads it."""
        return self.parameter if self.parameter.islower() else f'"{self.parameter}"'


@dataclass(frozen=True, slots=True)
class Model:
    """The fields of a payload, in order; `closed` is that no other member may stand beside them."""

    fields: tuple[Field, ...]
    closed: bool

    def field(self, name: str) -> Field:
        return next(each for each in self.fields if each.name == name)


def read(model: type[BaseModel], *, decimals: bool) -> Model:
    """`model` as parameters. `decimals` as of `Redrive`. Raises `Unfit`."""
    schema = cast("dict[str, Any]", TypeAdapter(model).core_schema)
    definitions: list[dict[str, Any]] = []
    if schema["type"] == "definitions":
        definitions = schema["definitions"]
        schema = schema["schema"]
    known = {each["ref"]: each for each in definitions}
    if schema["type"] == "definition-ref":
        schema = known[schema["schema_ref"]]
    if schema["type"].startswith("function-"):
        raise Unfit(
            f"{model.__name__} has a validator of its own, {function_of(schema)}, which SQL cannot run; "
            f"say it with Field(...) of one field, or {BY_HAND}"
        )
    config = _checked(model, schema, decimals)
    reader = _Reader(known, config)
    fields = schema["schema"]
    _only(fields, "fields", "model_name", "computed_fields", "extra_behavior", "from_attributes", of=model)
    extra = fields.get("extra_behavior") or config.get("extra_fields_behavior")
    if extra == "allow":
        raise Unfit(
            f"{model.__name__} takes members of any name (extra='allow'), and a function takes its "
            "parameters alone; say extra='ignore', and add a field of dict[str, Any] for the rest"
        )
    made = tuple(reader.field(name, each) for name, each in fields["fields"].items())
    if len({each.written for each in made}) < len(made):
        raise Unfit(f"{model.__name__} reads two fields from one member; give each an alias of its own")
    return Model(made, extra == "forbid")


def _checked(model: type[BaseModel], schema: Mapping[str, Any], decimals: bool) -> dict[str, Any]:
    name = model.__name__
    if schema.get("custom_init"):
        raise Unfit(f"{name} has an __init__ of its own, which SQL cannot run; remove it, or {BY_HAND}")
    if schema.get("post_init"):
        raise Unfit(
            f"{name} has a model_post_init or private attributes, which SQL cannot know; remove them, or "
            f"{BY_HAND}"
        )
    if schema["schema"]["type"].startswith("function-"):
        raise Unfit(
            f"{name} has a validator of its own, {function_of(schema['schema'])}, which SQL cannot run; "
            f"say it with Field(...) of one field, or {BY_HAND}"
        )
    _only(
        schema, "cls", "schema", "config", "custom_init", "root_model", "post_init", "frozen",
        "revalidate_instances", "generic_origin", of=model,
    )  # fmt: skip
    config: dict[str, Any] = schema.get("config") or {}
    if unknown := sorted(config.keys() - _CONFIG):
        raise Unfit(
            f"{name} is configured with {unknown[0]}, which is not known to hold in SQL; leave it out"
        )
    for each in ("str_strip_whitespace", "str_to_lower", "str_to_upper"):
        if config.get(each):
            raise Unfit(
                f"{name} is configured with {each}, and SQL checks text as it is; change it in the handler"
            )
    if decimals and (schema.get("strict") or config.get("strict")):
        raise Unfit(
            f"{name} is strict, and Redrive(decimals=True) reads no strict model; leave one of them out"
        )
    return config


def _only(schema: Mapping[str, Any], *known: str, of: type[BaseModel] | None = None) -> None:
    """Raises `Unfit` for what is said of a value beyond `known`."""
    for name, value in schema.items():
        if name not in _HARMLESS and name not in known and value is not None and value is not False:
            where = f"{of.__name__} has" if of else "it has"
            raise Unfit(f"{where} {name}={value!r:.60}, which SQL does not check; leave it out, or {BY_HAND}")


class _Reader:
    def __init__(self, definitions: Mapping[str, dict[str, Any]], config: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self._config = config

    def field(self, name: str, schema: Mapping[str, Any]) -> Field:
        try:
            return self._field(name, schema)
        except Unfit as error:
            raise Unfit(f"field {name}: {error}") from None

    def _field(self, name: str, schema: Mapping[str, Any]) -> Field:
        _only(
            schema, "schema", "validation_alias", "serialization_alias", "serialization_exclude",
            "serialization_exclude_if", "frozen",
        )  # fmt: skip
        if not name.isidentifier() or not name.isascii() or len(name) + 2 > _LONGEST:
            raise Unfit(
                f"a parameter's name is p_ and at most {_LONGEST - 2} ASCII letters, digits and _; rename "
                "it, and give it an alias"
            )
        written = self._member(name, schema.get("validation_alias"))
        inner, default = schema["schema"], None
        if inner["type"] == "default":
            inner, default = self._default(inner)
        kind, nullable = self._kind(inner)
        if default is not None:
            default = self._written(inner, kind, default[0])
        return Field(name, written, kind, nullable, default)

    def _member(self, name: str, alias: object) -> str:
        """Which member of the payload pydantic reads."""
        if alias is None or self._config.get("validate_by_alias") is False:
            return name
        if not isinstance(alias, str):
            raise Unfit(
                "it is read from one of several members, or from inside of one (AliasChoices, AliasPath), "
                "and a message has it in one; give it a plain alias"
            )
        return alias

    def _default(self, schema: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        if "default_factory" in schema:
            raise Unfit("its default comes from a function; give it one that stands there, as = 0 or = None")
        _only(schema, "schema", "default", "copy_default", "validate_default", "on_error")
        if schema.get("on_error", "raise") != "raise":
            raise Unfit("it goes on after an error; refuse what does not fit")
        return schema["schema"], [schema["default"]]

    def _written(self, schema: dict[str, Any], kind: Kind, default: object) -> str:
        whole = {"type": "definitions", "schema": schema, "definitions": [*self._definitions.values()]}
        validator = SchemaValidator(cast("Any", whole), cast("Any", self._config))
        try:
            valid = validator.validate_python(default, strict=False)
        except ValidationError as error:
            message = error.errors(include_url=False)[0]["msg"]
            raise Unfit(
                f"its default {default!r:.60} does not fit its own type ({message}); mend it"
            ) from None
        if valid is None:
            return "null"
        plain = _plain(valid)
        try:
            payloads.encode(plain)
        except PayloadError as error:
            raise Unfit(f"its default {default!r:.60} is none that JSON holds: {error.problem}") from None
        return kind.value(plain)

    def _kind(self, schema: dict[str, Any]) -> tuple[Kind, bool]:
        """What it is, and whether null is a value of it."""
        if schema["type"] == "definition-ref":
            schema = self._definitions[schema["schema_ref"]]
        if schema["type"] == "nullable":
            _only(schema, "schema")
            return self._kind(schema["schema"])[0], True
        readers = {
            "str": self._str, "int": self._int, "float": self._float, "decimal": self._decimal,
            "bool": self._bool, "uuid": self._uuid, "date": self._date, "datetime": self._datetime,
            "literal": self._literal, "enum": self._enum, "any": self._any, "dict": self._dict,
            "list": self._list,
        }  # fmt: skip
        if schema["type"] not in readers:
            raise Unfit(refusal(schema))
        kind = readers[schema["type"]](schema)
        return kind, kind.null

    def _str(self, schema: dict[str, Any]) -> Kind:
        for each in ("strip_whitespace", "to_lower", "to_upper"):
            if schema.get(each):
                raise Unfit(f"{each} changes the text, and SQL checks it as it is; change it in the handler")
        _only(schema, "min_length", "max_length", "pattern", "regex_engine", "coerce_numbers_to_str")
        pattern = schema.get("pattern")
        engine = schema.get("regex_engine") or self._config.get("regex_engine") or "rust-regex"
        if pattern is not None and (
            not isinstance(pattern, str) or engine != "rust-regex" or not understood(pattern)
        ):
            shown = getattr(pattern, "pattern", pattern)
            raise Unfit(
                f"its pattern {shown!r} may mean another thing to Postgres; say it with ASCII characters, "
                f"[a-z0-9_-], ( ), |, ^, $ and * + ? {{1,9}}, or {BY_HAND}"
            )
        low = schema.get("min_length", self._config.get("str_min_length"))
        high = schema.get("max_length", self._config.get("str_max_length"))
        return kinds.text(low, high, pattern)

    def _int(self, schema: dict[str, Any]) -> Kind:
        _only(schema, "ge", "gt", "le", "lt", "multiple_of")
        return kinds.integer(schema)

    def _float(self, schema: dict[str, Any]) -> Kind:
        if schema.get("multiple_of") is not None:
            raise Unfit(
                f"whether a float is a multiple is nothing that SQL answers as Python does; {BY_HAND}"
            )
        _only(schema, "ge", "gt", "le", "lt", "allow_inf_nan")
        return kinds.number(schema)

    def _decimal(self, schema: dict[str, Any]) -> Kind:
        if schema.get("multiple_of") is not None:
            raise Unfit(f"SQL does not check multiple_of of a Decimal; say decimal_places, or {BY_HAND}")
        _only(schema, "ge", "gt", "le", "lt", "max_digits", "decimal_places", "allow_inf_nan")
        return kinds.decimal(schema)

    def _bool(self, schema: dict[str, Any]) -> Kind:
        _only(schema)
        return kinds.boolean()

    def _uuid(self, schema: dict[str, Any]) -> Kind:
        _only(schema, "version")
        return kinds.uuid(schema.get("version"))

    def _date(self, schema: dict[str, Any]) -> Kind:
        self._no_now(schema)
        _only(schema, "ge", "gt", "le", "lt")
        return kinds.day(schema)

    def _datetime(self, schema: dict[str, Any]) -> Kind:
        self._no_now(schema)
        if schema.get("tz_constraint", "aware") != "aware":
            raise Unfit("its times have no zone of one kind; make it an AwareDatetime")
        for each in ("ge", "gt", "le", "lt"):
            if (bound := schema.get(each)) is not None and bound.utcoffset() is None:
                raise Unfit(f"its bound {each}={bound.isoformat()} has no time zone; add one, as tzinfo=UTC")
        _only(schema, "ge", "gt", "le", "lt", "tz_constraint", "microseconds_precision")
        return kinds.moment(schema)

    def _no_now(self, schema: Mapping[str, Any]) -> None:
        if schema.get("now_op") is not None:
            raise Unfit(f"past or future may have changed until the job reads it; {BY_HAND}")

    def _literal(self, schema: dict[str, Any]) -> Kind:
        _only(schema, "expected")
        values = schema["expected"]
        return _one_of([each for each in values if each is not None], null=None in values)

    def _enum(self, schema: dict[str, Any]) -> Kind:
        if issubclass(schema["cls"], Flag):
            raise Unfit("its enumeration is one of flags, which may be combined; make it a list of names")
        # Asked by pydantic whether its schema says so or not.
        if schema.get("missing") or schema["cls"]._missing_.__func__ is not vars(Enum)["_missing_"].__func__:
            raise Unfit("its enumeration has a _missing_ of its own, which SQL cannot run; remove that")
        _only(schema, "cls", "members", "sub_type")
        return _one_of([each.value for each in schema["members"]], null=False)

    def _any(self, schema: dict[str, Any]) -> Kind:
        _only(schema)
        return kinds.json(None)

    def _dict(self, schema: dict[str, Any]) -> Kind:
        for each in ("keys_schema", "values_schema"):
            inner: dict[str, Any] = schema.get(each) or {"type": "any"}
            if inner["type"] not in ("any", "str" if each == "keys_schema" else "any"):
                raise Unfit(
                    f"SQL does not check what stands in an object; make it dict[str, Any], or {BY_HAND}"
                )
            _only(inner)
        _only(schema, "keys_schema", "values_schema")
        if self._config.get("str_max_length") is not None or self._config.get("str_min_length"):
            raise Unfit(
                "its keys are under str_max_length or str_min_length of the model; use Field(...) instead"
            )
        return kinds.json("object")

    def _list(self, schema: dict[str, Any]) -> Kind:
        _only(schema, "items_schema", "min_length", "max_length", "fail_fast")
        low, high = schema.get("min_length"), schema.get("max_length")
        inner: dict[str, Any] = schema.get("items_schema") or {"type": "any"}
        if inner["type"] == "any":
            _only(inner)
            return kinds.json("array", low, high)
        item, nulls = self._kind(inner)
        if item.sql == "jsonb" or item.sql.endswith("[]"):
            raise Unfit(f"SQL does not check lists of that; make it list[Any], or {BY_HAND}")
        return kinds.array(item, nulls=nulls, low=low, high=high)


def _one_of(values: Sequence[Any], *, null: bool) -> Kind:
    types = {type(each).__name__ for each in values}
    if types not in ({"str"}, {"int"}, {"bool"}):
        found = ", ".join(sorted(types)) or "none"
        raise Unfit(f"its values are of the types {found}; make them all text, or all whole numbers")
    for each in values:
        if isinstance(each, int) and each not in BIGINT:
            raise Unfit(f"its value {each} is beyond what a bigint holds; make it text")
        try:
            payloads.encode(each)
        except PayloadError as error:
            raise Unfit(f"its value {each!r:.60} is none that Postgres holds: {error.problem}") from None
    return kinds.one_of(values, null=null)


def _plain(value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[object]", value)]
    return value
