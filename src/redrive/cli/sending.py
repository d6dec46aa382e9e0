"""Sending: many payloads to one queue, batch by batch.

Guarantees  a batch is sent as a whole or not at all; `Tally` says at any moment what was sent, and after an
            interruption in the middle of a batch, which one nobody knows of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from typing import Any

from redrive.cli.inputs import Input
from redrive.cli.output import count
from redrive.cli.progress import progress
from redrive.cli.session import Session
from redrive.errors import InvalidArgument, Unavailable
from redrive.payload import Batch
from redrive.store import messages
from redrive.store.messages import Sent

_MESSAGES = 1_000
_BYTES = 4_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """What holds for every message. `key` is for one alone."""

    key: str | None = None
    delay: float | datetime = 0
    headers: dict[str, str] | None = None
    unique: bool = False


@dataclass(slots=True)
class Tally:
    """What was sent: `last` is where the last payload stood, `unknown` the batch that nobody knows of.

    `sent` is kept with `listing` only; a million answers would fill the memory for nothing.
    """

    listing: bool
    new: int = 0
    duplicates: int = 0
    ids: tuple[int, int] = (0, 0)
    sent: list[Sent] = field(default_factory=list[Sent])
    last: str = ""
    unknown: str = ""

    def add(self, answers: list[Sent]) -> None:
        """The answers of one batch."""
        new = [each.id for each in answers if not each.duplicate]
        if new:
            self.ids = (min(new) if self.new == 0 else min(self.ids[0], *new), max(self.ids[1], *new))
        self.new += len(new)
        self.duplicates += len(answers) - len(new)
        if self.listing:
            self.sent += answers

    def summary(self, queue: str) -> str:
        """One sentence."""
        text = f"{count(self.new, 'message')} sent to queue {queue}"
        if self.new:
            low, high = self.ids
            text += f": {low}" if self.new == 1 else f": {low} to {high}"
        if self.duplicates:
            whom = "it" if self.duplicates == 1 else "them"
            text += f"; {count(self.duplicates, 'key')} known already, nothing sent for {whom}"
        return text

    def interrupted(self, queue: str) -> str:
        """What to know before trying again."""
        text = self.summary(queue) + (f", up to {self.last}" if self.last else "")
        if self.unknown:
            text += f"; whether {self.unknown} arrived is unknown"
        return text

    def as_json(self, queue: str) -> dict[str, Any]:
        return {
            "queue": queue,
            "sent": [each._asdict() for each in self.sent],
            "unknown": self.unknown or None,
        }


class Sending:
    """Sends to `queue`; see `tally` for what was sent, also after an exception."""

    def __init__(self, store: Session, queue: str, options: Options, *, listing: bool = False) -> None:
        self._store = store
        self._queue = queue
        self._options = options
        self.tally = Tally(listing)

    def run(self, inputs: Iterable[Input]) -> None:
        """Send them all. Raises `InvalidArgument` for a payload and a key for several, `QueueMissing`."""
        batches = _batches(inputs)
        if (first := next(batches, None)) is None:
            return
        if self._options.key is not None and len(first) > 1:
            raise InvalidArgument(
                "--key is for one message, and there are several; leave it out, and put each one's key into "
                "its payload, in the queue's key_field (idempotency_key)"
            )
        self._send(first)
        if (second := next(batches, None)) is None:
            return
        with progress("sending", total=None) as advance:
            advance(len(first))
            for batch in chain([second], batches):
                self._send(batch)
                advance(len(batch))

    def _send(self, batch: list[Input]) -> None:
        first, last = batch[0].where, batch[-1].where
        self.tally.unknown = first if first == last else f"{first} to {last}"
        try:
            self.tally.add(self._answers(batch))
        except (Unavailable, KeyboardInterrupt):
            raise
        except Exception:
            self.tally.unknown = ""
            raise
        self.tally.unknown = ""
        self.tally.last = last

    def _answers(self, batch: list[Input]) -> list[Sent]:
        o = self._options
        if len(batch) == 1:
            one = messages.send(
                self._queue, batch[0].text, key=o.key, delay=o.delay, headers=o.headers, unique=o.unique
            )
            return [self._store.run(one)]
        joined = Batch("[" + ",".join(each.text for each in batch) + "]", len(batch))
        [many] = messages.send_batch(self._queue, [joined], delay=o.delay, headers=o.headers, unique=o.unique)
        return self._store.run(many)


def _batches(inputs: Iterable[Input]) -> Iterator[list[Input]]:
    batch: list[Input] = []
    size = 0
    for each in inputs:
        if batch and (len(batch) >= _MESSAGES or size + len(each.text) > _BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += len(each.text)
    if batch:
        yield batch
