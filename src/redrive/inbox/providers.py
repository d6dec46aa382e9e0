"""Providers: what each one's deliveries say of themselves, as data over `schemes`.

`identify` finds an event's identity: the scheme's id header where it has one, else the places listed here.
What is missing, not text, longer than 255 characters or not storable becomes ``sha256:`` and the hash of the
body (an id), "unknown" (a type), or None (a resource).

An id is *derived* when it is made of the state it tells of: the same state may be reached again, and is
another event then. Twilio's MessageSid and MessageStatus are not: a message passes each status once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from redrive.errors import ConfigError
from redrive.inbox import handshakes, schemes
from redrive.inbox.handshakes import Handshake
from redrive.inbox.headers import Headers, find
from redrive.inbox.places import Joined, Place, check_place, document, first, read, storable
from redrive.inbox.schemes import Scheme, deciding_family

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells an event from others. `event_id` is None only where `body_hash` is off and no id was found:
    each such delivery is an event of its own. `derived`: see the module."""

    event_id: str | None
    type: str
    resource: str | None
    derived: bool


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider.

    id, type, resource   where they stand; the first place with a text counts
    action               where a second part of the type stands: handlers may name ``type.action``
    volatile             top-level payload fields that change from one delivery of an event to the next
    derived              whether an id from `id` is derived
    body_hash            whether a delivery without an id is known by its body's hash
    rules                how it signs; None of `generic` before it is configured
    """

    name: str
    rules: Scheme | None = None
    id: tuple[Place, ...] = ()
    type: tuple[Place, ...] = ()
    resource: tuple[Place, ...] = ()
    action: str | None = None
    volatile: tuple[str, ...] = ()
    derived: bool = False
    body_hash: bool = True
    greets: Callable[[Headers, object, str], Handshake | None] | None = None

    @property
    def scheme(self) -> str:
        """The name under which `signatures.verify` knows it."""
        return self.name

    def identify(
        self,
        headers: Headers,
        payload: object,
        body: bytes,
        url: str | None = None,
        *,
        signed_id: str | None = None,
    ) -> Identity:
        """Who this delivery is. Never raises.

        `payload` is the parsed JSON, None where the body is none: of a form, the fields are read then.
        `signed_id` is `Verified.id`, which goes before everything unsigned. `url` is not looked at.
        """
        found = document(headers, payload, body)
        event_id, derived = self._id(headers, found, signed_id)
        if event_id is None and self.body_hash:
            event_id = f"sha256:{hashlib.sha256(body).hexdigest()}"
        kind = first(self.type, headers, found) or UNKNOWN
        return Identity(event_id, kind, first(self.resource, headers, found), derived)

    def action_of(self, payload: object, headers: Headers = (), body: bytes = b"") -> str | None:
        """The second part of the type, such as github's ``opened``; None where there is none."""
        return read(self.action, headers, document(headers, payload, body)) if self.action else None

    def handshake(
        self, headers: Headers, payload: object, secrets: Sequence[str], matched: int = 0
    ) -> Handshake | None:
        """The answer, where this verified request only asks for one; `matched` is `Verified.secret`."""
        return self.greets(headers, payload, secrets[matched]) if self.greets else None

    def in_body(self, body: bytes) -> tuple[str | None, str | None]:
        """Id and type as the body alone says them, for it is all that is signed; None where it does not."""
        try:
            payload: object = json.loads(body)
        except (ValueError, RecursionError):
            return None, None
        id, type = (
            first([place for place in places if isinstance(place, str)], {}, payload)
            for places in (self.id, self.type)
        )
        return id, type

    def _id(self, headers: Headers, found: object, signed_id: str | None) -> tuple[str | None, bool]:
        if (text := storable(signed_id)) is not None and self.name != schemes.GENERIC:
            return text, False
        if (text := first(self.id, headers, found)) is not None:
            return text, self.derived
        if self.rules is None:
            return None, False
        wanted = [family.signature.key for family in self.rules.families]
        header = deciding_family(self.rules, find(headers, wanted)).id
        return (read(header.name, headers, None) if header else None), False


def _provider(name: str, id: Sequence[Place] | str = (), **rest: Any) -> Provider:
    places = {
        key: (value,) if isinstance(value, (str, Joined)) else tuple(value)
        for key, value in {"id": id, **{key: rest.pop(key, ()) for key in ("type", "resource")}}.items()
    }
    return Provider(name, rules=schemes.SCHEMES.get(name), **places, **rest)


PROVIDERS: Mapping[str, Provider] = {
    each.name: each
    for each in (
        _provider("standard-webhooks", type="/type"),
        _provider("svix", type=("/type", "/eventType")),
        _provider("stripe", "/id", type="/type", resource="/data/object/id", volatile=("pending_webhooks",)),
        _provider("shopify", type="X-Shopify-Topic", resource="/admin_graphql_api_id"),
        _provider(
            "github",
            type="X-GitHub-Event",
            resource="/repository/full_name",
            action="/action",
            greets=handshakes.github,
        ),
        _provider("mux", "/id", type="/type", resource=("/object/id", "/data/id"), volatile=("attempts",)),
        # Of a slash command and of a click, trigger_id is what each has of its own.
        _provider(
            "slack",
            ("/event_id", "/trigger_id"),
            type=("/event/type", "/type", "/command"),
            greets=handshakes.slack,
        ),
        _provider("paddle", "/event_id", type="/event_type", resource="/data/id"),
        _provider("linear", type=("/type", "Linear-Event"), resource="/data/id", action="/action"),
        _provider(
            "zoom",
            [Joined(("/event", "/event_ts", "/payload/object/uuid"), hashed=True)],
            type="/event",
            resource="/payload/object/uuid",
            greets=handshakes.zoom,
        ),
        _provider(
            "twilio",
            ("I-Twilio-Idempotency-Token", Joined(("/MessageSid", "/MessageStatus"))),
            type=("/MessageStatus", "/EventType", "/SmsStatus", "/CallStatus"),
            resource=("/MessageSid", "/CallSid"),
        ),
        _provider(
            "fastpix", "/id", type="/type", resource=("/object/id", "/data/id"), volatile=("attempts",)
        ),
        _provider(
            "cloudflare-stream",
            [Joined(("/uid", "/status/state"), ("/modified",))],
            type="/status/state",
            resource="/uid",
            derived=True,
        ),
        _provider("api-video", type="/type", resource=("/videoId", "/liveStreamId")),
        _provider(
            "bunny-stream",
            [Joined(("/VideoGuid", "/Status"))],
            type=[Joined(("/Status",))],
            resource="/VideoGuid",
            derived=True,
        ),
        _provider("generic"),
    )
}


def provider(name: str, config: Mapping[str, Any] | None = None) -> Provider:
    """The provider called `name`, with what `config` says of identity.

    `config` may hold `body_hash` (True; False: a delivery without an id is always new) and for `generic`
    `event_id`, `type` and `resource`: a JSON pointer (begins with /) or a header's name; without
    `event_id`, the id is that of `id_header`. Raises `ConfigError`.
    """
    rules = schemes.configured(name, config)
    given = {key: value for key, value in (config or {}).items() if value is not None}
    found = replace(PROVIDERS[name], rules=rules)
    body_hash = given.get("body_hash", True)
    if not isinstance(body_hash, bool):
        raise ConfigError(f"body_hash is {body_hash!r}; it must be True or False")
    if name != schemes.GENERIC:
        return replace(found, body_hash=body_hash)
    places = {
        field: (check_place(given[key], key),)
        for key, field in (("event_id", "id"), ("type", "type"), ("resource", "resource"))
        if key in given
    }
    return replace(found, body_hash=body_hash, **places)
