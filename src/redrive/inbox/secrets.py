"""Secrets: where a source's signing secrets come from, checked before anything is served.

Guarantees  an absent secret, and one that cannot be right, refuses to start, by a `ConfigError` that
            names the setting and never shows the secret; nothing here prints one either.
Not given   that a changed variable is seen: the environment and callables are asked once, at the start.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, cast

from redrive.errors import ConfigError, SignatureError
from redrive.inbox.headers import Headers
from redrive.inbox.signatures import Verified, Verifier


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """One signing secret: its text, or a callable that returns it, or the environment variable `env`.

    From `until` on (an aware datetime) it no longer counts: the date by which an old one has served its time.

        secret=[Secret(env="STRIPE_SECRET"), Secret(env="STRIPE_OLD", until=datetime(2027, 1, 1, tzinfo=UTC))]
    """

    value: str | Callable[[], str] | None = None
    env: str | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.env is None):
            raise ConfigError("Secret takes either its value or env, the name of an environment variable")
        env = cast("object", self.env)
        if env is not None and (not isinstance(env, str) or not env):
            raise ConfigError("env must be the name of an environment variable, as text")
        until = cast("object", self.until)
        if until is not None and (not isinstance(until, datetime) or until.utcoffset() is None):
            raise ConfigError(
                f"until is {until!r}; it must be a datetime with a time zone, such as "
                "datetime(2027, 1, 1, tzinfo=UTC)"
            )

    def __repr__(self) -> str:
        return f"Secret({'***' if self.env is None else f'env={self.env!r}'}, until={self.until!r})"


One: TypeAlias = str | Secret
# What `Redrive.inbox(secret=...)` takes. None: the environment's <SOURCE>_WEBHOOK_SECRET.
Given: TypeAlias = One | Callable[[], str | Sequence[str]] | Sequence[One] | None


@dataclass(frozen=True, slots=True, repr=False)
class _Kept:
    text: str
    setting: str
    until: datetime | None


class LiveSecrets:
    """The secrets of one source, in the order given. Make it by `resolve`."""

    def __init__(self, provider: str, kept: Sequence[_Kept], config: Mapping[str, Any] | None) -> None:
        self._provider = provider
        self._kept = tuple(kept)
        self._config = config
        self._ends = sorted({each.until.timestamp() for each in kept if each.until is not None})
        everyone = tuple(each.text for each in kept)
        settings = [each.setting for each in kept]
        self._ready = everyone, Verifier(provider, everyone, config, settings=settings)

    def __repr__(self) -> str:
        return f"LiveSecrets({', '.join(each.setting for each in self._kept)})"

    def at(self, now: float) -> tuple[str, ...]:
        """Those that count at `now` (unix seconds); empty when the date of every one has passed."""
        if not self._ends or now < self._ends[0]:
            return tuple(each.text for each in self._kept)
        return tuple(each.text for each in self._kept if each.until is None or now < each.until.timestamp())

    def name_at(self, now: float, position: int) -> str:
        """What the secret at this position of `at(now)` is called: its variable, or its place in the list."""
        live = [each for each in self._kept if each.until is None or now < each.until.timestamp()]
        return live[position].setting

    def verify(
        self, headers: Headers, body: bytes, url: str | None = None, now: float | None = None
    ) -> Verified:
        """What the signature vouches for, as `Verifier.verify` says it; `secret` is a position in `at(now)`.

        The secrets are made ready once, and again when the date of one has passed. Raises `SignatureError`.
        """
        now = time.time() if now is None else now
        live = self.at(now)
        if not live:
            raise SignatureError("mismatch", "the date of every secret has passed; configure one that counts")
        ready, verifier = self._ready
        if ready != live:
            verifier = Verifier(self._provider, live, self._config)
            self._ready = live, verifier
        return verifier.verify(headers, body, url, now)


def resolve(source: str, provider: str, given: Given, config: Mapping[str, Any] | None = None) -> LiveSecrets:
    """The secrets of `source`, checked for `provider`'s scheme. Callables are called, once.

    None means the environment variable <SOURCE>_WEBHOOK_SECRET, in upper case and with _ for -. Raises
    `ConfigError` for an absent, empty, undecodable or padded secret, for a callable that raises, and where
    each one's date has passed. Of several, one whose date has passed is not looked up any more.
    """
    setting = f"secret of inbox {source!r}"
    if given is None:
        given = Secret(env=f"{source.upper().replace('-', '_')}_WEBHOOK_SECRET")
    elif callable(given):
        given = cast("Given", _called(given, setting))
    items: list[object] = [*given] if isinstance(given, (list, tuple)) else [given]
    if not items:
        raise ConfigError(f"{setting} is an empty list; give at least one")
    several = [f"secret number {number} of inbox {source!r}" for number in range(1, len(items) + 1)]
    names = several if len(items) > 1 else [setting]
    # Whose date has passed is not looked up: its variable may be gone, as it should.
    live = [(item, name) for item, name in zip(items, names, strict=True) if not _has_ended(item)]
    if not live:
        raise ConfigError(f"{setting}: the date until which it counts has passed; give one that counts")
    return LiveSecrets(provider, [_kept(item, name) for item, name in live], config)


def _has_ended(item: object) -> bool:
    return isinstance(item, Secret) and item.until is not None and item.until.timestamp() <= time.time()


def _kept(item: object, setting: str) -> _Kept:
    if not isinstance(item, Secret):
        item = Secret(cast("str | Callable[[], str]", item)) if item is not None else Secret("")
    if item.env is None:
        text = _called(item.value, setting) if callable(item.value) else item.value
        return _Kept(cast(str, text), setting, item.until)
    text = os.environ.get(item.env)
    if text is None:
        raise ConfigError(f"{item.env} is not set; {setting} is read from it; set it to the signing secret")
    return _Kept(text, item.env, item.until)


def _called(function: Callable[[], object], setting: str) -> object:
    """Its answer. What it raises is a vault out of reach, say: a sentence, not a traceback."""
    try:
        return function()
    except ConfigError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())
        raise ConfigError(
            f"{setting}: the function that gives it raised {type(error).__name__}{': ' if said else ''}{said}"
        ) from error
