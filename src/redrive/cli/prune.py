"""``redrive prune``: delete what is over, now: as the rules say, or older than so long."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from redrive.cli.export import Export
from redrive.cli.inbox_times import parse
from redrive.cli.options import DatabaseOption, JsonOption, YesOption
from redrive.cli.output import age, answer, answer_json, confirm, count, say
from redrive.cli.pruning import Part, counted, delete
from redrive.cli.session import Session, session
from redrive.cli.tables import print_table
from redrive.errors import InvalidArgument
from redrive.policy import check_count
from redrive.store import retention

_LARGEST_BATCH = 100_000
_LONGEST = timedelta(days=36_500)
_BY_QUEUE = ("archive", "letters")


def prune(
    queue: Annotated[
        str | None,
        typer.Argument(metavar="QUEUE", help="Only its archive, letters and failures.", show_default=False),
    ] = None,
    what: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help=f"What: {', '.join(retention.KINDS)}. Default: everything, of a QUEUE these three first.",
            show_default=False,
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Not what the rules say, but what is older than 30d, 12h, 90s.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be deleted.")] = False,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="First append the rows to this file, a line of JSON each; a batch goes once it is on disk.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Rows a transaction.")] = retention.BATCH,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND=AGE",
            help="Set a rule and delete nothing: events=90d; events=default takes it back. May be repeated.",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Delete what is over: archived messages, failures, keys, events and redrive's own records.

    Workers do this by themselves every ten minutes (schedule redrive.retention). Messages that live, and dead
    letters, are never touched. Ctrl-C ends it between two batches; what is deleted stays deleted. Exit
    code 1: something could not be deleted; it is named, and the rest is gone.
    """
    check_count(batch, "--batch")
    if batch > _LARGEST_BATCH:
        raise InvalidArgument(f"--batch is {batch}; the largest is {_LARGEST_BATCH}")
    with session(database) as store:
        if keep:
            if queue or what or older_than or export or dry_run:
                raise InvalidArgument("--keep only sets rules; leave the other options out")
            _set(store, keep)
            _tell_rules(store, as_json=as_json)
            return
        age_asked = None if older_than is None else _age(older_than, "--older-than")
        chosen = _kinds(what, queue, age_asked is not None)
        parts = _parts(store, chosen, queue, age_asked)
        total = sum(part.over.total for part in parts)
        if dry_run:
            _tell(parts, as_json=as_json, dry_run=True)
            return
        if total:
            confirm(f"Delete {_counted(parts)}, for good?", yes=yes)
        with Export(export) if export is not None else nullcontext() as file:
            parts = delete(store, parts, batch=batch, export=file)
    if export is not None and not as_json:
        answer(f"exported to {export}")
    _tell(parts, as_json=as_json, dry_run=False)


def _kinds(what: str | None, queue: str | None, aged: bool) -> list[str]:
    if what is None:
        if queue is not None:
            return ["archive"] if aged else ["archive", "letters", "failures"]
        if aged:
            raise InvalidArgument(
                "--older-than needs a QUEUE, or --what: one age for everything is never meant"
            )
        return list(retention.KINDS)
    chosen = [each.strip() for each in what.split(",")]
    for each in chosen:
        if each not in retention.KINDS:
            raise InvalidArgument(
                f"--what {each!r} is nothing that is kept; there are: {', '.join(retention.KINDS)}"
            )
    for each in chosen:
        if queue is not None and each in ("sent_keys", "refused", "fetched", "runs", "alerts"):
            raise InvalidArgument(f"--what {each} belongs to no queue; leave out {queue}")
    return chosen


def _parts(
    store: Session, chosen: Sequence[str], queue: str | None, older_than: timedelta | None
) -> list[Part]:
    """What there is to delete, counted."""
    queues = [each.queue for each in store.run(retention.listing()) if each.what == "archive"]
    found: list[Part] = []
    for kind in chosen:
        for name in (queues if queue is None else [queue]) if kind in _BY_QUEUE else [queue]:
            found.append(counted(store, kind, name, older_than))
    return [part for part in found if part.over.total or part.problem or part.queue == queue]


def _counted(parts: Sequence[Part]) -> str:
    told = [f"{count(part.over.total, 'row')} of {part.name}" for part in parts if part.over.total]
    return ", ".join(told)


def _tell(parts: Sequence[Part], *, as_json: bool, dry_run: bool) -> None:
    _table(parts, as_json=as_json, dry_run=dry_run)
    problems = [part.problem for part in parts if part.problem]
    for each in problems:
        say(each)
    if problems:
        raise typer.Exit(1)


def _table(parts: Sequence[Part], *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        answer_json(
            [
                {
                    "what": part.what,
                    "queue": part.queue,
                    "over": part.over.total,
                    "oldest": part.over.oldest,
                    "newest": part.over.newest,
                    "deleted": part.deleted,
                    "problem": part.problem,
                }
                for part in parts
            ]
        )
        return
    rows = [
        (
            part.what,
            part.queue,
            f"{part.over.total:,}",
            f"{part.deleted:,}",
            part.over.oldest,
            part.over.newest,
        )
        for part in parts
        if part.over.total or part.deleted
    ]
    if not rows:
        if not any(part.problem for part in parts):
            answer("nothing is over")
        return
    columns = ("what", "queue", "over", "deleted", "oldest", "newest")
    print_table(columns, rows, numbers=("over", "deleted"), keep=("what", "queue"), shed=("newest", "oldest"))
    if dry_run:
        say("nothing was deleted: --dry-run")


def _tell_rules(store: Session, *, as_json: bool) -> None:
    found = store.run(retention.listing())
    if as_json:
        answer_json([_plain(each) for each in found])
        return
    rows = [
        (
            each.what,
            each.queue,
            age(float(each.keep_sec)) if each.keep_sec is not None else "",
            each.oldest_at,
        )
        for each in found
    ]
    print_table(("what", "queue", "kept", "oldest"), rows, keep=("what", "queue"))


def _plain(kept: retention.Kept) -> dict[str, Any]:
    return {**kept._asdict(), "keep_sec": None if kept.keep_sec is None else float(kept.keep_sec)}


def _set(store: Session, rules: Sequence[str]) -> None:
    wanted: list[tuple[str, float | None]] = []
    for rule in rules:
        kind, equals, text = rule.partition("=")
        if not equals or not kind or not text:
            raise InvalidArgument(f"--keep {rule!r} is no KIND=AGE; write it like --keep events=90d")
        wanted.append((kind, None if text == "default" else _age(text, f"--keep {kind}").total_seconds()))
    store.run(retention.keep(wanted))


def _age(text: str, option: str) -> timedelta:
    try:
        found = parse(text, option)
    except InvalidArgument:
        found = None
    if not isinstance(found, timedelta):
        raise InvalidArgument(f"{option} is {text!r}; it must be an age, such as 30d, 12h or 90s")
    if found > _LONGEST:
        raise InvalidArgument(f"{option} is {text!r}; the longest is {_LONGEST.days}d")
    return found
