"""Page: what the story prints, and whether every count in it was right."""

from __future__ import annotations

import time
from typing import cast

from rich.console import Console
from rich.markup import escape


class Page:
    """`wrong` counts what was not as it should be, of `checked` in all."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self.checked = 0
        self.wrong = 0

    @property
    def seconds(self) -> float:
        """Since the story began."""
        return time.monotonic() - self._began

    def act(self, title: str) -> None:
        """A heading."""
        self._console.print(f"\n[bold]{escape(title)}[/]")

    def tell(self, text: str) -> None:
        """A line of the story."""
        self._console.print(f"  {escape(text)}")

    def command(self, text: str) -> None:
        """What somebody types."""
        self._console.print(f"  [cyan]$ {escape(text)}[/]")

    def overheard(self, who: str, text: str) -> None:
        """What a worker says."""
        self._console.print(f"  [dim]{self.seconds:5.1f}s  {escape(who)}: {escape(text)}[/]")

    def check(self, what: str, expected: object, found: object) -> None:
        """Print a count and whether it is right."""
        self.checked += 1
        if expected == found:
            self._console.print(f"  [green]✓[/] {escape(what)}: {escape(_shown(found))}")
            return
        self.wrong += 1
        self._console.print(
            f"  [bold red]✗ {escape(what)}: {escape(_shown(found))}; "
            f"it should be {escape(_shown(expected))}[/]"
        )


def _shown(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(_shown, cast("list[object]", value))) or "none"
        case dict():
            return ", ".join(f"{name} {number}" for name, number in cast("dict[str, object]", value).items())
        case _:
            return str(value)
