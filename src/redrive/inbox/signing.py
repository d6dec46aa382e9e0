"""Signing: a request as its provider would send it, for trying a receiver out. Judged by the same schemes."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import urlencode, urlsplit, urlunsplit
from uuid import uuid4

from redrive.errors import ConfigError, InvalidArgument
from redrive.inbox import twilio
from redrive.inbox.keys import SharedKey, prepare
from redrive.inbox.providers import Provider, provider
from redrive.inbox.schemes import Pairs, Plain, Scheme
from redrive.inbox.signatures import written

_JSON = "application/json"
_FORMS = ("twilio", "slack", "github")


def sign(
    scheme: str,
    *,
    secret: str,
    body: bytes,
    now: float | None = None,
    event_id: str | None = None,
    type: str | None = None,
    url: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """The headers with which `scheme`'s provider would send `body`: signature, identity, content type.

    `now` in unix seconds (the clock's by default); `event_id` and `type` go where the provider has a header
    for them: a new id by default, no type. Where the body says them nothing is written into it. Twilio needs
    the `url`; post to `signed_url` of it. Raises `ConfigError` as `verify` does, and for a public key, which
    cannot sign; `InvalidArgument` for an `event_id` or `type` other than the body says.
    """
    made = provider(scheme, config)
    rules = cast(Scheme, made.rules)
    key = prepare(rules, secret, "secret")
    if not isinstance(key, SharedKey):
        raise ConfigError(
            "secret is a public key, which can check a signature and not make one; sign elsewhere"
        )
    family = rules.families[0]
    stamp = str(int(time.time() if now is None else now))
    id = event_id or _new_id(scheme)
    headers = {"Content-Type": _content_type(scheme, body)}
    if family.id:
        headers[family.id.name] = id
    for places, value in ((made.id, id), (made.type, type)):
        for place in places:
            if isinstance(place, str) and not place.startswith("/") and value:
                headers[place] = value
    _check_identity(made, headers, body, event_id, type)
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable() and value == value.strip()):
            raise ConfigError(f"{value!r} cannot stand in the header {name}; give it in printable ASCII")
    if family.timestamp:
        headers[family.timestamp.name] = stamp
    mac = key.begun[rules.algorithm].copy()
    mac.update(_signed(rules, body, headers, id, stamp, url))
    headers[family.signature.name] = _laid_out(rules, written(mac, rules).decode(), stamp)
    return headers


def _check_identity(
    made: Provider, headers: Mapping[str, str], body: bytes, event_id: str | None, type: str | None
) -> None:
    """What was asked for, and stands in no header, must be what the body says."""
    found = made.identify(headers, _parsed(body), body)
    for name, given, places, said in (
        ("event_id", event_id, made.id, found.event_id),
        ("type", type, made.type, found.type),
    ):
        if not given or given == said or given in headers.values():
            continue
        pointer = next((each for each in places if isinstance(each, str)), None)
        where = "has no place for it" if pointer is None else f"says it at {pointer} of the body"
        raise InvalidArgument(
            f"{name} is {given!r}, but {made.name} {where}, and a receiver takes this one for {said!r}; "
            f"{'leave it out' if pointer is None else 'write it into the body, or leave it out'}"
        )


def _parsed(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def signed_url(scheme: str, url: str, body: bytes) -> str:
    """Where to post what `sign` signed: `url`, which for a body of Twilio's that is no form says its hash."""
    if scheme != "twilio" or _is_form(scheme, body):
        return url
    parts = urlsplit(url)
    if f"{twilio.BODY_HASH}=" in parts.query:
        return url
    said = urlencode({twilio.BODY_HASH: hashlib.sha256(body).hexdigest()})
    return urlunsplit(parts._replace(query=f"{parts.query}&{said}" if parts.query else said))


def _signed(
    rules: Scheme, body: bytes, headers: Mapping[str, str], id: str, stamp: str, url: str | None
) -> bytes:
    if rules.signed is None:
        if url is None:
            raise ConfigError("twilio signs the URL it posts to; give it as url")
        return twilio.covered(signed_url(rules.name, url, body), body, form=_is_form(rules.name, body))[0]
    before, _, after = rules.signed.partition("{body}")
    values = {"{id}": id, "{timestamp}": stamp}
    for name, value in values.items():
        before, after = before.replace(name, value), after.replace(name, value)
    return before.encode() + body + after.encode()


def _laid_out(rules: Scheme, digest: str, stamp: str) -> str:
    match rules.layout:
        case Plain(prefix):
            return prefix + digest
        case Pairs(separator, clock, version):
            return f"{clock}={stamp}{separator}{version}={digest}"
        case _:
            return f"v1,{digest}"


def _new_id(scheme: str) -> str:
    return f"msg_{uuid4().hex}" if scheme in ("standard-webhooks", "svix") else str(uuid4())


def _is_form(scheme: str, body: bytes) -> bool:
    return scheme in _FORMS and not body.lstrip().startswith((b"{", b"["))


def _content_type(scheme: str, body: bytes) -> str:
    return twilio.FORM.decode() if _is_form(scheme, body) else _JSON
