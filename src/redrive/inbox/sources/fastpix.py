"""FastPix: its API, and the tables fastpix.media, fastpix.live_streams and fastpix.uploads.

    app.inbox("fastpix", provider="fastpix", queue="webhook_jobs", api=FastPix())

Each event names a resource; its state is fetched and written to its table. Media and live streams are fetched
by id. An upload cannot be: its list is paged through, once for all jobs that ask at the same time. Only
unused uploads are listed, so one that is missing has become a medium or has ended. Its row stays: with status
``media_created`` and the medium's id, where an event or the medium itself told it, else ``ended``.

Guarantees  stream keys, secrets and signed upload URLs are not stored in these tables. The record of events,
            redrive.webhook_event, has each body as FastPix sent it.
Not given   by `list_changed`: changes of what was created before `since`, for the lists know no other order;
            an entry that a deletion has moved to a page read already, when a creation at the same time hides
            that from the total. The next sweep has it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, cast
from weakref import WeakKeyDictionary

from redrive.errors import ConfigError
from redrive.inbox.source import (
    ApiError,
    Connection,
    Listed,
    Page,
    Signal,
    State,
    Stored,
    Synthetic,
    patiently,
)
from redrive.inbox.sources import fastpix_tables as tables
from redrive.inbox.sources.calls import Calls, Credential, credential
from redrive.inbox.sources.fastpix_states import KEYS, Kind, cleaned, created, differs, id_of, identified
from redrive.inbox.sources.reading import SharedReading
from redrive.job import Reject

BASE_URL = "https://api.fastpix.com/v1/"
TOKEN_ID = "FASTPIX_ACCESS_TOKEN_ID"
SECRET_KEY = "FASTPIX_SECRET_KEY"
MAX_READ_CT = "FASTPIX_MAX_READ_CT"
_DEFAULT_READ_CT = 7
# Jobs at once: each makes one or two calls to the API.
_CONCURRENCY = 10
# The most the API gives a page.
_PAGE = 50
# A list that keeps moving under a sweep is read this often.
_MOST_PASSES = 3

_LISTS: dict[Kind, str] = {"media": "on-demand", "live_stream": "live/streams", "upload": "on-demand/uploads"}
_NAMED_IN_DATA: dict[Kind, str] = {"media": "mediaId", "live_stream": "streamId", "upload": "uploadId"}
_MEDIA_CREATED = "video.upload.media_created"
# Statuses of a medium that FastPix has an event for.
_TOLD = ("created", "ready", "failed")


class FastPix:
    """The FastPix account of an inbox.

    `token_id`, `secret_key`: the access token, or callables that give it; by default FASTPIX_ACCESS_TOKEN_ID
    and FASTPIX_SECRET_KEY from the environment. `timeout`: seconds a request may take. The queue's policy,
    where the app declares nothing, is FASTPIX_MAX_READ_CT attempts (7), ten at once.
    """

    def __init__(
        self,
        token_id: Credential = None,
        secret_key: Credential = None,
        *,
        base_url: str = BASE_URL,
        timeout: float = 20.0,
    ) -> None:
        self._token_id = token_id
        self._secret_key = secret_key
        self._calls = Calls(
            "FastPix",
            base_url,
            headers=self._headers,
            check=f"{TOKEN_ID} and {SECRET_KEY}",
            timeout=timeout,
        )
        self._uploads: WeakKeyDictionary[asyncio.AbstractEventLoop, SharedReading[dict[str, State]]]
        self._uploads = WeakKeyDictionary()

    def __repr__(self) -> str:
        return "FastPix()"

    @property
    def policy(self) -> Mapping[str, Any]:
        """Raises `ConfigError` when FASTPIX_MAX_READ_CT is no whole number from 1."""
        text = os.environ.get(MAX_READ_CT, str(_DEFAULT_READ_CT))
        if not re.fullmatch("[0-9]{1,10}", text) or not 0 < int(text) < 2**31:
            raise ConfigError(
                f"{MAX_READ_CT} is {text[:40]!r}; it must be a whole number from 1, how often a job is tried"
            )
        return {"max_attempts": int(text), "concurrency": _CONCURRENCY}

    def schema(self, source: str) -> str:
        return tables.schema(source)

    async def close(self) -> None:
        if (reading := self._uploads.pop(asyncio.get_running_loop(), None)) is not None:
            await reading.close()
        await self._calls.close()

    def resources(self, event: Signal) -> Sequence[str]:
        """What the event is about; of an upload that became a medium, both."""
        payload: dict[str, Any] = _object(event.payload)
        about, data = _object(payload.get("object")), _object(payload.get("data"))
        ident = identified(event.resource) or identified(about.get("id")) or identified(data.get("id"))
        named = {kind: identified(data.get(name)) for kind, name in _NAMED_IN_DATA.items()}
        kinds = _kinds(event.type, about.get("type"))
        found = [(kind, named[kind] or ident) for kind in kinds]
        # An event about a track names the medium beside it, one about a live stream its recording.
        found += [("media", named["media"])] if kinds else []
        found += [("media", ident)] if kinds == ("media",) else []
        return list(dict.fromkeys(f"{kind}:{each}" for kind, each in found if each is not None))

    def check_credentials(self) -> None:
        self._headers()

    async def fetch(self, resource: str) -> State | None:
        kind, ident = _split(resource)
        if kind == "upload":
            loop = asyncio.get_running_loop()
            reading = self._uploads.setdefault(loop, SharedReading(self._read_uploads))
            return (await reading.get()).get(ident)
        path = f"{_LISTS[kind]}/{ident}"
        answer = await self._calls.json(path)
        if answer is None:
            return None
        state = _object(_object(answer).get("data"))
        if not state or id_of(kind, state) not in (ident, None):
            raise self._calls.unexpected(path, f"its data is no {kind} of this id")
        return self._cleaned(kind, state)

    async def check_tables(self, connection: Connection, source: str) -> None:
        await tables.check(connection, source)

    async def list_changed(self, since: datetime | None) -> AsyncIterator[Page]:
        for kind in _LISTS:
            # No upload can be asked for by itself: what its list does not show is gone, so it is read whole.
            async for page in self._listed(kind, None if kind == "upload" else since):
                yield page

    async def known(self, connection: Connection, since: datetime | None) -> AsyncIterator[Stored]:
        for kind in _LISTS:
            async for each in tables.known(connection, kind, since):
                yield each

    async def stored(self, connection: Connection, resources: Sequence[str]) -> Mapping[str, Stored]:
        found: dict[str, Stored] = {}
        for kind in _LISTS:
            if idents := [ident for each, ident in map(_split, resources) if each == kind]:
                found |= await tables.stored(connection, kind, idents)
        return found

    def differs(self, listed: Listed, stored: Stored) -> bool:
        kind, _ = _split(listed.resource)
        return differs(kind, listed.state, stored.state)

    def signal(self, resource: str, state: State | None, stored: Stored | None) -> Synthetic:
        kind, ident = _split(resource)
        data = {KEYS[kind]: ident} if state is None else state
        payload: State = {
            "object": {"type": kind, "id": ident},
            "status": data.get("status"),
            "data": data,
            "attempts": [],
        }
        return Synthetic(f"video.{kind}.{_what_happened(kind, state, stored)}", ident, payload)

    async def upsert(self, connection: Connection, resource: str, state: State, at: datetime) -> None:
        kind, ident = _split(resource)
        await tables.upsert(connection, kind, ident, state, at)

    async def delete(self, connection: Connection, resource: str, at: datetime, event: Signal) -> None:
        kind, ident = _split(resource)
        if kind == "upload":
            await tables.end_upload(connection, ident, _medium_of(event), at)
        else:
            await tables.delete(connection, kind, ident)

    def _headers(self) -> Mapping[str, str]:
        token_id = credential(self._token_id, TOKEN_ID, "FastPix(token_id=...)")
        secret_key = credential(self._secret_key, SECRET_KEY, "FastPix(secret_key=...)")
        pair = base64.b64encode(f"{token_id}:{secret_key}".encode()).decode()
        return {"authorization": f"Basic {pair}", "accept": "application/json"}

    async def _listed(self, kind: Kind, since: datetime | None) -> AsyncIterator[Page]:
        """The pages of one list; again from the first when its entries have moved meanwhile."""
        for _pass in range(_MOST_PASSES):
            seen = _Seen(kind)
            for number in count(1):
                page, size = await patiently(partial(self._page, kind, number))
                yield page
                seen.add(page, size)
                if seen.at_end or _covers(page, since):
                    break
            if not seen.moved:
                return

    async def _read_uploads(self) -> dict[str, State]:
        """All that are unused, by id."""
        found: dict[str, State] = {}
        for _pass in range(_MOST_PASSES):
            seen = _Seen("upload")
            for number in count(1):
                page, size = await self._page("upload", number)
                found |= {_split(entry.resource)[1]: entry.state for entry in page.entries}
                seen.add(page, size)
                if seen.at_end:
                    break
            if not seen.moved:
                break
        return found

    async def _page(self, kind: Kind, number: int) -> tuple[Page, int]:
        """A page, and how many entries it has; what has no id is left out of it."""
        path = _LISTS[kind]
        params = {"limit": _PAGE, "offset": number, "orderBy": "desc"}
        answer = await self._calls.json(path, params)
        if answer is None:
            raise Reject(f"FastPix has no list {path}; check FastPix(base_url=...)")
        data = _object(answer).get("data")
        if not isinstance(data, list):
            raise self._calls.unexpected(path, "its data is no list")
        states = [_object(each) for each in cast("list[object]", data)]
        total = _object(_object(answer).get("pagination")).get("totalRecords")
        entries = [
            Listed(f"{kind}:{ident}", self._cleaned(kind, state), created(state))
            for state in states
            if (ident := id_of(kind, state)) is not None
        ]
        return Page(kind, entries, total if isinstance(total, int) else None), len(states)

    def _cleaned(self, kind: Kind, state: State) -> State:
        try:
            return cleaned(kind, state)
        except RecursionError:
            raise ApiError(
                f"FastPix answered with a {kind} that is nested too deeply; another try may succeed"
            ) from None


class _Seen:
    """What a pass through a list of `kind` has seen of it."""

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self._resources: set[str] = set()
        self._size = 0
        self._read = 0
        self._nameless = 0
        self._total: int | None = None
        self._shrank = False
        self.at_end = False

    def add(self, page: Page, size: int) -> None:
        """Raises `ApiError` for a page that is the one before: the API does not turn it."""
        known = len(self._resources)
        self._resources.update(each.resource for each in page.entries)
        self._read += size
        self._nameless += size - len(page.entries)
        # Entries that move to the next page make the total grow, or leave the last one short.
        if 0 < size == self._size and len(self._resources) == known and page.total == self._total:
            raise ApiError(
                f"FastPix answered GET {_LISTS[self._kind]} with a page that has nothing new, after "
                f"{self._read:,} entries; another try may succeed"
            )
        self._size = size
        if page.total is None:
            self.at_end = size < _PAGE
            return
        self._shrank |= self._total is not None and page.total < self._total
        self._total = page.total
        self.at_end = size == 0 or self._read >= page.total

    @property
    def moved(self) -> bool:
        """Whether an entry may have moved to a page that was read before: something was deleted meanwhile."""
        unseen = self._total is not None and len(self._resources) + self._nameless < self._total
        return self._shrank or (self.at_end and unseen)


def _covers(page: Page, since: datetime | None) -> bool:
    """Whether all that was created since stands on this page and those before it."""
    if since is None or not page.entries:
        return False
    dated = [each.created for each in page.entries if each.created is not None]
    return len(dated) == len(page.entries) and dated[-1] < since


def _kinds(event_type: str, object_type: object) -> tuple[Kind, ...]:
    """The kinds of resource an event is about. Of a type nobody knows, as its object says."""
    if not event_type.startswith("video."):
        return ()
    if event_type.startswith(("video.media.upload", "video.upload.")):
        return ("upload", "media")
    if event_type.startswith("video.media"):
        return ("media",)
    if event_type.startswith("video.live_stream."):
        return ("live_stream",)
    said = object_type.lower() if isinstance(object_type, str) else ""
    if "stream" in said:
        return ("live_stream",)
    if "upload" in said:
        return ("upload", "media")
    return ("media",) if "media" in said else ()


def _medium_of(event: Signal) -> str | None:
    """The medium that an upload became, as its event says."""
    payload = _object(event.payload)
    named = identified(_object(payload.get("data")).get("mediaId"))
    return named or (identified(event.resource) if event.type == _MEDIA_CREATED else None)


def _what_happened(kind: Kind, state: State | None, stored: Stored | None) -> str:
    """The last word of the type of the event that FastPix would have sent."""
    if state is None:
        return "ended" if kind == "upload" else "deleted"
    status = str(state.get("status", "")).lower()
    if (
        kind == "media"
        and status in _TOLD
        and (stored is None or stored.state.get("status") != state["status"])
    ):
        return status
    return "created" if stored is None else "updated"


def _split(resource: str) -> tuple[Kind, str]:
    kind, _, ident = resource.partition(":")
    return cast("Kind", kind), ident


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
