"""``redrive inbox replay``: events through their queue again."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from redrive.cli import inbox_selection as selection
from redrive.cli.inbox_listing import print_events, row_of
from redrive.cli.inbox_sources import check_source
from redrive.cli.options import DatabaseOption, JsonOption, YesOption
from redrive.cli.output import answer, answer_json, confirm, count, say
from redrive.cli.progress import progress
from redrive.cli.session import Session, session
from redrive.errors import RedriveError
from redrive.policy import check_seconds
from redrive.store import events
from redrive.store.events import Replayed

_BATCH = 200
_WHY_NOT = {
    "live": "left alone: their job waits or runs already",
    "locked": "left alone: somebody settles or replays them at the moment; try again",
    "no queue": "left alone: their queue was dropped; redrive queue create QUEUE makes it again",
    "missing": "not found; see redrive inbox list",
}


def replay(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EVENT", help="Ids as inbox list shows them, or SOURCE/EVENT_ID.", show_default=False
        ),
    ] = None,
    source: selection.SourceOption = None,
    type: selection.TypeOption = None,
    status: selection.StatusOption = None,
    resource: selection.ResourceOption = None,
    since: selection.SinceOption = None,
    until: selection.UntilOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All events there are.")] = False,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="At most this many a second.", show_default=False)
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say how many and show the first few; change nothing.")
    ] = False,
    yes: YesOption = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Send events through their queue again, the oldest first: their handlers run once more.

    Each keeps its identity and its request, is received again, and has a new budget and a generation more.
    What still waits or runs is left alone. Exit 1 when something that was asked for was not replayed.
    """
    chosen = selection.Selection(
        ids or (), selection.Filter(source, type, status, resource, since, until), everything
    )
    if rate is not None:
        check_seconds(rate, "--rate", above=True)
    with session(database) as store:
        found = chosen.find(store)
        if not found.ids:
            check_source(store, source)
        if dry_run:
            _dry_run(found, as_json=as_json)
            return
        if found.ids:
            confirm(f"Send {count(len(found.ids), 'event')} through their queues again?", yes=yes)
        replaying = Replaying(store, found, rate)
        try:
            replaying.run()
        except (KeyboardInterrupt, RedriveError):
            if as_json:
                answer_json(replaying.as_json())
            else:
                say(replaying.summary())
            raise
    if as_json:
        answer_json(replaying.as_json())
    else:
        answer(replaying.summary())
    if not replaying.complete:
        raise typer.Exit(1)


@dataclass(slots=True)
class Replaying:
    """Replays what was `found`; see `answers`, also after an exception.

    Ctrl-C stops between two batches: each is sent as a whole or not at all.
    """

    store: Session
    found: selection.Found
    rate: float | None
    answers: list[Replayed] = field(default_factory=list[Replayed])

    def run(self) -> None:
        """Send them, paced."""
        ids, due = self.found.ids, 0.0
        size = _BATCH if self.rate is None else min(_BATCH, max(1, math.floor(self.rate)))
        with progress("replaying", total=len(ids)) as advance:
            for start in range(0, len(ids), size):
                if (pause := due - time.monotonic()) > 0:
                    self.store.pause(pause)
                batch = ids[start : start + size]
                self.answers += self.store.run(events.replay(batch))
                advance(len(batch))
                if self.rate is not None:
                    due = max(due, time.monotonic()) + len(batch) / self.rate

    @property
    def complete(self) -> bool:
        """Whether all that were asked for were sent."""
        return not self.found.missing and len(self._sent) == len(self.found.ids)

    @property
    def _sent(self) -> list[Replayed]:
        return [each for each in self.answers if each.status == "replayed"]

    def summary(self) -> str:
        """One line for each thing that happened."""
        lines = [f"{count(len(self._sent), 'event')} replayed"]
        kept = Counter(each.status for each in self.answers if each.status != "replayed")
        if self.found.missing:
            kept["missing"] += len(self.found.missing)
        lines += [f"{number:,} {_WHY_NOT.get(status, status)}" for status, number in sorted(kept.items())]
        if left := len(self.found.ids) - len(self.answers):
            lines.append(f"{left:,} left as they were")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        kept = [{"id": each.id, "status": each.status} for each in self.answers if each.status != "replayed"]
        return {
            "replayed": [{"id": each.id, "msg_id": each.msg_id} for each in self._sent],
            "kept": kept + [{"id": each, "status": "missing"} for each in self.found.missing],
            "untried": len(self.found.ids) - len(self.answers),
        }


def _dry_run(found: selection.Found, *, as_json: bool) -> None:
    if as_json:
        sample = [row_of(each) for each in found.sample]
        answer_json({"count": len(found.ids), "sample": sample, "missing": found.missing})
    else:
        answer(f"{count(len(found.ids), 'event')} would be replayed; nothing was changed")
        if found.sample:
            print_events(found.sample)
        for each in found.missing:
            say(f"there is no event {each}; see redrive inbox list")
    if found.missing:
        raise typer.Exit(1)
