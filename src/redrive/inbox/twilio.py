"""Twilio: what its signature covers, which is the URL and, of a form, the pairs in it.

Not given   that two bodies with the same pairs differ to Twilio: their order, a repeated equal pair and the
            way they are escaped are not signed. Source: Twilio's webhook security page and its own client.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from urllib.parse import unquote_to_bytes

from redrive.errors import SignatureError

SETTINGS = "X-Twilio-Webhooks-Signature-Settings"
FORM = b"application/x-www-form-urlencoded"
BODY_HASH = "bodySHA256"

# Before the HMAC, from anybody, and a field's bytes each take 100 when they are escaped. A real form is a few
# kilobytes, some dozens of fields.
_LARGEST_FORM = 256 * 1024
_MOST_PAIRS = 10_000
_URL = re.compile(r"(?s)(?P<scheme>https?)://(?P<host>[^/?#]*?)(?P<port>:[0-9]*)?(?P<rest>[/?#].*)?", re.I)
_DEFAULT_PORTS = {"http": ":80", "https": ":443"}
_ALGORITHMS = {b"HMAC_SHA1": "sha1", b"HMAC_SHA256": "sha256"}


def is_form(content_types: list[bytes] | None) -> bool:
    """Whether the one content-type header says form; anything else is held to JSON's stricter rule."""
    if not content_types or len(content_types) > 1:
        return False
    return content_types[0].partition(b";")[0].strip().lower() == FORM


def algorithm(settings: bytes | None) -> str:
    """What the settings header announces: SHA-1 where it says nothing. Raises `SignatureError`."""
    items = [item.partition(b"=") for item in (settings or b"").split(b",")]
    match [value.strip() for name, _, value in items if name.strip() == b"algorithm"]:
        case []:
            return "sha1"
        case [name] if name in _ALGORITHMS:
            return _ALGORITHMS[name]
        case _:
            raise SignatureError(
                "malformed",
                f"{SETTINGS} does not name one of HMAC_SHA1 and HMAC_SHA256",
            )


def covered(url: str, body: bytes, *, form: bool) -> list[bytes]:
    """What may have been signed: once for each way Twilio may have written the URL's port.

    A URL that carries bodySHA256 must carry the body's, form or not: with it, the URL alone would vouch
    for a body that has no pairs. Raises `SignatureError`.
    """
    hashes = re.findall(rf"[?&]{BODY_HASH}=([^&#]*)", url)
    if hashes or not form:
        _check_hash(hashes, body)
    pairs = _pairs(body) if form else b""
    return [each.encode("utf-8", "surrogatepass") + pairs for each in variants(url)]


def variants(url: str) -> list[str]:
    """The URL as it is, and without its port or with the default one."""
    parts = _URL.fullmatch(url)
    if parts is None:
        return [url]
    scheme, host, port, rest = parts["scheme"], parts["host"], parts["port"], parts["rest"] or ""
    other = "" if port else _DEFAULT_PORTS[scheme.lower()]
    return [url, f"{scheme}://{host}{other}{rest}"]


def _check_hash(hashes: list[str], body: bytes) -> None:
    if len(hashes) != 1:
        raise SignatureError(
            "malformed",
            f"the URL carries {BODY_HASH} {len(hashes)} times; a body that is no form is signed through one",
        )
    sent = hashes[0].encode("utf-8", "surrogatepass")
    if not hmac.compare_digest(hashlib.sha256(body).hexdigest().encode(), sent):
        raise SignatureError("mismatch", f"the body is not the one whose hash the URL carries as {BODY_HASH}")


def _pairs(body: bytes) -> bytes:
    if len(body) > _LARGEST_FORM:
        raise SignatureError(
            "malformed",
            f"the form has {len(body):,} bytes, more than {_LARGEST_FORM:,}; Twilio sends a few thousand",
        )
    if body.count(b"&") >= _MOST_PAIRS:
        raise SignatureError(
            "malformed", f"the form has more than {_MOST_PAIRS:,} fields; Twilio sends dozens"
        )
    items = (item.partition(b"=") for item in body.split(b"&") if item)
    unique = {(_decoded(name), _decoded(value)) for name, _, value in items}
    return b"".join(name + value for name, value in sorted(unique))


def _decoded(text: bytes) -> bytes:
    return unquote_to_bytes(text.replace(b"+", b" "))
