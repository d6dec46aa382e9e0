"""vacuum: what a queue table's settings do to queues that are sent to and drained for minutes on end.

Every message is an insert, an update that cannot be HOT (vt is indexed) and a delete: two dead rows each. One
connection goes round queues of different settings, a turn each: send a batch, claim one, settle it. So
whatever else the machine does hits all alike.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any, LiteralString

from psycopg import Connection

from benchmarks.place import Place, value
from benchmarks.result import Cell, Result
from benchmarks.rounds import say

# Autovacuum looks once a minute: several of its rounds.
SECONDS = 300.0
TURNS_A_SECOND = 40
BATCH = 200
BACKLOG = 20_000
_STOCK = "stock"
# None: redrive's settings, as create_queue makes them.
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
    """What one queue showed. Times in seconds, sizes in bytes; the largest seen, once a second."""

    queue: str
    turns: list[float] = field(default_factory=list)
    dead: int = 0
    size: int = 0
    index_size: int = 0
    vacuums: int = 0


def run(place: Place) -> Result:
    seen = {name: Seen(place.fresh_queue(f"bench_vacuum_{n}")) for n, name in enumerate(_VARIANTS)}
    with place.connect() as connection, place.connect() as watcher:
        for name, settings in _VARIANTS.items():
            if settings is not None:
                _set(connection, seen[name].queue, settings)
            connection.execute(_SEND, (seen[name].queue, BACKLOG))
        _load(connection, watcher, list(seen.values()))
    return _result(seen)


def _result(seen: dict[str, Seen]) -> Result:
    stock = statistics.median(seen[_STOCK].turns)
    rows: list[tuple[Cell, ...]] = []
    for name, each in seen.items():
        cuts = statistics.quantiles(each.turns, n=100, method="inclusive")
        times = [cuts[n] * 1000 for n in (24, 49, 89, 98)]
        room = (each.dead, each.size / 1e6, each.index_size / 1e6, each.vacuums)
        rows.append((name, *times, max(each.turns) * 1000, cuts[49] / stock, *room))
    rate = TURNS_A_SECOND * BATCH / len(seen)
    return Result(
        "vacuum",
        "milliseconds a turn of a queue with these settings",
        (
            f"{SECONDS:g} s; a turn: send, claim and settle {BATCH}; {rate:,.0f} jobs/s on each queue",
            f"{BACKLOG:,} more stay ready; dead rows and sizes are the most seen, once a second",
        ),
        (
            "settings",
            "p25",
            "p50",
            "p90",
            "p99",
            "longest",
            "×p50",
            "dead rows",
            "table MB",
            "index MB",
            "vacuums",
        ),
        rows,
    )


def _set(connection: Connection[Any], queue: str, settings: dict[str, str]) -> None:
    """Take redrive's settings off the table, and put these on it."""
    table = f"pgmq.q_{queue}"
    options = (
        "select array(select split_part(o, '=', 1) from unnest(reloptions) o) from pg_class "
        "where oid = %s::regclass"
    )
    for option in value(connection, options, table):
        connection.execute(f"alter table {table} reset ({option})".encode())
    for option, setting in settings.items():
        connection.execute(f"alter table {table} set ({option} = {setting})".encode())


def _load(connection: Connection[Any], watcher: Connection[Any], queues: list[Seen]) -> None:
    began = time.monotonic()
    for n in range(round(SECONDS * TURNS_A_SECOND)):
        now = time.monotonic()
        if now - began > SECONDS:
            break  # the machine cannot keep up
        time.sleep(max(0.0, began + n / TURNS_A_SECOND - now))
        seen = queues[n % len(queues)]
        before = time.monotonic()
        connection.execute(_SEND, (seen.queue, BATCH)).fetchall()
        connection.execute(_WORK, (seen.queue, BATCH, seen.queue)).fetchall()
        seen.turns.append(time.monotonic() - before)
        if n // len(queues) % (TURNS_A_SECOND // len(queues)) == 0:
            _look(watcher, seen)
        if (n + 1) % (60 * TURNS_A_SECOND) == 0:
            say(f"{(n + 1) / TURNS_A_SECOND:.0f} s")


def _look(watcher: Connection[Any], seen: Seen) -> None:
    row = watcher.execute(
        "select n_dead_tup, pg_relation_size(relid), pg_indexes_size(relid), autovacuum_count "
        "from pg_stat_user_tables where relid = %s::regclass",
        (f"pgmq.q_{seen.queue}",),
    ).fetchone()
    assert row is not None
    seen.dead, seen.size = max(seen.dead, row[0]), max(seen.size, row[1])
    seen.index_size, seen.vacuums = max(seen.index_size, row[2]), row[3]
