"""Requests to a receiver, byte by byte as an ASGI server hands them over, and apps that have one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from redrive import payload as payloads
from redrive.errors import Unavailable
from redrive.inbox.signing import sign
from redrive.store.events import Received
from redrive.store.statement import Statement

SECRET = "a secret that stands nowhere else"

Lines = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def word(self) -> str:
        return self.body.decode().strip()


def lines(headers: Mapping[str, str | Sequence[str]]) -> Lines:
    """Header lines as ASGI has them; a list is a line sent several times."""
    return [
        (name.lower().encode("latin-1"), each.encode("utf-8", "surrogatepass"))
        for name, value in headers.items()
        for each in ([value] if isinstance(value, str) else value)
    ]


def github(body: bytes, id: str, type: str = "push", *, secret: str = SECRET) -> Lines:
    """The header lines with which GitHub would send `body`."""
    return lines(sign("github", secret=secret, body=body, event_id=id, type=type))


async def post(
    app: Any,
    path: str,
    body: bytes | Iterable[bytes],
    headers: Lines,
    *,
    url: str = "http://hooks.test",
    length: bool = True,
    method: str = "POST",
    receive: Callable[[], Awaitable[dict[str, Any]]] | None = None,
) -> Answered | None:
    """The answer to one request; None when there was none. `receive` takes the place of `body`'s chunks."""
    where = urlsplit(url)
    chunks = [body] if isinstance(body, bytes) else list(body)
    sent = [(b"host", where.netloc.encode()), *headers]
    if length and isinstance(body, bytes):
        sent.append((b"content-length", str(len(body)).encode()))
    messages = [
        {"type": "http.request", "body": chunk, "more_body": n + 1 < len(chunks)}
        for n, chunk in enumerate(chunks)
    ] or [{"type": "http.request", "body": b"", "more_body": False}]

    async def given() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    said: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": where.scheme,
        "path": path,
        "raw_path": path.encode(),
        "query_string": where.query.encode(),
        "root_path": "",
        "headers": sent,
        "server": (where.hostname, where.port or (443 if where.scheme == "https" else 80)),
        "client": ("127.0.0.1", 50000),
    }
    await app(scope, receive or given, send)
    if not said:
        return None
    answer = {name.decode(): value.decode() for name, value in said[0]["headers"]}
    return Answered(said[0]["status"], answer, b"".join(each.get("body", b"") for each in said[1:]))


class Recording:
    """Stands in for a `Database`: keeps the parameters of what it is told, and answers as `then` says."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []
        self.refusals: list[dict[str, Any]] = []
        self.then: list[Exception | Callable[[], Awaitable[None]]] = []
        """What becomes of the next calls, one after the other."""
        self.down = False
        self._ids: dict[tuple[str, ...], str] = {}

    async def run(self, statement: Statement[Any], *, deadline: float | None = None) -> Any:
        if self.then:
            become = self.then.pop(0)
            if isinstance(become, Exception):
                raise become
            await become()
        if self.down:
            raise Unavailable("the database is out of reach: nobody listens")
        if "note_refusals" in statement.sql:
            self.refusals += json.loads(str(statement.params[0]))
            return None
        if "receive_events" in statement.sql:
            return self._received(str(statement.params[0]), cast("bytes", statement.params[1]))
        if "receive_event" in statement.sql:
            return self._received_alone(statement.params)
        return [(1,)]

    def _received_alone(self, given: Sequence[Any]) -> Received:
        names = ("source", "event_id", "type", "payload", "raw", "headers", "queue", "resource")
        call = dict(zip(names, given, strict=False))
        self.calls.append(call | {"headers": json.loads(call["headers"]), "derived": given[9]})
        return self._answer(call["source"], call["event_id"])

    def _received(self, described: str, raws: bytes) -> list[Received]:
        found: list[Received] = []
        for facts in payloads.decode(described):
            raw, raws = raws[: facts["size"]], raws[facts["size"] :]
            # The text as it was sent, which is the last there is of an event that went alone.
            payload = described.partition('"payload": ')[2].removesuffix("}]") if "payload" in facts else None
            self.calls.append({"resource": None, **facts, "raw": raw, "payload": payload})
            found.append(self._answer(facts["source"], facts["event_id"]))
        return found

    def _answer(self, *known: str) -> Received:
        duplicate = known in self._ids
        id = self._ids.setdefault(known, f"00000000-0000-0000-0000-{len(self._ids):012}")
        return Received(id, len(self._ids), duplicate, False)

    async def close(self) -> None:
        pass
