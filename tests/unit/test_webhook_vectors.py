"""Every known request, signed right or wrong, is judged as it should be, and known by its id and type."""

from __future__ import annotations

import json
from typing import Any

import pytest

from redrive.errors import SignatureError
from redrive.inbox.providers import provider
from redrive.inbox.schemes import NAMES
from redrive.inbox.signatures import Verified, verify
from tests.support.webhooks import VECTORS, body_of, secrets_of

# Which of the four reasons; where a vector is not listed, its own words say it.
_STALE = ("old", "in the future", "outside the configured window")
_MISSING = ("header missing", "empty header", "only the legacy")
_MISMATCHED = (
    "wrong", "changed", "re-serialised", "added to the body", "rewritten", "dropped", "replaced", "swapped",
    "key used as text", "secret used", "parameter added", "http instead of https",
)  # fmt: skip


def config_of(vector: dict[str, Any]) -> dict[str, Any]:
    return {**vector.get("config", {}), "tolerance": vector.get("tolerance_s")}


def judged(vector: dict[str, Any]) -> Verified:
    return verify(
        vector["scheme"],
        secrets=secrets_of(vector),
        headers=vector["headers"],
        body=body_of(vector),
        url=vector.get("url"),
        now=vector.get("now"),
        config=config_of(vector),
    )


def reason_of(vector: dict[str, Any]) -> str:
    words = vector["reason"]
    if any(each in words for each in _MISSING):
        return "no_header"
    if words.endswith(_STALE):
        return "stale"
    if any(each in words for each in _MISMATCHED) and "prefix" not in words.replace("whsec_ prefix", ""):
        return "mismatch"
    return "malformed"


def named(expected: str) -> list[Any]:
    return [pytest.param(each, id=each["id"]) for each in VECTORS if each["expected"] == expected]


def test_every_scheme_has_vectors_of_both_kinds() -> None:
    for expected in ("valid", "invalid"):
        assert {each["scheme"] for each in VECTORS if each["expected"] == expected} == set(NAMES)
    assert len(VECTORS) == len({each["id"] for each in VECTORS}) == 225


@pytest.mark.parametrize("vector", named("valid"))
def test_a_request_signed_right_is_verified(vector: dict[str, Any]) -> None:
    verified = judged(vector)
    assert 0 <= verified.secret < len(secrets_of(vector))
    if verified.id is not None and "event_id" in vector:
        assert verified.id == vector["event_id"]
    if verified.type is not None and "event_type" in vector:
        assert verified.type == vector["event_type"]


@pytest.mark.parametrize("vector", named("invalid"))
def test_a_request_signed_wrong_is_refused_for_its_reason(vector: dict[str, Any]) -> None:
    with pytest.raises(SignatureError) as refused:
        judged(vector)
    assert refused.value.reason == reason_of(vector)
    for secret in secrets_of(vector):
        # "other" is a secret of one vector, and a word.
        assert secret == "other" or secret not in str(refused.value)


@pytest.mark.parametrize(
    "vector",
    [pytest.param(each, id=each["id"]) for each in VECTORS if "event_id" in each or "event_type" in each],
)
def test_an_event_is_known_by_its_id_and_type(vector: dict[str, Any]) -> None:
    body = body_of(vector)
    try:
        payload = json.loads(body)
    except ValueError:
        payload = None
    found = provider(vector["scheme"], config_of(vector)).identify(vector["headers"], payload, body)
    assert found.event_id == vector.get("event_id", found.event_id)
    assert found.type == vector.get("event_type", found.type)
