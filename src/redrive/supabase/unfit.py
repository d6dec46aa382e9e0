"""Unfit: what no parameter can be made of, in one sentence with the way out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BY_HAND = "leave it to the handler, which can raise Reject"


class Unfit(Exception):
    """What no parameter can be made of: where it stands, and the sentence about it."""


def function_of(schema: Mapping[str, Any]) -> str:
    """The name of the validator in a schema of pydantic."""
    function = schema["function"]["function"]
    return getattr(function, "__qualname__", None) or repr(function)


def refusal(schema: Mapping[str, Any]) -> str:
    """Why a type of pydantic is none of SQL's."""
    kind = schema["type"]
    if kind.startswith("function-") and "url" in schema.get("schema", {}).get("type", ""):
        kind = "url"
    match kind:
        case "function-before" | "function-after" | "function-wrap" | "function-plain":
            return (
                f"it has a validator of its own, {function_of(schema)}, which SQL cannot run; say it with "
                f"Field(...), or {BY_HAND}"
            )
        case "union" | "tagged-union":
            return "it is a union; give it one type, or None and one type"
        case "model" | "dataclass" | "typed-dict" | "model-fields":
            return (
                "a model inside the payload is no parameter; put its fields here, or make it dict[str, Any]"
            )
        case "set" | "frozenset" | "tuple" | "generator":
            return "SQL has no parameter for it; make it a list"
        case "timedelta" | "time":
            return "SQL does not read it as pydantic does; make it a number of seconds, or text"
        case "url" | "multi-host-url":
            return f"SQL does not check URLs; make it text with a max_length, or {BY_HAND}"
        case _:
            return (
                f"SQL does not check pydantic's {kind}; make it text, a number, bool, UUID, date, an aware "
                "datetime, a Literal or enumeration of these, a list of them, Any or dict[str, Any]"
            )
