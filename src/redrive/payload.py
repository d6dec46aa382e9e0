"""Payloads: Python values to the JSON text Postgres stores, and back.

Guarantees  what `encode` returns, jsonb accepts, and `decode` gives it back equal: integers of any size
            exactly, floats to the last bit, text to the last character. Everything else is refused here,
            before any SQL, by a `PayloadError` that names the path inside the payload.
Not given   the order of an object's keys (jsonb sorts them), and the difference of tuple and list.

A payload is None, bool, int, float, str, list, tuple or a dict whose keys are text. Taken beside these,
anywhere inside: Decimal (a JSON number, all digits kept), UUID (text), aware datetime and date (ISO 8601),
pydantic models and dataclasses (pydantic's JSON mode). Refused: NUL characters, lone surrogates, NaN,
infinity, keys that are not text, sets, bytes, naive datetimes, other objects, nesting beyond 200 levels,
text beyond the size limit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from redrive.dumping import dumped, into
from redrive.errors import InvalidArgument, PayloadError

MAX_PAYLOAD = 1_000_000
# pydantic's own JSON reader stops at 201; Postgres and json.loads go on for a little.
MAX_DEPTH = 200
# The limits of Postgres' numeric, which is what a number in jsonb is.
_MOST_DIGITS = 131_072
_MOST_DECIMALS = 16_383

_RESERVED_HEADER = "x-redrive-"
_CONTAINERS = (dict, list, tuple)

# Non-ASCII stays as it is: shorter, and the one form that a SQL_ASCII database takes.
_dumps = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode
_quote = json.JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class Batch:
    """The JSON array of `count` messages in one text."""

    text: str
    count: int


def encode(payload: object, *, limit: int = MAX_PAYLOAD, index: int | None = None, root: str = "$") -> str:
    """The JSON text of `payload`, checked as the module says.

    `limit` is in bytes of compact UTF-8 JSON; `index` is named in the error as the position in a batch.
    Raises `PayloadError`.
    """
    text = _fast(payload, MAX_DEPTH)
    if text is None:
        text = _Writer(index).write(payload, root, 1)
    if (size := _size(text)) > limit:
        raise PayloadError(
            root,
            f"{size:,} bytes of JSON; the limit is {limit:,}; store the bulk elsewhere and send a reference, "
            "or raise Redrive(max_payload=...)",
            index=index,
        )
    return text


def encode_many(
    payloads: Iterable[object], *, limit: int = MAX_PAYLOAD, count: int, size: int = 4_000_000
) -> list[Batch]:
    """JSON arrays of at most `count` messages, and of about `size` bytes each, in the order of `payloads`.

    All of them are checked before the first batch is returned. Raises `PayloadError` with the index.
    """
    items = list(payloads)
    batches: list[Batch] = []
    for start in range(0, len(items), count):
        chunk = items[start : start + count]
        text = _fast(chunk, MAX_DEPTH + 1)
        if text is not None and _size(text) <= limit:
            batches.append(Batch(text, len(chunk)))
        else:
            texts = [encode(item, limit=limit, index=start + n) for n, item in enumerate(chunk)]
            batches.extend(_grouped(texts, size))
    return batches


def decode(text: str | bytes, *, decimals: bool = False) -> Any:
    """The value of a JSON text from Postgres. Fractions are floats, or `Decimal` with `decimals`.

    Raises `PayloadError` for a text that is no JSON, or nested too deeply for Python to read.
    """
    number = Decimal if decimals else None
    try:
        return json.loads(text, parse_float=number)
    except RecursionError:
        raise PayloadError("$", "is nested too deeply to be read") from None
    except json.JSONDecodeError as error:
        raise PayloadError("$", f"is no JSON: {error}") from None
    except ValueError:
        # Python refuses int(text) beyond 4,300 digits; a number in jsonb may have 131,072.
        return json.loads(text, parse_float=number, parse_int=_exact_int)


class Unreadable(str):
    """The text of JSON that Postgres holds, and that is nested too deeply to be read or written here."""


def decode_any(text: str, *, decimals: bool = False) -> Any:
    """As `decode`, for looking at whatever there is: what is nested too deeply is an `Unreadable`."""
    try:
        value = decode(text, decimals=decimals)
    except PayloadError:
        return Unreadable(text)
    return value if _keys_are_text(value, MAX_DEPTH) else Unreadable(text)


def encode_headers(headers: object) -> str | None:
    """The JSON text of a message's headers; None stays None.

    Raises `InvalidArgument` when they are no dict or use a name beginning ``x-redrive-``, `PayloadError`
    for a value that is no JSON.
    """
    if headers is None:
        return None
    if not isinstance(headers, Mapping):
        raise InvalidArgument(f"headers must be a dict, not {type(headers).__name__}")
    plain = dict(cast("Mapping[Any, Any]", headers))
    for name in plain:
        if isinstance(name, str) and name.lower().startswith(_RESERVED_HEADER):
            raise InvalidArgument(
                f"header {name!r} is refused: names beginning {_RESERVED_HEADER} are redrive's own; "
                "choose another"
            )
    return encode(plain, root="headers")


def check_text(value: object, name: str, *, most: int) -> str:
    """Return `value` when it is text that Postgres can hold, of 1 to `most` characters.

    Raises `InvalidArgument`.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text, not {type(value).__name__}")
    if problem := _text_problem(value):
        raise InvalidArgument(f"{name} {problem}")
    if not 1 <= len(value) <= most:
        raise InvalidArgument(f"{name} is {len(value)} characters; it must have 1 to {most}")
    return value


def problems(error: ValidationError) -> list[tuple[str, str]]:
    """A pydantic error as (path, problem) pairs. Without the values: they may be secrets."""
    found: list[tuple[str, str]] = []
    for each in error.errors(include_url=False, include_context=False, include_input=False):
        path = "$"
        for step in each["loc"]:
            path = into(path, step)
        found.append((path, each["msg"]))
    return found


def refusal(error: ValidationError, index: int | None = None) -> PayloadError:
    """A pydantic error as a `PayloadError`: the first path and problem, and how many more there are."""
    found = problems(error)
    path, problem = found[0]
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return PayloadError(path, f"{problem}{more}", index=index)


# --- the fast way: the C encoder, and None when a second look is needed ---


def _fast(payload: object, depth: int) -> str | None:
    """The text when everything about it is plain; else None, and the writer finds out what it is."""
    if not _keys_are_text(payload, depth):
        return None
    try:
        text = _dumps(payload)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    # The first may be a NUL; the second a float such as 1e+22, which jsonb would turn into an integer.
    return None if "\\u0000" in text or "e+" in text else text


def _keys_are_text(payload: object, depth: int) -> bool:
    # json.dumps writes the key 1 as "1" without a word. Level by level: a third of a recursive walk's time.
    if not isinstance(payload, _CONTAINERS):
        return True
    level: list[Any] = [payload]
    for _ in range(depth):
        deeper: list[Any] = []
        for container in level:
            if isinstance(container, dict):
                for key in cast("dict[object, object]", container):
                    if not isinstance(key, str):
                        return False
                container = cast("Iterable[object]", container.values())
            for value in container:
                if isinstance(value, _CONTAINERS):
                    deeper.append(value)
        if not deeper:
            return True
        level = deeper
    return False


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _grouped(texts: Sequence[str], size: int) -> list[Batch]:
    batches: list[Batch] = []
    group: list[str] = []
    filled = 0
    for text in texts:
        if group and filled + len(text) > size:
            batches.append(Batch(f"[{','.join(group)}]", len(group)))
            group, filled = [], 0
        group.append(text)
        filled += len(text)
    batches.append(Batch(f"[{','.join(group)}]", len(group)))
    return batches


# --- the exact way: knows the path, writes what the C encoder cannot ---


class _Writer:
    def __init__(self, index: int | None) -> None:
        self._index = index

    def write(self, value: object, path: str, depth: int) -> str:
        match value:
            case None:
                return "null"
            case bool():
                return "true" if value else "false"
            case str():
                return self._text(value, path)
            case int():
                return self._integer(value, path)
            case float():
                return self._float(value, path)
            case Decimal():
                return self._decimal(value, path)
            case list() | tuple():
                self._check_depth(path, depth)
                values = enumerate(cast("Sequence[object]", value))
                return f"[{','.join(self.write(v, f'{path}[{n}]', depth + 1) for n, v in values)}]"
            case dict():
                self._check_depth(path, depth)
                return self._object(cast("dict[object, object]", value), path, depth)
            case _:
                return self.write(self._plain(value, path), path, depth)

    def _object(self, value: dict[object, object], path: str, depth: int) -> str:
        members: list[str] = []
        for key, item in value.items():
            if not isinstance(key, str):
                kind = type(key).__name__
                raise self._error(path, f"the key {key!r} is {kind}; JSON keys are text; write str(key)")
            if problem := _text_problem(key):
                raise self._error(path, f"the key {key!r} {problem}")
            members.append(f"{_quote(key)}:{self.write(item, into(path, key), depth + 1)}")
        return "{" + ",".join(members) + "}"

    def _text(self, value: str, path: str) -> str:
        if problem := _text_problem(value):
            raise self._error(path, f"the text {problem}")
        return _quote(value)

    def _integer(self, value: int, path: str) -> str:
        # Through Decimal: str(int) stops at 4,300 digits.
        digits = str(Decimal(value))
        if len(digits.lstrip("-")) > _MOST_DIGITS:
            raise self._error(path, f"an integer of {len(digits):,} digits; Postgres holds {_MOST_DIGITS:,}")
        return digits

    def _float(self, value: float, path: str) -> str:
        if not math.isfinite(value):
            raise self._error(path, f"{value!r} is no JSON number; send None or text in its place")
        text = float.__repr__(value)
        if "e+" not in text:
            return text
        # jsonb prints 1e+22 as 10000000000000000000000, an integer; a decimal place keeps it a fraction.
        return f"{format(Decimal(text), 'f')}.0"

    def _decimal(self, value: Decimal, path: str) -> str:
        if not value.is_finite():
            raise self._error(path, f"{value!r} is no JSON number; send None or text in its place")
        exponent = cast("int", value.as_tuple().exponent)
        if value.adjusted() >= _MOST_DIGITS or -exponent > _MOST_DECIMALS:
            raise self._error(
                path,
                f"{value!r:.40} is beyond what Postgres holds: {_MOST_DIGITS:,} digits before the point, "
                f"{_MOST_DECIMALS:,} after it",
            )
        return str(value)

    def _plain(self, value: object, path: str) -> object:
        match value:
            case UUID():
                return str(value)
            case datetime() if value.utcoffset() is None:
                raise self._error(path, f"{value!r} has no time zone; add one, such as tzinfo=UTC")
            case date():
                return value.isoformat()
            case BaseModel():
                return self._by_pydantic(value, path)
            case _ if is_dataclass(value) and not isinstance(value, type):
                return self._by_pydantic(value, path)
            case _:
                kind = type(value).__name__
                raise self._error(path, f"{kind} is no JSON; convert it, or declare the payload's type")

    def _by_pydantic(self, value: object, path: str) -> object:
        return dumped(value, lambda: to_jsonable_python(value, by_alias=True), path, self._index)

    def _check_depth(self, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            shown = path if len(path) <= 60 else f"{path[:60]}…"
            raise self._error(shown, f"nested beyond {MAX_DEPTH} levels, or inside itself; flatten it")

    def _error(self, path: str, problem: str) -> PayloadError:
        return PayloadError(path, problem, index=self._index)


def _text_problem(value: str) -> str | None:
    if "\x00" in value:
        at = value.index("\x00")
        return f"holds a NUL character at position {at}, which Postgres cannot store; remove it"
    try:
        value.encode()
    except UnicodeEncodeError as error:
        return (
            f"holds a lone surrogate ({value[error.start]!a}) at position {error.start}, which is no "
            "character; decode its source properly or replace it"
        )
    return None


def _exact_int(digits: str) -> int:
    return int(Decimal(digits))
