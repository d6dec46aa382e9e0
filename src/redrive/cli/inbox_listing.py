"""Listing: events of the inbox as rows and as a table, redacted and shortened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from redrive.cli.output import console, one_line, table
from redrive.cli.redaction import redact
from redrive.store.events import Listed

# Each with the width of a page from which there is room for it.
_COLUMNS = {
    "id": 0,
    "source": 0,
    "event": 150,
    "type": 0,
    "received": 100,
    "status": 0,
    "attempts": 150,
    "error": 180,
}
# What the other columns leave to an error, on a wide page.
_BESIDE = 150


def row_of(event: Listed) -> dict[str, Any]:
    """An event as `--json` shows it in a list."""
    return redact(event._asdict())


def print_events(found: Iterable[Listed]) -> None:
    """Events as a table; on a narrow terminal with fewer columns."""
    page = console()
    columns = [name for name, width in _COLUMNS.items() if page.width >= width]
    most = max(30, page.width - _BESIDE)
    rows = [[_cells(each, most)[name] for name in columns] for each in found]
    made = table(columns, rows, numbers=("attempts",))
    # Folded, it cannot be copied.
    made.columns[0].no_wrap = True
    page.print(made)


def _cells(event: Listed, most: int) -> dict[str, object]:
    return {
        "id": event.id,
        "source": event.source,
        "event": one_line(event.event_id, 40),
        "type": one_line(event.type, 40),
        "received": event.received_at,
        "status": event.status,
        "attempts": event.attempts,
        "error": one_line(redact(event.last_error), most),
    }
