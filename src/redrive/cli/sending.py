"""Sending: many payloads to one queue, batch by batch.

Guarantees  a batch is sent as a whole or not at all; `Tally` says at any moment what was sent, and after an
            interruption in the middle of a batch, which one nobody knows of.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
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
    """What was sent: `last` is where the last payload stood, `unknown` the batch that nobody knows of."""

    sent: list[Sent] = field(default_factory=list[Sent])
    last: str = ""
    unknown: str = ""

    @property
    def new(self) -> list[int]:
        return [each.id for each in self.sent if not each.duplicate]

    def summary(self, queue: str) -> str:
        """One sentence."""
        duplicates = len(self.sent) - len(self.new)
        text = f"{count(len(self.new), 'message')} sent to queue {queue}"
        if len(self.new) == 1:
            text += f": {self.new[0]}"
        elif self.new:
            text += f": {min(self.new)} to {max(self.new)}"
        if duplicates:
            text += f"; {count(duplicates, 'key')} known already, nothing sent for " + (
                "it" if duplicates == 1 else "them"
            )
            if len(self.sent) == 1:
                text += f": message {self.sent[0].id}"
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

    def __init__(self, store: Session, queue: str, options: Options) -> None:
        self._store = store
        self._queue = queue
        self._options = options
        self.tally = Tally()

    def run(self, inputs: Iterable[Input]) -> None:
        """Send them all. Raises `InvalidArgument` for a payload and a key for several, `QueueMissing`."""
        with progress("sending", total=None) as advance:
            for batch in _batches(inputs):
                if self._options.key is not None and (len(batch) > 1 or self.tally.sent):
                    raise InvalidArgument(
                        "--key is for one message, and there are several; leave it out, and put each one's "
                        "key into its payload, in the queue's key_field (idempotency_key)"
                    )
                self._send(batch)
                advance(len(batch))

    def _send(self, batch: list[Input]) -> None:
        first, last = batch[0].where, batch[-1].where
        self.tally.unknown = first if first == last else f"{first} to {last}"
        try:
            self.tally.sent += self._answers(batch)
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
