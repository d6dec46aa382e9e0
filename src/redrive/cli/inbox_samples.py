"""Samples: a small event of each provider, in the shape of the provider's own documents, for trying out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

# Replaced by something new each time, so that a second try is no repeat of the first.
_NEW = "$new"


@dataclass(frozen=True, slots=True)
class Sample:
    """`type` is for a provider whose type is a header; `form` is sent as a form, not as JSON."""

    document: Mapping[str, Any]
    type: str | None = None
    form: bool = False

    def body(self, new: str) -> bytes:
        """The body, with `new` where an event differs from another."""
        if self.form:
            return urlencode(
                {name: value.replace(_NEW, new) for name, value in self.document.items()}
            ).encode()
        return json.dumps(self.document).replace(_NEW, new).encode()


_ORDER: Mapping[str, Any] = {
    "id": 820982911946154508,
    "admin_graphql_api_id": f"gid://shopify/Order/{_NEW}",
    "currency": "EUR",
}
_PUSH: Mapping[str, Any] = {
    "ref": "refs/heads/main",
    "after": _NEW,
    "repository": {"full_name": "octo/hello"},
    "pusher": {"name": "octocat"},
    "commits": [],
}

SAMPLES: Mapping[str, Sample] = {
    "standard-webhooks": Sample({"type": "invoice.paid", "data": {"id": _NEW, "amount": 4200}}),
    "svix": Sample({"type": "invoice.paid", "data": {"id": _NEW, "amount": 4200}}),
    "stripe": Sample(
        {
            "id": f"evt_{_NEW}",
            "object": "event",
            "type": "payment_intent.succeeded",
            "data": {"object": {"id": "pi_3test", "amount": 4200, "currency": "eur"}},
            "livemode": False,
            "pending_webhooks": 1,
        }
    ),
    "shopify": Sample(_ORDER, type="orders/create"),
    "github": Sample(_PUSH, type="push"),
    "mux": Sample(
        {
            "id": _NEW,
            "type": "video.asset.ready",
            "object": {"type": "asset", "id": "asset-test"},
            "data": {"id": "asset-test", "status": "ready"},
            "attempts": [],
        }
    ),
    "slack": Sample(
        {
            "type": "event_callback",
            "event_id": f"Ev{_NEW}",
            "team_id": "T0TEST",
            "event": {"type": "app_mention", "user": "U0TEST", "text": "hello"},
        }
    ),
    "paddle": Sample(
        {
            "event_id": f"evt_{_NEW}",
            "event_type": "transaction.completed",
            "notification_id": f"ntf_{_NEW}",
            "data": {"id": "txn_test", "status": "completed"},
        }
    ),
    "linear": Sample({"type": "Issue", "action": "create", "data": {"id": _NEW, "title": "Try the inbox"}}),
    "zoom": Sample(
        {
            "event": "meeting.started",
            "event_ts": 1764500000000,
            "payload": {"account_id": "test", "object": {"uuid": _NEW, "topic": "Try the inbox"}},
        }
    ),
    "twilio": Sample(
        {"MessageSid": f"SM{_NEW}", "MessageStatus": "delivered", "To": "+15550100", "From": "+15550199"},
        form=True,
    ),
    "fastpix": Sample(
        {
            "type": "video.media.ready",
            "object": {"type": "media", "id": "media-test"},
            "id": _NEW,
            "status": "Ready",
            "data": {"id": "media-test"},
            "createdAt": "2026-11-30T10:00:00.123456789Z",
            "attempts": [],
        }
    ),
    "cloudflare-stream": Sample({"uid": _NEW, "readyToStream": True, "status": {"state": "ready"}}),
    "api-video": Sample(
        {"type": "video.encoding.quality.completed", "videoId": _NEW, "encoding": "hls", "quality": "720p"}
    ),
    "bunny-stream": Sample({"VideoLibraryId": 1, "VideoGuid": _NEW, "Status": 3}),
    # Id and type go where the inbox's config looks for them.
    "generic": Sample({"message": f"Try the inbox: {_NEW}"}, type="test"),
}
