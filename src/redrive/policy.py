"""A queue's policy: what `create_queue` and the worker are told, validated once.

All durations are seconds. The effective policy lives in the database (an operator's override over
what the code declares over these defaults); this module only refuses what can never be right.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import Any

from redrive.errors import InvalidArgument

# 43, so that `<queue>_dlq` fits pgmq's limit of 47 characters.
_QUEUE_NAME = re.compile(r"[a-z][a-z0-9_]{0,42}")
_NAME_LIMIT = 43


def check_queue_name(name: object) -> str:
    """Return `name` when it may be created as a queue, else raise `InvalidArgument` naming the rule."""
    if not isinstance(name, str):
        raise InvalidArgument(f"queue name must be text, not {type(name).__name__}")
    if len(name) > _NAME_LIMIT:
        raise InvalidArgument(
            f"queue name {name!r} is {len(name)} characters; the limit is {_NAME_LIMIT} so that its "
            "dead-letter queue's name fits; shorten it"
        )
    if not _QUEUE_NAME.fullmatch(name) or name.endswith("_dlq"):
        raise InvalidArgument(
            f"queue name {name!r} is refused; the rule is: a lower-case letter, then lower-case letters, "
            "digits or _, at most 43 characters, not ending in _dlq"
        )
    return name


def check_seconds(value: object, name: str, *, least: float = 0, above: bool = False) -> float:
    """Return `value` as seconds when it is a finite number >= `least` (> `least` with `above`)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgument(f"{name} must be a number of seconds, not {value!r}")
    if not math.isfinite(value) or value < least or (above and value <= least):
        raise InvalidArgument(
            f"{name} is {value!r}; it must be a finite number {'>' if above else '>='} {least:g}"
        )
    return float(value)


def check_count(value: object, name: str, *, least: int = 1) -> int:
    """Return `value` when it is a whole number >= `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(f"{name} is {value!r}; it must be a whole number >= {least}")
    return value


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delay before attempt n + 1: ``min(cap, base * factor ** (n - 1)) * (1 - jitter * random())`` seconds.

    The rule is computed in SQL (`redrive.backoff`); here it is only declared.
    """

    base: float = 30
    factor: float = 2
    cap: float = 3600
    jitter: float = 0.2

    def __post_init__(self) -> None:
        check_seconds(self.base, "backoff.base")
        check_seconds(self.factor, "backoff.factor", least=1)
        check_seconds(self.cap, "backoff.cap")
        check_seconds(self.jitter, "backoff.jitter")
        if self.jitter > 1:
            raise InvalidArgument(f"backoff.jitter is {self.jitter!r}; it must be between 0 and 1")


@dataclass(frozen=True, slots=True)
class QueuePolicy:
    """What a queue does with its messages. A field left at None is not declared: the default stands.

    max_attempts        5        starts before a dead letter
    visibility_timeout  60 s     how long a claim holds without a heartbeat
    timeout             3600 s   per attempt; `math.inf` for none
    backoff             Backoff(30, 2, 3600, 0.2)
    concurrency         None     most jobs of this queue at once in one worker process
    single_flight       False    only one worker process claims from this queue at a time
    key_field           'idempotency_key'   payload field that holds the key; '' turns it off
    key_retention       30 days  how long a done key is remembered
    archive             True     keep finished messages
    archive_retention   30 days  how long; `math.inf` for ever, as an adopted queue's by default
    archive_max_rows    None     about how many at most, the newest
    archive_max_bytes   None     about how many bytes of them at most
    notify              True     wake idle workers at once
    """

    max_attempts: int | None = None
    visibility_timeout: float | None = None
    timeout: float | None = None
    backoff: Backoff | None = None
    concurrency: int | None = None
    single_flight: bool | None = None
    key_field: str | None = None
    key_retention: float | None = None
    archive: bool | None = None
    archive_retention: float | None = None
    archive_max_rows: int | None = None
    archive_max_bytes: int | None = None
    notify: bool | None = None

    def __post_init__(self) -> None:
        if self.max_attempts is not None:
            check_count(self.max_attempts, "max_attempts")
        if self.visibility_timeout is not None:
            check_seconds(self.visibility_timeout, "visibility_timeout", least=1)
        if self.timeout is not None and self.timeout != math.inf:
            check_seconds(self.timeout, "timeout", above=True)
        if self.concurrency is not None:
            check_count(self.concurrency, "concurrency")
        if self.key_retention is not None:
            check_seconds(self.key_retention, "key_retention", above=True)
        if self.archive_retention is not None and self.archive_retention != math.inf:
            check_seconds(self.archive_retention, "archive_retention", above=True)
        for limit in ("archive_max_rows", "archive_max_bytes"):
            if getattr(self, limit) is not None:
                check_count(getattr(self, limit), limit)

    def declared(self) -> dict[str, Any]:
        """The declared fields as the JSON that `redrive.create_queue` takes."""
        out: dict[str, Any] = {}
        for each in fields(self):
            value = getattr(self, each.name)
            if value is None:
                continue
            if isinstance(value, Backoff):
                value = {f.name: getattr(value, f.name) for f in fields(value)}
            elif value == math.inf or value == "":
                value = None
            out[each.name] = value
        return out
