"""Policies: what a declaration may say of its queue's policy, as keyword arguments."""

from __future__ import annotations

import math
from typing import Any, TypedDict

from redrive.errors import ConfigError, InvalidArgument
from redrive.policy import Backoff, QueuePolicy


class Policy(TypedDict, total=False):
    """What `Redrive.job` takes of a queue's policy, in seconds and numbers; see `QueuePolicy`.

    ``timeout=None`` is no timeout, ``key_field=None`` no key in the payload, ``concurrency=None`` no cap,
    ``archive_retention=None`` for ever.
    """

    max_attempts: int
    visibility_timeout: float
    timeout: float | None
    backoff: Backoff
    concurrency: int | None
    single_flight: bool
    key_field: str | None
    key_retention: float
    archive: bool
    archive_retention: float | None
    archive_max_rows: int | None
    archive_max_bytes: int | None
    notify: bool


def policy_of(what: str, given: Policy) -> QueuePolicy:
    """The policy of `what`, which a refusal names. Raises `ConfigError`."""
    values: dict[str, Any] = {**given}
    if unknown := sorted(values.keys() - Policy.__annotations__.keys()):
        known = ", ".join(sorted(Policy.__annotations__))
        raise ConfigError(f"{what}: there is no policy {unknown[0]!r}; there are: {known}")
    # QueuePolicy's None is "not declared".
    if values.get("timeout", 0) is None:
        values["timeout"] = math.inf
    if values.get("archive_retention", 0) is None:
        values["archive_retention"] = math.inf
    if values.get("key_field", "") is None:
        values["key_field"] = ""
    try:
        return QueuePolicy(**values)
    except InvalidArgument as error:
        raise ConfigError(f"{what}: {error}") from error
