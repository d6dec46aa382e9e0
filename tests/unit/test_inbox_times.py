"""Times on the command line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from redrive.cli.inbox_times import parse
from redrive.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("24h", timedelta(hours=24)),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        ("2026-11-30T10:00Z", datetime(2026, 11, 30, 10, tzinfo=UTC)),
        ("2026-11-30T12:00+02:00", datetime(2026, 11, 30, 10, tzinfo=UTC)),
    ],
)
def test_a_time_is_how_long_ago_or_a_moment(text: str, meant: object) -> None:
    assert parse(text, "--since") == meant


@pytest.mark.parametrize(
    "text", ["", "soon", "24", "h", "-1h", "1.5h", "24 h", "24H", "999999999w", "2026-13-01T00:00Z", "١h"]
)
def test_what_is_no_time_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^--since is .* such as 90s, 30m, 24h or 7d"):
        parse(text, "--since")


def test_a_time_without_a_zone_is_refused_and_mended() -> None:
    with pytest.raises(InvalidArgument, match="has no time zone; add one: 2026-11-30T10:00:00Z"):
        parse("2026-11-30T10:00", "--since")
