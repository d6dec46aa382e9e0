"""Redriving: dead letters sent again, batch by batch, paced, canaries first."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from redrive.cli.canary import failed_again
from redrive.cli.output import count, say
from redrive.cli.progress import progress
from redrive.cli.session import Session
from redrive.errors import InvalidArgument, PayloadError, RedriveError
from redrive.payload import encode
from redrive.policy import check_count, check_seconds
from redrive.store import dead_letters
from redrive.store.dead_letters import Redriven

_BATCH = 200
_NAMED = 10
_WHY_NOT = {
    "key done": "stay dead, since another message has completed their key (--force frees it)",
    "locked": "are in somebody else's hand at the moment; try again",
    "missing": "are not there (any more)",
    "no payload": "stay dead: no dead letters of redrive, somebody else put them there",
}


@dataclass(frozen=True, slots=True)
class Orders:
    """How to send again. `rate`: a second; `patch`: the text of a JSON object. Raises `InvalidArgument`."""

    queue: str
    rate: float | None = None
    canary: int | None = None
    patch: str | None = None
    force: bool = False

    def __post_init__(self) -> None:
        if self.rate is not None:
            check_seconds(self.rate, "--rate", above=True)
        if self.canary is not None:
            check_count(self.canary, "--canary")
        self.patched()

    def patched(self) -> dict[str, Any] | None:
        """The patch as a dict."""
        if self.patch is None:
            return None
        try:
            value = json.loads(self.patch)
        except ValueError as error:
            raise InvalidArgument(
                f"--patch is no JSON: {error}; write it like --patch '{{\"a\": 1}}'"
            ) from None
        if not isinstance(value, dict):
            raise InvalidArgument(
                f"--patch is {self.patch}; it must be a JSON object of the fields to replace"
            )
        fields = cast("dict[str, Any]", value)
        try:
            encode(fields, root="--patch")
        except PayloadError as error:
            raise InvalidArgument(str(error)) from None
        return fields


@dataclass(slots=True)
class Outcome:
    """What became of the dead letters asked for."""

    queue: str
    asked: int
    answers: list[Redriven] = field(default_factory=list[Redriven])
    canary_failure: str | None = None

    @property
    def redriven(self) -> list[Redriven]:
        return [each for each in self.answers if each.new_id is not None]

    @property
    def complete(self) -> bool:
        """Whether all were sent again, and no canary failed."""
        return len(self.redriven) == self.asked and self.canary_failure is None

    def summary(self) -> str:
        """One line for each thing that happened."""
        lines = [
            f"{count(len(self.redriven), 'dead letter')} of queue {self.queue} sent again{self._as_what()}"
        ]
        by_status = Counter(each.status for each in self.answers if each.new_id is None)
        lines += [
            f"{number:,} {_WHY_NOT.get(status, status)}" for status, number in sorted(by_status.items())
        ]
        if left := self.asked - len(self.answers):
            lines.append(f"{left:,} left as they were")
        return "\n".join(lines)

    def _as_what(self) -> str:
        """The ids of the new messages, where they are few."""
        new = [str(each.new_id) for each in self.redriven]
        if not 0 < len(new) <= _NAMED:
            return ""
        return f" as message {new[0]}" if len(new) == 1 else f" as messages {', '.join(new)}"

    def as_json(self) -> dict[str, Any]:
        return {
            "queue": self.queue,
            "redriven": [{"dead_id": each.dead_id, "new_id": each.new_id} for each in self.redriven],
            "kept": [
                {"dead_id": each.dead_id, "status": each.status}
                for each in self.answers
                if each.new_id is None
            ],
            "untried": self.asked - len(self.answers),
            "canary_failure": self.canary_failure,
        }


class Redriving:
    """Carries `orders` out for the dead letters `ids`; see `outcome`, also after an exception.

    Ctrl-C stops between two batches: each is sent as a whole or not at all.
    """

    def __init__(self, store: Session, orders: Orders, ids: Sequence[int]) -> None:
        self.outcome = Outcome(orders.queue, len(ids))
        self._ids = ids
        self._store = store
        self._orders = orders
        self._patch = orders.patched()
        self._due = 0.0

    def run(self) -> None:
        """Send them again."""
        outcome, ids = self.outcome, self._ids
        try:
            with progress("sending again", total=len(ids)) as advance:
                if self._orders.canary is not None:
                    self._canaries(ids, self._orders.canary, outcome)
                    advance(len(outcome.answers))
                size = self._size()
                while outcome.canary_failure is None and len(outcome.answers) < len(ids):
                    start = len(outcome.answers)
                    self._batch(ids[start : start + size], outcome)
                    advance(len(outcome.answers) - start)
        except (KeyboardInterrupt, RedriveError):
            say(outcome.summary())
            raise

    def _canaries(self, ids: Sequence[int], number: int, outcome: Outcome) -> None:
        """Send until `number` have really left, and wait for their end."""
        while len(outcome.answers) < len(ids) and (wanted := number - len(outcome.redriven)) > 0:
            start = len(outcome.answers)
            self._batch(ids[start : start + wanted], outcome)
        outcome.canary_failure = failed_again(self._store, outcome.queue, outcome.redriven)

    def _batch(self, ids: Sequence[int], outcome: Outcome) -> None:
        self._wait()
        statement = dead_letters.redrive(outcome.queue, ids, patch=self._patch, force=self._orders.force)
        outcome.answers += self._store.run(statement)
        if self._orders.rate is not None:
            self._due = max(self._due, time.monotonic()) + len(ids) / self._orders.rate

    def _size(self) -> int:
        """A rate is kept within each second."""
        return _BATCH if self._orders.rate is None else min(_BATCH, max(1, math.floor(self._orders.rate)))

    def _wait(self) -> None:
        pause = self._due - time.monotonic()
        if pause > 0:
            self._store.pause(pause)
