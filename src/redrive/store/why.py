"""Why: the facts about one message, for whoever asks why it does not run."""

from __future__ import annotations

import json
from typing import Any

from redrive.store.messages import check_id, check_sendable
from redrive.store.statement import Statement


def why(queue: str, msg_id: int, *, dead: bool = False) -> Statement[dict[str, Any]]:
    """What is known of a message, without its payload; `dead`: `msg_id` is a dead letter's own id, as it is
    where `queue` is the dead-letter queue's own name.

    Raises `InvalidArgument`, `QueueMissing`.
    """
    base = queue.removesuffix("_dlq")
    named = check_sendable(base) + ("_dlq" if dead or base != queue else "")
    return Statement(
        "select redrive.why(p_queue => %s::text, p_msg_id => %s::bigint)::text",
        (named, check_id(msg_id)),
        lambda rows: json.loads(rows[0][0]),
    )
