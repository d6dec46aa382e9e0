"""Names in SQL that is printed to be run: quoted where they have to be, and no further."""

from __future__ import annotations

import re

_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
# What would have to be quoted though it looks plain, of the names people give roles and databases.
_KEYWORDS = frozenset(
    [
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "as",
        "asc",
        "authorization",
        "check",
        "default",
        "desc",
        "do",
        "else",
        "end",
        "false",
        "for",
        "from",
        "grant",
        "group",
        "in",
        "limit",
        "not",
        "null",
        "on",
        "only",
        "or",
        "order",
        "primary",
        "public",
        "select",
        "table",
        "then",
        "to",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "when",
        "where",
        "with",
    ]
)


def ident(name: str) -> str:
    """`name` as an identifier."""
    if _PLAIN.fullmatch(name) and name not in _KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def table(name: str) -> str:
    """`name` as a table of schema pgmq."""
    return f"pgmq.{ident(name)}"


def literal(text: str) -> str:
    """`text` as a string."""
    plain = "'" + text.replace("'", "''") + "'"
    return f"E{plain}".replace("\\", "\\\\") if "\\" in text else plain


def several(count: int, noun: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
