"""Times: when a schedule is due: cron expressions in a time zone, and intervals in seconds.

Guarantees  the same ticks whoever computes them and from when on: a cron text's are those of Debian's cron,
            an interval's are multiples of it since 1970;
            what can never be due is refused beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from redrive.errors import ConfigError
from redrive.policy import check_seconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONGEST = 3155760000
_FIELDS = "minute, hour, day of the month, month and day of the week"
_SHORTHANDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
# How far back the newest due ticks are looked for, a step at a time: nobody walks a year of minutes for few.
_BACK = tuple(timedelta(days=days) for days in (1 / 12, 1, 8, 40, 400))
# Longer than any change of a clock.
_RUN_UP = timedelta(hours=6)
_MACHINES_OWN = ("localtime", "Factory", "posixrules")


@dataclass(frozen=True, slots=True)
class Times:
    """A `cron` text in time zone `tz`, or every so many seconds: `every`, of which one is None."""

    cron: str | None
    every: Decimal | None
    tz: str

    @classmethod
    def of(cls, when: object, tz: object) -> Times:
        """What was declared. Raises `ConfigError` saying what is wrong, as the end of a sentence."""
        zone_of(tz)
        if isinstance(when, str):
            return cls(_checked(when), None, cast("str", tz))
        seconds = when.total_seconds() if isinstance(when, timedelta) else when
        try:
            found = check_seconds(seconds, "the interval", least=1)
        except Exception as error:
            raise ConfigError(f"{error}; a schedule is a cron text or a number of seconds") from None
        if found > _LONGEST:
            raise ConfigError(f"the interval is {seconds!r} seconds; the longest is a hundred years")
        # The database's clock knows microseconds.
        return cls(None, Decimal(str(round(found, 6))), cast("str", tz))

    def after(self, moment: datetime) -> Iterator[datetime]:
        """The ticks later than `moment`, without end, in UTC."""
        if self.every is not None:
            step = int(self.every * 1_000_000)
            number = (moment - _EPOCH) // _MICROSECOND // step
            while True:
                number += 1
                yield _EPOCH + number * step * _MICROSECOND
        assert self.cron is not None
        # While the clock changes, what comes next depends on where one began: all begin before it. Where it
        # goes back, cronsim begins again with what was due in the first of the two hours.
        last = moment
        for tick in CronSim(self.cron, (moment - _RUN_UP).astimezone(zone_of(self.tz))):
            if (found := tick.astimezone(UTC)) > last:
                last = found
                yield found

    def first_after(self, moment: datetime) -> datetime:
        return next(self.after(moment))

    def newest(self, since: datetime, now: datetime, most: int) -> list[datetime]:
        """The last ticks from `since` to `now`, both included, at most `most`, the newest last."""
        before = since - _MICROSECOND
        if self.every is not None:
            # Some more than asked for cost nothing.
            start = max(before, now - (most + 1) * timedelta(seconds=float(self.every)))
            return self._between(start, now)[-most:]
        for back in _BACK:
            start = max(before, now - back)
            if len(found := self._between(start, now)) >= most or start == before:
                return found[-most:]
        return self._between(before, now)[-most:]

    def due(self, since: datetime, now: datetime, most: int) -> list[datetime]:
        """The first ticks from `since` to `now`, both included, at most `most`."""
        return self._between(since - _MICROSECOND, now, most)

    def _between(self, start: datetime, end: datetime, most: float = math.inf) -> list[datetime]:
        found: list[datetime] = []
        for tick in self.after(start):
            if tick > end or len(found) >= most:
                break
            found.append(tick)
        return found


def zone_of(name: object) -> tzinfo:
    """The time zone of this name. Raises `ConfigError`."""
    if name == "UTC":
        return UTC
    if not isinstance(name, str):
        raise ConfigError(f"tz must be the name of a time zone such as 'Europe/Berlin', not {name!r}")
    if name in _MACHINES_OWN or name.startswith(("posix/", "right/")):
        raise ConfigError(
            f"tz {name!r} is not the same time zone on every machine; name one such as Europe/Berlin or UTC"
        )
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        missing = "" if available_timezones() else "; this machine has no time zones at all: install tzdata"
        raise ConfigError(
            f"tz {name!r} is no time zone known here{missing or ', such as Europe/Berlin or UTC'}"
        ) from None


def _checked(text: str) -> str:
    cron = " ".join(text.split())
    if cron.startswith("@"):
        if cron.lower() not in _SHORTHANDS:
            raise ConfigError(
                f"cron text {text!r} names no time; write five fields ({_FIELDS}), or one of "
                f"{', '.join(_SHORTHANDS)}"
            )
        return _SHORTHANDS[cron.lower()]
    fields = cron.split()
    if len(fields) != 5:
        instead = "; for seconds give a number, such as 30" if len(fields) == 6 else ", such as '0 3 * * *'"
        raise ConfigError(f"cron text {text!r} has {len(fields)} fields; it has five: {_FIELDS}{instead}")
    try:
        # A text may be sound and yet never due: the 30th of February.
        next(CronSim(cron, datetime(2026, 1, 1, tzinfo=UTC)))
    except CronSimError as error:
        raise ConfigError(
            f"cron text {text!r} cannot be read: {str(error).lower()}; its fields are {_FIELDS}"
        ) from None
    except StopIteration:
        raise ConfigError(f"cron text {text!r} is never due") from None
    return cron
