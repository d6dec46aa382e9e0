"""Output: answers go to stdout, everything said beside them to stderr.

Guarantees  `--json` prints JSON and nothing else on stdout; nothing is folded where no terminal watches.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, cast

import typer
from rich.console import Console

from redrive.errors import ConfigError
from redrive.payload import Unreadable

# Nothing is folded for whoever is no terminal, whatever COLUMNS says.
_WIDE = 100_000
# Of a terminal that does not know how wide it is, or is told 0.
_NO_WIDTH = 80
# A longer value is laid out over several lines.
_ONE_LINE = 80
_UNREADABLE = 200
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def console(*, stderr: bool = False) -> Console:
    """The terminal, or a plain page without an edge where there is none."""
    stream = sys.stderr if stderr else sys.stdout
    page = Console(stderr=stderr, width=None if stream.isatty() else _WIDE, highlight=False, emoji=False)
    if page.width < 1:
        page.width = _NO_WIDTH
    return page


def open_closed() -> None:
    """Let what was closed before the start swallow the answer: Python has no stream there at all."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Kept open: else a connection would get the number, and whatever writes to it would be sent.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def say(text: str) -> None:
    """A note beside the answer."""
    print(plain(text), file=sys.stderr, flush=True)


def answer(text: str) -> None:
    """The answer, for people."""
    print(plain(text), flush=True)


def plain(text: str) -> str:
    """Without what would drive the terminal: an error's text may come from anywhere."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def answer_json(value: Any) -> None:
    """The answer, for programs: times in ISO 8601."""
    print(json.dumps(value, ensure_ascii=False, indent=2, default=_jsonable), flush=True)


def facts(pairs: Iterable[tuple[str, object]]) -> None:
    """The answer as names and values, each name once, however many lines its value has."""
    named = [(name, _laid_out(value).splitlines() or [""]) for name, value in pairs]
    width = max((len(name) for name, _ in named), default=0)
    for name, lines in named:
        for number, line in enumerate(lines):
            answer(f"{'' if number else name:<{width}}  {line}".rstrip())


def _laid_out(value: object) -> str:
    if isinstance(value, (dict, list)) and len(shown(cast("object", value))) > _ONE_LINE:
        return plain(json.dumps(value, ensure_ascii=False, indent=2, default=_jsonable))
    return shown(cast("object", value))


def shown(value: object) -> str:
    """A value in a table: nothing for None, times without fractions, what is no text as JSON."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case Unreadable():
            return one_line(value, _UNREADABLE)
        case str():
            return plain(value)
        case datetime():
            return moment(value)
        case dict() | list():
            return plain(json.dumps(value, ensure_ascii=False, default=_jsonable))
        case _:
            return str(value)


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def age(seconds: float | None) -> str:
    """Seconds as 45s, 12m, 3h 20m or 4d 2h."""
    if seconds is None:
        return ""
    if math.isinf(seconds):
        return "for ever"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def one_line(text: str | None, most: int) -> str:
    """The text's beginning, on one line."""
    line = plain(" ".join((text or "").split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def count(number: int, noun: str, many: str | None = None) -> str:
    """``1 message``, ``2,000 messages``."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something that cannot be taken back; `yes` answers it beforehand.

    A no ends the command with 1. Raises `ConfigError` when there is nobody to ask.
    """
    if yes:
        return
    # Python has none where it was closed before the start.
    if cast("object", sys.stdin) is None or not sys.stdin.isatty():
        raise ConfigError(f"{question} There is no terminal to ask on; add --yes")
    if not typer.confirm(question, err=True):
        say("nothing was changed")
        raise typer.Exit(1)


def _jsonable(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} is no JSON")
