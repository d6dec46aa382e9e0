"""A TCP proxy before a server: passes everything on, until it is told to swallow it or to cut connections."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from psycopg.conninfo import conninfo_to_dict


class Proxy:
    """`url` leads to the same database as the given one. While `swallow` is true, no byte gets through
    in either direction, and none that was swallowed ever will. Of `cut_answers` further answers of the server
    every fifth is lost, together with its connection. `strand()` swallows for ever what comes over the
    connections there are now."""

    def __init__(self, url: str) -> None:
        known = conninfo_to_dict(url)
        self._host, self._port = str(known["host"]), int(str(known.get("port", 5432)))
        self._user, self._database = known["user"], known["dbname"]
        self._tasks: set[asyncio.Task[None]] = set()
        self.swallow = False
        self.cut_answers = 0
        self._stranded = 0
        self._met = 0
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
        self._met += 1
        nth = self._met
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        to_reader, to_writer = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(
                self._pass_on(reader, to_writer, nth, answers=False),
                self._pass_on(to_reader, writer, nth, answers=True),
            )
        except OSError:
            pass
        finally:
            writer.close()
            to_writer.close()

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, nth: int, *, answers: bool
    ) -> None:
        while data := await reader.read(65536):
            if answers and self._cuts():
                raise ConnectionAbortedError
            if not self.swallow and nth > self._stranded:
                writer.write(data)
                await writer.drain()
        writer.close()

    def strand(self) -> None:
        self._stranded = self._met

    def _cuts(self) -> bool:
        if not self.cut_answers:
            return False
        self.cut_answers -= 1
        return self.cut_answers % 5 == 0


@contextmanager
def proxied(url: str) -> Generator[Proxy]:
    """A `Proxy` on a thread and an event loop of its own, for tests that block."""
    ready, over = threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()
    proxy = Proxy(url)

    async def serve() -> None:
        async with proxy:
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield proxy
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
