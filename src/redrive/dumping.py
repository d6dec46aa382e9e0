"""Dumping: what pydantic writes of a value, and never a mask in the place of a secret."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, cast

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from pydantic_core import PydanticSerializationError

from redrive.errors import PayloadError

# What pydantic writes in a secret's place.
_MASK = "**********"

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def dumped(value: object, write: Callable[[], Any], root: str = "$", index: int | None = None) -> Any:
    """What pydantic's `write` makes of `value`. Raises `PayloadError`, also for a secret it would mask."""
    try:
        found = write()
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        problem = f"pydantic cannot write this {type(value).__name__}: {error}"
        raise PayloadError(root, problem, index=index) from error
    if _has_mask(found) and (secret := _secret(value, root)) is not None:
        raise PayloadError(
            secret,
            f"a secret, which would be written as {_MASK}; it does not belong in a queue's table; send a "
            "reference to where it is kept",
            index=index,
        )
    return found


def _has_mask(value: object) -> bool:
    todo = [value]
    while todo:
        found = todo.pop()
        match found:
            case str() if _MASK in found:
                return True
            case dict():
                todo += cast("dict[str, object]", found).values()
            case list():
                todo += cast("list[object]", found)
            case _:
                pass
    return False


def _secret(value: object, path: str) -> str | None:
    """The path of the first pydantic secret."""
    if isinstance(value, Secret | SecretStr | SecretBytes):
        return path
    if isinstance(value, BaseModel):
        members = [*value.__dict__.items(), *(value.__pydantic_extra__ or {}).items()]
    elif is_dataclass(value) and not isinstance(value, type):
        members = [(each.name, getattr(value, each.name, None)) for each in fields(value)]
    elif isinstance(value, Mapping):
        members = [(str(name), each) for name, each in cast("Mapping[object, object]", value).items()]
    elif isinstance(value, list | tuple | set | frozenset):
        members = list(enumerate(cast("Iterable[object]", value)))
    else:
        return None
    found = (_secret(each, into(path, step)) for step, each in members)
    return next((each for each in found if each is not None), None)


def into(path: str, step: str | int) -> str:
    """The path of a member."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    return f"{path}.{step}" if _PLAIN_NAME.fullmatch(step) else f"{path}[{json.dumps(step)}]"
