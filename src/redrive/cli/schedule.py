"""``redrive schedule``: see what is sent at which times, send now, pause, and forget."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from redrive.cli.options import DatabaseOption, JsonOption, YesOption
from redrive.cli.output import age, answer, answer_json, confirm, count, facts, say, shown
from redrive.cli.redaction import redact
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.errors import ConfigError, InvalidArgument
from redrive.policy import check_count
from redrive.store import schedules
from redrive.store.schedules import ScheduleRow
from redrive.watch.times import Times

app = typer.Typer(no_args_is_help=True, help="Schedules: what is sent at which times.")

# A scheduler looks every 10 s; after this nobody is there.
_UNSEEN = 60

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The schedule's name.", show_default=False)]


@app.command("list")
def list_(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """List schedules, when each is due next, and for how long a tick has been due that nobody fired.

    Workers fire the schedules of their own app; one that no running worker declares is marked.
    """
    with session(database) as store:
        found = store.run(schedules.listing())
    if as_json:
        answer_json([_plain(each) for each in found])
        return
    rows = [
        (
            each.name,
            each.queue,
            _times(each),
            each.next_at,
            each.last_tick,
            each.last_outcome,
            age(each.lag_sec),
            _remark(each),
        )
        for each in found
    ]
    columns = ("schedule", "queue", "when", "next", "last tick", "outcome", "lag", "")
    print_table(columns, rows, keep=("schedule",), shed=("queue", "outcome", "last tick"))


@app.command()
def show(
    name: NameArgument,
    limit: Annotated[int, typer.Option(metavar="N", help="How many ticks, next and past.")] = 5,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Show a schedule, its next ticks, and what became of the last ones."""
    check_count(limit, "--limit")
    with session(database) as store:
        past = store.run(schedules.ticks(name, limit))
        found = _one(store.run(schedules.listing()), name)
    following = _following(found, limit)
    if as_json:
        answer_json({**_plain(found), "next_ticks": following, "ticks": [each._asdict() for each in past]})
        return
    told = {
        "schedule": found.name,
        "queue": found.queue or "none: done by redrive itself",
        "when": _times(found),
        "missed": found.missed,
        "overlap": found.overlap,
        "payload": redact(found.payload),
        "declared": found.declared_at,
        "looked after": found.seen_at or "by nobody yet",
        "lag": age(found.lag_sec) or None,
        "waiting": found.waiting or None,
        "": _remark(found) or None,
    }
    facts((key, value) for key, value in told.items() if value is not None)
    for tick in following:
        answer(f"next  {shown(tick)}")
    for each in past:
        answer(
            f"tick  {shown(each.tick)}  {each.outcome}{f' as message {each.msg_id}' if each.msg_id else ''}"
        )


@app.command()
def run(name: NameArgument, database: DatabaseOption = None) -> None:
    """Send a tick now, also of a schedule that is paused; the ticks to come stay as they are."""
    with session(database) as store:
        sent = store.run(schedules.run(name))
        if sent is None:
            answer(f"schedule {name} is due now; a worker does it within some 10 seconds")
            return
        queue = _one(store.run(schedules.listing()), name).queue
    answer(f"schedule {name} sent message {sent} to queue {queue}")


@app.command()
def pause(name: NameArgument, database: DatabaseOption = None) -> None:
    """Fire no more ticks; what was sent runs, and nothing is made up afterwards."""
    with session(database) as store:
        changed = store.run(schedules.pause(name))
    answer(f"schedule {name} {'is paused' if changed else 'was paused already'}")


@app.command()
def resume(name: NameArgument, database: DatabaseOption = None) -> None:
    """Fire ticks again, from now on."""
    with session(database) as store:
        changed = store.run(schedules.resume(name))
    answer(f"schedule {name} {'is fired again' if changed else 'was not paused'}")


@app.command()
def drop(name: NameArgument, yes: YesOption = False, database: DatabaseOption = None) -> None:
    """Forget a schedule and its ticks; what it sent stays. A worker that declares it brings it back."""
    with session(database) as store:
        found = _one(store.run(schedules.listing()), name)
        waiting = f", and {count(found.waiting, 'tick')} that wait" if found.waiting else ""
        confirm(f"Forget schedule {name} and its ticks{waiting}?", yes=yes)
        store.run(schedules.drop(name))
    answer(f"schedule {name} is forgotten")
    if found.seen_at is not None and (found.now - found.seen_at).total_seconds() < _UNSEEN:
        say(
            "a running process still declares it, and brings it back when it starts again: take it out of "
            "the app"
        )


def _plain(row: ScheduleRow) -> dict[str, Any]:
    found = {**row._asdict(), "every_sec": None if row.every_sec is None else float(row.every_sec)}
    del found["now"]
    return {**found, "payload": redact(row.payload), "next_ticks": _following(row, 1)}


def _times(row: ScheduleRow) -> str:
    if row.every_sec is not None:
        return f"every {row.every_sec.normalize():f} s"
    return f"{row.cron} {row.tz}"


def _following(row: ScheduleRow, number: int) -> list[Any]:
    """The ticks to come; none where this machine does not know the time zone."""
    try:
        return list(islice(Times(row.cron, row.every_sec, row.tz).after(row.now), number))
    except ConfigError as error:
        say(f"schedule {row.name}: {error}")
        return []


def _remark(row: ScheduleRow) -> str:
    if row.paused:
        return "paused"
    if row.seen_at is None or (row.now - row.seen_at).total_seconds() > _UNSEEN:
        return "nobody fires it: no running worker declares it"
    return f"{row.waiting} waiting" if row.waiting else ""


def _one(found: list[ScheduleRow], name: str) -> ScheduleRow:
    for each in found:
        if each.name == name:
            return each
    raise InvalidArgument(f"there is no schedule {name} here; redrive schedule list shows those there are")
