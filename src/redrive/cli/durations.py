"""Durations on the command line: 90s, 30m, 2h, 7d or 1w; a bare number is seconds."""

from __future__ import annotations

import re

from redrive.errors import InvalidArgument

YEAR = 365 * 86400.0
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhdw]?)")


def seconds(text: str, option: str, *, least: float = 0.0, most: float | None = None) -> float:
    """Raises `InvalidArgument` naming `option`; also for less than `least` and more than `most`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise InvalidArgument(f"{option} is {text!r}; it must be how long, such as 90s, 30m, 2h or 7d")
    lasting = float(found[1]) * _UNITS[found[2]]
    if lasting < least or (most is not None and lasting > most):
        at_most = "" if most is None else f", and at most {_told(most)}"
        raise InvalidArgument(f"{option} is {text!r}; it must be at least {_told(least)}{at_most}")
    return int(lasting) if lasting.is_integer() else lasting


def _told(lasting: float) -> str:
    return "a year (365d)" if lasting == YEAR else f"{lasting:g}s"
