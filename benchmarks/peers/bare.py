"""Bare: loops over pgmq's own functions with psycopg: no fence, no retry budget, no heartbeat."""

from __future__ import annotations

import sys
import time
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.types.json import Jsonb

from benchmarks.peers.child import tell, wait_for_go

_VT = 60


def send_batch(
    connection: Connection[Any], queue: str, messages: list[dict[str, Any]], chunk: int = 1000
) -> list[int]:
    """`pgmq.send_batch` of a list of Jsonb, all in one transaction; the ids."""
    ids: list[int] = []
    with connection.transaction():
        for n in range(0, len(messages), chunk):
            rows = connection.execute(
                "select * from pgmq.send_batch(%s, %s)",
                (queue, [Jsonb(each) for each in messages[n : n + chunk]]),
            )
            ids += [row[0] for row in rows]
    return ids


def drain(url: str, queue: str, batch: int, count: int) -> None:
    """`pgmq.read(batch)`, a look at each message, `pgmq.archive(ids)`, until `count` are done."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select 1")
        wait_for_go()
        began, done = time.perf_counter(), 0
        while done < count:
            rows = connection.execute(
                "select msg_id, read_ct, message from pgmq.read(%s, %s, %s)", (queue, _VT, batch)
            ).fetchall()
            ids = [_handle(row) for row in rows]
            if ids:
                connection.execute("select pgmq.archive(%s, %s::bigint[])", (queue, ids)).fetchall()
                done += len(ids)
        tell(time.perf_counter() - began)


def _handle(row: tuple[Any, ...]) -> int:
    return row[0]


def pick_up(url: str, queue: str) -> None:
    """LISTEN; on each word read one message, note the time, archive it; says `msg_id seconds` of each."""
    with psycopg.connect(url, autocommit=True) as ear, psycopg.connect(url, autocommit=True) as hand:
        ear.execute("listen bench_bare")
        hand.execute("select 1")
        wait_for_go()
        print("going", flush=True)
        for _ in ear.notifies():
            rows = hand.execute("select msg_id, message from pgmq.read(%s, %s, 1)", (queue, _VT)).fetchall()
            now = time.monotonic()
            for row in rows:
                hand.execute("select pgmq.archive(%s, %s::bigint)", (queue, row[0]))
                print(row[0], repr(now), flush=True)


def main() -> None:
    what, url, queue, *rest = sys.argv[1:]
    if what == "drain":
        drain(url, queue, int(rest[0]), int(rest[1]))
    else:
        pick_up(url, queue)


if __name__ == "__main__":
    main()
