"""Keys: what is known of an idempotency key, and freeing it. Queue '' holds those of `claim_job`."""

from __future__ import annotations

from typing import Any

from redrive import payload as payloads
from redrive.store.statement import Statement, scalar


def show(queue: str, key: str) -> Statement[dict[str, Any] | None]:
    """Where the key is queued, running or done; None when nothing is known of it."""
    return Statement(
        "select redrive.show_key(p_queue => %s::text, p_key => %s::text)::text",
        (queue, key),
        lambda rows: None if rows[0][0] is None else payloads.decode(rows[0][0]),
    )


def free(queue: str, key: str) -> Statement[bool]:
    """Forget the key, so that it may run again; False when nothing was known of it."""
    return Statement("select redrive.free_key(p_queue => %s::text, p_key => %s::text)", (queue, key), scalar)
