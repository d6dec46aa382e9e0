"""Policy edit: ``--set field=value`` as the override that the database takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from redrive.errors import InvalidArgument
from redrive.store.queues import PolicyField


def changes(settings: Sequence[str], fields: Sequence[PolicyField]) -> dict[str, Any]:
    """The overrides that `settings` ask for, given the policy as it is.

    A value is JSON, or else text. ``backoff.base=10`` changes one member of the backoff and leaves its other
    overrides. Raises `InvalidArgument` for what is no FIELD=VALUE; which fields and values there are, the
    database knows.
    """
    wanted: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or not name:
            raise InvalidArgument(
                f"--set {setting!r} is no FIELD=VALUE; write it like --set max_attempts=3, or "
                "--set backoff.base=10"
            )
        field, dot, member = name.partition(".")
        if dot:
            wanted[field] = {**_members(wanted.get(field, _overridden(field, fields))), member: _value(text)}
        else:
            wanted[field] = _value(text)
    return wanted


def _overridden(field: str, fields: Sequence[PolicyField]) -> Any:
    for each in fields:
        if each.field == field and each.override:
            return each.override[0]
    return {}


def _members(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
