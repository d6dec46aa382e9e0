"""Inbox: where one source's webhooks arrive: who sends them, how they are checked, where their jobs go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit, urlunsplit

from redrive import payload as payloads
from redrive.errors import ConfigError, InvalidArgument
from redrive.inbox.event import Event
from redrive.inbox.providers import PROVIDERS, Provider
from redrive.inbox.providers import provider as provider_of
from redrive.policy import QueuePolicy, check_count, check_seconds
from redrive.store.messages import check_sendable

if TYPE_CHECKING:
    from redrive.inbox.secrets import Given
    from redrive.inbox.source import Api

# GitHub sends up to that much.
LIMIT = 25 * 1024 * 1024
# What a receiver takes of all bodies at once, and jsonb of one, is a little more.
MOST = 256_000_000
_API = ("resources", "schema", "close")
# Part of a URL, and of a variable's name.
_SOURCE = re.compile(r"[a-z][a-z0-9_-]{0,62}")


@dataclass(frozen=True, slots=True, eq=False)
class Inbox:
    """As `Redrive.inbox` was told; see there."""

    source: str
    provider: Provider
    queue: str
    secret: Given = field(default=None, repr=False)
    limit: int = LIMIT
    url: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the verifier is told beside the secrets; `tolerance` (seconds) among it when one was given."""
    api: Api | None = None

    @classmethod
    def of(
        cls,
        source: str,
        *,
        provider: str,
        queue: str,
        secret: Given,
        limit: int,
        tolerance: float | None,
        config: Mapping[str, Any] | None,
        url: str | None,
        api: Api | None,
    ) -> Inbox:
        """Check what can be checked before there are secrets. Raises `ConfigError`."""
        if not isinstance(cast("object", source), str) or not _SOURCE.fullmatch(source):
            raise ConfigError(
                f"inbox {source!r} is refused; a source is a lower-case letter, then lower-case letters, "
                "digits, _ or -, at most 63 characters: it is part of a URL"
            )
        if not isinstance(cast("object", provider), str) or provider not in PROVIDERS:
            there_are = ", ".join(sorted(PROVIDERS))
            raise ConfigError(f"inbox {source}: there is no provider {provider!r}; there are: {there_are}")
        try:
            told = _settings(config)
            if tolerance is not None:
                told["tolerance"] = check_seconds(tolerance, "tolerance")
            made = cls(
                source,
                provider_of(provider, told),
                check_sendable(queue),
                secret,
                _limit(limit),
                url,
                told,
                api,
            )
            if url is not None:
                _check_url(url, made)
            if api is not None:
                _check_api(api)
            return made
        except (ConfigError, InvalidArgument) as error:
            raise ConfigError(f"inbox {source}: {error}") from error

    @property
    def signs_url(self) -> bool:
        """Whether a signature covers the URL that was posted to."""
        return self.provider.rules is not None and self.provider.rules.signed is None

    def public(self, seen: str) -> str:
        """The URL that was signed, for one as this server sees it: the configured one, with this query."""
        if self.url is None:
            return seen
        # Not parsed: what stands before the ? is the Host header, in which anything may stand.
        query = seen.partition("?")[2]
        return urlunsplit(urlsplit(self.url)._replace(query=query)) if query else self.url

    @property
    def signature_headers(self) -> frozenset[str]:
        """The headers that hold a signature, in lower case."""
        families = () if self.provider.rules is None else self.provider.rules.families
        return frozenset(family.signature.name.lower() for family in families)

    def event_of(self, payload: Any) -> Event:
        """The event that a payload without a record stands for."""
        raw = payloads.encode(payload, limit=2**40).encode()
        found = self.provider.identify((), payload, raw)
        return Event(
            id=None,
            source=self.source,
            event_id=found.event_id or "",
            type=found.type,
            action=self.provider.action_of(payload, (), raw),
            resource=found.resource,
            payload=payload,
            raw=raw,
        )


def _settings(config: object) -> dict[str, Any]:
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise ConfigError(f"config must be a dict of settings and their values, not {type(config).__name__}")
    return dict(cast("Mapping[str, Any]", config))


def _limit(value: object) -> int:
    limit = check_count(value, "limit")
    if limit > MOST:
        raise ConfigError(f"limit is {limit:,} bytes; it must be at most {MOST:,}: no more can be recorded")
    return limit


def _check_url(url: object, inbox: Inbox) -> None:
    if not inbox.signs_url:
        raise ConfigError(f"url is set, but {inbox.provider.name} does not sign where it posts to; remove it")
    if not isinstance(url, str) or not _is_public(url):
        # Twilio takes a password in the URL.
        shown = "" if isinstance(url, str) and "@" in url else f" {url!r}"
        raise ConfigError(
            f"url{shown} is not http(s):// with a host, without spaces and #; give the one that was given to "
            f"{inbox.provider.name}, such as https://shop.example/webhooks/{inbox.source}"
        )


def _is_public(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname
        _ = parts.port  # raises where it is none
    except ValueError:
        return False
    whole = parts.scheme in ("http", "https") and bool(host)
    return whole and url.isprintable() and not set(" #") & set(url)


def _check_api(api: object) -> None:
    lacks = [name for name in _API if not callable(getattr(api, name, None))]
    if isinstance(api, type):
        raise ConfigError(
            f"api is the class {api.__qualname__}; make an object of it: {api.__qualname__}(...)"
        )
    policy = getattr(api, "policy", None)
    if lacks or not isinstance(policy, Mapping):
        raise ConfigError(
            f"api, a {type(api).__qualname__}, has no {', '.join(lacks) or 'policy (a dict)'}; give "
            "what redrive.inbox.source.Source describes, such as FastPix()"
        )
    try:
        QueuePolicy(**cast("Mapping[str, Any]", policy))
    except (TypeError, InvalidArgument) as error:
        raise ConfigError(f"the policy of api, a {type(api).__qualname__}, is refused: {error}") from error
