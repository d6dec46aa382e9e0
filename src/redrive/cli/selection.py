"""Selection: which dead letters a command is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated

import typer

from redrive.cli.session import Session
from redrive.errors import InvalidArgument
from redrive.policy import check_count
from redrive.store import dead_letters
from redrive.store.dead_letters import DeadLetter

# A dead letter carries up to twenty tracebacks of 8,000 characters: a page is 16 MB at most.
_PAGE = 100
_SAMPLE = 5
_REASONS = ("failed", "crashed", "rejected", "malformed")

IdsOption = Annotated[
    list[int] | None,
    typer.Argument(metavar="ID", help="Ids of dead letters, as dlq list shows them.", show_default=False),
]
ReasonOption = Annotated[
    str | None,
    typer.Option(
        metavar="REASON", help="Those that are failed, crashed, rejected or malformed.", show_default=False
    ),
]
ErrorOption = Annotated[
    str | None,
    typer.Option(metavar="TEXT", help="Those whose last error contains this text.", show_default=False),
]
AllOption = Annotated[bool, typer.Option("--all", help="All of the queue.")]
LimitOption = Annotated[
    int | None, typer.Option(metavar="N", help="At most this many, the oldest first.", show_default=False)
]


@dataclass(slots=True)
class Found:
    """The ids of dead letters in their order, and the first five of them."""

    ids: list[int] = field(default_factory=list[int])
    sample: list[DeadLetter] = field(default_factory=list[DeadLetter])


@dataclass(frozen=True, slots=True)
class Selection:
    """Dead letters of one queue: by ids, or by reason and error, or all; at most `limit`, the oldest first.

    Raises `InvalidArgument` when nothing is selected, or in two ways at once, and for a reason there is not.
    """

    queue: str
    ids: Sequence[int] = ()
    reason: str | None = None
    error: str | None = None
    everything: bool = False
    limit: int | None = None

    def __post_init__(self) -> None:
        # Every error contains the empty text: an unset shell variable would select all.
        if self.error is not None and not self.error.strip():
            raise InvalidArgument("--error is empty; give a text to look for, or --all for all of the queue")
        if self.reason is not None and self.reason not in _REASONS:
            raise InvalidArgument(f"--reason is {self.reason!r}; it must be one of {', '.join(_REASONS)}")
        filtered = self.reason is not None or self.error is not None
        if self.ids and (filtered or self.everything or self.limit is not None):
            raise InvalidArgument(
                "ids name the dead letters already; leave out --reason, --error, --all and --limit"
            )
        if self.everything and filtered:
            raise InvalidArgument("--all means all of the queue; leave out --reason and --error, or --all")
        if not (self.ids or filtered or self.everything):
            raise InvalidArgument("which dead letters? Name their ids, or --reason, --error, or --all")
        if self.limit is not None:
            check_count(self.limit, "--limit")

    def find(self, store: Session) -> Found:
        """The dead letters that are there now."""
        if self.ids:
            asked = (by_id(store, self.queue, each) for each in dict.fromkeys(self.ids))
            letters = (each for each in asked if each is not None)
        else:
            letters = islice(filter(self._matches, every(store, self.queue)), self.limit)
        found = Found()
        for letter in letters:
            found.ids.append(letter.dead_id)
            if len(found.sample) < _SAMPLE:
                found.sample.append(letter)
        return found

    def missing(self, found: Found) -> list[int]:
        """The ids that were named and are not there."""
        return sorted(set(self.ids) - set(found.ids))

    def _matches(self, letter: DeadLetter) -> bool:
        return (self.reason is None or letter.reason == self.reason) and (
            self.error is None or self.error in (letter.error or "")
        )


def every(store: Session, queue: str) -> Iterator[DeadLetter]:
    """All dead letters of a queue, page by page."""
    after = 0
    while found := store.run(dead_letters.page(queue, after=after, limit=_PAGE)):
        yield from found
        after = found[-1].dead_id


def by_id(store: Session, queue: str, dead_id: int) -> DeadLetter | None:
    """One dead letter; None when it is not there (any more)."""
    found = store.run(dead_letters.page(queue, after=max(dead_id - 1, 0), limit=1))
    return found[0] if found and found[0].dead_id == dead_id else None
