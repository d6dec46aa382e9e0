"""The articles' SQL, cut out of their text where that stands beside the project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
_BEGINS = re.compile(r"^(?:select|create|grant|revoke) ", re.MULTILINE)
_TOKEN = re.compile(r"\$\$.*?\$\$|'(?:[^']|'')*'|--[^\n]*|;|\n\n", re.DOTALL)
# What needs a superuser, and what queries a table of somebody's product.
_LEFT_OUT = re.compile(r"create extension|.*\bfastpix\.webhook_events", re.DOTALL)


def text(number: str) -> str:
    """An article, by the number that its file's name begins with."""
    [found] = SEEDS.glob(f"{number}_*.txt")
    return found.read_text()


def there() -> bool:
    return SEEDS.exists()


def statements(article: str) -> Iterator[str]:
    """Each statement of `article` as it stands there: from the beginning of a line to its semicolon.

    Prose that begins like one reaches a blank line first, as no statement does outside of its quotes.
    """
    end = 0
    for begin in _BEGINS.finditer(article):
        if begin.start() < end:
            continue
        for token in _TOKEN.finditer(article, begin.start()):
            if token.group() == "\n\n":
                break
            if token.group() == ";":
                end = token.end()
                if not _LEFT_OUT.match(article[begin.start() : end]):
                    yield article[begin.start() : end]
                break
