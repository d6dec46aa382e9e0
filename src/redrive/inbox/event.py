"""Event: a webhook as its handler sees it: what the sender said, word for word and as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from redrive.inbox.body import TooLarge, encoding_of, unpacked

# Only of what was recorded elsewhere than here: a receiver unpacks within the inbox's own limit.
_LIMIT = 100_000_000


@dataclass(frozen=True, eq=False)
class Event:
    """One event of `source`.

    id           redrive's own, a uuid as text; None when the message was sent by hand and there is no record
    event_id     the sender's, which repeats of it share; ``sha256:…`` of the body where it sends none
    type         what happened; ``unknown`` where the sender does not say
    action       a second part of the type, such as GitHub's ``opened``; None where there is none
    resource     what it happened to, by the sender's id; None where the sender does not say
    payload      the body as JSON, or as an operator patched it; None when it is no JSON Postgres can hold
    raw          the body, byte by byte as it came and was signed
    headers      of the request, names in lower case; without credentials and signatures
    received_at  when it was recorded first
    origin       webhook, or reconcile for one that a sweep made up
    generation   how often it was sent again: 0 for the first time
    attempts     attempts of this generation that failed before this one: 0 in the first. (The record, in
                 `redrive inbox list` and in SQL, counts the one that ends it, too.)
    """

    id: str | None
    source: str
    event_id: str
    type: str
    action: str | None = None
    resource: str | None = None
    payload: Any = field(default=None, repr=False)
    raw: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    received_at: datetime | None = None
    origin: str = "webhook"
    generation: int = 0
    attempts: int = 0

    @property
    def name(self) -> str:
        """What `Redrive.on` matches first: ``pull_request.opened``; the type where there is no action."""
        return f"{self.type}.{self.action}" if self.action else self.type

    @cached_property
    def body(self) -> bytes:
        """`raw` as it was before it was packed; `raw` itself where it was not, or cannot be unpacked."""
        lines = [
            (name.encode("latin-1", "replace"), v.encode("latin-1", "replace"))
            for name, v in self.headers.items()
        ]
        try:
            found = unpacked(self.raw, encoding_of(lines), limit=_LIMIT)
        except TooLarge:
            found = None
        return self.raw if found is None else found
