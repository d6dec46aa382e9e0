"""Delivery: takes the alerts that are due for this process's sinks out to them.

    claim ──▶ send ──▶ settle: delivered          what is due for one sink at one moment is one message,
                └────▶ settle: why not, try later   where the sink takes several alerts in one

Guarantees  one try at a time a sink, `TIMEOUT` seconds at most; a sink that hangs holds up no other;
            a claim lasts longer than a try, so no alert is sent by two processes at once;
            nothing of a sink's URL or keys reaches the log or the database.
Not given   that it arrives once when a process dies between the sink's answer and its record: it is sent
            again then, under the same `dedup_key` and webhook-id;
            that alerts of different rules or subjects arrive in order. A sink that takes one at a time is
            given the oldest first; what it is too slow for within a claim is claimed again, by anybody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence

import psycopg

from redrive.errors import RedriveError
from redrive.store import alerts, events
from redrive.store.database import Database
from redrive.watch.sinks.configured import TIMEOUT
from redrive.watch.sinks.sink import Alert, Sink, Undelivered
from redrive.watch.turns import Trouble, Turns
from redrive.worker.service import spawn

log = logging.getLogger("redrive.watch")

HOLD = 60.0
_MOST = 50
_LOOK_EVERY = 5.0
# Pauses between tries to record what became of a message: within the claim, or it goes out twice.
_RECORD_PAUSES = (0.5, 2.0, 5.0, 10.0)
# What is under way at the end may still be answered; a drain waits no longer.
_LAST_ANSWERS = 0.7


class Delivery:
    """A `Service`; `where` is how people know this database: host and name."""

    def __init__(
        self,
        database: Database,
        sinks: Sequence[Sink],
        *,
        where: str,
        look_every: float = _LOOK_EVERY,
        quiet: bool = False,
    ) -> None:
        self._database = database
        self._sinks = {each.name: each for each in sinks}
        self._where = where
        self._installation: str | None = None
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._troubles = {name: Trouble(f"telling {name}", event="alert_delivery") for name in self._sinks}
        self._turns = Turns(
            "delivering alerts", self.deliver, seconds=min(look_every, _LOOK_EVERY), quiet=quiet
        )

    async def start(self) -> None:
        if self._sinks:
            await self._turns.start()

    async def stop(self) -> None:
        await self._turns.stop()
        if sending := list(self._sending.values()):
            _, late = await asyncio.wait(sending, timeout=_LAST_ANSWERS)
            for task in late:
                task.cancel()

    def nudge(self) -> None:
        self._turns.nudge()

    async def deliver(self) -> None:
        """Claim what is due and begin to send it. Raises one of redrive's errors."""
        idle = [name for name in self._sinks if name not in self._sending]
        if not idle:
            return
        if self._installation is None:
            self._installation = await self._database.run(alerts.installation())
        claimed = await self._database.run(alerts.claim(idle, limit=_MOST, hold=HOLD))
        if not claimed:
            return
        at = (await self._database.run(events.now())).timestamp()
        for name in idle:
            mine = [each for each in claimed if each.sink == name]
            if mine:
                task = spawn(self._take_out(self._sinks[name], mine, at), f"redrive-alerts-{name}")
                self._sending[name] = task
                task.add_done_callback(lambda _, name=name: self._sent(name))

    async def finish(self) -> None:
        """Wait until what was begun has been sent and recorded, and what that made due as well."""
        while True:
            await self.deliver()
            if not self._sending:
                return
            await asyncio.wait(list(self._sending.values()))

    def _sent(self, name: str) -> None:
        # The next alert of the same kind may be due now.
        self._sending.pop(name, None)
        self._turns.nudge()

    async def _take_out(self, sink: Sink, claimed: Sequence[alerts.Due], at: float) -> None:
        until = time.monotonic() + HOLD - 2 * TIMEOUT
        batches = [claimed] if sink.groups else [[each] for each in claimed]
        failed: Undelivered | None = None
        for batch in batches:
            if failed is None:
                if time.monotonic() > until:
                    return  # the claims of the rest run out
                failed = await self._send(sink, batch, at)
            # Whoever did not take this one is not asked about the others now.
            await self._record(sink, batch, failed)

    async def _send(self, sink: Sink, batch: Sequence[alerts.Due], at: float) -> Undelivered | None:
        which = self._installation or ""
        told = [
            Alert.of(each.id, each.rule, each.subject, each.event, each.body, self._where, at, which)
            for each in batch
        ]
        try:
            async with asyncio.timeout(TIMEOUT + 1.0):
                await sink.send(told)
        except Undelivered as error:
            self._troubles[sink.name].say(error.reason, error.reason)
            return error
        except TimeoutError:
            error = Undelivered(f"no answer within {TIMEOUT:g} s")
            self._troubles[sink.name].say(error.reason, error.reason)
            return error
        except Exception as unforeseen:
            # Its text may hold anything: only its kind is told.
            error = Undelivered(f"could not be sent ({type(unforeseen).__name__})")
            self._troubles[sink.name].say(error.reason, error.reason)
            return error
        self._troubles[sink.name].over()
        log.info(
            "told %s: %s",
            sink.name,
            ", ".join(f"{each.rule} {each.event}" for each in told[:5]) + (" …" if len(told) > 5 else ""),
            extra={"event": "alert_delivered", "sink": sink.name, "alerts": len(told)},
        )
        return None

    async def _record(self, sink: Sink, batch: Sequence[alerts.Due], failed: Undelivered | None) -> None:
        error, after = (None, None) if failed is None else (failed.reason, failed.retry_after)
        if failed is not None and failed.gone:
            after = alerts.NEVER
        statement = alerts.settle(
            [each.id for each in batch],
            [each.token for each in batch],
            [error] * len(batch),
            [after] * len(batch),
        )
        for pause in (*_RECORD_PAUSES, None):
            try:
                await self._database.run(statement)
                return
            except (RedriveError, psycopg.Error) as error:
                if pause is None:
                    log.warning(
                        "what became of alerts for %s is not recorded, they go out again: %s",
                        sink.name,
                        error,
                        extra={"event": "alert_unrecorded", "sink": sink.name},
                    )
                    return
                await asyncio.sleep(pause)
