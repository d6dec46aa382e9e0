"""Words for moments, spans, numbers and failed attempts, as `redrive why` says them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_LONGEST_ERROR = 300


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
        return f"{shown(moment(at))} ({span(-self.seconds_to(at))} ago)"

    def at(self, at: str) -> str:
        return f"at {self.since(at)}"

    def until(self, at: str) -> str:
        """``2026-11-30 22:50:00Z (in 12m)``."""
        if at.endswith("infinity"):
            return "for ever"
        return f"{shown(moment(at))} (in {span(self.seconds_to(at))})"


def moment(at: str) -> datetime:
    """A time as Postgres writes it into JSON. One beyond what Python can hold is the last there is."""
    try:
        return datetime.fromisoformat(at).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.min.replace(tzinfo=UTC) if at.startswith("-") else datetime.max.replace(tzinfo=UTC)


def shown(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def span(seconds: float) -> str:
    """Seconds as <1ms, 0.25s, 45s, 12m 5s, 3h 20m or 4d 2h."""
    seconds = max(0.0, seconds)
    if 0 < seconds < 0.001:
        return "<1ms"
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


def attempt_of(facts: Mapping[str, Any], failure: Mapping[str, Any]) -> str:
    """``attempt 2 of 5 failed after 0.3s: ValueError: no such user``."""
    took = failure.get("duration")
    after = "" if took is None else f" after {span(took)}"
    error = ": ".join(filter(None, (failure.get("error_type"), failure.get("error"))))
    which = f"attempt {failure.get('attempt')} of {facts['policy']['max_attempts']}"
    return f"{which} failed{after}: {in_a_line(error)}"
