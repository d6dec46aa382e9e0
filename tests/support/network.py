"""A network between a worker and its database that can be cut, and can swallow what is already connected."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict


class Network:
    """`url` leads to the same database as the given one."""

    def __init__(self, url: str) -> None:
        known = conninfo_to_dict(url)
        self._host, self._port = str(known["host"]), int(str(known.get("port", 5432)))
        self._user, self._database = known["user"], known["dbname"]
        self._pairs: set[_Pair] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut = False
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"postgresql://{self._user}@127.0.0.1:{port}/{self._database}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Break what is connected and take no connection, until `mend`."""
        self._cut = True
        for pair in self._pairs:
            pair.close()

    def mend(self) -> None:
        self._cut = False

    def swallow(self) -> None:
        """What is connected now stays so, and no byte passes any more; new connections are fine."""
        for pair in self._pairs:
            pair.swallow = True

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut:
            writer.close()
            return
        if self._host.startswith("/"):
            there = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        else:
            there = await asyncio.open_connection(self._host, self._port)
        pair = _Pair(writer, there[1])
        self._pairs.add(pair)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await asyncio.gather(pair.pass_on(reader, there[1]), pair.pass_on(there[0], writer))
        except OSError:
            pass
        finally:
            pair.close()
            self._pairs.discard(pair)
            self._tasks.discard(task)


class _Pair:
    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self._writers = writers
        self.swallow = False

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if not self.swallow:
                writer.write(data)
                await writer.drain()
        writer.close()

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
