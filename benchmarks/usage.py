"""Usage: processor time, which a busy machine changes far less than it changes the clock's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from psycopg import Connection


class Usage:
    """What `process`, its children and the server use from now on, the server process of `connection` apart.

    Who ends before `seconds` is called is not counted. Read from /proc, in hundredths of a second.
    """

    def __init__(self, connection: Connection[Any], process: int) -> None:
        self._connection = connection
        self._process = process
        self._before = self._used()

    def seconds(self) -> float | None:
        """Seconds used since it was made; None on a system without /proc."""
        used = self._used()
        return sum(now - self._before.get(pid, 0.0) for pid, now in used.items()) if used else None

    def _used(self) -> dict[int, float]:
        rows = self._connection.execute(
            "select pid from pg_stat_activity where pid <> pg_backend_pid()"
        ).fetchall()
        found = {pid: _of(pid) for pid in [*_tree(self._process), *(row[0] for row in rows)]}
        return {pid: used for pid, used in found.items() if used is not None}


def _tree(process: int) -> list[int]:
    try:
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return [process]
    return [process, *(each for child in children for each in _tree(int(child)))]


def _of(process: int) -> float | None:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
