"""Headers as a request brings them: names in any case, text or bytes, a line perhaps sent several times.

A value becomes bytes with the spaces and tabs around it taken off; text outside ASCII becomes UTF-8, so that
whoever looks can refuse it. Reading never raises, whatever the values are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias, cast

# Name to value, or name to the values of several lines; or (name, value) pairs, as ASGI has them.
Headers: TypeAlias = "Mapping[str, str | Sequence[str]] | Iterable[tuple[str | bytes, str | bytes]]"

_NOT_TEXT = b"\xff"


def find(headers: Headers, wanted: Collection[bytes]) -> dict[bytes, list[bytes]]:
    """The values of the `wanted` headers (lower-case names), in the order they were sent."""
    pairs = cast(
        "Iterable[tuple[str | bytes, object]]", headers.items() if isinstance(headers, Mapping) else headers
    )
    found: dict[bytes, list[bytes]] = {}
    for name, value in pairs:
        # As bytes, lower() knows ASCII only: the Kelvin sign is no k.
        key = (name if isinstance(name, bytes) else name.encode("utf-8", "surrogatepass")).lower()
        if key not in wanted:
            continue
        lines = found.setdefault(key, [])
        if isinstance(value, (list, tuple)):
            lines.extend(_octets(each) for each in cast("Sequence[object]", value))
        else:
            lines.append(_octets(value))
    return found


def text_of(headers: Headers, name: str) -> str | None:
    """The value of a header sent once, in ASCII and not empty; else None."""
    key = name.lower().encode()
    match find(headers, (key,)).get(key):
        case [value] if value and value.isascii():
            return value.decode("ascii")
        case _:
            return None


def _octets(value: object) -> bytes:
    if isinstance(value, bytes):
        return value.strip(b" \t")
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").strip(b" \t")
    return _NOT_TEXT
