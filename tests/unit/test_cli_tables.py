"""Tables on terminals of any width, and in pipes, where a row is a line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from redrive.cli.inbox_quarantine import print_samples
from redrive.cli.status import print_metrics
from redrive.cli.tables import print_table
from redrive.store.events import Refusal
from redrive.store.metrics import Gauges
from tests.support.terminal import lines, watched

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch

LONG = "ValueError: " + " ".join(f"word{number}" for number in range(400))
DETAIL = (
    "the body is not what was signed: X-Hub-Signature-256 does not fit the secret: signed with another "
    "one, or changed on its way; look at redrive inbox verify"
)


@pytest.mark.parametrize("columns", [None, "40"])
def test_in_a_pipe_a_row_is_a_line_with_all_of_its_cells(
    monkeypatch: Patch, capsys: Capture, columns: str | None
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    print_table(("id", "error", "more"), [("x" * 255, LONG, "a\nb\tc"), ("y", "short", "")], shed=("more",))
    assert [line.split("  ") for line in lines(capsys.readouterr().out)][1][0] == "x" * 255
    print_table(("id", "error", "more"), [("x" * 255, LONG, "a\nb\tc"), ("y", "short", "")], shed=("more",))
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 3
    assert LONG in out[1] and out[1].endswith("  a\\nb\\tc")
    assert not any(line.endswith(" ") for line in out)


def test_on_a_terminal_columns_are_left_out_before_a_word_is_broken(
    monkeypatch: Patch, capsys: Capture
) -> None:
    watched(monkeypatch, 30)
    rows = [("identifier-of-20-chr", "some words that fold", "optional")]
    print_table(("id", "text", "less"), rows, keep=("id",), shed=("less",))
    assert lines(capsys.readouterr().out) == [
        "id                    text",
        "identifier-of-20-chr  some",
        "                      words",
        "                      that",
        "                      fold",
    ]


@pytest.mark.parametrize("width", [0, -3])
def test_a_terminal_without_a_width_is_a_common_one(monkeypatch: Patch, capsys: Capture, width: int) -> None:
    watched(monkeypatch, width)
    print_table(("id", "text"), [("1", "some words that fold"), ("2", LONG)])
    shown = lines(capsys.readouterr().out)
    assert shown[:2] == ["id  text", "1   some words that fold"]
    assert max(map(len, shown)) in range(60, 81)


def test_what_is_to_be_copied_is_whole_even_where_it_does_not_fit(
    monkeypatch: Patch, capsys: Capture
) -> None:
    watched(monkeypatch, 20)
    print_table(("id", "text"), [("i" * 36, "words")], keep=("id",))
    assert "i" * 36 in capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80, 100, 130])
def test_the_status_of_queues_breaks_no_name(monkeypatch: Patch, capsys: Capture, width: int) -> None:
    at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    found = [_gauges(name, at) for name in ("email_jobs", "thumbnail_jobs", "q")]
    watched(monkeypatch, width)
    print_metrics(found)
    shown = lines(capsys.readouterr().out)
    assert all(len(line) <= width for line in shown)
    words = {word for line in shown for word in line.split()}
    assert words >= {"email_jobs", "thumbnail_jobs", "ready", "delayed", "flight", "dead", "parked"}
    assert words <= {
        *("queue", "ready", "delayed", "in", "flight", "dead", "parked", "oldest", "max", "attempt", "last"),
        *(
            "workers",
            "done",
            "email_jobs",
            "thumbnail_jobs",
            "q",
            "3",
            "10,000+",
            "0",
            "5m",
            "2026-11-30",
            "12:00:00Z",
        ),
    }


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_detail_of_a_refusal_is_shown_to_its_end(monkeypatch: Patch, capsys: Capture, width: int) -> None:
    at = datetime(2026, 11, 30, tzinfo=UTC)
    sample = Refusal(
        7, "github", at, "mismatch", DETAIL, None, None, 160, "72d3162e-cc78-11e3-81ab-4c9367dc0958"
    )
    watched(monkeypatch, width)
    print_samples([sample])
    shown = lines(capsys.readouterr().out)
    assert all(len(line) <= width for line in shown)
    column = shown[0].index("detail")
    assert " ".join(line[column:].strip() for line in shown[1:]) == DETAIL
    assert ("72d3162e-cc78-11e3-81ab-4c9367dc0958" in " ".join(shown)) is (width >= 120)


def _gauges(queue: str, at: datetime) -> Gauges:
    values: dict[str, Any] = {
        **dict.fromkeys(Gauges._fields),
        **{"queue": queue, "ready": 3, "delayed": 10_000, "in_flight": 0, "dead": 0, "parked": 0},
        **{"oldest_ready_age_sec": 300.0, "max_attempt": 3, "last_done_at": at, "paused": False},
    }
    return Gauges(**values)
