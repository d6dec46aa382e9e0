"""Times on the command line: an ISO time with its zone, or how long ago.

Guarantees  "how long ago" is counted by the database's clock, the one that the events' times are from.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from redrive.cli.session import Session
from redrive.errors import InvalidArgument
from redrive.store import events

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"([0-9]{1,9})([smhdw])")


def parse(text: str, option: str) -> datetime | timedelta:
    """``24h`` (s, m, h, d, w) as a timedelta, an ISO 8601 time as an aware datetime.

    Raises `InvalidArgument` naming `option`.
    """
    if found := _AGO.fullmatch(text):
        try:
            return timedelta(**{_UNITS[found[2]]: int(found[1])})
        except OverflowError:
            raise _refusal(text, option) from None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _refusal(text, option) from None
    if at.utcoffset() is None:
        raise InvalidArgument(f"{option} {text} has no time zone; add one: {at.isoformat()}Z")
    return at


def moment(store: Session, value: datetime | timedelta | None) -> datetime | None:
    """The moment that was meant; of a timedelta, that long before the database's now."""
    if not isinstance(value, timedelta):
        return value
    try:
        return store.run(events.now()) - value
    except OverflowError:
        raise InvalidArgument(f"{value.days:,} days ago is before all calendars; give a later time") from None


def _refusal(text: str, option: str) -> InvalidArgument:
    return InvalidArgument(
        f"{option} is {text!r}; it must be how long ago, such as 90s, 30m, 24h or 7d, or a time with its "
        "zone, such as 2026-11-30T10:00Z"
    )
