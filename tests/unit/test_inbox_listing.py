"""The table of events, on terminals of any width."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from redrive.cli.inbox_listing import print_events
from redrive.store.events import Listed
from tests.support.terminal import lines, watched

EVENT = Listed(
    id="e5cb8052-9842-487d-8109-54f81b3341b7",
    source="github",
    event_id="72d3162e-cc78-11e3-81ab-4c9367dc0958",
    type="pull_request",
    resource=None,
    received_at=datetime(2026, 11, 30, tzinfo=UTC),
    status="processed",
    attempts=1,
    last_error="ValueError: no stock",
    msg_id=1,
    queue="hooks",
    generation=0,
    origin="webhook",
    settled_at=None,
)


@pytest.mark.parametrize("width", [80, 100, 150, 200])
def test_an_id_stands_on_one_line_so_that_it_can_be_copied(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(monkeypatch, width)
    print_events([EVENT])
    head, row = lines(capsys.readouterr().out)
    assert len(row) <= width
    assert EVENT.id in row and "pull_request" in row and "processed" in row
    assert ("received" in head) is (width >= 100)
    assert (EVENT.event_id in row) is (width >= 150)
    assert ("no stock" in row) is (width >= 180)


def test_it_is_not_folded_either_where_everything_else_has_to_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    watched(monkeypatch, 80)
    print_events([EVENT._replace(source="s" * 63, type="t" * 255)])
    assert EVENT.id in capsys.readouterr().out


def test_in_a_pipe_ids_types_and_errors_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    long = EVENT._replace(event_id="e" * 255, type="t" * 255, last_error="no stock, " * 500 + "the end")
    print_events([long])
    [_, row] = capsys.readouterr().out.splitlines()
    assert "e" * 255 in row and "t" * 255 in row and row.endswith("the end")
