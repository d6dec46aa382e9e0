"""Redaction: payloads for people to read, with what looks like a secret left out.

Guarantees  whatever stands under a name such as password, token or api_key is replaced as a whole, at any
            depth; so are the password of a URL and what follows Bearer or Basic, wherever they stand, and a
            payload that cannot be read, since nobody knows what is in it.
Not given   secrets that do not look like one.
"""

from __future__ import annotations

import re
from typing import Any, cast

from redrive.payload import Unreadable

REDACTED = "[redacted]"

_SECRET = re.compile(
    r"passw(or)?d|passphrase|passcode|secret|token|authori[sz]ation|api_?key|access_?key|private_?key|"
    r"(^|_)(stream|sign|signing|encryption|decryption|hmac|shared|master|root|ssh|webhook|session|service|"
    r"account|storage|app|client|licen[cs]e)_?key($|_)|"
    r"credential|cookie|(^|_)(pwd|pass|pin|otp|auth|jwt|cvc|cvv|ssn|iban|card_?number)($|_)"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SCHEME = re.compile(r"\b(Bearer|Basic)\s+\S+", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(?<=://)([^/\s:@]*):([^/\s@]+)@")


def redact(value: Any) -> Any:
    """A copy of a JSON value without its secrets."""
    match value:
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: _member(name, each) for name, each in members.items()}
        case list():
            return [redact(each) for each in cast("list[Any]", value)]
        case Unreadable():
            return f"[nested too deeply to be read: {len(value):,} characters]"
        case str():
            return _text(value)
        case _:
            return value


def _member(name: str, value: Any) -> Any:
    # True, False and null tell nothing; whether something is set is often the question.
    if value is None or isinstance(value, bool) or not is_secret(name):
        return redact(value)
    return REDACTED


def is_secret(name: str) -> bool:
    """Whether a field of this name is likely to hold a secret."""
    words = _CAMEL.sub("_", name).lower().replace("-", "_").replace(" ", "_").replace(".", "_")
    return _SECRET.search(words) is not None


def _text(value: str) -> str:
    if "://" in value:
        value = _URL_PASSWORD.sub(rf"\1:{REDACTED}@", value)
    return _SCHEME.sub(rf"\1 {REDACTED}", value)
