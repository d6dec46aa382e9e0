"""Handshakes: requests that only ask who is there. Verified first, then answered, never stored."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import cast

from redrive.inbox.headers import Headers, text_of

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Handshake:
    """The answer: status 200 with this body."""

    body: bytes
    content_type: str


def slack(headers: Headers, payload: object, secret: str) -> Handshake | None:
    """``url_verification``: the challenge goes back."""
    fields = _fields(payload)
    if fields.get("type") == "url_verification" and isinstance(fields.get("challenge"), str):
        return Handshake(json.dumps({"challenge": fields["challenge"]}).encode(), _JSON)
    return None


def zoom(headers: Headers, payload: object, secret: str) -> Handshake | None:
    """``endpoint.url_validation``: the token goes back signed, with the secret that signed the request."""
    fields = _fields(payload)
    token = _fields(fields.get("payload")).get("plainToken")
    if fields.get("event") != "endpoint.url_validation" or not isinstance(token, str):
        return None
    text = token.encode("utf-8", "surrogatepass")
    signed = hmac.new(secret.encode(), text, hashlib.sha256).hexdigest()
    return Handshake(json.dumps({"plainToken": token, "encryptedToken": signed}).encode(), _JSON)


def github(headers: Headers, payload: object, secret: str) -> Handshake | None:
    """``ping``, sent when a webhook is made."""
    return Handshake(b"", "text/plain") if text_of(headers, "X-GitHub-Event") == "ping" else None


def _fields(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
