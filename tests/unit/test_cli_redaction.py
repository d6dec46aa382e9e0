"""What looks like a secret does not reach a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.cli.redaction import REDACTED, is_secret, redact


@pytest.mark.parametrize(
    "name",
    [
        "password", "PASSWORD", "user_password", "passwd", "db.passwd", "passphrase", "secret",
        "clientSecret", "client-secret", "token", "accessToken", "access_token", "Authorization",
        "authorisation", "api_key", "apiKey", "API-Key", "APIKey", "x-api-key", "access key", "private_key",
        "streamKey", "stream_key", "signingKey", "x-signing-key", "encryptionKey", "licenseKey", "SSH key",
        "credentials", "Set-Cookie", "pwd", "pin", "otp", "card_number", "cvc",
    ],
)  # fmt: skip
def test_names_of_secrets_are_known_in_any_spelling(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "key", "keyboard", "template", "user_id", "passenger", "author", "pinned", "compass", "shipping",
        "keys", "idempotency_key", "idempotencyKey", "primary_key", "public_key", "x-redrive-key", "sort_key",
        "upstream_key", "streamId", "mapKey", "snapshot_key", "signature_count", "monkey", "stream_keyboard",
    ],
)  # fmt: skip
def test_other_names_are_left_alone(name: str) -> None:
    assert not is_secret(name)


def test_they_are_found_at_any_depth_and_the_rest_stays() -> None:
    payload = {
        "to": "ada@example.com",
        "list": [{"auth": {"user": "ada", "token": "t"}}, 1],
        "secrets": ["a", "b"],
        "has_password": True,
        "token": None,
    }
    assert redact(payload) == {
        "to": "ada@example.com",
        "list": [{"auth": REDACTED}, 1],
        "secrets": REDACTED,
        "has_password": True,
        "token": None,
    }
    assert payload["secrets"] == ["a", "b"]


def test_urls_lose_their_password_and_headers_their_credentials() -> None:
    assert redact("postgresql://ada:hunter2@db/x") == f"postgresql://ada:{REDACTED}@db/x"
    assert redact(["authorization: Bearer abc.def"]) == [f"authorization: Bearer {REDACTED}"]
    assert redact("https://example.com/a:b@c") == "https://example.com/a:b@c"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_redacting_twice_changes_nothing_more(value: object) -> None:
    once = redact(value)
    assert redact(once) == once
