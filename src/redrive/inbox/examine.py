"""Examine: what a request is, from its bytes alone: signed or not, a handshake, or an event.

Pure but for the clock's time it is given: reads no database and no network.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from redrive import payload as payloads
from redrive.inbox.body import TooLarge, claimed_size, unpacked
from redrive.inbox.inbox import Inbox
from redrive.inbox.keeping import kept
from redrive.inbox.providers import Handshake
from redrive.inbox.secrets import LiveSecrets

_BOM = "\ufeff"
# Also found in many a text that is no number: then it is looked at more closely.
_FAR_EXPONENT = re.compile(rb"[0-9][eE][+-]?[0-9]{3}")
# What two digits of an exponent write out becomes much only where there are many of them.
_ANY_EXPONENT = re.compile(rb"[0-9][eE][+-]?[0-9]{2}")
_MANY = 1_000_000
# More than 25 MB of ordinary floats (1.5e-10) come to.
_MOST_DIGITS = 50_000_000


@dataclass(frozen=True, slots=True)
class Examined:
    """A request whose signature holds. `payload` is JSON text; `secret` says which of the list it was."""

    event_id: str
    type: str
    resource: str | None
    derived: bool
    payload: str | None
    raw: bytes
    headers: dict[str, str]
    secret: int = 0
    handshake: Handshake | None = None

    @property
    def size(self) -> int:
        """Bytes, or nearly, that it takes to record it."""
        return len(self.raw) + len(self.payload or "")

    def without_payload(self) -> Examined:
        """As it is recorded where its payload cannot be."""
        return replace(self, payload=None)

    def without_anything(self) -> Examined:
        """As it is recorded where its names cannot be either, such as in a database of few characters."""
        digest = f"sha256:{hashlib.sha256(self.raw).hexdigest()}"
        return replace(self, event_id=digest, type="unknown", resource=None, payload=None, headers={})


def examine(
    inbox: Inbox,
    secrets: LiveSecrets,
    headers: Sequence[tuple[bytes, bytes]],
    raw: bytes,
    encoding: str,
    url: str | None,
    now: float,
) -> Examined:
    """Raises `SignatureError`, and `TooLarge` when what `raw` unpacks to is beyond the inbox's limit."""
    if (claimed := claimed_size(raw, encoding)) > inbox.limit:
        raise TooLarge(claimed)
    verified = secrets.verify(headers, raw, url, now)
    # Not before the signature: it is work that anybody could ask for.
    body = unpacked(raw, encoding, limit=inbox.limit)
    if body is None:
        body = raw
    text, payload = _parsed(body)
    provider = inbox.provider
    identity = provider.identify(headers, payload, body, signed_id=verified.id)
    return Examined(
        # Where a body's hash is not to tell repeats, each delivery is an event of its own.
        event_id=identity.event_id or f"received:{uuid4()}",
        type=identity.type,
        resource=identity.resource,
        derived=identity.derived,
        payload=text,
        raw=raw,
        headers=kept(headers, inbox.signature_headers),
        secret=verified.secret,
        handshake=provider.handshake(headers, payload, secrets.at(now), verified.secret),
    )


def _parsed(body: bytes) -> tuple[str | None, object]:
    """The body as JSON text and as a value, when it is UTF-8 and JSON; a BOM before it is no part of it.

    The text goes to Postgres as the sender wrote it; what Postgres cannot hold of it, it says itself.
    """
    try:
        text = body.decode()
        if text.startswith(_BOM):
            text = text[1:]
        if (_ANY_EXPONENT if len(body) > _MANY else _FAR_EXPONENT).search(body):
            json.loads(text, parse_float=_Digits(), parse_int=len)
        return text, payloads.decode(text)
    except (ValueError, RecursionError):
        return None, None


class _Digits:
    """Refuses what is short to send and long to store: ``[1e99999,1e99999,…]``.

    jsonb holds such numbers, but writes them out, and Postgres is at it for longer than any sender waits.
    """

    def __init__(self) -> None:
        self._left = _MOST_DIGITS

    def __call__(self, number: str) -> float:
        exponent = number.lower().partition("e")[2].lstrip("+-0")
        self._left -= int(exponent[:9] or 0)
        if self._left < 0:
            raise ValueError("too many digits once they are written out")
        return 0.0
