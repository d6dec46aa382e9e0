"""Health: has the database evaluate its rules again and again, and logs what begins and what is over.

Guarantees  however many processes do this, one evaluates every `check_every` seconds: the lease inside the
            function decides; who asks more often takes over soon from one that died;
            the sinks of this process are declared, so that state changes write deliveries for them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from redrive.store import alerts
from redrive.store.database import Database
from redrive.watch.sinks.sink import Sink
from redrive.watch.turns import Turns

log = logging.getLogger("redrive.watch")

# One cheap call: the lease says no before anything is read.
_ASK_EVERY = 10.0
_DECLARE_EVERY = 60.0


class Health:
    """A `Service`; `told` is called when deliveries have been written."""

    def __init__(
        self,
        database: Database,
        sinks: Sequence[Sink],
        *,
        check_every: float,
        told: Callable[[], None],
        quiet: bool = False,
    ) -> None:
        self._database = database
        self._sinks = sinks
        self._check_every = check_every
        self._told = told
        self._declared_at: float | None = None
        seconds = min(check_every, _ASK_EVERY)
        self._turns = Turns("checking health", self.check, seconds=seconds, first=1.0, quiet=quiet)

    async def start(self) -> None:
        await self._turns.start()

    async def stop(self) -> None:
        await self._turns.stop()

    async def check(self, *, now: bool = False) -> bool:
        """One evaluation, if it is due or `now`; whether any state changed. Raises redrive's errors."""
        await self._declare()
        changed = await self._database.run(alerts.check(0 if now else self._check_every))
        log_changes(changed)
        if changed:
            self._told()
        return bool(changed)

    async def _declare(self) -> None:
        at = time.monotonic()
        if not self._sinks or (self._declared_at is not None and at - self._declared_at < _DECLARE_EVERY):
            return
        await self._database.run(alerts.declare_sinks({each.name: each.kind for each in self._sinks}))
        self._declared_at = at


def log_changes(changed: Iterable[alerts.Change]) -> None:
    """One line for each alert that has begun or is over."""
    for each in changed:
        firing = each.state == "firing"
        log.log(
            logging.WARNING if firing else logging.INFO,
            "%s",
            each.summary if firing else f"over: {each.summary}",
            extra={
                "event": f"alert_{each.state}",
                "rule": each.rule,
                "subject": each.subject or None,
                "severity": each.severity,
                "value": each.value,
                "command": (each.command or None) if firing else None,
            },
        )
