"""Requests for the tests of the webhook inbox: the known ones, and what it takes to sign others."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "webhook-vectors.json").read_text()
)
NOW = 1_764_500_000
URL = "https://hooks.example.org/twilio?tenant=7"

_RANDOM = base64.b64encode(bytes(range(32))).decode()
_SECRETS = {"standard-webhooks": f"whsec_{_RANDOM}", "svix": f"whsec_{_RANDOM}", "fastpix": _RANDOM}
_GENERIC = {
    "signature_header": "X-Acme-Signature",
    "prefix": "hmac ",
    "encoding": "base64",
    "algorithm": "sha512",
    "signed": "{timestamp}|{body}|{id}",
    "id_header": "X-Acme-Id",
    "timestamp_header": "X-Acme-Time",
    "tolerance": 60,
}


def secret_of(scheme: str) -> str:
    return _SECRETS.get(scheme, "a secret, as text")


def config_of(scheme: str) -> dict[str, Any]:
    return dict(_GENERIC) if scheme == "generic" else {}


def body_of(vector: dict[str, Any]) -> bytes:
    return base64.b64decode(vector["body_b64"]) if "body_b64" in vector else vector["body"].encode()


def secrets_of(vector: dict[str, Any]) -> list[str]:
    return vector.get("secrets", [vector["secret"]])
