"""Sink: the one contract of everything that alerts are delivered to.

Guarantees  `send` returns when the other side has taken the alerts, and raises `Undelivered` otherwise;
            what `Undelivered` says is a short reason, without the URL, a token or a key.
Not given   that a sink sees an alert once: a process may die between the answer and its record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert to tell: `id` of its delivery, `event` is firing, reminder, resolved or test.

    `database` is host and name, for people who have several; `at` the database's time in unix seconds;
    `key` names this delivery among all of every database, whoever makes it and however often.
    """

    id: int
    rule: str
    subject: str
    event: str
    severity: str
    summary: str
    command: str
    since: str
    database: str
    value: float | None = None
    threshold: float | None = None
    resolved_at: str | None = None
    at: float | None = None
    key: str = ""

    @classmethod
    def of(
        cls,
        id: int,
        rule: str,
        subject: str,
        event: str,
        body: dict[str, Any],
        database: str,
        at: float | None = None,
        installation: str = "",
    ) -> Alert:
        """From a row of the delivery table of `installation`; `database` is how this process reaches it."""
        since = str(body.get("since") or "")
        # More than its number: a copy of a database goes on with the same ones.
        named = json.dumps([installation, id, rule, subject, event, since])
        return cls(
            id=id,
            rule=rule,
            subject=subject,
            event=event,
            severity=str(body.get("severity") or "warning"),
            summary=str(body.get("summary") or rule),
            command=str(body.get("command") or ""),
            since=since,
            database=database or str(body.get("database") or ""),
            value=_number(body.get("value")),
            threshold=_number(body.get("threshold")),
            resolved_at=body.get("resolved_at"),
            at=at,
            key=f"alert_{hashlib.sha256(named.encode()).hexdigest()[:32]}",
        )

    @property
    def dedup(self) -> str:
        """What stays the same between its firing and its end."""
        return f"{self.rule}:{self.subject}"

    def as_dict(self) -> dict[str, Any]:
        return {
            name: getattr(self, name)
            for name in (
                *("id", "rule", "subject", "event", "severity", "value", "threshold"),
                *("summary", "command", "since", "resolved_at", "database"),
            )
        } | {"dedup_key": self.dedup}


class Undelivered(Exception):
    """The reason why; `retry_after` seconds the other side asked for, `gone`: it wants no more, ever."""

    def __init__(self, reason: str, *, retry_after: float | None = None, gone: bool = False) -> None:
        self.reason = reason
        self.retry_after = retry_after
        self.gone = gone
        super().__init__(reason)


class Sink(Protocol):
    """`name` and `kind` may be shown; `groups`: whether it takes several alerts in one message."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def groups(self) -> bool: ...

    async def send(self, alerts: Sequence[Alert]) -> None:
        """Deliver them together; exactly one where the sink does not group. Raises `Undelivered`."""
        ...


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
