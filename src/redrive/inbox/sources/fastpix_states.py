"""FastPix' states: what is taken of an answer, and how it becomes a row.

Guarantees  a stream key, secret, token or signed upload URL is in no state that leaves this module;
            a state of any shape becomes a row: what does not fit its column is null there, and stands in
            the whole state beside it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal, cast

from redrive.inbox.source import State

Kind = Literal["media", "live_stream", "upload"]
Column = Literal["text", "time", "flag", "number", "json"]

# What can be said of an id in a path; FastPix' are UUIDs.
_ID = re.compile(r"[A-Za-z0-9_-]{1,255}")
# streamKey, srtSecret, srtPlaybackSecret, accessToken, ...
_SECRET = re.compile(r"key$|secret|token|passw|passphrase|credential", re.IGNORECASE)
# The account's own names and values.
_NOT_SEARCHED = "metadata"
_MOST_INTEGER = 2**31 - 1

KEYS: dict[Kind, str] = {"media": "id", "live_stream": "streamId", "upload": "uploadId"}
COLUMNS: dict[Kind, dict[str, Column]] = {
    "media": {
        "status": "text",
        "createdAt": "time",
        "updatedAt": "time",
        "workspaceId": "text",
        "title": "text",
        "duration": "text",
        "aspectRatio": "text",
        "maxResolution": "text",
        "sourceResolution": "text",
        "thumbnail": "text",
        "streamId": "text",
        "sourceMediaId": "text",
        "creatorId": "text",
        "mp4Support": "text",
        "isAudioOnly": "flag",
        "sourceAccess": "flag",
        "playbackIds": "json",
        "tracks": "json",
        "metadata": "json",
    },
    "live_stream": {
        "status": "text",
        "createdAt": "time",
        "workspaceId": "text",
        "maxResolution": "text",
        "reconnectWindow": "number",
        "enableRecording": "flag",
        "playbackIds": "json",
        "mediaIds": "json",
        "simulcastResponses": "json",
        "metadata": "json",
    },
    "upload": {
        "mediaId": "text",
        "status": "text",
        "createdAt": "time",
        "timeout": "number",
        "corsOrigin": "text",
    },
}
# Addresses that may be signed anew for each answer say nothing about the resource.
_UNCOMPARED = frozenset({"thumbnail"})


def identified(value: object) -> str | None:
    """`value` when it can be an id."""
    return value if isinstance(value, str) and _ID.fullmatch(value) else None


def id_of(kind: Kind, state: Mapping[str, Any]) -> str | None:
    """The id that stands in a state: an upload's is called uploadId or id."""
    return identified(state.get(KEYS[kind])) or identified(state.get("id"))


def cleaned(kind: Kind, state: Mapping[str, Any]) -> State:
    """`state` without secrets, and with text that Postgres can hold. Raises `RecursionError`."""
    kept = cast("State", _cleaned(state))
    if kind == "upload":
        # Whoever has it can upload.
        kept.pop("url", None)
    return kept


def differs(kind: Kind, listed: State, stored: State) -> bool:
    """Whether a field that the list shows is another in the row.

    What a list leaves out says nothing, and what is empty may be left out: "", [], {} and null are one.
    """
    compared = [name for name in COLUMNS[kind] if name in listed and name not in _UNCOMPARED]
    return any(_exact(listed[name] or None) != _exact(stored.get(name) or None) for name in compared)


def created(state: Mapping[str, Any]) -> datetime | None:
    """When the resource was made; None when the state does not say."""
    return moment(state.get("createdAt"))


def values(kind: Kind, state: Mapping[str, Any]) -> list[Any]:
    """The values of `COLUMNS[kind]`, in their order."""
    return [_VALUES[column](state.get(name)) for name, column in COLUMNS[kind].items()]


def moment(value: object) -> datetime | None:
    """An ISO time; FastPix writes nanoseconds, Postgres and Python keep microseconds."""
    if not isinstance(value, str):
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    return at if at.utcoffset() is not None else at.replace(tzinfo=UTC)


def _exact(value: object) -> object:
    """`value` with its numbers as they are written: jsonb gives 1e23 back as an integer."""
    match value:
        case float():
            return Decimal(repr(value))
        case dict():
            return {name: _exact(each) for name, each in cast("dict[str, object]", value).items()}
        case list():
            return [_exact(each) for each in cast("list[object]", value)]
        case _:
            return value


def _cleaned(value: object) -> object:
    match value:
        case dict():
            fields = cast("dict[str, object]", value)
            return {
                _text(name): _storable(each) if name == _NOT_SEARCHED else _cleaned(each)
                for name, each in fields.items()
                if not _SECRET.search(name)
            }
        case list():
            return [_cleaned(each) for each in cast("list[object]", value)]
        case _:
            return _storable(value)


def _storable(value: object) -> object:
    match value:
        case str():
            return _text(value)
        case dict():
            return {_text(name): _storable(each) for name, each in cast("dict[str, object]", value).items()}
        case list():
            return [_storable(each) for each in cast("list[object]", value)]
        case float() if not math.isfinite(value):
            return None  # 1e999
        case _:
            return value


def _text(value: str) -> str:
    if value.isascii() and "\x00" not in value:
        return value
    return value.replace("\x00", "␀").encode("utf-8", "replace").decode()


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _as_number(value: object) -> int | None:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _MOST_INTEGER:
        return None
    return value


def _as_json(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


_VALUES = {"text": _as_text, "time": moment, "flag": _as_flag, "number": _as_number, "json": _as_json}
