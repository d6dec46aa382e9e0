"""The SQL contract as the tests of the SQL ring speak it: short calls, rows as they stand, time that moves.

One database and session a layout and process, emptied after each test: a database of its own would cost one
ten times what it does, a session twice.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import psycopg
from psycopg.pq import ExecStatus
from psycopg.rows import namedtuple_row

Connection = psycopg.Connection[Any]
Rows = list[Any]

# The clock of a test database: null is the real time, anything else stands still until it is moved.
_CLOCK = """
create table public.test_clock (at timestamptz);
insert into public.test_clock values (null);
create or replace function redrive.clock() returns timestamptz language sql volatile parallel safe
as $$ select coalesce((select at from public.test_clock), pg_catalog.clock_timestamp()) $$;
"""

_EMPTY = """
do $$
declare
    v_name text;
begin
    for v_name in select distinct lower(m.queue_name) from pgmq.meta m loop
        execute format('drop table if exists pgmq.%I, pgmq.%I', 'q_' || v_name, 'a_' || v_name);
    end loop;
    delete from pgmq.meta;
    delete from redrive.queue;
    delete from redrive.attempt;
    delete from redrive.key;
    delete from redrive.sent_key;
    delete from redrive.lease;
    delete from redrive.worker;
    delete from redrive.redriven;
    delete from redrive.webhook_event;
    delete from redrive.webhook_refused;
    delete from redrive.webhook_count;
    delete from redrive.fetched;
    delete from redrive.rule;
    delete from redrive.alert;
    delete from redrive.silence;
    delete from redrive.alert_sink;
    delete from redrive.alert_delivery;
    delete from redrive.sample;
    delete from redrive.refused_sample;
    update redrive.watch set checked_at = null, duration = null, by = null, problems = '[]';
    delete from redrive.schedule;
    delete from redrive.schedule_tick;
    delete from redrive.retention_rule;
    delete from redrive.retention_place;
    delete from redrive.http_call;
    update public.test_clock set at = null;
end $$;
"""


class Delivery(Protocol):
    """A row of `claim` or `read_with_dlq`."""

    @property
    def msg_id(self) -> int: ...
    @property
    def read_ct(self) -> int: ...


@dataclass(frozen=True)
class Report:
    """What a worker says of one delivery."""

    msg_id: int
    read_ct: int
    outcome: str
    delay: float | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None
    duration: float | None = None


def report(delivery: Delivery, outcome: str, **more: Any) -> Report:
    return Report(delivery.msg_id, delivery.read_ct, outcome, **more)


def done(delivery: Delivery, **more: Any) -> Report:
    return report(delivery, "done", **more)


def retry(delivery: Delivery, **more: Any) -> Report:
    return report(delivery, "retry", **more)


def snooze(delivery: Delivery, seconds: float) -> Report:
    return report(delivery, "snooze", delay=seconds)


def reject(delivery: Delivery, **more: Any) -> Report:
    return report(delivery, "reject", **more)


class Clock:
    """The time redrive sees. It runs until `stop()`, `move()` or `set()`; from then on it stands."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def now(self) -> datetime:
        return self._contract.value("select redrive.clock()")

    def set(self, at: datetime) -> datetime:
        self._contract("update public.test_clock set at = %s", at)
        return at

    def stop(self) -> datetime:
        return self.set(self.now())

    def move(self, seconds: float) -> datetime:
        return self.set(self.now() + timedelta(seconds=seconds))

    def run(self) -> None:
        """The real time again."""
        self._contract("update public.test_clock set at = null")


class Contract:
    """One connection in autocommit, and the verbs of schema redrive on it. The queue is `jobs` by default."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.connection: Connection = connect(url)
        self.clock = Clock(self)
        self._others: list[Connection] = []

    def close(self) -> None:
        self._close_others()
        self.connection.close()

    def reset(self) -> None:
        """As after `prepare`: no queue, no key, no lease, the real time; the session as a new one."""
        self._close_others()
        self.connection.rollback()
        self.connection.execute("discard all")
        self.connection.execute(_EMPTY.encode())

    def _close_others(self) -> None:
        while self._others:
            self._others.pop().close()

    def connect(self) -> Connection:
        """One more session; closed, and rolled back, at the end of the test."""
        self._others.append(connect(self.url))
        return self._others[-1]

    def __call__(self, query: str, *params: object) -> Rows:
        cursor = self.connection.execute(query.encode(), params or None)
        # By its status: a `select from` has no columns to describe, and still has rows.
        return cursor.fetchall() if cursor.pgresult and cursor.pgresult.status == ExecStatus.TUPLES_OK else []

    def value(self, query: str, *params: object) -> Any:
        [row] = self(query, *params)
        return row[0]

    def column(self, query: str, *params: object) -> list[Any]:
        return [row[0] for row in self(query, *params)]

    def create(self, queue: str = "jobs", **policy: object) -> None:
        self("select redrive.create_queue(%s, %s)", queue, json.dumps(policy))

    def send(
        self, message: object = None, *, queue: str = "jobs", key: str | None = None, **more: Any
    ) -> int:
        """`more`: delay, headers, unique, at."""
        casts = {"delay": "::numeric", "headers": "::jsonb"}
        named = "".join(f", p_{name} => %s{casts.get(name, '')}" for name in more)
        values = [json.dumps(v) if isinstance(v, dict) else v for v in more.values()]
        return self.value(
            f"select redrive.send(p_queue => %s, p_message => %s, p_key => %s{named})",
            queue,
            json.dumps(message),
            key,
            *values,
        )

    def claim(self, qty: int = 10, *, vt: float = 60, worker: str | None = "w", queue: str = "jobs") -> Rows:
        return self("select * from redrive.claim(%s, %s::numeric, %s, %s)", queue, vt, qty, worker)

    def claim_one(self, *, vt: float = 60, worker: str | None = "w", queue: str = "jobs") -> Any:
        [delivery] = self.claim(1, vt=vt, worker=worker, queue=queue)
        return delivery

    def settle(self, *reports: Report, worker: str | None = "w", queue: str = "jobs") -> list[str]:
        """The verdicts, in the order of the reports."""
        return settle(self.connection, *reports, worker=worker, queue=queue)

    def extend(self, *deliveries: Delivery, vt: float = 60, queue: str = "jobs") -> list[int]:
        return extend(self.connection, *deliveries, vt=vt, queue=queue)

    def release(
        self, *deliveries: Delivery, due: Sequence[datetime | None] | None = None, queue: str = "jobs"
    ) -> list[int]:
        return sorted(
            self.column(
                "select redrive.release(%s, %s::bigint[], %s::integer[], %s::timestamptz[])",
                queue,
                [d.msg_id for d in deliveries],
                [d.read_ct for d in deliveries],
                due if due is None else list(due),
            )
        )

    def read(self, *, vt: int = 60, qty: int = 5, most: int = 5, queue: str = "jobs") -> Rows:
        return self("select * from redrive.read_with_dlq(%s, %s, %s, %s)", queue, vt, qty, most)

    def cancel(self, *ids: int, queue: str = "jobs") -> list[int]:
        return sorted(self.column("select redrive.cancel(%s, %s::bigint[])", queue, list(ids)))

    def live(self, msg_id: int, *, queue: str = "jobs") -> Any:
        return _only(self(f"select * from pgmq.q_{queue} where msg_id = %s", msg_id))

    def archived(self, msg_id: int, *, queue: str = "jobs") -> Any:
        return _only(self(f"select * from pgmq.a_{queue} where msg_id = %s", msg_id))

    def waiting(self, *, queue: str = "jobs") -> list[int]:
        """The ids in the queue's table, whatever their state."""
        return self.column(f"select msg_id from pgmq.q_{queue} order by msg_id")

    def letters(self, *, queue: str = "jobs") -> Rows:
        return self("select * from redrive.dead_letters(%s)", queue)

    def redrive(self, *ids: int, queue: str = "jobs", **more: Any) -> Rows:
        """`more`: limit, patch, force. Without ids: the oldest."""
        named = "".join(f", p_{name} => %s" for name in more)
        values = [json.dumps(v) if isinstance(v, dict) else v for v in more.values()]
        return self(
            f"select * from redrive.redrive(p_queue => %s, p_msg_ids => %s::bigint[]{named})",
            queue,
            list(ids) or None,
            *values,
        )

    def attempts(self, msg_id: int, *, queue: str = "jobs") -> Rows:
        return self(
            "select * from redrive.attempt where queue = %s and msg_id = %s order by read_ct", queue, msg_id
        )

    def metrics(self, queue: str = "jobs") -> Any:
        return _only(self("select * from redrive.metrics(%s)", queue))

    def key(self, key: str, *, queue: str = "jobs") -> Any:
        return _only(self("select * from redrive.key where queue = %s and key = %s", queue, key))

    def kill(self, msg_id: int) -> None:
        """Reject the next due message of `jobs`, which is `msg_id`."""
        delivery = self.claim_one()
        assert delivery.msg_id == msg_id
        assert self.settle(reject(delivery, error="killed")) == ["dead"]

    def at_once(self, count: int, work: Callable[[Connection, int], Any]) -> list[Any]:
        """`work` on `count` sessions at the same time; what each answered, or the error it raised."""
        sessions = [connect(self.url) for _ in range(count)]
        start = threading.Barrier(count)
        answers: list[Any] = [None] * count

        def run(place: int) -> None:
            start.wait(30)
            try:
                answers[place] = work(sessions[place], place)
            except psycopg.Error as error:
                answers[place] = error

        threads = [threading.Thread(target=run, args=(place,), daemon=True) for place in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a session hangs"
        for session in sessions:
            session.close()
        return answers


def connect(url: str) -> Connection:
    return psycopg.connect(url, autocommit=True, row_factory=namedtuple_row, prepare_threshold=None)


def settle(session: Connection, *reports: Report, worker: str | None = "w", queue: str = "jobs") -> list[str]:
    """The verdicts, in the order of the reports; all null optional arrays are left out."""
    fields = ("delay", "error_type", "error", "traceback", "duration")
    types = {"delay": "numeric", "duration": "numeric"}
    given = [name for name in fields if any(getattr(r, name) is not None for r in reports)]
    named = "".join(f", p_{name}s => %s::{types.get(name, 'text')}[]" for name in given)
    answers = session.execute(
        "select msg_id, read_ct, verdict from redrive.settle(p_queue => %s, p_msg_ids => %s::bigint[], "
        f"p_read_cts => %s::integer[], p_outcomes => %s::text[]{named}, p_worker => %s)".encode(),
        (
            queue,
            [r.msg_id for r in reports],
            [r.read_ct for r in reports],
            [r.outcome for r in reports],
            *([getattr(r, name) for r in reports] for name in given),
            worker,
        ),
    ).fetchall()
    assert len(answers) == len(reports), "one verdict a report"
    verdicts = {(a.msg_id, a.read_ct): a.verdict for a in answers}
    return [verdicts[r.msg_id, r.read_ct] for r in reports]


def extend(session: Connection, *deliveries: Delivery, vt: float = 60, queue: str = "jobs") -> list[int]:
    return sorted(
        row[0]
        for row in session.execute(
            "select redrive.extend(%s, %s::bigint[], %s::integer[], %s::numeric)",
            (queue, [d.msg_id for d in deliveries], [d.read_ct for d in deliveries], vt),
        )
    )


def prepare(url: str) -> None:
    """Make a migrated database one whose time can be moved."""
    with connect(url) as session:
        session.execute(_CLOCK.encode())


def ids(rows: Iterable[Any]) -> list[int]:
    """In their own order: a batch holds the messages longest due, but promises no order among them."""
    return sorted(row.msg_id for row in rows)


def seconds(later: datetime, earlier: datetime) -> float:
    return (later - earlier).total_seconds()


def _only(rows: Rows) -> Any:
    assert len(rows) <= 1
    return rows[0] if rows else None
