"""``redrive alerts forget``: a sink that was renamed or taken away is no trouble any more."""

from __future__ import annotations

from typing import Annotated

import typer

from redrive.cli.options import DatabaseOption
from redrive.cli.output import answer, say
from redrive.cli.session import session
from redrive.store import alerts


def forget(
    sink: Annotated[str, typer.Argument(metavar="SINK", help="As alerts list shows it.", show_default=False)],
    database: DatabaseOption = None,
) -> None:
    """Forget a sink that no process has any more, and what waits for it; exit 1 when it is not known.

    A process that has it brings it back within a minute. After a day without one it is forgotten by itself.
    """
    with session(database) as store:
        known = store.run(alerts.forget_sink(sink))
    if not known:
        say(f"there is no sink {sink}; see redrive alerts list")
        raise typer.Exit(1)
    answer(f"sink {sink} is forgotten")
