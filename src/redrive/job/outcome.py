"""Outcomes: what a handler may answer beside None. Each may be returned or raised.

`Ignored` is the inbox's own: what it answers for an event that no handler takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from redrive.errors import InvalidArgument
from redrive.store.messages import check_delay


@dataclass(unsafe_hash=True)
class Retry(Exception):
    """This attempt failed; again after `after` seconds, by default the policy's backoff.

    Raises `InvalidArgument` for a delay that is negative, not finite or beyond a hundred years.
    """

    after: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.after is not None:
            self.after = check_delay(self.after, "Retry(after)")
        if self.reason is not None:
            _check_reason(self.reason, "Retry(reason)")
        super().__init__(self.after, self.reason)

    def __str__(self) -> str:
        return self.reason or "the handler asked for a retry"


@dataclass(unsafe_hash=True)
class Snooze(Exception):
    """Not now: again in `seconds`, without charge. Raises `InvalidArgument` as `Retry` does."""

    seconds: float

    def __post_init__(self) -> None:
        self.seconds = check_delay(self.seconds, "Snooze(seconds)")
        super().__init__(self.seconds)

    def __str__(self) -> str:
        return f"snoozed for {self.seconds:g} s"


@dataclass(unsafe_hash=True)
class Reject(Exception):
    """This message can never succeed: a dead letter at once, with `reason`."""

    reason: str

    def __post_init__(self) -> None:
        _check_reason(self.reason, "Reject(reason)")
        super().__init__(self.reason)

    def __str__(self) -> str:
        return self.reason


@dataclass(unsafe_hash=True)
class Ignored(Exception):
    """Nobody handles this webhook event: its message is archived as done is, its event ends as ignored."""

    def __post_init__(self) -> None:
        super().__init__()

    def __str__(self) -> str:
        return "no handler takes this event"


Outcome = Retry | Snooze | Reject | Ignored


def _check_reason(value: object, name: str) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{name} must be a text that says why, not {value!r}")
