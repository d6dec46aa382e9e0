"""Rounds: each contender once a round, the order turned by one each time, so that drift hits all alike."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runs:
    """What one contender measured, a figure a round."""

    figures: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.figures)

    @property
    def spread(self) -> str:
        return f"{min(self.figures):,.4g} to {max(self.figures):,.4g}"


def interleaved(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, Runs]:
    """Call each `rounds` times, turn and turn about."""
    names = list(contenders)
    figures: dict[str, list[float]] = {name: [] for name in names}
    for n in range(rounds):
        for name in names[n % len(names) :] + names[: n % len(names)]:
            figures[name].append(contenders[name]())
            say(f"round {n + 1} of {rounds}: {name}: {figures[name][-1]:,.4g}")
    return {name: Runs(tuple(measured)) for name, measured in figures.items()}


def say(line: str) -> None:
    """Progress, where it does not mix with the results."""
    print(f"  {line}", file=sys.stderr, flush=True)
