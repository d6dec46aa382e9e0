"""vacuum: what a queue table's settings do to a queue that is sent to and drained for minutes on end.

Every message is an insert, an update that cannot be HOT (vt is indexed) and a delete: two dead rows each. One
connection sends a batch, claims one and settles it, at a steady rate, behind a backlog that stays as it is.
"""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString

from psycopg import Connection

from benchmarks.place import Place, value
from benchmarks.result import Cell, Result
from benchmarks.rounds import say

# Autovacuum looks once a minute: two and a half of its rounds.
SECONDS = 150.0
BATCH = 200
TURNS_A_SECOND = 20
BACKLOG = 20_000
_QUEUE = "bench_vacuum"
_STOCK = "stock"
_VARIANTS: dict[str, dict[str, str] | None] = {
    _STOCK: {},
    "redrive's": None,
    "stock, fillfactor 70": {"fillfactor": "70"},
    "stock, fillfactor 50": {"fillfactor": "50"},
    "stock, never truncated": {"vacuum_truncate": "false"},
}
_SEND: LiteralString = """
select count(*) from redrive.send_batch(%s, (select jsonb_agg(jsonb_build_object('n', n, 'user_id',
    '6f1c1d3e-0000-4000-8000-000000000000', 'template', 'weekly_digest')) from generate_series(1, %s) n))"""
_WORK: LiteralString = """
with c as materialized (select msg_id, read_ct from redrive.claim(%s, 60, %s, 'bench')),
     a as (select array_agg(msg_id) ids, array_agg(read_ct) cts, array_agg('done'::text) ends from c)
select count(*) from a, redrive.settle(%s, a.ids, a.cts, a.ends, p_worker => 'bench')"""


@dataclass(slots=True)
class Seen:
    """What one variant's run showed. Times in seconds, sizes in bytes; the largest seen, once a second."""

    turns: list[float] = field(default_factory=list)
    dead: int = 0
    size: int = 0
    index_size: int = 0
    vacuums: int = 0
    cpu: float = 0.0

    @property
    def jobs(self) -> int:
        return len(self.turns) * BATCH


def run(place: Place) -> Result:
    seen = {name: _measure(place, name, settings) for name, settings in _VARIANTS.items()}
    stock = seen[_STOCK].cpu / seen[_STOCK].jobs
    rows: list[tuple[Cell, ...]] = []
    for name, each in seen.items():
        cuts = statistics.quantiles(each.turns, n=100, method="inclusive")
        cpu = each.cpu / each.jobs
        times = (cuts[49] * 1000, cuts[98] * 1000, max(each.turns) * 1000)
        room = (each.dead, each.size / 1e6, each.index_size / 1e6, each.vacuums)
        rows.append((name, cpu * 1e6 or None, cpu / stock if stock else None, *times, *room))
    return Result(
        "vacuum",
        "a queue table's settings under a steady load",
        (
            f"{SECONDS:g} s each; {TURNS_A_SECOND} turns a second, each: send, claim, settle {BATCH}",
            f"{BACKLOG:,} more stay ready; dead rows and sizes are the most seen, once a second",
            "cpu is that of the connection's server process, µs a job; times are of a turn, in ms",
        ),
        ("settings", "cpu", "ratio", "p50", "p99", "longest", "dead rows", "table MB", "index MB", "vacuums"),
        rows,
    )


def _measure(place: Place, name: str, settings: dict[str, str] | None) -> Seen:
    place.fresh_queue(_QUEUE)
    with place.connect() as connection, place.connect() as watcher:
        if settings is not None:
            _set(connection, settings)
        connection.execute(_SEND, (_QUEUE, BACKLOG))
        seen = _load(connection, watcher)
    say(f"{name}: {seen.jobs:,} jobs, {seen.cpu / seen.jobs * 1e6:.1f} µs of processor time each")
    return seen


def _set(connection: Connection[Any], settings: dict[str, str]) -> None:
    """Take redrive's settings off the table, and put these on it."""
    table = f"pgmq.q_{_QUEUE}"
    options = (
        "select array(select split_part(o, '=', 1) from unnest(reloptions) o) from pg_class "
        "where oid = %s::regclass"
    )
    for option in value(connection, options, table):
        connection.execute(f"alter table {table} reset ({option})".encode())
    for option, setting in settings.items():
        connection.execute(f"alter table {table} set ({option} = {setting})".encode())


def _load(connection: Connection[Any], watcher: Connection[Any]) -> Seen:
    seen = Seen()
    server = connection.info.backend_pid
    cpu, began = _cpu(server), time.monotonic()
    for n in range(round(SECONDS * TURNS_A_SECOND)):
        due = began + n / TURNS_A_SECOND
        now = time.monotonic()
        if now - began > SECONDS:
            break  # the machine cannot keep up
        if due > now:
            time.sleep(due - now)
            now = due
        connection.execute(_SEND, (_QUEUE, BATCH)).fetchall()
        connection.execute(_WORK, (_QUEUE, BATCH, _QUEUE)).fetchall()
        seen.turns.append(time.monotonic() - now)
        if n % TURNS_A_SECOND == 0:
            _look(watcher, seen)
    seen.cpu = _cpu(server) - cpu
    return seen


def _look(watcher: Connection[Any], seen: Seen) -> None:
    row = watcher.execute(
        "select n_dead_tup, pg_relation_size(relid), pg_indexes_size(relid), autovacuum_count "
        "from pg_stat_user_tables where relid = %s::regclass",
        (f"pgmq.q_{_QUEUE}",),
    ).fetchone()
    assert row is not None
    seen.dead, seen.size = max(seen.dead, row[0]), max(seen.size, row[1])
    seen.index_size, seen.vacuums = max(seen.index_size, row[2]), row[3]


def _cpu(pid: int) -> float:
    """Seconds of processor time a process has used; 0 where there is no /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
