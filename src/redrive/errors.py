"""Everything redrive raises on purpose.

    RedriveError
    ├─ ConfigError        refused before anything runs; names the setting
    ├─ InvalidArgument    a value that cannot be right; also a ValueError
    │  └─ PayloadError    a payload that cannot be stored; names the path inside it
    ├─ SetupError         schema, right or extension missing; names the command that mends it
    │  └─ QueueMissing    no such queue
    ├─ SignatureError     a webhook that is not what its sender signed; says why
    ├─ Lost               the delivery or the lease is no longer ours; nothing was changed
    └─ Unavailable        the database is out of reach

Each message says what happened, which rule it broke, and what to do.
"""

from __future__ import annotations

from typing import Literal


class RedriveError(Exception):
    """Root of the tree: catch this to catch everything redrive raises on purpose."""


class ConfigError(RedriveError):
    """A setting, an app or a policy was refused before anything ran."""


class InvalidArgument(RedriveError, ValueError):
    """An argument that cannot be right, such as a negative delay or a naive datetime."""


class PayloadError(InvalidArgument):
    """A payload that Postgres or JSON cannot hold.

    `path` is where, as a JSON path: ``$.items[3].name``; `index` is the position in a batch.
    """

    def __init__(self, path: str, problem: str, *, index: int | None = None) -> None:
        self.path = path
        self.problem = problem
        self.index = index
        where = path if index is None else f"message {index}: {path}"
        super().__init__(f"{where}: {problem}")


class SetupError(RedriveError):
    """The database is not ready for this: schema, right or extension missing."""


class QueueMissing(SetupError):
    """No such queue; the message names the command that creates it."""


class SignatureError(RedriveError):
    """A webhook request whose signature does not hold.

    `reason` is one of no_header (nothing is signed), malformed (what stands there is no signature), stale
    (signed too long ago, or in the future) and mismatch (signed by another secret, or for other bytes).
    """

    def __init__(self, reason: Literal["no_header", "malformed", "stale", "mismatch"], problem: str) -> None:
        self.reason = reason
        super().__init__(problem)


class Lost(RedriveError):
    """The delivery or the lease is no longer ours. Nothing was changed by the refused call."""


class Unavailable(RedriveError):
    """The database is out of reach."""
