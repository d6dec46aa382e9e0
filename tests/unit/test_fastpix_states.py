"""FastPix' states: nothing secret is kept, and whatever an answer holds fits a row."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.inbox.sources.fastpix_states import (
    COLUMNS,
    Kind,
    cleaned,
    differs,
    identified,
    moment,
    values,
)

KINDS: list[Kind] = ["media", "live_stream", "upload"]
SECRET_NAMES = [
    "streamKey",
    "srtSecret",
    "srtPlaybackSecret",
    "accessToken",
    "password",
    "passphrase",
    "secret",
]

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = st.recursive(
    plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)
states = st.dictionaries(
    st.sampled_from([name for kind in KINDS for name in COLUMNS[kind]] + SECRET_NAMES + ["url"]) | st.text(),
    anything,
)


@given(st.sampled_from(KINDS), states)
def test_every_state_becomes_a_row_and_text_that_postgres_takes(kind: Kind, state: dict[str, Any]) -> None:
    kept = cleaned(kind, state)
    text = json.dumps(kept, ensure_ascii=False, allow_nan=False)
    assert "\\u0000" not in text
    text.encode()
    row = values(kind, kept)
    assert len(row) == len(COLUMNS[kind])
    assert not differs(kind, kept, kept)


@given(st.sampled_from(KINDS), st.sampled_from(SECRET_NAMES), anything)
def test_secrets_are_left_out_wherever_they_stand(kind: Kind, name: str, other: Any) -> None:
    inside = {name: "hush-hush", "and": other}
    state = {"a": [{"b": inside}], **inside}
    assert "hush-hush" not in json.dumps(cleaned(kind, state))


def test_an_uploads_address_is_left_out_and_a_targets_is_not() -> None:
    assert cleaned("upload", {"uploadId": "u", "url": "https://signed"}) == {"uploadId": "u"}
    targets = {"simulcastResponses": [{"url": "rtmp://there", "streamKey": "k"}]}
    assert cleaned("live_stream", targets) == {"simulcastResponses": [{"url": "rtmp://there"}]}


def test_metadata_is_the_accounts_own() -> None:
    state = {"metadata": {"token": "mine", "nul": "\x00"}}
    assert cleaned("media", state) == {"metadata": {"token": "mine", "nul": "␀"}}


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-30T10:53:20.123456789Z", datetime(2026, 11, 30, 10, 53, 20, 123456, UTC)),
        ("2026-11-30T10:53:20Z", datetime(2026, 11, 30, 10, 53, 20, 0, UTC)),
        ("2026-11-30T10:53:20", datetime(2026, 11, 30, 10, 53, 20, 0, UTC)),
        ("yesterday", None),
        (1764500000, None),
        (None, None),
    ],
)
def test_times_have_nanoseconds_or_are_none(text: object, at: datetime | None) -> None:
    assert moment(text) == at


@given(st.text())
def test_no_text_breaks_the_time(text: str) -> None:
    moment(text)


@pytest.mark.parametrize("wrong", ["", "../x", "a/b", "a?b", "a b", "é", "x" * 256, 7, None, "a\n"])
def test_what_could_be_another_path_is_no_id(wrong: object) -> None:
    assert identified(wrong) is None


@pytest.mark.parametrize(
    ("listed", "stored", "different"),
    [
        ({"status": "ready"}, {"status": "ready", "title": "not listed"}, False),
        ({"status": "ready"}, {"status": "created"}, True),
        ({"title": "", "tracks": [], "metadata": {}}, {}, False),
        ({"title": None}, {"title": "gone"}, True),
        ({"isAudioOnly": True}, {"isAudioOnly": False}, True),
        ({"thumbnail": "https://signed-anew"}, {"thumbnail": "https://signed"}, False),
        ({"unheardOf": 1}, {}, False),
        ({"tracks": [{"id": 1, "frameRate": 25.0}]}, {"tracks": [{"frameRate": 25, "id": 1}]}, False),
    ],
)
def test_only_what_a_list_says_is_compared(
    listed: dict[str, Any], stored: dict[str, Any], different: bool
) -> None:
    assert differs("media", listed, stored) is different
