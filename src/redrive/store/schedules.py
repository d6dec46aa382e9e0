"""Schedules: declare, fire, list, pause and drop them, as statements.

All that name one raise `InvalidArgument` where there is no such schedule.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from redrive import payload as payloads
from redrive.store.statement import Row, Statement, nothing, scalar, text_array


class Declaration(NamedTuple):
    """One schedule as code says it. `payload` is JSON text, None for schedule and tick; one of `cron` and
    `every_sec` is None; `queue` None is redrive's own work.
    """

    name: str
    queue: str | None
    payload: str | None
    cron: str | None
    every_sec: Decimal | None
    tz: str
    missed: str
    overlap: str

    def as_json(self) -> str:
        plain = {**self._asdict(), "every_sec": None if self.every_sec is None else float(self.every_sec)}
        del plain["payload"]
        # As it is: a number of many digits stays one. A payload of null is one; none at all is left out.
        payload = "" if self.payload is None else f', "payload": {self.payload}'
        return f"{json.dumps(plain)[:-1]}{payload}}}"


class Declared(NamedTuple):
    """What became of a declaration: new, changed, or other: someone else upholds another one of that name."""

    name: str
    status: str


class Due(NamedTuple):
    """A schedule as it stands in the database, and the database's time `now`.

    `next_at` None: nobody has computed it; ticks count from after `base_at`. `waiting`: ticks wait for the
    end of the one before.
    """

    name: str
    revision: int
    cron: str | None
    every_sec: Decimal | None
    tz: str
    missed: str
    overlap: str
    next_at: datetime | None
    base_at: datetime
    waiting: bool
    now: datetime


class Fired(NamedTuple):
    """What a call did with a tick: sent, skipped, waiting or missed."""

    tick: datetime
    outcome: str
    msg_id: int | None


class ScheduleRow(NamedTuple):
    """`lag_sec`: for how long a tick has been due; None when none is. `queue` None: redrive's own work."""

    name: str
    queue: str | None
    cron: str | None
    every_sec: Decimal | None
    tz: str
    missed: str
    overlap: str
    paused: bool
    next_at: datetime | None
    lag_sec: float | None
    last_tick: datetime | None
    last_msg_id: int | None
    last_outcome: str | None
    declared_at: datetime
    seen_at: datetime | None
    waiting: int
    now: datetime
    payload: Any


class TickRow(NamedTuple):
    """A tick of the past: sent, skipped, waiting or missed."""

    tick: datetime
    outcome: str
    msg_id: int | None
    at: datetime


def declare(schedules: Iterable[Declaration], *, again: bool = False) -> Statement[list[Declared]]:
    """Say what this process can fire; what that changed. `again`: change only what nobody else upholds."""
    return Statement(
        "select name, status from redrive.declare_schedules(p_schedules => %s::jsonb,"
        " p_again => %s::boolean)",
        (f"[{', '.join(each.as_json() for each in schedules)}]", again),
        lambda rows: [Declared(*row) for row in rows],
    )


def due(names: Iterable[str]) -> Statement[list[Due]]:
    """The schedules of these names that are not paused."""
    return Statement(
        f"select {', '.join(Due._fields)} from redrive.due_schedules(p_names => %s::text[])",
        (text_array(sorted(names)),),
        lambda rows: [Due(*row) for row in rows],
    )


def fire(
    name: str,
    ticks: Sequence[datetime],
    *,
    next_at: datetime | None,
    revision: int,
    missed: Sequence[datetime] = (),
) -> Statement[list[Fired]]:
    """Fire ticks once, note others as missed, go on to `next_at`; what this call did."""
    return Statement(
        "select tick, outcome, msg_id from redrive.fire_schedule(p_name => %s::text, p_ticks => "
        "%s::timestamptz[], p_next => %s::timestamptz, p_revision => %s::integer, "
        "p_missed => %s::timestamptz[])",
        (name, _times(ticks), next_at and next_at.isoformat(), revision, _times(missed)),
        lambda rows: [Fired(*row) for row in rows],
    )


def listing() -> Statement[list[ScheduleRow]]:
    """Every schedule."""

    def load(rows: Sequence[Row]) -> list[ScheduleRow]:
        decoded = (None if row[-1] is None else payloads.decode(row[-1]) for row in rows)
        return [ScheduleRow._make([*row[:-1], value]) for row, value in zip(rows, decoded, strict=True)]

    columns = ", ".join(ScheduleRow._fields[:-1])
    return Statement(f"select {columns}, payload::text from redrive.schedules()", (), load)


def ticks(name: str, limit: int) -> Statement[list[TickRow]]:
    """The newest ticks of a schedule."""
    return Statement(
        "select tick, outcome, msg_id, at"
        " from redrive.schedule_ticks(p_name => %s::text, p_limit => %s::integer)",
        (name, limit),
        lambda rows: [TickRow(*row) for row in rows],
    )


def run(name: str) -> Statement[int | None]:
    """A tick by hand; the message's id, None for work of redrive's own, which is due at once instead."""
    return Statement("select redrive.run_schedule(p_name => %s::text)", (name,), scalar)


def pause(name: str) -> Statement[bool]:
    """No more ticks; False when it was paused already."""
    return Statement("select redrive.pause_schedule(p_name => %s::text)", (name,), scalar)


def resume(name: str) -> Statement[bool]:
    """Ticks again, from now on; False when it was not paused."""
    return Statement("select redrive.resume_schedule(p_name => %s::text)", (name,), scalar)


def drop(name: str) -> Statement[None]:
    """Forget a schedule and its ticks; what was sent stays."""
    return Statement("select redrive.drop_schedule(p_name => %s::text)", (name,), nothing)


def _times(values: Sequence[datetime]) -> str:
    return text_array([value.isoformat() for value in values])
