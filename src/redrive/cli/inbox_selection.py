"""Selection: which events of the inbox a command is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated

import typer

from redrive.cli import inbox_times as times
from redrive.cli.session import Session
from redrive.errors import InvalidArgument
from redrive.store import events
from redrive.store.events import STATUSES, Listed, Recorded

_PAGE = 1_000
_SAMPLE = 5

SourceArgument = Annotated[
    str | None, typer.Argument(metavar="SOURCE", help="Default: every source.", show_default=False)
]
SourceOption = Annotated[
    str | None, typer.Option("--source", metavar="SOURCE", help="Those of this source.", show_default=False)
]
TypeOption = Annotated[
    str | None,
    typer.Option(
        "--type",
        metavar="PATTERN",
        help="Those of this type; * stands for anything: 'video.media.*'.",
        show_default=False,
    ),
]
StatusOption = Annotated[
    str | None,
    typer.Option(
        "--status",
        metavar="STATUS",
        help="Those that are received (not yet handled), processed, failed or ignored.",
        show_default=False,
    ),
]
ResourceOption = Annotated[
    str | None,
    typer.Option("--resource", metavar="ID", help="Those about this resource.", show_default=False),
]
SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Those received since: 24h ago (s, m, h, d, w), or 2026-11-30T10:00Z.",
        show_default=False,
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Those received before; as --since.", show_default=False),
]


@dataclass(frozen=True, slots=True)
class Filter:
    """What events must have in common; times are still texts. Raises `InvalidArgument`."""

    source: str | None = None
    type: str | None = None
    status: str | None = None
    resource: str | None = None
    since: str | None = None
    until: str | None = None

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value: str | None = getattr(self, name)
            # An unset shell variable, which would select nothing or all.
            if value is not None and not value.strip():
                raise InvalidArgument(f"--{name} is empty; give it a value, or leave it out")
        if self.status is not None and self.status not in STATUSES:
            raise InvalidArgument(f"--status is {self.status!r}; it must be one of {', '.join(STATUSES)}")
        self._times()

    @property
    def given(self) -> bool:
        """Whether it says anything."""
        return any(getattr(self, name) is not None for name in self.__slots__)

    def pages(
        self, store: Session, *, after: str | None = None, limit: int = _PAGE
    ) -> Iterator[list[Listed]]:
        """The events there are now, newest first, in pages of `limit`; they begin after the event `after`."""
        since, until = (times.moment(store, each) for each in self._times())
        while found := store.run(
            events.page(
                source=self.source,
                type=self.type,
                status=self.status,
                resource=self.resource,
                since=since,
                until=until,
                after=after,
                limit=limit,
            )
        ):
            yield found
            if len(found) < limit:
                return
            after = found[-1].id

    def _times(self) -> tuple[datetime | timedelta | None, datetime | timedelta | None]:
        since = None if self.since is None else times.parse(self.since, "--since")
        until = None if self.until is None else times.parse(self.until, "--until")
        return since, until


@dataclass(slots=True)
class Found:
    """The ids of events, the oldest first, and the first five of them; `missing` is what nobody knows."""

    ids: list[str] = field(default_factory=list[str])
    sample: list[Listed] = field(default_factory=list[Listed])
    missing: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Selection:
    """Events by name, or by what they have in common, or all.

    Raises `InvalidArgument` when nothing is selected, or in two ways at once.
    """

    names: Sequence[str]
    filter: Filter
    everything: bool = False

    def __post_init__(self) -> None:
        if self.names and (self.filter.given or self.everything):
            raise InvalidArgument("ids name the events already; leave out the filters and --all")
        if self.everything and self.filter.given:
            raise InvalidArgument("--all means all events there are; leave out the filters, or --all")
        if not (self.names or self.filter.given or self.everything):
            raise InvalidArgument(
                "which events? Name their ids, or --source, --type, --status, --resource, --since, --until, "
                "or --all"
            )

    def find(self, store: Session) -> Found:
        """The events that are there now."""
        found = Found()
        if not self.names:
            for page in self.filter.pages(store):
                found.ids += [each.id for each in page]
                found.sample = (found.sample + page)[-_SAMPLE:]
            found.ids.reverse()
            found.sample.reverse()
            return found
        named: dict[str, datetime] = {}
        for name in dict.fromkeys(self.names):
            event = lookup(store, name)
            if event is None:
                found.missing.append(name)
            else:
                # One event has two names.
                named[event.id] = event.received_at
        found.ids = sorted(named, key=lambda id: (named[id], id))
        return found


def lookup(store: Session, name: str) -> Recorded | None:
    """The event of this uuid, or of this ``SOURCE/EVENT_ID``; None when there is none.

    Raises `InvalidArgument` for what is neither.
    """
    source, slash, event_id = name.partition("/")
    if not slash:
        try:
            return store.run(events.load(name))
        except InvalidArgument:
            raise InvalidArgument(
                f"{name!r} names no event; give an id as redrive inbox list shows it, or SOURCE/EVENT_ID"
            ) from None
    found = store.run(events.find(source, event_id))
    return None if found is None else store.run(events.load(found))
