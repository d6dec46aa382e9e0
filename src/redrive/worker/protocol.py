"""What the worker and its engine say to each other: claim, settle, extend, release.

Guarantees  everything the worker asks of a store is in `Engine`; nothing here knows of Postgres.
            A delivery is named by (queue, msg_id, read_ct): read_ct only ever grows, it is the fence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from redrive.errors import RedriveError

Outcome = Literal["done", "ignored", "retry", "snooze", "reject", "malformed", "crashed"]
# ok: as reported. late: done, after another had claimed it. dead: this was the last attempt, or a reject.
# repeat: had been reported before. locked: somebody's transaction holds its row, send again. lost: not ours.
Verdict = Literal["ok", "late", "dead", "repeat", "locked", "lost"]


@dataclass(slots=True, eq=False)
class Delivery:
    """One claim of one message. Times are seconds since the epoch by the database's clock."""

    queue: str
    msg_id: int
    read_ct: int
    attempt: int
    enqueued: float
    due: float
    message: str | None
    """The payload as JSON text; None is SQL's null."""
    headers: str | None
    """JSON text."""
    key: str | None
    isolated: bool

    @property
    def enqueued_at(self) -> datetime:
        return datetime.fromtimestamp(self.enqueued, UTC)

    @property
    def due_at(self) -> datetime:
        """When it was due before it was claimed: its place in the queue, given back by a release."""
        return datetime.fromtimestamp(self.due, UTC)


@dataclass(slots=True, eq=False)
class Report:
    """How one delivery ended. A delay of None is the policy's backoff."""

    queue: str
    msg_id: int
    read_ct: int
    outcome: Outcome
    delay: float | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None
    duration: float | None = None


@dataclass(slots=True, frozen=True)
class Want:
    """A claim: at most `qty` messages of `queue` for `vt` seconds; `due`: and when the next one is due."""

    queue: str
    vt: float
    qty: int
    due: bool = True


@dataclass(slots=True)
class Answer:
    """What one turn brought."""

    claimed: dict[str, list[Delivery]] = field(default_factory=lambda: {})
    due: dict[str, float | None] = field(default_factory=lambda: {})
    """Seconds until the next message of each queue that was asked may be claimed; None when it holds none."""
    verdicts: list[tuple[Report, Verdict]] = field(default_factory=lambda: [])
    """Every verdict but ok."""
    unreleased: list[Delivery] = field(default_factory=lambda: [])
    """Not given back: not ours any more, or somebody's transaction holds the row just now."""
    refused: dict[str, RedriveError] = field(default_factory=lambda: {})
    """Queues whose claim the store refused, such as one that was dropped."""
    dropped: list[tuple[Report, Exception]] = field(default_factory=lambda: [])
    """Reports that the store cannot take, alone neither; sending them again would not help."""


class Engine(Protocol):
    """A store of messages, as one worker process sees it, over one connection of its own.

    Every call ends within a deadline. Each raises `Unavailable` when it is unknown whether it took effect:
    ask again, the fence makes a repeat harmless; `SetupError` when the store is not fit for the work.
    """

    async def turn(
        self,
        reports: Mapping[str, Sequence[Report]],
        releases: Mapping[str, Sequence[Delivery]],
        wants: Sequence[Want],
    ) -> Answer:
        """Settle, release and claim in one round trip, all or nothing."""
        ...

    async def extend(self, queue: str, held: Sequence[tuple[int, int]], vt: float) -> set[tuple[int, int]]:
        """Hold each (msg_id, read_ct) `vt` seconds from now, never shorter than before; those still ours."""
        ...

    async def policy(self, queue: str) -> Mapping[str, Any]:
        """The queue's effective policy. Raises `QueueMissing`."""
        ...

    async def declare(
        self, queue: str, policy: Mapping[str, Any], *, create: bool = True
    ) -> Sequence[tuple[str, Any, Any]]:
        """Say what the code declares; (field, declared, override) where an operator's override hides it.

        Raises `QueueMissing` when there is no such queue and `create` is off or this role may not create it.
        """
        ...

    async def call(self, channel: str) -> None:
        """Notify a listener's own channel; tells it whether it hears."""
        ...

    async def beat(
        self, running: Mapping[str, int], held: Mapping[str, Sequence[int]], concurrency: int
    ) -> None:
        """This worker lives: what runs and which messages it holds, by queue. Waits for no lock."""
        ...

    async def goodbye(self, visitor: str | None = None) -> None:
        """This worker ends: it waits for nothing any more and holds no single-flight right.

        `visitor`: it will come again, and so its queues count as worked by somebody of this name.
        """
        ...

    def abort(self) -> None:
        """Make the call under way fail at once, however deaf the network is."""
        ...

    async def close(self) -> None:
        """Close the connection; closing twice is fine, and the next call opens it again."""
        ...
