"""``redrive alerts list``: what fires, and whether anybody is told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import typer
from rich.text import Text

from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import age, answer, answer_json, console, count, one_line, plain
from redrive.cli.session import Session, session
from redrive.cli.tables import print_table
from redrive.settings import load_settings
from redrive.store import alerts, events
from redrive.store.alerts import Alert, Sink, Told, WatchState

# Beyond two intervals: the checker died, or never ran.
_LATE = 30.0
# As rule alerts_undelivered has it.
_UNSEEN = 600
_SHOWN = 5
_LONGEST = 160
_STYLES = {"firing": "red", "pending": "yellow", "resolved": "green"}
NO_SINK = (
    "no sink is configured: alerts stand here and in the log alone; set REDRIVE_ALERTS_<NAME> for the "
    "workers, then try it with redrive alerts test"
)


class Situation(NamedTuple):
    """All there is to say. `failing`: deliveries that failed and are still tried, or were given up today."""

    alerts: list[Alert]
    sinks: list[Sink]
    failing: list[Told]
    state: WatchState
    now: datetime

    @property
    def firing(self) -> list[Alert]:
        return [each for each in self.alerts if each.state == "firing"]


def list_(
    everything: Annotated[bool, typer.Option("--all", help="Also what is over, the newest 200.")] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Exit 1 when an alert fires, a delivery fails, something could not be read, or nobody "
            "checks any more.",
        ),
    ] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """List what fires or is about to, where alerts are told, and when the rules were checked last."""
    late = 2 * load_settings().check_every + _LATE
    with session(database) as store:
        found = look(store, ended=everything)
    if as_json:
        answer_json(as_dict(found))
    else:
        _print(found, late)
    if check and (found.firing or found.failing or found.state.is_late(late) or found.state.problems):
        raise typer.Exit(1)


def look(store: Session, *, ended: bool = False) -> Situation:
    now = store.run(events.now())
    return Situation(
        store.run(alerts.listing(ended=ended)),
        store.run(alerts.sinks()),
        [each for each in store.run(alerts.deliveries(200)) if is_failing(each, now)],
        store.run(alerts.state()),
        now,
    )


def is_failing(each: Told, now: datetime) -> bool:
    given_up = each.gave_up_at is not None and (now - each.gave_up_at).total_seconds() < 86400
    return each.state == "failing" or given_up


def as_dict(found: Situation) -> dict[str, Any]:
    return {
        "alerts": [each._asdict() for each in found.alerts],
        "sinks": [each._asdict() for each in found.sinks],
        "failing": [each._asdict() for each in found.failing],
        "checked": found.state._asdict(),
    }


def print_alerts(listed: Sequence[Alert], now: datetime) -> None:
    rows = [
        (
            Text(each.state, style=_STYLES.get(each.state, "")),
            each.severity,
            each.rule,
            each.subject,
            age((now - each.since).total_seconds()),
            one_line(each.summary, _LONGEST),
            "" if each.state == "resolved" else each.command,
            _remark(each, now),
        )
        for each in listed
    ]
    columns = ("state", "severity", "rule", "of", "since", "what", "look further", "")
    print_table(columns, rows, keep=("rule", "of"), shed=("severity", "since", "look further"))


def print_failing(failing: Sequence[Told]) -> None:
    for each in failing[:_SHOWN]:
        again = "given up" if each.gave_up_at else f"tried {count(each.attempts, 'time')}, and again later"
        of = f"{each.rule} of {each.subject}" if each.subject else each.rule
        line = f"not delivered to {each.sink}: {of} {each.event}: {each.error} ({again})"
        console().print(Text(plain(line), style="red"))
    if len(failing) > _SHOWN:
        answer(f"… and {len(failing) - _SHOWN} more")


def print_problems(state: WatchState) -> None:
    for each in state.problems:
        answer(f"{each.get('gauge')} could not be read: {each.get('problem')}")


def _print(found: Situation, late: float) -> None:
    if found.alerts:
        print_alerts(found.alerts, found.now)
    else:
        answer("nothing fires")
    answer("")
    if found.sinks:
        _print_sinks(found.sinks)
    else:
        answer(NO_SINK)
    print_failing(found.failing)
    _print_checked(found.state, late)


def _print_sinks(sinks: Sequence[Sink]) -> None:
    rows = [
        (
            each.sink,
            each.kind,
            each.delivered,
            each.open,
            Text(str(each.failures), style="red" if each.failures and each.open else ""),
            f"{age(each.age_sec)} ago",
            one_line(each.last_error, 80),
        )
        for each in sinks
    ]
    columns = ("sink", "kind", "delivered", "waiting", "failed tries", "a process had it", "last error")
    print_table(columns, rows, numbers=columns[2:5], keep=("sink",), shed=("kind", "a process had it"))
    for each in sinks:
        if each.age_sec > _UNSEEN:
            answer(
                f"no process has sink {each.sink} any more: start one, or redrive alerts forget {each.sink}; "
                f"after a day it is forgotten"
            )


def _print_checked(state: WatchState, late: float) -> None:
    if state.age_sec is None:
        line = Text("nobody has ever checked: run a worker, or redrive alerts watch", style="red")
    elif state.age_sec < 0:
        line = Text(
            f"checked by a clock that was {age(-state.age_sec)} ahead of the database's, and not since: run "
            f"a worker, or redrive alerts watch",
            style="red",
        )
    elif state.is_late(late):
        line = Text(
            f"nobody has checked for {age(state.age_sec)}: run a worker, or redrive alerts watch", style="red"
        )
    else:
        line = Text(f"checked {age(state.age_sec)} ago, in {(state.duration_sec or 0) * 1000:.0f} ms")
    console().print(line)
    print_problems(state)


def _remark(each: Alert, now: datetime) -> str:
    if each.state == "resolved" and each.resolved_at is not None:
        return f"over for {age((now - each.resolved_at).total_seconds())}"
    if each.silenced_until is not None:
        reason = f" ({each.silence_reason})" if each.silence_reason else ""
        return f"silent for {age((each.silenced_until - now).total_seconds())}{reason}"
    return f"{count(each.undelivered, 'delivery', 'deliveries')} waiting" if each.undelivered else ""
