"""Words for moments, spans, numbers and failed attempts, as `redrive why` says them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

Facts = Mapping[str, Any]

_LONGEST_ERROR = 300
_NEVER = datetime.max.replace(tzinfo=UTC)
_EVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Found:
    """What a message waits for, or what it ended in: one word for programs, and two sentences' ends."""

    cause: str
    text: str
    then: str


class Moment:
    """Now, by the database's clock; says other moments as seen from it."""

    def __init__(self, now: str) -> None:
        self.now = moment(now)

    def is_past(self, at: str) -> bool:
        return moment(at) <= self.now

    def seconds_to(self, at: str) -> float:
        return (moment(at) - self.now).total_seconds()

    def since(self, at: str) -> str:
        """``2026-11-30 22:50:00Z (12m ago)``."""
        if moment(at) == _EVER:
            return "ever"
        return f"{shown(moment(at))} ({span(-self.seconds_to(at))} ago)"

    def at(self, at: str) -> str:
        return f"at {self.since(at)}"

    def until(self, at: str) -> str:
        """``until 2026-11-30 22:50:00Z (in 12m)``, or ``for ever``."""
        return "for ever" if is_never(at) else f"until {self.then(at)}"

    def then(self, at: str) -> str:
        """``2026-11-30 22:50:00Z (in 12m)``, or ``never``."""
        return "never" if is_never(at) else f"{shown(moment(at))} (in {span(self.seconds_to(at))})"


def is_never(at: str) -> bool:
    """Infinity, or so late that no calendar has it."""
    return moment(at) == _NEVER


def moment(at: str) -> datetime:
    """A time as Postgres writes it into JSON. One beyond what Python can hold is the last there is."""
    try:
        return datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, OverflowError):
        return _EVER if at.startswith("-") or at.endswith(" BC") else _NEVER


def shown(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def span(seconds: float) -> str:
    """Seconds as 0.2ms, 0.25s, 45s, 12m 5s, 3h 20m or 4d 2h."""
    seconds = max(0.0, seconds)
    if 0 < seconds < 0.001:
        return f"{max(seconds * 1000, 0.1):.1f}ms"
    if seconds < 10:
        return f"{seconds:.2g}s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s" if whole % 60 else f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def many(number: int, noun: str) -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def in_a_line(text: str) -> str:
    """An error's text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 1] + "…"


def error_of(failure: Facts) -> str:
    """``ValueError: no such user``."""
    return in_a_line(
        ": ".join(str(each) for each in (failure.get("error_type"), failure.get("error")) if each)
    )


def attempt_of(facts: Facts, failure: Facts) -> str:
    """``attempt 2 of 5 failed after 0.3s: ValueError: no such user``."""
    # A dead letter may be written by hand, with anything in it.
    took = failure.get("duration")
    after = f" after {span(took)}" if isinstance(took, (int, float)) else ""
    which = f"attempt {failure.get('attempt', '?')} of {facts['policy']['max_attempts']}"
    return f"{which} failed{after}: {error_of(failure)}"


def time_of(at: object) -> datetime | None:
    """When it was; None where that is not known, or is no time."""
    found = moment(at) if isinstance(at, str) else None
    return None if found in (_EVER, _NEVER) else found


def last_words(facts: Facts) -> str:
    """Of its last failed attempt, where there is one: ``: ValueError: no such user``."""
    failures = cast("list[Facts]", facts["failures"])
    return f": {error_of(failures[-1])}" if failures else ""
