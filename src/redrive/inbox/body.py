"""Body: a request's bytes, read within bounds, and what they hold once unpacked.

Guarantees  no more than `limit` bytes of one body are kept, packed or unpacked, whatever its headers say;
            all bodies of a process together keep within a `Budget`;
            a body that does not come is not waited for.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

ReceiveMessage = Callable[[], Awaitable[MutableMapping[str, Any]]]

# What a request costs beside its body: its task, its headers, its place in a queue for a connection.
_OVERHEAD = 16_384
_SMALL = 64 * 1024
_GZIP = zlib.MAX_WBITS | 16
_LEAST_GZIP = 18
_WINDOWS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": zlib.MAX_WBITS}


class TooLarge(Exception):
    """More bytes than the inbox takes; `size` is how many there are at least."""

    def __init__(self, size: int) -> None:
        self.size = size
        super().__init__(size)


class TooSlow(Exception):
    """The body did not arrive in time."""


class NoRoom(Exception):
    """The bodies that are being worked on have filled the budget."""


class Broken(Exception):
    """The transport contradicts itself; says how."""


class Gone(Exception):
    """The sender hung up: there is nobody to answer."""


class Budget:
    """`most` bytes for all requests at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.taken = 0


class Share:
    """One request's part of a budget; given back by `release`, twice is fine."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._mine = 0

    def take(self, size: int) -> None:
        """Raises `NoRoom`, and then has taken nothing. Who is alone is let in whatever it takes."""
        alone = self._budget.taken == self._mine
        if self._budget.taken + size > self._budget.most and not alone:
            raise NoRoom
        self._budget.taken += size
        self._mine += size

    def handed_on(self) -> Share:
        """Another that has what this one had, to be released by somebody else."""
        other = Share(self._budget)
        other._mine, self._mine = self._mine, 0
        return other

    def release(self) -> None:
        self._budget.taken -= self._mine
        self._mine = 0


async def read(
    receive: ReceiveMessage,
    headers: Iterable[tuple[bytes, bytes]],
    share: Share,
    *,
    limit: int,
    within: float,
) -> bytes:
    """The body of an ASGI request, as it came. Raises any of this module's exceptions."""
    declared = declared_length(headers)
    if declared is not None and declared > limit:
        raise TooLarge(declared)
    share.take(_OVERHEAD)
    try:
        async with asyncio.timeout(within):
            body = await _chunks(receive, share, limit)
    except TimeoutError:
        raise TooSlow from None
    if declared is not None and len(body) != declared:
        raise Broken(f"Content-Length is {declared}, and {len(body)} bytes came")
    return body


async def _chunks(receive: ReceiveMessage, share: Share, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        chunk: bytes = message.get("body", b"")
        if chunk:
            size += len(chunk)
            if size > limit:
                raise TooLarge(size)
            share.take(len(chunk))
            chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def is_small(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether the headers promise a body of a few kilobytes, as almost every webhook has."""
    found = [value for name, value in headers if name == b"content-length"]
    return len(found) == 1 and found[0].isdigit() and len(found[0]) < 6 and int(found[0]) <= _SMALL


def declared_length(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """The Content-Length; None where there is none. Raises `Broken` for what is none."""
    found = {value for name, value in headers if name == b"content-length"}
    if not found:
        return None
    value = found.pop()
    # int() also takes signs, underscores and other alphabets' digits.
    if found or not value.isdigit() or len(value) > 18:
        raise Broken("Content-Length is no number, or two of them")
    return int(value)


def encoding_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The content encoding, in lower case; empty when the body is as it is."""
    found = [value for name, value in headers if name == b"content-encoding"]
    if not found:
        return ""
    encoding = b",".join(found).decode("latin-1").strip().lower()
    return "" if encoding == "identity" else encoding


def claimed_size(body: bytes, encoding: str) -> int:
    """How long a gzip says at its end that it is once unpacked; else how long it is. It may lie."""
    if encoding in ("gzip", "x-gzip") and len(body) >= _LEAST_GZIP:
        return int.from_bytes(body[-4:], "little")
    return len(body)


def unpacked(body: bytes, encoding: str, *, limit: int) -> bytes | None:
    """What `body` holds. None when it is not packed as `encoding` says, or in a way nobody here knows.

    One gzip member: what follows it is no part of any webhook. Raises `TooLarge`.
    """
    if not encoding:
        return body
    window = _WINDOWS.get(encoding)
    if window is None:
        return None
    unpack = zlib.decompressobj(window)
    pieces: list[bytes] = []
    size = 0
    rest = body
    try:
        while not unpack.eof:
            piece = unpack.decompress(rest, limit + 1 - size)
            rest = unpack.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise TooLarge(size)
            if not piece and not rest and not unpack.eof:
                return None
            pieces.append(piece)
    except zlib.error:
        return None
    return None if unpack.unused_data else b"".join(pieces)
