"""Sharing: a queue that several declarations send into has one policy, put together from what each says."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from redrive.errors import ConfigError
from redrive.policy import QueuePolicy


def told(policy: QueuePolicy) -> dict[str, Any]:
    """What the policy says in so many words."""
    values = {each.name: getattr(policy, each.name) for each in fields(policy)}
    return {name: value for name, value in values.items() if value is not None}


def merged(what: str, queue: str, known: QueuePolicy | None, policy: QueuePolicy, others: str) -> QueuePolicy:
    """`known`, which `others` said, and what `what` adds. Raises `ConfigError` where the two disagree."""
    if known is None:
        return policy
    before, now = told(known), told(policy)
    for name in before.keys() & now.keys():
        if before[name] != now[name]:
            raise ConfigError(
                f"{what}: queue {queue} has {name} {before[name]!r} from {others} already, and cannot have "
                f"{now[name]!r} too; say it once, or use another queue"
            )
    return replace(known, **now)
