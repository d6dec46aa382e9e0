"""Queues: create, list, pause, resume, drop, adopt, and their policies, as statements.

All but `create` and `listing` raise `QueueMissing`, with the way out, when redrive does not know the queue.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from redrive import payload as payloads
from redrive.policy import QueuePolicy, check_queue_name
from redrive.store.statement import Row, Statement, nothing, scalar, text_array


class Queue(NamedTuple):
    """`kind`: created, adopted, foreign (pgmq's own, not redrive's) or missing (its tables are gone).

    `policy` is the effective one; None for a foreign queue.
    """

    queue: str
    kind: str
    paused: bool
    created_at: datetime
    policy: dict[str, Any] | None


class PolicyField(NamedTuple):
    """`value` is what holds; `declared` and `override` are empty or one value: null is a value too."""

    field: str
    value: Any
    declared: tuple[Any, ...]
    override: tuple[Any, ...]


class Hidden(NamedTuple):
    """A declared value that an operator's override hides."""

    field: str
    declared: Any
    override: Any


def create(queue: str, policy: QueuePolicy | None = None) -> Statement[None]:
    """Make the queue where it is missing; `policy` is what code declares. Raises `InvalidArgument`."""
    declared = json.dumps((policy or QueuePolicy()).declared())
    return Statement(
        "select redrive.create_queue(p_queue => %s::text, p_policy => %s::jsonb)",
        (check_queue_name(queue), declared),
        nothing,
    )


def declare(queue: str, policy: QueuePolicy) -> Statement[list[Hidden]]:
    """Say what code declares for a queue that exists; the fields that an override hides."""
    return Statement(
        "select field, declared::text, override::text"
        " from redrive.declare_queue(p_queue => %s::text, p_policy => %s::jsonb)",
        (queue, json.dumps(policy.declared())),
        lambda rows: [Hidden(row[0], payloads.decode(row[1]), payloads.decode(row[2])) for row in rows],
    )


def listing() -> Statement[list[Queue]]:
    """Every queue there is, redrive's and pgmq's own."""

    def load(rows: Sequence[Row]) -> list[Queue]:
        return [Queue(r[0], r[1], r[2], r[3], None if r[4] is None else payloads.decode(r[4])) for r in rows]

    return Statement(
        "select queue, kind, paused, created_at, policy::text from redrive.list_queues()", (), load
    )


def policy_fields(queue: str) -> Statement[list[PolicyField]]:
    """The queue's policy, and who said what."""

    def load(rows: Sequence[Row]) -> list[PolicyField]:
        return [PolicyField(row[0], payloads.decode(row[1]), _said(row[2]), _said(row[3])) for row in rows]

    return Statement(
        "select field, effective::text, declared::text, override::text"
        " from redrive.policy_fields(p_queue => %s::text)",
        (queue,),
        load,
    )


def set_policy(queue: str, override: Mapping[str, Any], reset: Iterable[str] = ()) -> Statement[None]:
    """An operator's say: fields to override, and overrides to drop. The database judges the values."""
    return Statement(
        "select redrive.set_policy(p_queue => %s::text, p_override => %s::jsonb, p_reset => %s::text[])",
        (queue, payloads.encode(dict(override)), text_array(list(reset))),
        nothing,
    )


def pause(queue: str) -> Statement[bool]:
    """Hand nothing out any more; False when it was paused before."""
    return Statement("select redrive.pause_queue(p_queue => %s::text)", (queue,), scalar)


def resume(queue: str) -> Statement[bool]:
    """Hand out again; False when it was not paused."""
    return Statement("select redrive.resume_queue(p_queue => %s::text)", (queue,), scalar)


def drop(queue: str) -> Statement[bool]:
    """Delete the queue, its archive, its dead letters and what is known of them."""
    return Statement("select redrive.drop_queue(p_queue => %s::text)", (queue,), scalar)


def adopt(queue: str) -> Statement[None]:
    """Take an existing pgmq queue under redrive's policy."""
    return Statement("select redrive.adopt_queue(p_queue => %s::text)", (queue,), nothing)


def _said(text: str | None) -> tuple[Any, ...]:
    return () if text is None else (payloads.decode(text),)
