"""Listing: events of the inbox as rows and as a table, redacted and shortened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redrive.cli.output import console, one_line
from redrive.cli.redaction import redact
from redrive.cli.tables import print_table
from redrive.store.events import Listed

_COLUMNS = ("id", "source", "event", "type", "received", "status", "attempts", "error")
# On a narrow page the first of them goes first: `show` has all of it.
_SHED = ("error", "event", "attempts", "received")
_NARROW = 40
_ID = 255
_ERROR = 10_000


def row_of(event: Listed) -> dict[str, Any]:
    """An event as `--json` shows it in a list."""
    return redact(event._asdict())


def print_events(found: Iterable[Listed]) -> None:
    """Events as a table; on a narrow terminal with fewer columns."""
    narrow = console().is_terminal
    rows = [
        (
            each.id,
            each.source,
            one_line(each.event_id, _NARROW if narrow else _ID),
            one_line(each.type, _NARROW if narrow else _ID),
            each.received_at,
            each.status,
            each.attempts,
            one_line(redact(each.last_error), _ERROR),
        )
        for each in found
    ]
    print_table(_COLUMNS, rows, numbers=("attempts",), keep=("id", "event", "received", "status"), shed=_SHED)
