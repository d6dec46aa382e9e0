"""Listing: events of the inbox as rows and as a table, redacted and shortened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redrive.cli.output import console, one_line, table
from redrive.cli.redaction import redact
from redrive.store.events import Listed

_COLUMNS = ("id", "source", "event", "type", "received", "status", "attempts", "error")
# What the other columns leave to an error, on a wide page.
_BESIDE = 150


def row_of(event: Listed) -> dict[str, Any]:
    """An event as `--json` shows it in a list."""
    return redact(event._asdict())


def print_events(found: Iterable[Listed]) -> None:
    """Events as a table."""
    page = console()
    most = max(30, page.width - _BESIDE)
    rows = [
        (
            *(each.id, each.source, one_line(each.event_id, 40), one_line(each.type, 40)),
            *(each.received_at, each.status, each.attempts, one_line(redact(each.last_error), most)),
        )
        for each in found
    ]
    page.print(table(_COLUMNS, rows, numbers=("attempts",)))
