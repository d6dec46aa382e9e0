"""Names, numbers and times as findings print them: names quoted where they have to be, and no further."""

from __future__ import annotations

import re
from collections.abc import Container
from datetime import UTC, datetime

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def quoted(name: str, keywords: Container[str] = ()) -> str:
    """`name` as an identifier, as the server's quote_ident has it; `keywords` are those of the server."""
    if _PLAIN.fullmatch(name) and name not in keywords:
        return name
    return '"' + name.replace('"', '""') + '"'


def table(name: str) -> str:
    """`name`, which begins with q_ or a_, as a table of schema pgmq: no keyword does."""
    return f"pgmq.{quoted(name)}"


def literal(text: str) -> str:
    """`text` as a string."""
    plain = "'" + text.replace("'", "''") + "'"
    return f"E{plain}".replace("\\", "\\\\") if "\\" in text else plain


def several(count: int, noun: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def moment(at: datetime) -> str:
    """``2026-11-30 22:50:00Z``, whatever time zone the session has."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
