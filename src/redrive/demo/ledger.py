"""Ledger: what the database and the file of starts say. Nothing here is remembered from what was sent."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from psycopg import Connection
from psycopg.rows import TupleRow

from redrive.demo import starts
from redrive.demo.starts import Start
from redrive.store import adapters, dead_letters, messages, metrics
from redrive.store.dead_letters import DeadLetter
from redrive.store.metrics import Gauges
from redrive.store.statement import Statement, scalar

T = TypeVar("T")

_PATIENCE = 25.0


class Ledger:
    """Reads over one connection, and the file of starts at `path`."""

    def __init__(self, connection: Connection[TupleRow], path: Path) -> None:
        self._connection = connection
        self._path = path

    def archived(self, queue: str, outcome: str = "done") -> int:
        """How many messages of a queue ended so."""
        # The names are the story's own.
        sql = f"select count(*) from pgmq.a_{queue} where outcome = %s::text"
        return self._ask(Statement(sql, (outcome,), scalar))

    def message(self, queue: str, msg_id: int) -> dict[str, Any]:
        """All that is known of one message; empty when nothing is."""
        return self._ask(messages.message(queue, msg_id)) or {}

    def dead(self, queue: str) -> list[DeadLetter]:
        return self._ask(dead_letters.page(queue))

    def gauges(self) -> list[Gauges]:
        return self._ask(metrics.gauges())

    def starts(self, queue: str, msg_id: int | None = None) -> list[Start]:
        """The starts of a queue's handler, or those for one message."""
        return [
            each for each in starts.read(self._path) if each.queue == queue and msg_id in (None, each.msg_id)
        ]

    def await_(self, found: Callable[[], T]) -> T:
        """Wait until `found` is true, and no longer than anybody would; its last answer."""
        deadline = time.monotonic() + _PATIENCE
        while not (answer := found()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return answer

    def _ask(self, statement: Statement[T]) -> T:
        return adapters.run_blocking(statement, self._connection)
