"""Heartbeat: an outgoing call to a URL while health is checked: whoever waits for it raises the alarm.

Guarantees  no call when nobody has evaluated the rules for two intervals and ten seconds;
            one process calls at a time, about every `check_every` seconds;
            a call that fails is one line in the log, and one when it works again; never with the URL.
Not given   that a call is made again at once when it failed: the next interval's is.
"""

from __future__ import annotations

import asyncio
import logging

from redrive.store import alerts, leases
from redrive.store.database import Database
from redrive.watch.sinks.configured import TIMEOUT
from redrive.watch.turns import Trouble, Turns

log = logging.getLogger("redrive.watch")

LEASE = "redrive.heartbeat"


class Heartbeat:
    """A `Service`."""

    def __init__(self, database: Database, url: str, *, check_every: float, quiet: bool = False) -> None:
        self._database = database
        self._url = url
        self._check_every = check_every
        self._trouble = Trouble("sending the heartbeat", event="heartbeat")
        # Behind the first check.
        self._turns = Turns(
            "sending the heartbeat", self.beat, seconds=check_every, first=min(3.0, check_every), quiet=quiet
        )

    async def start(self) -> None:
        await self._turns.start()

    async def stop(self) -> None:
        await self._turns.stop()

    async def beat(self) -> None:
        """Call once, if health is being checked and nobody else calls. Raises one of redrive's errors."""
        state = await self._database.run(alerts.state())
        if state.is_late(2 * self._check_every + 10):
            since = "ever" if state.age_sec is None else f"for {state.age_sec:.0f} s"
            if state.age_sec is not None and state.age_sec < 0:
                since = "since the database's clock was set back"
            self._trouble.say("stale", f"nobody has checked health {since}")
            return
        if await self._database.run(leases.acquire(LEASE, 0.8 * self._check_every)):
            await self._call()

    async def _call(self) -> None:
        # See redrive.watch.sinks.configured: only who has a heartbeat pays for an HTTP client.
        from redrive.watch.sinks.webhook import check, http_client, undelivered

        try:
            async with (
                asyncio.timeout(TIMEOUT),
                await http_client(self._url, TIMEOUT) as client,
                client.stream("GET", self._url, headers={"User-Agent": "redrive"}) as answer,
            ):
                check(answer)
        except Exception as error:
            reason = undelivered(error, TIMEOUT).reason
            self._trouble.say(reason, reason)
            return
        self._trouble.over()
