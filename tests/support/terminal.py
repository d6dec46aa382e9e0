"""A terminal that watches a test, of any width."""

from __future__ import annotations

import re
import sys

import pytest

_STYLE = re.compile(r"\x1b\[[0-9;]*m")


def watched(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Let stdout be a terminal of this width. To be called after capsys has begun."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("LINES", "50")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def lines(text: str) -> list[str]:
    """What the terminal shows, without styles and the blanks at line ends."""
    return [line.rstrip() for line in _STYLE.sub("", text).splitlines()]
