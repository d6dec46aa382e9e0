"""Lane: one queue as this worker process sees it: its policy, what it holds of it, and when to ask for more.

Guarantees  an idle queue is asked at once, then after 10, 50 and 250 ms, 1 s, then every `poll` seconds,
            jittered, and when its next message is due; a notification or a claim that brought something
            starts over;
            a queue that refuses is asked less and less, and stops none of the others.
Not given   that a queue is asked while no slot is free.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Mapping, Sequence
from typing import Any

from redrive.errors import QueueMissing, RedriveError
from redrive.worker.held import Held
from redrive.worker.protocol import Delivery, Want
from redrive.worker.tally import Tally

log = logging.getLogger("redrive.worker")

# A message whose sender had not committed when we looked, and who saw no waiting worker yet, sends no word:
# the quick steps are for those. Beyond them a notification is as good.
_STEPS = (0.0, 0.01, 0.05, 0.25, 1.0)
_REFUSED = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Lane:
    """`poll` is the longest pause in seconds between two claims of an idle queue."""

    def __init__(self, queue: str, poll: float) -> None:
        self.queue = queue
        self.vt = 60.0
        self.timeout: float | None = None
        self.max_attempts = 5
        self.limit: int | None = None
        self.paused = False
        self.held: set[Held] = set()
        """Claimed and not yet settled, waiting ones included: what the heartbeat keeps."""
        self.busy = 0
        """Claimed and not yet ended: what takes a slot."""
        self.tally = Tally()
        self._poll = poll
        self._ask_at = 0.0
        self._step = 0
        self._nudged = False
        self._refusals = 0
        self.missing = False
        """The queue was gone: whatever stands there now has not heard of our policy."""
        self.full = False
        """The last claim brought all that was asked for: the next one likely will."""

    def adopt(self, policy: Mapping[str, Any]) -> None:
        """Take over the effective policy as the store has it now."""
        timeout = policy.get("timeout")
        self.vt = float(policy["visibility_timeout"])
        self.timeout = None if timeout is None else float(timeout)
        self.max_attempts = int(policy["max_attempts"])
        self.paused = bool(policy.get("paused"))
        limit = policy.get("concurrency")
        self.limit = None if limit is None else int(limit)

    def room(self, free: int) -> int:
        """How many of `free` slots this queue may use."""
        return free if self.limit is None else min(free, max(0, self.limit - self.busy))

    def asks_in(self, now: float) -> float:
        """Seconds until this queue wants to be asked; 0 when now."""
        return max(0.0, self._ask_at - now)

    def nudge(self) -> None:
        """Somebody said there is something: ask now, or again if a claim is under way."""
        if not self._refusals:
            self._nudged = True
            self._ask_at = 0.0

    def want(self, qty: int) -> Want:
        """The claim to be sent now."""
        # Looking ahead costs a statement: not where more is likely, nor where somebody waits to be started.
        due = not self.full and not self._nudged
        self._nudged = False
        return Want(self.queue, self.vt, qty, due)

    def answered(self, got: Sequence[Delivery], asked: int, due: float | None, now: float) -> None:
        """A claim for `asked` brought `got`; the next message is due in `due` seconds."""
        if self._refusals:
            log.info("queue %s answers again", self.queue, extra={"event": "queue_back", "queue": self.queue})
            self._refusals = 0
        self.busy += len(got)
        self.tally.took(len(got))
        self.full = len(got) >= asked
        if got:
            self._step = 0
        if self.full or self._nudged:
            self._ask_at = now
            return
        pause = _STEPS[self._step] if self._step < len(_STEPS) else self._poll
        self._step += 1
        pause = min(pause, self._poll) * random.uniform(0.8, 1.2)
        # A due time of zero is a message that may be claimed but was not: paused, locked, or single flight
        # elsewhere.
        if due:
            pause = min(pause, due)
        self._ask_at = now + pause

    def refused(self, error: RedriveError, now: float) -> None:
        """The store refused the claim: say so once, ask less and less."""
        self.missing = self.missing or isinstance(error, QueueMissing)
        if not self._refusals:
            log.error("claim refused: %s", error, extra={"event": "claim_refused", "queue": self.queue})
        pause = _REFUSED[min(self._refusals, len(_REFUSED) - 1)]
        self._refusals += 1
        self._ask_at = now + pause * random.uniform(0.8, 1.2)


def share(lanes: Sequence[Lane], free: int, now: float) -> list[tuple[Lane, int]]:
    """Deal `free` slots evenly to the lanes that ask, in order; what one cannot use goes to the others."""
    asking = [(lane, room) for lane in lanes if lane.asks_in(now) <= 0 and (room := lane.room(free)) > 0]
    given = dict.fromkeys(range(len(asking)), 0)
    open_ = list(given)
    while free > 0 and open_:
        each = max(1, free // len(open_))
        for n in list(open_):
            more = min(each, asking[n][1] - given[n], free)
            given[n] += more
            free -= more
            if given[n] >= asking[n][1]:
                open_.remove(n)
            if not free:
                break
    return [(lane, given[n]) for n, (lane, _) in enumerate(asking) if given[n]]
