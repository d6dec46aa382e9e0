"""Places: where a value stands in a delivery, and reading it from there.

    "/data/id"                a JSON pointer into the payload (RFC 6901)
    "X-GitHub-Event"          a header
    Joined(("/uid", "/n"))    several of these in one text, numbers too; None when a needed one is missing

Guarantees  reading never raises, and yields only text of 1 to 255 characters that Postgres can store.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, cast
from urllib.parse import parse_qsl

from redrive.errors import ConfigError
from redrive.inbox.headers import Headers, text_of
from redrive.inbox.twilio import FORM

LONGEST = 255

# From anybody with the secret; a form that says who it is is small.
_LARGEST_FORM = 1_000_000
_MOST_FIELDS = 1_000
# Beyond it, a number is not what an id or a state is made of.
_LARGEST_NUMBER = 10**18


@dataclass(frozen=True, slots=True)
class Joined:
    """The texts and whole numbers at `parts`, with colons between, then those `extra` ones that are there.

    `hashed` gives SHA-256 over their JSON array instead: of any length, and no two lists alike.
    """

    parts: tuple[str, ...]
    extra: tuple[str, ...] = ()
    hashed: bool = False


Place: TypeAlias = str | Joined


def read(place: Place, headers: Headers, document: object) -> str | None:
    """The text at `place`, or None."""
    if isinstance(place, Joined):
        return _joined(place, headers, document)
    return storable(text_of(headers, place) if not place.startswith("/") else _at(document, place))


def first(places: Sequence[Place], headers: Headers, document: object) -> str | None:
    """The text at the first of `places` that has one."""
    for place in places:
        if (found := read(place, headers, document)) is not None:
            return found
    return None


def storable(value: object) -> str | None:
    """`value` when it is text of 1 to 255 characters that Postgres can hold, else None."""
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST or "\0" in value:
        return None
    try:
        value.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return None
    return value


def document(headers: Headers, payload: object, body: bytes) -> object:
    """What pointers point into: the payload, else the fields of a form, else None.

    A form with JSON in its field `payload`, as github and slack send it, stands for that JSON.
    """
    if payload is not None or len(body) > _LARGEST_FORM:
        return payload
    kind = text_of(headers, "content-type") or ""
    if kind.partition(";")[0].strip().lower() != FORM.decode():
        return None
    try:
        pairs = parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        return None
    fields = dict(reversed(pairs))  # of a name that comes twice, the first
    if "payload" in fields:
        try:
            return json.loads(fields["payload"])
        except (ValueError, RecursionError):
            pass
    return fields


def check_place(value: object, setting: str) -> str:
    """`value` when it can be a place in the configuration; raises `ConfigError` naming `setting`."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ConfigError(f"{setting} is {value!r}; give a JSON pointer such as /id, or a header's name")
    return value


def _joined(place: Joined, headers: Headers, document: object) -> str | None:
    found: list[str | int] = []
    for part in (*place.parts, *place.extra):
        value = _at(document, part) if part.startswith("/") else text_of(headers, part)
        number = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER
        if number or storable(value) is not None:
            found.append(cast("str | int", value))
        elif part in place.parts:
            return None
    if place.hashed:
        return hashlib.sha256(json.dumps(found).encode()).hexdigest()
    return storable(":".join(map(str, found)))


def _at(document: object, pointer: str) -> object:
    for step in _steps(pointer):
        if isinstance(document, dict):
            document = cast("dict[str, object]", document).get(step)
        elif isinstance(document, list) and step.isascii() and step.isdigit() and len(step) < 10:
            items = cast("list[object]", document)
            document = items[int(step)] if int(step) < len(items) else None
        else:
            return None
    return document


@lru_cache(maxsize=256)
def _steps(pointer: str) -> tuple[str, ...]:
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer[1:].split("/"))
