"""A TCP proxy before a server: passes everything on, until it is told to swallow it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict


class Proxy:
    """`url` leads to the same database as the given one. While `swallow` is true, no byte gets through
    in either direction, and none that was swallowed ever will."""

    def __init__(self, url: str) -> None:
        known = conninfo_to_dict(url)
        self._host, self._port = str(known["host"]), int(str(known.get("port", 5432)))
        self._user, self._database = known["user"], known["dbname"]
        self._tasks: set[asyncio.Task[None]] = set()
        self.swallow = False
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"postgresql://{self._user}@127.0.0.1:{port}/{self._database}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        to_reader, to_writer = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(self._pass_on(reader, to_writer), self._pass_on(to_reader, writer))
        except OSError:
            pass
        finally:
            writer.close()
            to_writer.close()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.swallow:
                writer.write(data)
                await writer.drain()
        writer.close()
