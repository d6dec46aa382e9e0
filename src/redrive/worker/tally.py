"""Tally: what became of one queue's deliveries in this process, and how long they took, for /metrics.

Guarantees  counting is a few additions and a bisect a job; what is told of a queue fits in one write to a
            pipe, and stays bounded whatever its errors are called: twenty of them by name, the rest "other".
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any

# A job takes milliseconds or an hour: the default timeout is the last.
BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
MOST_ERRORS = 20
OTHER = "other"
_LONGEST_NAME = 80
_ODD = re.compile(r"[^A-Za-z0-9_.]")


class Tally:
    """Written by the event loop; the watchdog's thread reads it while it is written."""

    __slots__ = ("buckets", "changes", "claimed", "dead", "errors", "lost", "outcomes", "seconds")

    def __init__(self) -> None:
        self.claimed = 0
        self.dead = 0
        self.lost = 0
        self.outcomes: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.changes = 0

    def took(self, number: int) -> None:
        """A claim brought so many."""
        if number:
            self.changes += 1
            self.claimed += number

    def ended(self, outcome: str, seconds: float | None, error_type: str | None) -> None:
        """A delivery whose handler had begun."""
        self.changes += 1
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
        if seconds is not None:
            self.buckets[bisect_left(BOUNDS, seconds)] += 1
            self.seconds += seconds
        if error_type is not None:
            self._erred(error_type)

    def _erred(self, error_type: str) -> None:
        name = _ODD.sub("_", error_type)[:_LONGEST_NAME]
        if name not in self.errors and len(self.errors) >= MOST_ERRORS:
            name = OTHER
        self.errors[name] = self.errors.get(name, 0) + 1

    def as_dict(self) -> dict[str, Any]:
        return {
            "claimed": self.claimed,
            "dead": self.dead,
            "lost": self.lost,
            "outcomes": dict(self.outcomes),
            "errors": dict(self.errors),
            "buckets": list(self.buckets),
            "seconds": round(self.seconds, 6),
        }


class Telling:
    """Tells of each queue again when it has changed since it was last told of, until that was heard."""

    def __init__(self, tallies: Mapping[str, Tally]) -> None:
        self._tallies = tallies
        self._told = dict.fromkeys(tallies, -1)

    def tell(self, write: Callable[[dict[str, Any]], bool]) -> None:
        for queue, tally in self._tallies.items():
            changes = tally.changes
            if changes != self._told[queue] and write({"queue": queue, "tally": tally.as_dict()}):
                self._told[queue] = changes


class Totals:
    """The sums of worker processes: those that run, as they last said, and those that are gone."""

    def __init__(self) -> None:
        self.stats: dict[str, int] = {}
        self.queues: dict[str, dict[str, Any]] = {}
        self.running = 0
        self.processes = 0

    def add(self, stats: Mapping[str, int], queues: Mapping[str, Mapping[str, Any]]) -> None:
        _plus(self.stats, stats)
        for queue, tally in queues.items():
            known = self.queues.setdefault(queue, Tally().as_dict())
            for name in ("claimed", "dead", "lost", "seconds"):
                known[name] += tally[name]
            for name in ("outcomes", "errors"):
                _plus(known[name], tally[name])
            known["buckets"] = [a + b for a, b in zip(known["buckets"], tally["buckets"], strict=True)]
            known["errors"] = _bounded(known["errors"].items())


def _plus(into: dict[str, int], more: Mapping[str, int]) -> None:
    for name, number in more.items():
        into[name] = into.get(name, 0) + number


def _bounded(errors: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Each process has twenty names of its own: the first twenty of them all, in the order they came."""
    kept: dict[str, int] = {}
    for name, number in errors:
        if name != OTHER and name not in kept and len(kept) - (OTHER in kept) >= MOST_ERRORS:
            name = OTHER
        kept[name] = kept.get(name, 0) + number
    return kept
