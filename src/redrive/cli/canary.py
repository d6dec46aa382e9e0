"""Canary: wait for redriven messages to end, and say whether one failed again.

Guarantees  the first failed attempt is enough: nobody waits for the rest of its budget.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from redrive.cli.output import say
from redrive.cli.session import Session
from redrive.store import dead_letters, messages, metrics
from redrive.store.dead_letters import Redriven

_POLL = 0.2
_PATIENCE = 10.0


def failed_again(store: Session, queue: str, canaries: Sequence[Redriven]) -> str | None:
    """Wait until all have ended; the sentence about the first that failed, else None."""
    waiting = [each.new_id for each in canaries if each.new_id is not None]
    known_dead = max((each.dead_id for each in canaries), default=0)
    reminder = time.monotonic() + _PATIENCE
    while waiting:
        for msg_id in list(waiting):
            found = store.run(messages.message(queue, msg_id))
            if failure := _failure(store, queue, msg_id, found, known_dead):
                return f"message {msg_id} of queue {queue} failed again: {failure}"
            if found is None or found["state"] in ("archived", "dead"):
                waiting.remove(msg_id)
        if waiting:
            if time.monotonic() > reminder:
                reminder += _PATIENCE
                _remind(store, queue, waiting)
            store.pause(_POLL)
    return None


def _failure(
    store: Session, queue: str, msg_id: int, found: dict[str, Any] | None, known_dead: int
) -> str | None:
    if found is not None and found["failures"]:
        last = found["failures"][-1]
        return f"{last['error_type']}: {last['error']}"
    if found is not None and found["state"] != "dead":
        return None
    # A queue without an archive keeps nothing of a message: only its dead letter would tell.
    while letters := store.run(dead_letters.page(queue, after=known_dead, limit=500)):
        for letter in letters:
            if letter.original_msg_id == msg_id:
                return letter.error or letter.reason or "dead again"
        known_dead = letters[-1].dead_id
    return None


def _remind(store: Session, queue: str, waiting: Sequence[int]) -> None:
    gauges = store.run(metrics.gauges(queue))[0]
    why = (
        f"the queue is paused; resume it: redrive queue resume {queue}"
        if gauges.paused
        else "does a worker of this queue run?"
    )
    say(f"still waiting for message {waiting[0]} to end; {why}")
