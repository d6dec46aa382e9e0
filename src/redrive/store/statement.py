"""A statement: SQL, its parameters and how its rows are read; run by whoever holds a connection.

`redrive.store.database` runs it on the pool, `redrive.store.adapters` on the caller's own connection
(psycopg, asyncpg, SQLAlchemy, Django), so no verb is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Row = Sequence[Any]
Scalar = str | bytes | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Statement(Generic[T]):
    """`sql` has one ``%s`` a parameter, each cast (``%s::jsonb``); arrays and JSON travel as text.

    `load` turns the rows into the answer and never touches the connection.
    """

    sql: str
    params: tuple[Scalar, ...]
    load: Callable[[Sequence[Row]], T]


def nothing(rows: Sequence[Row]) -> None:
    """For statements whose answer is not wanted."""


def scalar(rows: Sequence[Row]) -> Any:
    """The first column of the only row."""
    return rows[0][0]


def column(rows: Sequence[Row]) -> list[Any]:
    """The first column of every row."""
    return [row[0] for row in rows]


def int_array(values: Sequence[int]) -> str:
    """A Postgres integer array as text.."""
    return "{" + ",".join(map(str, values)) + "}"


def text_array(values: Sequence[str | None]) -> str:
    """A Postgres text array as text, each element quoted; None is NULL."""
    quoted = (
        "NULL" if v is None else '"' + v.replace("\\", "\\\\").replace('"', '\\"') + '"' for v in values
    )
    return "{" + ",".join(quoted) + "}"
