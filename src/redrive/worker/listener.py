"""Listener: hears `redrive.send` say which queue has something, where the connection lets it.

Guarantees  hearing is proved, not assumed: another connection calls a channel of this listener's own, and
            only what heard that goes on to listen to the channel where senders speak;
            proved again every minute, so that a connection that died silently is replaced.
Not given   a notification: behind a transaction pooler there is none, and the poll alone finds the messages.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Literal

import psycopg
from psycopg import AsyncConnection, Notify, sql
from psycopg.rows import TupleRow

from redrive.errors import RedriveError
from redrive.store.database import arguments
from redrive.worker.link import CONNECTING
from redrive.worker.service import end, spawn

log = logging.getLogger("redrive.worker")

State = Literal["starting", "listening", "deaf", "away"]

_HEARS_WITHIN = 3.0
_PROVED_FOR = 60.0
_DEAF_FOR = 300.0
_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Listener:
    """`heard` gets each queue's name, "" for all; `call` notifies a channel over another connection."""

    def __init__(
        self, url: str, worker: str, heard: Callable[[str], None], call: Callable[[str], Awaitable[None]]
    ) -> None:
        self.state: State = "starting"
        self._arguments: dict[str, Any] = {
            **arguments(url),
            "application_name": f"redrive {worker} listen"[:63],
        }
        self._heard = heard
        self._call = call
        # A transaction pooler keeps a LISTEN for ever, on a connection that others use: nobody else may ever
        # speak on this channel.
        self._proof = f"redrive_proof_{secrets.token_hex(8)}"
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        if self._task is None:
            self._task = spawn(self._run(), "redrive-listener")

    async def stop(self) -> None:
        # Nothing is in its hands: it may be cut off anywhere.
        await end(self._task)

    async def _run(self) -> None:
        tries = 0
        while True:
            try:
                async with asyncio.timeout(CONNECTING):
                    wire = await AsyncConnection.connect(**self._arguments)
                try:
                    await self._listen(wire)
                    tries = 0
                finally:
                    await wire.close()
            except (psycopg.Error, OSError, TimeoutError, RedriveError) as error:
                log.debug("listener: %s", error)
                if self.state != "deaf":
                    self._is("away")
            pause = _DEAF_FOR if self.state == "deaf" else _PAUSES[min(tries, len(_PAUSES) - 1)]
            tries += 1
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))

    async def _listen(self, wire: AsyncConnection[TupleRow]) -> None:
        """Until the connection hears nothing any more."""
        proof = sql.Identifier(self._proof)
        async with asyncio.timeout(CONNECTING):
            await wire.execute(sql.SQL("listen {}").format(proof))
        if not await self._hears(wire):
            self._is("deaf")
            async with asyncio.timeout(CONNECTING):
                await wire.execute(sql.SQL("unlisten {}").format(proof))
            return
        async with asyncio.timeout(CONNECTING):
            await wire.execute("listen redrive")
        self._is("listening")
        # What was said before we listened was said to nobody.
        self._heard("")
        hears = True
        while hears:
            async with aclosing(wire.notifies(timeout=_PROVED_FOR * random.uniform(0.8, 1.2))) as notes:
                async for note in notes:
                    self._take(note)
            hears = await self._hears(wire)
        self._is("away")

    async def _hears(self, wire: AsyncConnection[TupleRow]) -> bool:
        # Over another connection: through a pooler, this one's own answer would carry its own call back.
        calling = asyncio.ensure_future(self._call(self._proof))
        try:
            async with aclosing(wire.notifies(timeout=_HEARS_WITHIN)) as notes:
                async for note in notes:
                    if note.channel == self._proof:
                        return True
                    self._take(note)
            await calling
            return False
        finally:
            calling.cancel()
            await asyncio.wait([calling])

    def _take(self, note: Notify) -> None:
        if note.channel == "redrive":
            self._heard(note.payload)

    def _is(self, state: State) -> None:
        if state != self.state:
            self.state = state
            text = {
                "listening": "notify: listening",
                "deaf": "notify: deaf, polling",
                "away": "notify: away, polling",
            }
            log.info(text.get(state, state), extra={"event": f"notify_{state}"})
