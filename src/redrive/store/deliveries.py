"""Deliveries: an operator takes one back from whoever runs it."""

from __future__ import annotations

from redrive.store.statement import Statement, column


def release(queue: str, msg_id: int, read_ct: int) -> Statement[list[int]]:
    """Make the message claimable at once, without charge; empty when that delivery has ended meanwhile.

    Whoever runs it can report nothing any more, not even that it is done. Raises `QueueMissing`.
    """
    return Statement(
        "select redrive.release(p_queue => %s::text, p_msg_ids => array[%s::bigint],"
        " p_read_cts => array[%s::integer])",
        (queue, msg_id, read_ct),
        column,
    )
