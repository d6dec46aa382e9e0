"""posting: signed webhooks over kept-alive connections, as fast as they are answered."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass

SECRET = base64.b64encode(b"a secret of the benchmarks alone").decode()
_KEY = base64.b64decode(SECRET)
_SIZE = 2_000


@dataclass(frozen=True, slots=True)
class Answers:
    """What came back: `latencies` in seconds, one a request."""

    seconds: float
    latencies: list[float]
    refused: int

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, percent: float) -> float:
        """Seconds."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def requests(name: str, path: str, count: int) -> list[bytes]:
    """`count` different events, signed as FastPix signs, as the bytes of HTTP requests."""
    return [_request(path, event(f"{name}-{n}")) for n in range(count)]


def post(port: int, wanted: list[bytes], connections: int) -> Answers:
    """Post all of them, each once, over so many connections at once."""
    return asyncio.run(_post(port, wanted, connections))


async def _post(port: int, wanted: list[bytes], connections: int) -> Answers:
    left = iter(wanted)
    latencies: list[float] = []
    refused = 0

    async def sender() -> None:
        nonlocal refused
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in left:
            began = time.perf_counter()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - began)
            refused += not head.startswith(b"HTTP/1.1 200")
        writer.close()
        await writer.wait_closed()

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(sender())
    return Answers(time.perf_counter() - began, latencies, refused)


def event(event_id: str) -> bytes:
    """The body of an event, of 2 KB."""
    facts = {
        "type": "video.media.ready",
        "object": {"type": "media", "id": f"m-{event_id}"},
        "id": event_id,
        "workspace": {"id": "w-1", "name": "bench"},
        "status": "ready",
        "data": {
            "id": f"m-{event_id}",
            "title": "x" * 1_500,
            "playbackIds": [{"id": "p-1", "policy": "public"}],
        },
        "createdAt": "2026-11-30T10:53:20.123456789Z",
        "attempts": [],
    }
    missing = _SIZE - len(json.dumps(facts))
    return json.dumps({**facts, "status": "ready" + " " * max(0, missing)}).encode()


def _request(path: str, body: bytes) -> bytes:
    signature = base64.b64encode(hmac.digest(_KEY, body, hashlib.sha256)).decode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"FastPix-Signature: {signature}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
