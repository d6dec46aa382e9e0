"""Health: /livez and /readyz over the few bytes of HTTP that probes speak.

/livez   200 while every worker process turns its event loop; 503: restart it.
/readyz  200 while every worker process claims and the database answers; 503: do not count on it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from redrive.errors import ConfigError
from redrive.worker.options import address

_PATIENCE = 5.0
_LONGEST_REQUEST = 8192

# path -> (well, details)
Answer = tuple[bool, dict[str, Any]]


class Health:
    """Serves `answers` at HOST:PORT."""

    def __init__(self, where: str, answers: dict[str, Callable[[], Answer]]) -> None:
        self._where = where
        self._answers = answers
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
                head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n", 1)[0].split()
                writer.write(self._reply(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _reply(self, head: list[bytes]) -> bytes:
        method, path = (head[0], head[1].split(b"?")[0].decode("latin-1")) if len(head) >= 2 else (b"", "")
        answer = self._answers.get(path)
        if method not in (b"GET", b"HEAD"):
            status, details = "405 Method Not Allowed", {"error": "GET only"}
        elif answer is None:
            status, details = "404 Not Found", {"error": f"there is {', '.join(self._answers)}"}
        else:
            well, details = answer()
            status = "200 OK" if well else "503 Service Unavailable"
        body = b"" if method == b"HEAD" else json.dumps(details).encode() + b"\n"
        top = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return f"{top}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + body
