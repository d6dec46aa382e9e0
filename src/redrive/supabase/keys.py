"""Keys: an rpc's template as an expression of SQL, when no two messages that differ in it share a key.

A client who can write the separators into a part could otherwise take the key of somebody else's message,
which then would never be sent. So one part at most is text of the caller's choice, a separator stands
between each two, and no other part can contain it. That a key names the caller, and begins as those of no
other rpc of its queue, is seen to where rpcs are declared.
"""

from __future__ import annotations

import string
from itertools import pairwise

from redrive.app.intents import DATE, Rpc
from redrive.errors import ConfigError
from redrive.supabase.fields import Model
from redrive.supabase.kinds import KeyText, literal

# Longer than any user's id that an authority may give (OpenID Connect: 255).
LONGEST_USER = 255
_MOST = 512
_WORD = frozenset(string.ascii_letters + string.digits + "-._")
_DAY = "to_char(redrive.clock() at time zone 'UTC', 'YYYY-MM-DD')"


def expression(rpc: Rpc, model: Model, requester: str) -> str:
    """`requester` is the expression of who calls. Raises `ConfigError`."""
    parts = [(text, name, _part(rpc, model, name)) for text, name in rpc.key_parts]
    _check_apart(rpc, parts)
    _check_length(rpc, parts)
    template = "".join(text.replace("%", "%%") + ("%s" if name else "") for text, name, _ in parts)
    written: list[str] = []
    for _, name, part in parts:
        if name == DATE:
            written.append(_DAY)
        elif name and part:
            written.append(part.write(requester if name == rpc.requester else model.field(name).identifier))
    if not written:
        return literal("".join(text for text, _, _ in parts))
    return f"format({', '.join([literal(template), *written])})"


def _part(rpc: Rpc, model: Model, name: str | None) -> KeyText | None:
    if name is None:
        return None
    if name == DATE:
        return KeyText(10)
    field = model.field(name)
    if field.kind.key is None:
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} names {name}, and {field.kind.what} can be written in several ways; "
            "take text, a whole number, bool, UUID or date"
        )
    if name == rpc.requester:
        own = field.kind.key
        return own if field.kind.sql == "uuid" else KeyText(LONGEST_USER, free=True, write=own.write)
    if field.nullable:
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} names {name}, which may be null; require it, or leave it "
            "out of the key"
        )
    return field.kind.key


_Parts = list[tuple[str, str | None, KeyText | None]]


def _check_apart(rpc: Rpc, parts: _Parts) -> None:
    named = [(text, name, part) for text, name, part in parts if name and part]
    free = [name for _, name, part in named if part.free]
    if len(free) > 1:
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} has text of the caller's choice in {free[0]} and {free[1]}, with "
            "which different messages could have one key; keep one of them, or make the other a UUID"
        )
    between = {char for text, _, _ in named[1:] for char in text} - _WORD
    for (_, before, _), (text, after, _) in pairwise(named):
        if not set(text) - _WORD:
            raise ConfigError(
                f"{rpc}: its key {rpc.key!r} has no separator between {before} and {after}; put a : there"
            )
    for _, name, part in named:
        if taken := sorted(between & set("".join(part.samples))):
            raise ConfigError(
                f"{rpc}: its key {rpc.key!r} separates by {taken[0]!r}, which stands in a value of {name}; "
                "separate by another character"
            )


def _check_length(rpc: Rpc, parts: _Parts) -> None:
    text = sum(len(text) for text, _, _ in parts)
    unlimited = [name for _, name, part in parts if part and part.longest is None]
    if unlimited:
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} names {unlimited[0]}, which has no max_length; a key has at most "
            f"{_MOST} characters: give it one"
        )
    longest = text + sum(part.longest or 0 for _, _, part in parts if part)
    if longest > _MOST:
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} may have {longest} characters, and {_MOST} are the most; give its "
            "text a smaller max_length"
        )
