"""The SQL in the documents is run, in its order, and answers what stands beneath it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from psycopg.rows import tuple_row

from tests.support.databases import Databases
from tests.support.layouts import NEWEST

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```sql\n(?P<sql>.*?)^```\n(?:\n?^```text\n(?P<answer>.*?)^```\n)?", re.M | re.S)
# Times differ from run to run; what stands in the document is one that was seen.
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(\+00(:00)?)?")
_NUMERIC_TYPES = (20, 21, 23, 26, 700, 701, 1700)


class Example(NamedTuple):
    line: int
    sql: str
    answer: str | None


def examples(text: str) -> Iterator[Example]:
    for found in _BLOCK.finditer(text):
        yield Example(text.count("\n", 0, found.start()) + 1, found["sql"], found["answer"])


def answered(cursor: psycopg.Cursor[tuple[Any, ...]], sql: str) -> str:
    """What psql would print for the last statement of `sql` that returns rows."""
    cursor.execute(sql.encode())
    answer = ""
    while True:
        if cursor.description:
            answer = _table(cursor)
        if not cursor.nextset():
            return answer


def _table(cursor: psycopg.Cursor[tuple[Any, ...]]) -> str:
    assert cursor.description
    names = [column.name for column in cursor.description]
    numeric = [column.type_code in _NUMERIC_TYPES for column in cursor.description]
    assert cursor.pgresult is not None
    rows = [
        [(cursor.pgresult.get_value(n, c) or b"").decode() for c in range(len(names))]
        for n in range(cursor.rowcount)
    ]
    widths = [max(len(cell) for cell in column) for column in zip_longest(names, *rows, fillvalue="")]
    lines = [
        " | ".join(name.center(w) for name, w in zip(names, widths, strict=True)),
        "-+-".join("-" * w for w in widths),
    ]
    for row in rows:
        cells = zip(row, widths, numeric, strict=True)
        lines.append(" | ".join(cell.rjust(w) if right else cell.ljust(w) for cell, w, right in cells))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _timeless(text: str) -> str:
    return re.sub(r"[ -]+", " ", _MOMENT.sub("TIME", text)).strip()


DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"))
    if any(examples(path.read_text()))
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_sql_in_a_document_runs_and_answers_what_stands_beneath_it(
    databases: Databases, document: str
) -> None:
    url = databases.migrated(NEWEST)
    try:
        with psycopg.connect(url, autocommit=True, row_factory=tuple_row) as connection:
            connection.execute("set time zone 'UTC'")
            # The documents talk of one queue that a reader has; those that make it may make it again.
            connection.execute("select redrive.create_queue('email_jobs')")
            for example in examples((ROOT / document).read_text()):
                where = f"{document}, line {example.line}"
                try:
                    answer = answered(connection.cursor(), example.sql)
                except psycopg.Error as error:
                    pytest.fail(f"{where}: {error}")
                if example.answer is not None:
                    assert _timeless(answer) == _timeless(example.answer), where
    finally:
        databases.drop(url)
