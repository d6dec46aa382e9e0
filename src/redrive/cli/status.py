"""``redrive status``: the numbers of each queue, once or again and again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import age, answer, answer_json, console
from redrive.cli.session import Session, session
from redrive.cli.tables import print_table, table
from redrive.errors import Unavailable
from redrive.store.metrics import Gauges, gauges

_EVERY = 2.0
_COLUMNS = (
    "queue",
    "ready",
    "delayed",
    "in flight",
    "dead",
    "parked",
    "oldest ready",
    "max attempt",
    "last done",
    "",
)
_LAYOUT: Any = {
    "numbers": _COLUMNS[1:8],
    "keep": ("queue",),
    "shed": ("max attempt", "last done", "oldest ready"),
}


def status(
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Only this one.", show_default=False)
    ] = None,
    watch: Annotated[bool, typer.Option(help=f"Look again every {_EVERY:g} seconds, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Show how many messages are ready, delayed, in flight and dead, and how long the oldest has been ready.

    Nothing is counted past 10,000. parked: over its budget with no dead-letter queue to go to.
    """
    with session(database, announce=watch) as store:
        if watch:
            _watch(store, queue, as_json=as_json)
            return
        found = store.run(gauges(queue))
    if as_json:
        answer_json([metrics_row(each) for each in found])
    elif found:
        print_metrics(found)
    else:
        answer("no queues yet; make one: redrive queue create NAME")


def metrics_row(each: Gauges) -> dict[str, Any]:
    """The numbers of a queue as JSON has them."""
    # JSON has no infinity, and a due time set by hand may be one.
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in each._asdict().items()
    }


def print_metrics(found: Sequence[Gauges]) -> None:
    """The numbers of queues for people."""
    print_table(_COLUMNS, _rows(found), **_LAYOUT)


def _metrics_table(found: Sequence[Gauges], width: int) -> Table:
    return table(_COLUMNS, _rows(found), width=width, **_LAYOUT)


def _rows(found: Sequence[Gauges]) -> list[Sequence[object]]:
    return [
        (
            each.queue,
            *(_counted(number) for number in (each.ready, each.delayed, each.in_flight)),
            _counted(each.dead, alarming=True),
            _counted(each.parked, alarming=True),
            age(each.oldest_ready_age_sec) if each.ready else "",
            each.max_attempt,
            each.last_done_at,
            each.problem or ("paused" if each.paused else ""),
        )
        for each in found
    ]


def _counted(number: int | None, *, alarming: bool = False) -> Text:
    if number is None:
        return Text("?", style="red")
    text = "10,000+" if number >= 10_000 else f"{number:,}"
    return Text(text, style="red" if alarming and number else "")


def _watch(store: Session, queue: str | None, *, as_json: bool) -> None:
    try:
        page = console()
        if as_json or not page.is_terminal:
            while True:
                if as_json:
                    answer_json([metrics_row(each) for each in store.run(gauges(queue))])
                else:
                    page.print(_page(store, queue, page.width))
                store.pause(_EVERY)
        with Live(console=page, auto_refresh=False) as live:
            while True:
                live.update(_page(store, queue, page.width), refresh=True)
                store.pause(_EVERY)
    except KeyboardInterrupt:
        pass


def _page(store: Session, queue: str | None, width: int) -> Group:
    at = Text(f"{datetime.now(UTC):%H:%M:%SZ}, every {_EVERY:g} s, Ctrl-C ends", style="dim")
    try:
        return Group(_metrics_table(store.run(gauges(queue)), width), at)
    except Unavailable as error:
        # Whoever watches wants to see it come back.
        return Group(Text(str(error), style="red"), at)
