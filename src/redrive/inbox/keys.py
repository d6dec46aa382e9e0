"""Keys: a secret as its provider shows it, made ready once to check many signatures.

Guarantees  a secret that is empty, begins or ends with white space, or does not decode is refused by a
            `ConfigError` that names the setting and never shows the secret.
Not given   that a secret is long: its length is the provider's choice.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from redrive.errors import ConfigError
from redrive.inbox.schemes import Scheme

_PRIVATE_PREFIX = "whsec_"
_PUBLIC_PREFIX = "whpk_"
_PUBLIC_SIZE = 32


@dataclass(frozen=True, slots=True)
class SharedKey:
    """An HMAC begun with the key, for each algorithm the scheme knows: copied for each request."""

    begun: Mapping[str, hmac.HMAC]


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An ed25519 key that can check and not sign. `holds(signature, message)` never raises."""

    holds: Callable[[bytes, bytes], bool]


def prepare(scheme: Scheme, secret: object, setting: str) -> SharedKey | PublicKey:
    """The key in `secret`. Raises `ConfigError` naming `setting` (an environment variable, a parameter)."""
    text = _checked(secret, setting)
    if scheme.key == "whsec" and text.startswith(_PUBLIC_PREFIX):
        return _public(_base64(text.removeprefix(_PUBLIC_PREFIX), setting), setting)
    key = _key(scheme, text, setting)
    if not key:
        raise ConfigError(f"{setting} is empty after its prefix; copy the whole secret from the provider")
    return SharedKey({name: hmac.new(key, digestmod=getattr(hashlib, name)) for name in scheme.algorithms})


def _checked(secret: object, setting: str) -> str:
    if not isinstance(secret, str):
        raise ConfigError(f"{setting} must be text, not {type(secret).__name__}")
    if not secret.strip():
        raise ConfigError(f"{setting} is empty; set it to the signing secret the provider shows")
    if secret != secret.strip():
        raise ConfigError(f"{setting} begins or ends with white space (a newline?); remove it")
    return secret


def _key(scheme: Scheme, text: str, setting: str) -> bytes:
    match scheme.key:
        case "utf8":
            try:
                return text.encode()
            except UnicodeEncodeError:
                raise ConfigError(f"{setting} is not valid UTF-8; copy the secret again") from None
        case "base64":
            return _base64(text, setting)
        case "whsec":
            return _base64(text.removeprefix(_PRIVATE_PREFIX), setting)
        case "hex":
            try:
                # fromhex alone would skip white space.
                return bytes.fromhex("" if len(text.split()) > 1 else text)
            except ValueError:
                raise ConfigError(
                    f"{setting} is not hex; the key of this source is configured as hex"
                ) from None


def _base64(text: str, setting: str) -> bytes:
    try:
        return base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise ConfigError(
            f"{setting} is not base64 (A-Z a-z 0-9 + / and exact = padding), as this scheme's secrets are; "
            "copy the whole secret from the provider"
        ) from None


def _public(raw: bytes, setting: str) -> PublicKey:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise ConfigError(
            f"{setting} is an ed25519 public key ({_PUBLIC_PREFIX}…), which needs the package cryptography; "
            "install redrive[ed25519]"
        ) from None
    if len(raw) != _PUBLIC_SIZE:
        raise ConfigError(
            f"{setting} holds {len(raw)} bytes after {_PUBLIC_PREFIX}; the public key has {_PUBLIC_SIZE}"
        )
    key = Ed25519PublicKey.from_public_bytes(raw)

    def holds(signature: bytes, message: bytes) -> bool:
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return PublicKey(holds)
