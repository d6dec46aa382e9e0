"""Held: one delivery in this process's hands, from its claim to the verdict on its report.

waiting ──start──▶ running ──end──▶ reported ──verdict──▶ (forgotten)
   │                  │
   │                  └─ called off (timeout, drain, lost): ends by itself, or is given up after the grace
   └─ released (drain), or dropped (lost)
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from redrive.job import Job, SyncJob
    from redrive.job.tracing import Processing
    from redrive.worker.lane import Lane
    from redrive.worker.protocol import Delivery

# Why a handler was told to stop.
CalledOff = Literal["timeout", "drain", "lost"]

# How long a handler may take to end after it was told to: then its slot counts as stuck, and its beat has
# ended.
GRACE = 10.0


class Held:
    """Written by the event loop alone; the heartbeat's thread reads. Times are `time.monotonic()`."""

    __slots__ = (
        "beat_until",
        "beaten_at",
        "called_off",
        "claimed_at",
        "completing",
        "deadline",
        "delivery",
        "ended",
        "job",
        "lane",
        "span",
        "started_at",
        "stop",
    )

    def __init__(self, delivery: Delivery, lane: Lane, now: float) -> None:
        self.delivery = delivery
        self.lane = lane
        self.claimed_at = now
        self.beaten_at = now
        self.beat_until = math.inf
        self.deadline = math.inf
        self.started_at = 0.0
        self.ended = False
        """Its slot is free: the handler returned, or was given up, or never started and never will."""
        self.called_off: CalledOff | None = None
        self.job: Job | SyncJob | None = None
        self.span: Processing | None = None
        self.completing = False
        """Its own transaction is about to settle it, or has: that it is gone is then no loss."""
        self.stop: Callable[[CalledOff], object] | None = None
        """Tells the running handler to stop; set while it runs."""

    @property
    def name(self) -> tuple[int, int]:
        return self.delivery.msg_id, self.delivery.read_ct

    def begin(self) -> float:
        """The handler starts now; returns the moment of its timeout."""
        now = self.started_at = time.monotonic()
        timeout = self.lane.timeout
        if timeout is not None:
            self.deadline = now + timeout
            self.beat_until = self.deadline + GRACE
        return self.deadline

    def call_off(self, why: CalledOff, grace: float | None = None) -> None:
        """Tell the running handler to stop and give it `grace` seconds, 10; the first reason stands."""
        if self.called_off is None and not self.ended:
            self.called_off = why
            self.deadline = time.monotonic() + (GRACE if grace is None else grace)
            if self.job is not None:
                self.job.cancelled.set()
            if self.stop is not None:
                self.stop(why)
