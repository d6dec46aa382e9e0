"""Pieces of SQL scripts: literals, and files as rows of a VALUES list."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from redrive.sql import SqlFile

# Whoever changes schema redrive takes this first, for its transaction.
LOCK = "select pg_advisory_xact_lock(hashtextextended('redrive.schema', 0))"


def quote(text: str) -> str:
    """`text` as a dollar-quoted literal, under the first tag it does not contain."""
    tag = next(tag for tag in (f"$file{n or ''}$" for n in count()) if tag not in text)
    return f"{tag}{text}{tag}"


def literal(text: str) -> str:
    """`text` as a literal to be read: in single quotes, where no setting can make another text of it."""
    doubled = text.replace("'", "''")
    return quote(text) if "\\" in text else f"'{doubled}'"


def block(code: str, *, unless: str | None = None) -> str:
    """A DO statement around `code`, which does nothing where the condition `unless` is true."""
    if unless is not None:
        code = f"\nbegin\n    if {unless} then\n        return;\n    end if;\n{code.strip()};\nend\n"
    return f"do {quote(code)};\n"


def rows(files: Sequence[SqlFile]) -> str:
    """`(name, checksum, body)` for each file, as a query (of no row where there is no file)."""
    if not files:
        return "select null::text, null::text, null::text where false"
    return "values " + ",\n".join(f"({quote(f.name)}, {quote(f.checksum)}, {quote(f.text)})" for f in files)
