"""The vendors' own Python libraries as judges: over the known requests, and over what `sign` makes.

Each is given what it takes: text, one value of a header, the clock of the request. Where it and the known
verdict differ, the difference is named here with its reason; one that is not named fails.
"""

from __future__ import annotations

import base64
import importlib
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlencode

import pytest
import standardwebhooks.webhooks
import svix.webhooks
from hypothesis import given
from hypothesis import strategies as st
from paddle_billing.Notifications.Secret import Secret
from slack_sdk.signature import SignatureVerifier
from stripe import SignatureVerificationError, WebhookSignature
from twilio.request_validator import RequestValidator, get_signature_algorithm

from redrive.inbox.signatures import verify
from redrive.inbox.signing import sign, signed_url
from tests.support.webhooks import URL, VECTORS, body_of, secret_of, secrets_of

Vector = dict[str, Any]

# By its full name: the package shows its class under the same one.
paddle = importlib.import_module("paddle_billing.Notifications.Verifier")

_COMMA = "it expects a comma in every entry"
_ASCII = "it expects ASCII, and lets the comparison's error through"
_NUMBER = "it expects a number, and lets int()'s error through"
_UTF8 = "it reads text, and this body is none"
# What the library says of a vector where that is not the verdict, and why.
DIFFERENCES = {
    "standard-webhooks-12": ("ValueError", _COMMA),
    "standard-webhooks-16": ("ValueError", _ASCII),
    "standard-webhooks-17": ("UnicodeDecodeError", _UTF8),
    "svix-13": ("ValueError", _COMMA),
    "svix-17": ("ValueError", _ASCII),
    "stripe-09": ("valid", "it takes any time in the future"),
    "stripe-19": ("UnicodeDecodeError", _UTF8),
    "slack-09": ("ValueError", _NUMBER),
    "slack-13": ("TypeError", _ASCII),
    "twilio-15": ("TypeError", "it reads a body as a form where the URL carries no hash"),
    "paddle-06": ("ValueError", "it refuses a key it does not know"),
    "paddle-12": ("valid", "of two times it takes the last"),
    "paddle-13": ("ValueError", _NUMBER),
}


def standard(vector: Vector, secret: str, library: Any = standardwebhooks.webhooks) -> bool:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.fromtimestamp(vector["now"], tz)

    # Without json_parse, which judges more than the signature; svix has it off.
    options = {} if library is svix.webhooks else {"json_parse": False}
    with mock.patch.object(standardwebhooks.webhooks, "datetime", Clock):
        try:
            library.Webhook(secret).verify(body_of(vector), vector["headers"], **options)
        except standardwebhooks.webhooks.WebhookVerificationError:
            return False
    return True


def svix_(vector: Vector, secret: str) -> bool:
    return standard(vector, secret, svix.webhooks)


def stripe(vector: Vector, secret: str) -> bool:
    header = vector["headers"].get("Stripe-Signature")
    with mock.patch("stripe._webhook.time.time", return_value=vector["now"]):
        try:
            return WebhookSignature.verify_header(body_of(vector), header, secret, vector["tolerance_s"])
        except SignatureVerificationError:
            return False


def slack(vector: Vector, secret: str) -> bool:
    clock: Any = SimpleNamespace(now=lambda: vector["now"])
    return SignatureVerifier(secret, clock).is_valid_request(body_of(vector), vector["headers"])


def twilio(vector: Vector, secret: str) -> bool:
    headers, body = vector["headers"], body_of(vector).decode()
    form = headers["Content-Type"].startswith("application/x-www-form-urlencoded")
    fields = Fields(parse_qs(body, keep_blank_values=True)) if form else body
    algorithm = get_signature_algorithm(headers.get("X-Twilio-Webhooks-Signature-Settings"))
    signature = headers.get("X-Twilio-Signature", "")
    return RequestValidator(secret).validate(vector["url"], fields, signature, algorithm)


class Fields(dict[str, list[str]]):
    def getlist(self, name: str) -> list[str]:
        return self[name]


def paddle_(vector: Vector, secret: str) -> bool:
    request: Any = SimpleNamespace(headers=vector["headers"], body=body_of(vector))
    with mock.patch.object(paddle, "time", return_value=vector["now"]):
        return paddle.Verifier(vector["tolerance_s"]).verify(request, Secret(secret))


JUDGES: dict[str, Callable[[Vector, str], bool]] = {
    "standard-webhooks": standard,
    "svix": svix_,
    "stripe": stripe,
    "slack": slack,
    "twilio": twilio,
    "paddle": paddle_,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


def verdict(vector: Vector) -> str:
    judge = JUDGES[vector["scheme"]]
    try:
        return "valid" if any(judge(vector, secret) for secret in secrets_of(vector)) else "invalid"
    except Exception as error:
        return type(error).__name__


def judged() -> list[Any]:
    """Those that a library can be given: it takes one value of a header."""
    return [
        pytest.param(vector, id=vector["id"])
        for vector in VECTORS
        if vector["scheme"] in JUDGES
        and not any(isinstance(value, list) for value in vector["headers"].values())
    ]


@pytest.mark.parametrize("vector", judged())
def test_the_vendors_library_agrees_or_differs_as_is_known(vector: Vector) -> None:
    expected, _why = DIFFERENCES.get(vector["id"], (vector["expected"], ""))
    assert verdict(vector) == expected


def test_no_difference_is_named_in_vain() -> None:
    verdicts = {vector["id"]: vector["expected"] for vector in VECTORS}
    assert all(said != verdicts[id] for id, (said, _why) in DIFFERENCES.items())


def request(scheme: str, body: bytes, now: int) -> Vector:
    return {
        "scheme": scheme,
        "secret": secret_of(scheme),
        "headers": sign(scheme, secret=secret_of(scheme), body=body, now=now, url=URL),
        "body_b64": base64.b64encode(body),
        "url": signed_url(scheme, URL, body),
        "now": now,
        "tolerance_s": 300,
    }


@given(st.sampled_from(sorted(JUDGES)), st.text(max_size=200), st.integers(10**9, 2 * 10**9))
def test_the_vendors_library_takes_what_sign_makes_and_nothing_else(scheme: str, text: str, now: int) -> None:
    made = request(scheme, text.encode(), now)
    assert verdict(made) == "valid"
    assert verdict({**made, "secret": secret_of(scheme)[:-4] + "AAA="}) == "invalid"
    # Twilio signs a form's fields: something that is no field would change nothing.
    changed = base64.b64encode(text.encode() + (b"&changed=1" if scheme == "twilio" else b"!"))
    assert verdict({**made, "body_b64": changed}) == "invalid"


@given(st.text(max_size=200), st.integers(10**9, 2 * 10**9))
def test_what_the_vendors_library_makes_is_verified(text: str, now: int) -> None:
    body, when = text.encode(), datetime.fromtimestamp(now, UTC)
    entry = standardwebhooks.webhooks.Webhook(secret_of("svix")).sign("m", when, text)
    svix_headers = {"svix-id": "m", "svix-timestamp": str(now), "svix-signature": entry}
    stripe_header = WebhookSignature.generate_signature_header(text, secret_of("stripe"), now)
    slack_header = SignatureVerifier(secret_of("slack")).generate_signature(timestamp=str(now), body=body)
    slack_headers = {"X-Slack-Request-Timestamp": str(now), "X-Slack-Signature": str(slack_header)}
    for scheme, headers in (
        ("svix", svix_headers),
        ("stripe", {"Stripe-Signature": stripe_header}),
        ("slack", slack_headers),
    ):
        assert verify(scheme, secrets=[secret_of(scheme)], headers=headers, body=body, now=now)


@given(st.dictionaries(st.text(), st.lists(st.text(), min_size=1, max_size=3), max_size=5))
def test_a_form_that_twilios_library_signs_is_verified(fields: dict[str, list[str]]) -> None:
    signature = RequestValidator("token").compute_signature(URL, Fields(fields))
    headers = {"X-Twilio-Signature": signature, "Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode(fields, doseq=True).encode()
    assert verify("twilio", secrets=["token"], headers=headers, body=body, url=URL)
