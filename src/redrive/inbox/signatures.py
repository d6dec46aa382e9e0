"""Signatures: one verifier for every scheme. It judges bytes, and answers with what they vouch for.

Guarantees  whatever the headers and the body are, a request is verified or refused by a `SignatureError`;
            every secret is tried with every signature offered, compared in constant time, none left out
            after a match; no message holds a secret or a digest that would have fitted;
            what anybody can ask for costs a few passes over the body and its size in memory.
Not given   that a request is new: only an event's identity tells a repeat. fastpix, github, shopify, linear,
            api-video, bunny-stream and twilio sign no time at all.

A refusal has one of four reasons. The signature is judged before the time, so that `stale` always means:
signed with a secret of ours, and out of the window.

    no_header   a header the scheme needs (signature, signed id, time) is missing or empty
    malformed   a header sent twice, not ASCII, beyond 8 KB or not in the scheme's form: a time that is not 1
                to 12 digits, no signature of a known version, a digest in another encoding, length or case,
                an unknown algorithm; twilio: not exactly one bodySHA256 for a body that is no form, a form
                of more than 256 KB or 10,000 fields. An id that is not signed may have any length
    mismatch    well-formed, and made with another secret or for other bytes (twilio: or another URL)
    stale       right, but |now − time| is above the tolerance; the edge itself is inside
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from redrive.errors import ConfigError, SignatureError
from redrive.inbox import twilio
from redrive.inbox.headers import Headers, find
from redrive.inbox.keys import PublicKey, SharedKey, prepare
from redrive.inbox.providers import provider
from redrive.inbox.schemes import Entries, Header, Pairs, Plain, Scheme, configured, deciding_family

_CONTENT_TYPE = b"content-type"
_SETTINGS = Header(twilio.SETTINGS)
# Each signature offered is compared with each secret's: a sender in rotation offers two.
_LONGEST = 8_192
_TIME_DIGITS = 12
_SIZES = {"sha1": 20, "sha256": 32, "sha512": 64}
# Each costs a curve multiplication and a pass over the body, for anybody who asks; a rotation needs two.
_MOST_ED25519 = 4
_ED25519 = re.compile(rb"[A-Za-z0-9+/]{86}==")
_LATEST_MS = 10**15


@dataclass(frozen=True, slots=True)
class Verified:
    """What a signature vouches for: nothing here can have been changed on the way.

    id         the event's id, None where the scheme does not sign it
    type       the event's type, likewise
    timestamp  unix seconds at which it was signed, None where the scheme signs no time
    secret     position of the secret that fits, for telling when an old one is no longer used
    """

    id: str | None
    type: str | None
    timestamp: int | None
    secret: int


@dataclass(frozen=True, slots=True)
class _Offer:
    """What the headers of a request say: values still as sent."""

    signature: Header
    id: bytes | None
    timestamp: bytes | None
    shared: list[bytes]
    public: list[bytes]


def verify(
    scheme: str,
    *,
    secrets: Sequence[str],
    headers: Headers,
    body: bytes,
    url: str | None = None,
    now: float | None = None,
    config: Mapping[str, Any] | None = None,
) -> Verified:
    """What `scheme`'s signature over exactly these bytes vouches for.

    `secrets` newest first; `url` is the public one, as the provider was given it (twilio alone signs it);
    `now` is in unix seconds (the clock's by default); `config` as in `schemes.configured`. The id and type
    are those of a signed header, else of the signed body; None where they stand outside the signature.

    Raises `SignatureError` with its `reason`, whatever the bytes; `ConfigError` for an unknown scheme or a
    config, secret or URL that cannot be right. For many requests, keep a `Verifier`.
    """
    verified = Verifier(scheme, secrets, config).verify(headers, body, url, now)
    id, type = provider(scheme, config).in_body(body)
    return Verified(verified.id or id, type, verified.timestamp, verified.secret)


class Verifier:
    """A scheme with its secrets made ready: what a receiver keeps from one request to the next.

    `settings` names each secret in errors. Raises `ConfigError` as `verify` does.
    """

    def __init__(
        self,
        scheme: str,
        secrets: Sequence[str],
        config: Mapping[str, Any] | None = None,
        *,
        settings: Sequence[str] = (),
    ) -> None:
        if isinstance(secrets, str) or not secrets:
            raise ConfigError("secrets must be a list of at least one secret")
        self._scheme = made = configured(scheme, config)
        names = settings or [f"secrets[{place}]" for place in range(len(secrets))]
        self._keys = [prepare(made, secret, name) for secret, name in zip(secrets, names, strict=True)]
        self._takes_public = any(isinstance(key, PublicKey) for key in self._keys)
        self._takes_shared = any(isinstance(key, SharedKey) for key in self._keys)
        self._wanted = frozenset(_wanted(made))
        self._template = _template(made)

    @property
    def scheme(self) -> Scheme:
        return self._scheme

    def verify(
        self, headers: Headers, body: bytes, url: str | None = None, now: float | None = None
    ) -> Verified:
        """As the function `verify`, but reads no body: the id is a signed header's or None, the type None."""
        sent = find(headers, self._wanted)
        offer = self._offer(sent)
        algorithm = self._scheme.algorithm
        if self._template is None:
            if url is None:
                raise ConfigError("twilio signs the URL it posts to; configure the public one as url")
            algorithm = twilio.algorithm(_one(sent, _SETTINGS))
            form = twilio.is_form(sent.get(_CONTENT_TYPE))
            messages = [(each, b"", b"") for each in twilio.covered(url, body, form=form)]
        else:
            before, after = self._template
            messages = [(_filled(before, offer), body, _filled(after, offer))]
        place = self._match(offer, messages, algorithm)
        return Verified(
            offer.id.decode("ascii") if offer.id is not None and self._scheme.signs_id else None,
            None,
            self._time(offer, body, now),
            place,
        )

    def _offer(self, sent: Mapping[bytes, list[bytes]]) -> _Offer:
        scheme = self._scheme
        family = deciding_family(scheme, sent)
        header = family.signature
        for needed in (header, family.timestamp, family.id if scheme.signs_id else None):
            if needed is not None and not any(sent.get(needed.key, ())):
                state = "empty" if needed.key in sent else "missing"
                raise SignatureError(
                    "no_header", f"{needed.name} is {state}; is signing switched on at the provider?"
                )
        value = _one(sent, header) or b""
        id = _one(sent, family.id, signed=scheme.signs_id) if family.id else None
        stamp = _one(sent, family.timestamp) if family.timestamp else None
        public: list[bytes] = []
        match scheme.layout:
            case Plain(prefix):
                lead = prefix.encode()
                shared = [value[len(lead) :]] if value.startswith(lead) else []
            case Pairs(separator, clock, version):
                items = [item.partition(b"=") for item in value.split(separator.encode())]
                shared = [item[2] for item in items if item[0] == version.encode() and item[1]]
                times = [item[2] for item in items if item[0] == clock.encode() and item[1]]
                if len(times) != 1:
                    raise SignatureError(
                        "malformed", f"{header.name} has {clock}= {len(times)} times, not once"
                    )
                stamp = times[0]
            case Entries():
                entries = [item.partition(b",") for item in value.split(b" ")]
                shared = [item[2] for item in entries if item[0] == b"v1" and self._takes_shared]
                public = [item[2] for item in entries if item[0] == b"v1a" and self._takes_public]
        if stamp is not None and not (stamp.isdigit() and len(stamp) <= _TIME_DIGITS):
            raise SignatureError(
                "malformed",
                f"the time beside {header.name} is not 1 to {_TIME_DIGITS} digits of unix seconds",
            )
        return _Offer(header, id, stamp, shared, public)

    def _match(self, offer: _Offer, messages: list[tuple[bytes, bytes, bytes]], algorithm: str) -> int:
        """The place of the first secret that fits, with every other tried all the same."""
        if len(offer.public) > _MOST_ED25519:
            raise SignatureError(
                "malformed", f"{offer.signature.name} offers more than {_MOST_ED25519} v1a signatures"
            )
        fits = [
            place
            for place, key in enumerate(self._keys)
            for message in messages
            if (
                self._shared(key, offer.shared, message, algorithm)
                if isinstance(key, SharedKey)
                else _public(key, offer.public, message)
            )
        ]
        if fits:
            return fits[0]
        shape = _shape(self._scheme, algorithm)
        if any(map(shape.fullmatch, offer.shared)) or any(map(_ED25519.fullmatch, offer.public)):
            many = "the secret" if len(self._keys) == 1 else f"any of the {len(self._keys)} secrets"
            raise SignatureError(
                "mismatch",
                f"{offer.signature.name} does not fit {many}: signed with another one, or changed on its way",
            )
        raise SignatureError(
            "malformed",
            f"{offer.signature.name} holds no signature as {self._scheme.name} writes them; is it the right "
            "provider?",
        )

    def _shared(
        self, key: SharedKey, offered: list[bytes], message: tuple[bytes, bytes, bytes], algorithm: str
    ) -> bool:
        mac = key.begun[algorithm].copy()
        for part in message:
            if part:
                mac.update(part)
        expected = written(mac, self._scheme)
        # A sum, not any(): it must not stop at the first that fits.
        return sum(hmac.compare_digest(expected, each) for each in offered) > 0

    def _time(self, offer: _Offer, body: bytes, now: float | None) -> int | None:
        tolerance = self._scheme.tolerance
        if offer.timestamp is not None:
            signed = int(offer.timestamp)
        elif tolerance is not None:
            signed = _body_time(self._scheme, body) / 1000
        else:
            return None
        if tolerance is not None:
            age = (time.time() if now is None else now) - signed
            if not abs(age) <= tolerance:
                when = f"{age:.0f} s ago" if age > 0 else f"{-age:.0f} s in the future"
                raise SignatureError(
                    "stale", f"signed {when}; the tolerance is {tolerance:g} s; are the clocks right?"
                )
        return int(signed)


def written(mac: hmac.HMAC, scheme: Scheme) -> bytes:
    """The digest as the scheme writes it."""
    if scheme.encoding == "hex":
        return mac.hexdigest().encode()
    return binascii.b2a_base64(mac.digest(), newline=False)


def _wanted(scheme: Scheme) -> list[bytes]:
    headers = [each for one in scheme.families for each in (one.signature, one.id, one.timestamp) if each]
    extra = [_SETTINGS.key, _CONTENT_TYPE] if scheme.signed is None else []
    return [header.key for header in headers] + extra


def _template(scheme: Scheme) -> tuple[list[bytes], list[bytes]] | None:
    """The pieces before the body and after it."""
    if scheme.signed is None:
        return None
    before, _, after = scheme.signed.partition("{body}")
    return _pieces(before), _pieces(after)


def _pieces(text: str) -> list[bytes]:
    return [piece.encode() for piece in re.split(r"(\{id\}|\{timestamp\})", text) if piece]


def _filled(pieces: list[bytes], offer: _Offer) -> bytes:
    values = {b"{id}": offer.id, b"{timestamp}": offer.timestamp}
    return b"".join([values.get(piece) or piece for piece in pieces])


def _one(sent: Mapping[bytes, list[bytes]], header: Header, *, signed: bool = True) -> bytes | None:
    """The header's value; None where it is missing or empty. Unless `signed`, of any length."""
    values = sent.get(header.key)
    if not values:
        return None
    if len(values) > 1:
        raise SignatureError("malformed", f"{header.name} was sent {len(values)} times; it counts only once")
    if signed and len(values[0]) > _LONGEST:
        raise SignatureError("malformed", f"{header.name} is longer than {_LONGEST:,} bytes; none needs that")
    if not values[0].isascii():
        raise SignatureError("malformed", f"{header.name} has characters outside ASCII")
    return values[0] or None


def _public(key: PublicKey, offered: list[bytes], message: tuple[bytes, bytes, bytes]) -> bool:
    signatures = [base64.b64decode(each) for each in offered if _ED25519.fullmatch(each)]
    whole = b"".join(message) if signatures else b""
    return sum(key.holds(each, whole) for each in signatures) > 0


def _shape(scheme: Scheme, algorithm: str) -> re.Pattern[bytes]:
    """What a digest looks like in this scheme's writing."""
    size = _SIZES[algorithm]
    if scheme.encoding == "hex":
        return re.compile(rb"[0-9a-f]{%d}" % (size * 2))
    padding = -size % 3
    return re.compile(rb"[A-Za-z0-9+/]{%d}={%d}" % ((size + padding) // 3 * 4 - padding, padding))


def _body_time(scheme: Scheme, body: bytes) -> int:
    try:
        document: object = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    value = (
        cast("dict[str, object]", document).get(scheme.body_time or "")
        if isinstance(document, dict)
        else None
    )
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _LATEST_MS:
        raise SignatureError(
            "malformed", f"the body has no {scheme.body_time} in milliseconds, which is to be checked"
        )
    return value
