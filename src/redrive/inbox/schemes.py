"""Schemes: how each provider signs a request, as data. `signatures` verifies them all, `signing` signs them.

    standard-webhooks   webhook-signature           {id}.{timestamp}.{body}  base64  key: base64 after whsec_
    svix                svix-signature, or as standard-webhooks: the same
    stripe, mux         Stripe-Signature: t=,v1=    {timestamp}.{body}       hex
    cloudflare-stream   Webhook-Signature: time=,sig1=                       the same
    paddle              Paddle-Signature: ts=;h1=   {timestamp}:{body}       hex
    slack, zoom         X-Slack-Signature: v0=      v0:{timestamp}:{body}    hex
    github              X-Hub-Signature-256: sha256=              {body}     hex
    linear, api-video, bunny-stream                               {body}     hex
    shopify             X-Shopify-Hmac-SHA256                     {body}     base64
    fastpix             FastPix-Signature                         {body}     base64  key: base64
    twilio              X-Twilio-Signature          the URL, and a form's pairs  base64, SHA-1
    generic             as `config` says

Each is an HMAC, with SHA-256 where nothing else is said, and with the secret's UTF-8 bytes as the key.
A tolerance is in seconds, past and future alike. Paddle's 5 s are those of its own client; give `tolerance`
where your clock, or the way of a request, needs more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

from redrive.errors import ConfigError

Encoding: TypeAlias = Literal["hex", "base64"]
Algorithm: TypeAlias = Literal["sha1", "sha256", "sha512"]
KeyEncoding: TypeAlias = Literal["utf8", "base64", "hex", "whsec"]

GENERIC = "generic"
# What `config` may say of any scheme, and of `generic` alone.
_COMMON = ("tolerance", "body_hash")
_GENERIC = (
    "signature_header", "prefix", "encoding", "key_encoding", "algorithm", "signed", "id_header",
    "timestamp_header", "event_id", "type", "resource",
)  # fmt: skip
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True)
class Header:
    """A header's name, as it is shown and as it is looked up."""

    name: str
    key: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.name.lower().encode())


@dataclass(frozen=True, slots=True)
class Family:
    """The headers that belong together: a signature, and what stands beside it.

    `id` has to be there where the template signs it; elsewhere it may be absent, but never come twice.
    """

    signature: Header
    id: Header | None = None
    timestamp: Header | None = None


@dataclass(frozen=True, slots=True)
class Plain:
    """One signature, after a prefix."""

    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Pairs:
    """``k=v`` items: the time once, and one signature or more under the version's key; others are ignored."""

    separator: str
    time: str
    version: str


@dataclass(frozen=True, slots=True)
class Entries:
    """Standard Webhooks: ``v1,<HMAC>`` and ``v1a,<ed25519>`` entries between spaces; others are ignored."""


Layout: TypeAlias = Plain | Pairs | Entries


@dataclass(frozen=True, slots=True)
class Scheme:
    """How one provider signs.

    `signed` is the template of what the signature covers; None means the URL (twilio). `body_time` names
    the body's field with the time in milliseconds, looked at only when a tolerance is configured.
    """

    name: str
    families: tuple[Family, ...]
    layout: Layout = Plain()
    signed: str | None = "{body}"
    encoding: Encoding = "hex"
    key: KeyEncoding = "utf8"
    algorithm: Algorithm = "sha256"
    tolerance: float | None = None
    body_time: str | None = None

    @property
    def signs_id(self) -> bool:
        return self.signed is not None and "{id}" in self.signed

    @property
    def timed(self) -> bool:
        """Whether a request says when it was signed."""
        return self.body_time is not None or (self.signed is not None and "{timestamp}" in self.signed)

    @property
    def algorithms(self) -> tuple[Algorithm, ...]:
        """Those a request may ask for."""
        return (self.algorithm, "sha256") if self.signed is None else (self.algorithm,)


def _family(signature: str, id: str | None = None, timestamp: str | None = None) -> Family:
    return Family(Header(signature), Header(id) if id else None, Header(timestamp) if timestamp else None)


_STANDARD = _family("webhook-signature", "webhook-id", "webhook-timestamp")
_SVIX = _family("svix-signature", "svix-id", "svix-timestamp")


def _standard(name: str, *families: Family) -> Scheme:
    return Scheme(name, families, Entries(), "{id}.{timestamp}.{body}", "base64", "whsec", tolerance=300)


def _pairs(
    name: str, header: str, layout: Pairs, signed: str = "{timestamp}.{body}", tolerance: float = 300
) -> Scheme:
    return Scheme(name, (_family(header),), layout, signed, tolerance=tolerance)


def _v0(name: str, signature: str, timestamp: str) -> Scheme:
    families = (_family(signature, timestamp=timestamp),)
    return Scheme(name, families, Plain("v0="), "v0:{timestamp}:{body}", tolerance=300)


SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        _standard("standard-webhooks", _STANDARD),
        _standard("svix", _SVIX, _STANDARD),
        _pairs("stripe", "Stripe-Signature", Pairs(",", "t", "v1")),
        _pairs("mux", "Mux-Signature", Pairs(",", "t", "v1")),
        _pairs("cloudflare-stream", "Webhook-Signature", Pairs(",", "time", "sig1")),
        _pairs("paddle", "Paddle-Signature", Pairs(";", "ts", "h1"), "{timestamp}:{body}", tolerance=5),
        _v0("slack", "X-Slack-Signature", "X-Slack-Request-Timestamp"),
        _v0("zoom", "x-zm-signature", "x-zm-request-timestamp"),
        Scheme("github", (_family("X-Hub-Signature-256", "X-GitHub-Delivery"),), Plain("sha256=")),
        Scheme("shopify", (_family("X-Shopify-Hmac-SHA256", "X-Shopify-Webhook-Id"),), encoding="base64"),
        # Whether Linear renews webhookTimestamp when it retries is not known: checked only where asked for.
        Scheme("linear", (_family("Linear-Signature", "Linear-Delivery"),), body_time="webhookTimestamp"),
        Scheme("fastpix", (_family("FastPix-Signature"),), encoding="base64", key="base64"),
        Scheme("api-video", (_family("X-Api-Video-Signature"),)),
        Scheme("bunny-stream", (_family("X-BunnyStream-Signature"),)),
        Scheme(
            "twilio",
            (_family("X-Twilio-Signature", "I-Twilio-Idempotency-Token"),),
            signed=None,
            encoding="base64",
            algorithm="sha1",
        ),
    )
}
NAMES = (*SCHEMES, GENERIC)


def configured(name: str, config: Mapping[str, object] | None = None) -> Scheme:
    """The scheme called `name`, with what `config` says of it.

    `config` may hold, for any scheme, `tolerance` (seconds; the scheme's own by default) and `body_hash`
    (see `providers`). For `generic`: `signature_header` (required), `prefix` (""), `encoding` ("hex" or
    "base64"), `key_encoding` ("utf8", "base64" or "hex"), `algorithm` ("sha256", "sha512" or "sha1"),
    `signed` (a template of ``{body}`` once, ``{id}``, ``{timestamp}``; "{body}"), `id_header`,
    `timestamp_header`, and for the identity `event_id`, `type`, `resource` (see `providers`). A value of
    None is as if absent. Raises `ConfigError` naming the key.
    """
    given = {key: value for key, value in (config or {}).items() if value is not None}
    if name not in NAMES:
        raise ConfigError(f"{name!r} is no signature scheme; they are: {', '.join(NAMES)}")
    known = (*_COMMON, *_GENERIC) if name == GENERIC else _COMMON
    for key in given:
        if key not in known:
            raise ConfigError(f"config of {name} has no key {key!r}; it takes: {', '.join(known)}")
    scheme = _generic(given) if name == GENERIC else SCHEMES[name]
    if "tolerance" not in given:
        return scheme
    if not scheme.timed:
        raise ConfigError(f"tolerance is set, but {name} signs no time here; remove it")
    return replace(scheme, tolerance=_seconds(given["tolerance"]))


def deciding_family(scheme: Scheme, sent: Mapping[bytes, object]) -> Family:
    """The first family whose signature header was sent, else the last."""
    for family in scheme.families:
        if family.signature.key in sent:
            return family
    return scheme.families[-1]


def _generic(given: Mapping[str, object]) -> Scheme:
    if "signature_header" not in given:
        raise ConfigError("config of generic lacks signature_header; name the header with the signature")
    signed = _text(given, "signed", "{body}")
    identity = _header(given, "id_header")
    clock = _header(given, "timestamp_header")
    names = cast("list[str]", _PLACEHOLDER.findall(signed))
    if unknown := set(names) - {"id", "timestamp", "body"}:
        raise ConfigError(
            f"signed {signed!r} has {{{min(unknown)}}}; it takes {{body}}, {{id}} and {{timestamp}}"
        )
    if names.count("body") != 1:
        raise ConfigError(f"signed {signed!r} must have {{body}} exactly once: all else would go unsigned")
    if "id" in names and identity is None:
        raise ConfigError(f"signed {signed!r} has {{id}}; name the header it stands in as id_header")
    if ("timestamp" in names) != (clock is not None):
        raise ConfigError(
            f"signed is {signed!r} and timestamp_header {clock!r}; a time counts only where it is signed: "
            "set both or neither"
        )
    family = _family(cast(str, _header(given, "signature_header")), identity, clock)
    return Scheme(
        GENERIC,
        (family,),
        Plain(_prefix(given)),
        signed,
        cast(Encoding, _choice(given, "encoding", "hex", "base64")),
        cast(KeyEncoding, _choice(given, "key_encoding", "utf8", "base64", "hex")),
        cast(Algorithm, _choice(given, "algorithm", "sha256", "sha512", "sha1")),
    )


def _text(given: Mapping[str, object], key: str, default: str) -> str:
    value = given.get(key, default)
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be text, not {type(value).__name__}")
    return value


def _prefix(given: Mapping[str, object]) -> str:
    prefix = _text(given, "prefix", "")
    if not prefix.isascii() or prefix.lstrip(" \t") != prefix:
        raise ConfigError(f"prefix is {prefix!r}; it must be ASCII and not begin with white space")
    return prefix


def _header(given: Mapping[str, object], key: str) -> str | None:
    if key not in given:
        return None
    name = _text(given, key, "")
    if not _HEADER_NAME.fullmatch(name):
        raise ConfigError(f"{key} is {name!r}; name a header, such as X-Signature")
    return name


def _choice(given: Mapping[str, object], key: str, *known: str) -> str:
    value = _text(given, key, known[0])
    if value not in known:
        raise ConfigError(f"{key} is {value!r}; it must be one of: {', '.join(known)}")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        return value
    raise ConfigError(f"tolerance is {value!r}; it must be a finite number of seconds >= 0")
