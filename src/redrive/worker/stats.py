"""Stats: what one worker process has seen since its start. Plain counters, read by health and logs."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True)
class Stats:
    claimed: int = 0
    started: int = 0
    done: int = 0
    """As the handlers ended; what the store made of it is in late, dead, repeated, lost and dropped."""
    ignored: int = 0
    retried: int = 0
    snoozed: int = 0
    rejected: int = 0
    malformed: int = 0
    crashed: int = 0
    timeouts: int = 0
    released: int = 0
    late: int = 0
    dead: int = 0
    repeated: int = 0
    locked: int = 0
    lost: int = 0
    dropped: int = 0
    stuck: int = 0
    turns: int = 0
    beats: int = 0
    outages: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
