"""``redrive status``: the numbers of each queue, once or again and again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import age, answer, answer_json, console, count, say
from redrive.cli.session import Session, session
from redrive.cli.tables import print_table, table
from redrive.errors import ConfigError, Unavailable
from redrive.store import alerts, workers
from redrive.store.alerts import Alert
from redrive.store.metrics import Gauges, gauges
from redrive.store.workers import READER, Worker

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
    "in/s",
    "out/s",
    "drained in",
    "workers",
    "",
)
# What nobody measures yet is no column: the rates come with the first evaluations of the rules.
_MEASURED = ("in/s", "out/s", "drained in")
_LAYOUT: Any = {
    "numbers": (*_COLUMNS[1:8], *_COLUMNS[9:13]),
    "keep": ("queue",),
    "shed": ("drained in", "in/s", "out/s", "max attempt", "last done", "workers", "oldest ready"),
}
_WORKER_COLUMNS = ("queue", "worker", "last seen", "running", "done", "failed", "dead", "given back", "")
_WORKER_LAYOUT: Any = {
    "numbers": ("running", "done", "failed", "dead", "given back"),
    "keep": ("queue",),
    "shed": ("given back", "dead", "failed"),
}


def status(
    queue: Annotated[
        str | None, typer.Option(metavar="QUEUE", help="Only this one.", show_default=False)
    ] = None,
    with_workers: Annotated[
        bool, typer.Option("--workers", help="Each worker too: last seen, running, settled.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Exit 1 when anything is wrong, and say what.")
    ] = False,
    watch: Annotated[bool, typer.Option(help=f"Look again every {_EVERY:g} seconds, until Ctrl-C.")] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Show how many messages are ready, delayed, in flight and dead, and how long the oldest has been ready.

    Nothing is counted past 10,000. parked: over its budget with no dead-letter queue to go to. Wrong are, for
    --check: dead letters, parked messages, a queue that cannot be read, ready messages without a living
    worker, and alerts that fire.
    """
    if watch and (check or with_workers):
        raise ConfigError("--watch shows the queues alone; leave --check and --workers out, or --watch")
    with session(database, announce=watch) as store:
        if watch:
            _watch(store, queue, as_json=as_json)
            return
        found = store.run(gauges(queue))
        crew = [w for w in store.run(workers.listing()) if queue in (None, w.queue)] if with_workers else []
        firing = [a for a in store.run(alerts.listing()) if a.state == "firing"] if check else []
    if as_json:
        answer_json([_as_json(each, crew if with_workers else None) for each in found])
    elif found:
        print_metrics(found)
        if with_workers:
            answer("")
            print_table(_WORKER_COLUMNS, [_worker_row(each) for each in crew], **_WORKER_LAYOUT)
    else:
        answer("no queues yet; make one: redrive queue create NAME")
    if check and (wrong := [*_wrong(found), *_told(firing, queue)]):
        for each in wrong:
            say(each)
        raise typer.Exit(1)


def _as_json(each: Gauges, crew: Sequence[Worker] | None) -> dict[str, Any]:
    if crew is None:
        return metrics_row(each)
    return metrics_row(each) | {"seen": [w._asdict() for w in crew if w.queue == each.queue]}


def _wrong(found: Sequence[Gauges]) -> Iterator[str]:
    """What is wrong with queues, a sentence each."""
    for q in found:
        if q.problem is not None:
            yield f"queue {q.queue} cannot be read: {q.problem}"
            continue
        if q.dead:
            yield f"queue {q.queue} has {_many(q.dead, 'dead letter')}; see: redrive dlq list {q.queue}"
        if q.parked:
            yield f"queue {q.queue} has {_many(q.parked, 'parked message')}: there is no {q.queue}_dlq"
        if q.ready and q.workers == 0 and not q.paused:
            yield (
                f"queue {q.queue} has {_many(q.ready, 'ready message')} and no living worker; start one: "
                f"redrive worker --app MODULE:ATTR --queue {q.queue}"
            )


def _told(firing: Sequence[Alert], queue: str | None) -> Iterator[str]:
    for alert in firing:
        if queue in (None, alert.subject):
            yield f"alert {alert.rule} fires: {alert.summary}"


def _many(number: int, noun: str) -> str:
    return f"10,000 or more {noun}s" if number >= 10_000 else count(number, noun)


def _worker_row(w: Worker) -> Sequence[object]:
    name = w.worker or "(those that are gone)"
    if w.worker == READER:
        state = "reads by SQL" if w.alive else Text("reads by SQL; has not read for a while", style="red")
    else:
        state = "" if w.alive or not w.worker else Text("not seen for over a minute", style="red")
    running = w.running if w.worker and w.worker != READER else None
    return w.queue, name, f"{age(w.age_sec)} ago", running, w.done, w.failed, w.dead, w.given_back, state


def metrics_row(each: Gauges) -> dict[str, Any]:
    """The numbers of a queue as JSON has them."""
    # JSON has no infinity, and a due time set by hand may be one.
    return {
        name: None if isinstance(value, float) and math.isinf(value) else value
        for name, value in each._asdict().items()
    }


def print_metrics(found: Sequence[Gauges]) -> None:
    """The numbers of queues for people."""
    columns, rows = _shown(found)
    print_table(columns, rows, **_LAYOUT)


def _metrics_table(found: Sequence[Gauges], width: int) -> Table:
    columns, rows = _shown(found)
    return table(columns, rows, width=width, **_LAYOUT)


def _shown(found: Sequence[Gauges]) -> tuple[Sequence[str], list[Sequence[object]]]:
    """The columns there are, and their rows."""
    rows = _rows(found)
    places = [
        place
        for place, name in enumerate(_COLUMNS)
        if name not in _MEASURED or any(row[place] != "" for row in rows)
    ]
    return [_COLUMNS[place] for place in places], [[row[place] for place in places] for row in rows]


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
            _rate(each.inflow_per_sec),
            _rate(each.outflow_per_sec),
            age(each.drain_sec),
            _staffed(each),
            each.problem or ("paused" if each.paused else ""),
        )
        for each in found
    ]


def _rate(number: float | None) -> str:
    return "" if number is None else f"{number:,.0f}" if number >= 100 else f"{number:.2g}"


def _staffed(each: Gauges) -> Text:
    if each.workers is None:
        return Text("")
    return Text(str(each.workers), style="red" if each.ready and not each.workers and not each.paused else "")


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
