"""Watch: what a process does beside its own work so that somebody finds out: health, deliveries, heartbeat,
and for workers schedules and retention.

Guarantees  connections of its own, two at most; no fault of it reaches the work beside it;
            `stop` takes a second or so.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence

from redrive.settings import load_settings
from redrive.store.database import Database
from redrive.store.url import parse
from redrive.watch.delivery import Delivery
from redrive.watch.health import Health
from redrive.watch.heartbeat import Heartbeat
from redrive.watch.retention import Retention
from redrive.watch.schedule import Schedule
from redrive.watch.scheduler import Scheduler
from redrive.watch.sinks.configured import configured_sinks
from redrive.watch.sinks.sink import Sink
from redrive.worker.service import Service

log = logging.getLogger("redrive.watch")

# A part that is still at something then ends with the process.
_PATIENCE = 1.5


class Watch:
    """A `Service`, made inside or outside of the event loop that is to run it.

    `quiet` is for a process whose role may have no right to any of this.
    """

    def __init__(
        self,
        url: str,
        *,
        check_every: float,
        sinks: Sequence[Sink] = (),
        heartbeat_url: str | None = None,
        schedules: Mapping[str, Schedule] | None = None,
        retention: bool = False,
        quiet: bool = False,
    ) -> None:
        self.sinks = tuple(sinks)
        self._database = Database(url, size=2)
        self._quiet = quiet
        delivery = Delivery(self._database, sinks, where=described(url), look_every=check_every, quiet=quiet)
        health = Health(self._database, sinks, check_every=check_every, told=delivery.nudge, quiet=quiet)
        self._parts: list[Service] = [health, delivery]
        if heartbeat_url is not None:
            self._parts.append(Heartbeat(self._database, heartbeat_url, check_every=check_every, quiet=quiet))

        if schedules:
            self._parts.append(Scheduler(self._database, schedules))
        if retention:
            self._parts.append(Retention(self._database))

    @classmethod
    def configured(
        cls,
        url: str,
        *,
        check_every: float | None = None,
        schedules: Mapping[str, Schedule] | None = None,
        retention: bool = False,
        quiet: bool = False,
    ) -> Watch:
        """As the settings and the environment say. Raises `ConfigError`."""
        settings = load_settings()
        return cls(
            url,
            check_every=check_every or settings.check_every,
            sinks=configured_sinks(),
            heartbeat_url=settings.heartbeat_url,
            schedules=schedules,
            retention=retention,
            quiet=quiet,
        )

    async def start(self) -> None:
        if not self.sinks and not self._quiet:
            log.info(
                "no alert sink is configured: alerts stand in the log and in `redrive alerts list` alone; "
                "set REDRIVE_ALERTS_<NAME>",
                extra={"event": "no_alert_sink"},
            )
        for part in self._parts:
            await part.start()

    async def stop(self) -> None:
        stopping = [asyncio.create_task(part.stop()) for part in self._parts]
        await asyncio.wait(stopping, timeout=_PATIENCE)
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._database.close()
        except TimeoutError:
            pass  # a network that hears nothing; the sockets end with the process


def described(url: str) -> str:
    """Host and name of the database, for people who have several: never a user or a password."""
    known = parse(url)
    host = str(known.get("host") or "")
    # A socket's folder says less than the machine it is on.
    return f"{socket.gethostname() if not host or host.startswith('/') else host}/{known.get('dbname') or ''}"
