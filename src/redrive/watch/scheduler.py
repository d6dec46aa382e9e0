"""Scheduler: fires the schedules that this process declares, beside any number of others that do the same.

Guarantees  ticks are computed from the database's time and from what stands there: this process' clock, and
            which of two versions of an app runs here, change nothing;
            each tick is fired once, whoever fires it (`redrive.fire_schedule`);
            a database out of reach, or one schedule that cannot be sent, stops nothing but itself;
            of two versions that declare a schedule differently, the one that lives on has its way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import psycopg

from redrive.errors import RedriveError
from redrive.store import schedules as store
from redrive.store.database import Database
from redrive.store.schedules import Declaration, Due
from redrive.watch.schedule import Schedule
from redrive.watch.times import Times
from redrive.worker.service import end, spawn, until

log = logging.getLogger("redrive.schedule")

# Others pause, resume and change schedules; found out after this long at most.
_LONGEST_SLEEP = 10.0
# How soon the end of a message is seen that a tick waits for.
_WAITING_SLEEP = 1.0
_DEADLINE = 10.0
_LEAVING = 1.0
_PAUSES = (1.0, 2.0, 5.0, 10.0)
# A tick older than this was missed, or than half of what lies between it and the next one.
_GRACE = timedelta(seconds=60)
# Ticks a call: sent ones, of those that all are made up, and missed ones that are noted.
_MOST = 1000
_NOTED = 100


class Plan:
    """What to do for one schedule now: `ticks` to send, `missed` ones to note, and what comes next."""

    def __init__(self, due: Due) -> None:
        times = Times(due.cron, due.every_sec, due.tz)
        self.ticks: list[datetime] = []
        self.missed: list[datetime] = []
        self.next_at: datetime
        if due.next_at is None:
            self.next_at = times.first_after(due.base_at)
        elif due.next_at > due.now:
            self.next_at = due.next_at
        elif due.missed == "all":
            self.ticks = times.due(due.next_at, due.now, _MOST) or [due.next_at]
            self.next_at = times.first_after(self.ticks[-1])
        else:
            # What stands there as the next is one, also by hand (`redrive.run_schedule`).
            found = times.newest(due.next_at, due.now, _NOTED + 1) or [due.next_at]
            self.next_at = times.first_after(due.now)
            self.ticks, self.missed = found[-1:], found[:-1]
            if due.missed == "skip" and _is_missed(found[-1], self.next_at, due.now):
                self.ticks, self.missed = [], found[-_NOTED:]


def _is_missed(tick: datetime, following: datetime, now: datetime) -> bool:
    return now - tick > min(_GRACE, (following - tick) / 2)


class Scheduler:
    """Fires `schedules`, by name, in `database`."""

    def __init__(self, database: Database, schedules: Mapping[str, Schedule]) -> None:
        self._database = database
        self._schedules = dict(schedules)
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._declared_at: float | None = None
        self._others: set[str] = set()
        """Those that another version upholds otherwise."""
        self._troubles: dict[str, str] = {}
        self._resting: dict[str, tuple[int, float]] = {}
        """Failed ones: how often in a row, and until when they are let be."""

    async def start(self) -> None:
        if self._task is None and self._schedules:
            self._task = spawn(self._run(), "redrive-scheduler")

    async def stop(self) -> None:
        """A firing under way is waited for, for a second."""
        self._stopping.set()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait([task], timeout=_LEAVING)
            await end(task)

    async def turn(self) -> float:
        """Fire what is due; in how many seconds to look again. Raises what the database does."""
        if self._declared_at is None or time.monotonic() - self._declared_at >= _LONGEST_SLEEP:
            await self._declare()
        asked = time.monotonic()
        found = await self._database.run(store.due(self._schedules), deadline=_DEADLINE)
        nearest = _LONGEST_SLEEP
        # Those in trouble last: their try takes a second where a queue is locked.
        for due in sorted(found, key=lambda each: each.name in self._troubles):
            nearest = min(nearest, await self._fire(due, asked))
        return max(0.0, nearest)

    async def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                seconds = await self.turn()
                failures = 0
                self._mend("")
            except (RedriveError, psycopg.Error) as error:
                self._complain("", error)
                seconds = _PAUSES[min(failures, len(_PAUSES) - 1)]
                failures += 1
            except Exception as error:
                self._complain("", error)
                log.debug("the scheduler failed", exc_info=True)
                seconds = _PAUSES[-1]
            await until(self._stopping, seconds)

    async def _declare(self) -> None:
        changes = await self._database.run(
            store.declare(map(declaration, self._schedules.values()), again=self._declared_at is not None),
            deadline=_DEADLINE,
        )
        self._declared_at = time.monotonic()
        others = {name for name, status in changes if status == "other"}
        for name, status in changes:
            if status != "other":
                log.info(
                    "schedule %s is %s", name, status, extra={"event": "schedule_declared", "schedule": name}
                )
            elif name not in self._others:
                log.warning(
                    "schedule %s: another version of the app runs, too, and declares it otherwise; that "
                    "holds until it ends",
                    name,
                    extra={"event": "schedule_disputed", "schedule": name},
                )
        self._others = others

    async def _fire(self, due: Due, asked: float) -> float:
        """Fire one schedule; in how many seconds it is due again."""
        failures, rested = self._resting.get(due.name, (0, 0.0))
        if rested > asked:
            return rested - asked
        try:
            plan = Plan(due)
            if plan.ticks or plan.missed or due.waiting or plan.next_at != due.next_at:
                fired = await self._database.run(
                    store.fire(
                        due.name,
                        plan.ticks,
                        next_at=plan.next_at,
                        revision=due.revision,
                        missed=plan.missed,
                    ),
                    deadline=_DEADLINE,
                )
                self._tell(due, fired)
            self._mend(due.name)
        except (RedriveError, psycopg.Error) as error:
            self._complain(due.name, error)
            pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
            self._resting[due.name] = (failures + 1, time.monotonic() + pause)
            return pause
        self._resting.pop(due.name, None)
        left = (plan.next_at - due.now).total_seconds() - (time.monotonic() - asked)
        waits = due.waiting or (due.overlap == "queue" and bool(plan.ticks))
        return min(left, _WAITING_SLEEP) if waits else left

    def _tell(self, due: Due, fired: Sequence[store.Fired]) -> None:
        """What this process did: of several that saw the same ticks, one tells."""
        missed = [each.tick for each in fired if each.outcome == "missed"]
        for tick, outcome, msg_id in fired:
            log.debug(
                "schedule %s: tick %s %s%s",
                due.name,
                tick.isoformat(),
                outcome,
                f" as message {msg_id}" if msg_id else "",
                extra={"event": "tick", "schedule": due.name, "outcome": outcome, "msg_id": msg_id},
            )
        if missed:
            log.warning(
                "schedule %s: %s%d ticks were missed, from %s to %s",
                due.name,
                "at least " if len(missed) >= _NOTED else "",
                len(missed),
                missed[0].isoformat(),
                missed[-1].isoformat(),
                extra={"event": "ticks_missed", "schedule": due.name, "missed": len(missed)},
            )

    def _complain(self, name: str, error: Exception) -> None:
        """One line a trouble, not one a try."""
        if self._troubles.get(name) == str(error):
            return
        self._troubles[name] = str(error)
        what = f"schedule {name} cannot be fired" if name else "schedules cannot be looked at"
        log.warning("%s: %s", what, error, extra={"event": "schedule_failing", "schedule": name or None})

    def _mend(self, name: str) -> None:
        if self._troubles.pop(name, None) is not None:
            what = f"schedule {name} is" if name else "schedules are"
            log.info("%s fired again", what, extra={"event": "schedule_mended", "schedule": name or None})


def declaration(schedule: Schedule) -> Declaration:
    """What `redrive.declare_schedules` takes."""
    times = schedule.times
    return Declaration(
        name=schedule.name,
        queue=schedule.queue,
        payload=schedule.payload,
        cron=times.cron,
        every_sec=times.every,
        tz=times.tz,
        missed=schedule.missed,
        overlap=schedule.overlap,
    )
