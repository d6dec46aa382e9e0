"""Keeping: what is kept of a request's header lines, beside its body.

Guarantees  no line that carries a credential is kept; what is kept, Postgres can hold: `_MOST` characters in
            all, no NUL. A line sent several times is one, its values joined by a comma and a space.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

_CREDENTIALS = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-gitlab-token"}
)
_MOST = 8_192
_LONGEST = 2_048


def kept(headers: Iterable[tuple[bytes, bytes]], without: Collection[str] = ()) -> dict[str, str]:
    """Names in lower case and their values, without credentials and without those that `without` names."""
    found: dict[str, str] = {}
    room = _MOST
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower()
        if name in _CREDENTIALS or name in without:
            continue
        value = raw_value[:_LONGEST].decode("latin-1")
        if "\x00" in value or "\x00" in name:
            name, value = name.replace("\x00", "␀"), value.replace("\x00", "␀")
        room -= len(name) + len(value)
        if room < 0:
            break
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found
