"""Progress: a bar on the terminal for long work, nothing where nobody watches."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from redrive.cli.output import console

# Less than this is over before a bar can be read.
_WORTH_A_BAR = 100


@contextmanager
def progress(what: str, *, total: int | None) -> Generator[Callable[[int], None]]:
    """Yields what to call with the number of things just done; `total` None: nobody knows."""
    page = console(stderr=True)
    if not page.is_terminal or (total is not None and total < _WORTH_A_BAR):
        yield lambda done: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=page, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
