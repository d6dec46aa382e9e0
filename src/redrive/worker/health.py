"""Health: /livez, /readyz and /metrics over the few bytes of HTTP that probes and scrapers speak.

/livez   200 while every worker process turns its event loop; 503: restart it.
/readyz  200 while every worker process claims and the database answers; 503: do not count on it.
/metrics what Prometheus reads; behind a token where one is set.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, Protocol

from redrive.errors import ConfigError
from redrive.worker.options import address

_PATIENCE = 5.0
# A page may ask the database, which has five seconds of its own.
_PAGE_PATIENCE = 15.0
_LONGEST_REQUEST = 8192

# path -> (well, details)
Answer = tuple[bool, dict[str, Any]]


class Page(Protocol):
    """Text that is made when it is asked for."""

    @property
    def content_type(self) -> str: ...

    def allows(self, authorization: str | None) -> bool:
        """Whether a request with this Authorization header may read it."""
        ...

    async def text(self) -> bytes: ...


class Health:
    """Serves `answers` at HOST:PORT."""

    def __init__(
        self, where: str, answers: dict[str, Callable[[], Answer]], pages: dict[str, Page] | None = None
    ) -> None:
        self._where = where
        self._answers = answers
        self._pages = pages or {}
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        if self._server is not None:
            return
        host, port = address(self._where)
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_LONGEST_REQUEST)
        except OSError as error:
            raise ConfigError(
                f"--health {self._where}: cannot listen there: {error.strerror or error}"
            ) from error

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    @property
    def port(self) -> int:
        """The port in use: where 0 was asked for, the one that was found."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                request = await reader.readuntil(b"\r\n\r\n")
            head = request.split(b"\r\n", 1)[0].split()
            async with asyncio.timeout(_PAGE_PATIENCE):
                writer.write(await self._page(head, request) or self._reply(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def _page(self, head: list[bytes], request: bytes) -> bytes | None:
        if len(head) < 2 or head[0] not in (b"GET", b"HEAD"):
            return None
        page = self._pages.get(head[1].split(b"?")[0].decode("latin-1"))
        if page is None:
            return None
        if not page.allows(_authorization(request)):
            return _http("401 Unauthorized", "text/plain", b"this page takes a token\n", head[0])
        return _http("200 OK", page.content_type, await page.text(), head[0])

    def _reply(self, head: list[bytes]) -> bytes:
        method, path = (head[0], head[1].split(b"?")[0].decode("latin-1")) if len(head) >= 2 else (b"", "")
        answer = self._answers.get(path)
        if method not in (b"GET", b"HEAD"):
            status, details = "405 Method Not Allowed", {"error": "GET only"}
        elif answer is None:
            status, details = (
                "404 Not Found",
                {"error": f"there is {', '.join([*self._answers, *self._pages])}"},
            )
        else:
            well, details = answer()
            status = "200 OK" if well else "503 Service Unavailable"
        return _http(status, "application/json", json.dumps(details).encode() + b"\n", method)


def _http(status: str, kind: str, body: bytes, method: bytes) -> bytes:
    top = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    head = f"{top}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode()
    return head if method == b"HEAD" else head + body


def _authorization(request: bytes) -> str | None:
    for line in request.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"authorization":
            return value.strip().decode("latin-1")
    return None
