"""Access: who may tick: whoever knows a secret, or, where none is set, this machine alone.

    REDRIVE_TICK_SECRET        Authorization: Bearer …; several, with commas between them, for a rotation
    SUPABASE_SECRET_KEYS       apikey: sb_secret_…; a JSON object of them by name
    SUPABASE_SECRET_KEY        apikey: sb_secret_…
    SUPABASE_SERVICE_ROLE_KEY  apikey, or Authorization: Bearer …: the legacy JWT

Guarantees  a given secret is held against every one of them in a time that does not tell how alike they are;
            one that is blank, short, or known to everybody (a publishable or anon key) refuses to start, and
            no error shows it;
            where none is set, a request from elsewhere, one that was forwarded and one that a web page makes
            are refused.
Not given   that a changed variable is seen: the environment is read once, at the start. An empty variable of
            Supabase's counts as not set.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any, cast

from starlette.requests import Request

from redrive.errors import ConfigError
from redrive.settings import TICK_SECRET
from redrive.web.near import is_near

SECRET_KEYS = "SUPABASE_SECRET_KEYS"
SECRET_KEY = "SUPABASE_SECRET_KEY"
SERVICE_ROLE_KEY = "SUPABASE_SERVICE_ROLE_KEY"

# 128 bits of random hexadecimal digits are 32, as base64 22. Whoever types a word gets told.
SHORTEST = 16
UNKNOWN = "this takes a secret"
FAR = (
    "without a secret only this machine itself may do this; set REDRIVE_TICK_SECRET where this server runs, "
    "and send it as Authorization: Bearer"
)


class Access:
    """`bearers` are accepted as ``Authorization: Bearer``, `keys` in the header ``apikey``."""

    def __init__(self, bearers: Sequence[str], keys: Sequence[str] = ()) -> None:
        self._bearers = [each.encode() for each in bearers]
        self._keys = [each.encode() for each in keys]

    def __repr__(self) -> str:
        return f"Access({len(self._bearers)} bearers, {len(self._keys)} keys)"

    @classmethod
    def from_environment(cls) -> Access:
        """Raises `ConfigError` naming the variable, never the secret."""
        bearers = list(_tick_secrets())
        keys = list(_secret_keys())
        if given := os.environ.get(SERVICE_ROLE_KEY):
            _check_key(given, SERVICE_ROLE_KEY)
            bearers.append(given)
            keys.append(given)
        return cls(bearers, keys)

    @property
    def takes_secret(self) -> bool:
        """Whether there is one; else this machine alone may."""
        return bool(self._bearers or self._keys)

    def refusal(self, request: Request) -> tuple[int, str] | None:
        """The status and the sentence for who may not; None for who may."""
        if not self.takes_secret:
            # A page in a browser of this machine reaches its loopback too; a command sends none of these.
            of_a_page = "origin" in request.headers or "sec-fetch-site" in request.headers
            return (403, FAR) if of_a_page or not is_near(request) else None
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        known = [
            _among(self._bearers, bearer.strip() if scheme.lower() == "bearer" else ""),
            _among(self._keys, request.headers.get("apikey", "")),
        ]
        return None if any(known) else (401, UNKNOWN)


def _among(secrets: Sequence[bytes], given: str) -> bool:
    """Looks at every one, also after it was found."""
    # A header's bytes are decoded as latin-1, whatever they were.
    found = given.encode("utf-8", "replace")
    return sum(hmac.compare_digest(found, each) for each in secrets) > 0


def _tick_secrets() -> Iterator[str]:
    given = os.environ.get(TICK_SECRET)
    if given is None:
        return
    for each in given.split(","):
        _check_key(each, TICK_SECRET)
        yield each


def _secret_keys() -> Iterator[str]:
    if given := os.environ.get(SECRET_KEYS):
        try:
            found: object = json.loads(given)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ConfigError(f"{SECRET_KEYS} is no JSON object of keys by name; give it one, or unset it")
        for name, key in cast("dict[str, Any]", found).items():
            setting = f"{SECRET_KEYS}, key {name!r}"
            _check_key(key, setting)
            yield key
    if given := os.environ.get(SECRET_KEY):
        _check_key(given, SECRET_KEY)
        yield given


def _check_key(given: object, setting: str) -> None:
    """A secret that is one of Supabase's: not one that every visitor of a web page gets."""
    if not isinstance(given, str):
        raise ConfigError(f"{setting}: is no text")
    _check_secret(given, setting)
    if given.startswith("sb_publishable_") or _role_of(given) in ("anon", "authenticated"):
        raise ConfigError(
            f"{setting} is a publishable or anon key, which everybody may know; set it to a secret key, "
            "sb_secret_…"
        )


def _check_secret(given: str, setting: str) -> None:
    if not given.strip():
        raise ConfigError(f"{setting} has an empty secret; give it a value, or unset it")
    if not given.isascii() or not given.isprintable() or " " in given:
        raise ConfigError(f"{setting} must be ASCII letters, digits and signs without white space")
    if len(given) < SHORTEST:
        raise ConfigError(
            f"{setting} has a secret of {len(given)} characters; it must have at least {SHORTEST}, and be "
            "made by chance: `openssl rand -hex 32` makes one"
        )


def _role_of(key: str) -> str | None:
    """What a JWT says of its role; None for what is none."""
    parts = key.split(".")
    if len(parts) != 3:
        return None
    try:
        claims: object = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return None
    return cast("dict[str, Any]", claims).get("role") if isinstance(claims, dict) else None
