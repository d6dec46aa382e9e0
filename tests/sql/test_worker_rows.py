"""What redrive knows of worker processes: their counters, who waits to be woken, and what stays of them."""

from __future__ import annotations

import psycopg

from tests.support.contract import Contract, done, reject, report, retry, settle, snooze
from tests.support.layouts import newest_only

pytestmark = newest_only


def counters(sql: Contract, worker: str = "w") -> tuple[int, ...]:
    """claimed, done, failed, dead, given back: the sums of a worker's rows."""
    [row] = sql(
        "select sum(claimed)::int as a, sum(done)::int as b, sum(failed)::int as c, sum(dead)::int as d, "
        "sum(given_back)::int as e from redrive.worker where worker = %s or worker like %s || '#%%'",
        worker,
        worker,
    )
    return tuple(row)


def woken(session: psycopg.Connection) -> bool:
    return any(n.payload == "jobs" for n in session.notifies(timeout=0.2, stop_after=1))


def test_what_a_worker_did_is_counted(sql: Contract) -> None:
    sql.create()
    for n in range(6):
        sql.send({"n": n} if n else {"idempotency_key": "k"})
    a, b, c, d, e, f = sorted(sql.claim())
    sql.settle(done(a), done(b), retry(c), snooze(d, 5), reject(e), report(f, "crashed"))
    assert counters(sql) == (6, 2, 3, 1, 1)


def test_what_is_refused_is_not_counted(sql: Contract) -> None:
    sql.create()
    sql.send({})
    sql.send({})
    a, b = sorted(sql.claim())
    sql.settle(done(a))
    sql.settle(done(a), worker="w")
    sql.clock.move(61)
    sql.claim()
    sql.settle(retry(b))
    assert counters(sql) == (3, 1, 0, 0, 0)


def test_a_worker_without_a_name_leaves_no_trace(sql: Contract) -> None:
    sql.create()
    sql.send({})
    [delivery] = sql.claim(worker=None)
    assert sql.settle(done(delivery), worker=None) == ["ok"]
    assert sql("select from redrive.worker") == []


def test_only_a_worker_that_found_nothing_is_woken_by_a_send(sql: Contract) -> None:
    sql.create()
    listener = sql.connect()
    listener.execute("listen redrive")
    sql.send({})
    assert not woken(listener), "nobody has ever asked"
    sql.claim()
    sql.send({})
    assert not woken(listener), "it has work in hand"
    sql.claim()
    assert sql.claim() == []
    sql.send({})
    assert woken(listener)
    sql("select redrive.send_batch('jobs', '[1, 2]')")
    assert woken(listener)
    sql.send({"idempotency_key": "k"}, unique=True)
    assert woken(listener)


def test_a_queue_without_notify_wakes_nobody(sql: Contract) -> None:
    sql.create(notify=False)
    listener = sql.connect()
    listener.execute("listen redrive")
    assert sql.claim() == []
    sql.send({})
    sql("select redrive.send_batch('jobs', '[1, 2]')")
    assert not woken(listener)


def test_waiting_ends_by_itself_when_a_worker_asks_no_more(sql: Contract) -> None:
    sql.create()
    listener = sql.connect()
    listener.execute("listen redrive")
    assert sql.claim() == []
    sql.clock.move(29)
    sql.send({}, delay=1000)
    assert woken(listener)
    sql.clock.move(2)
    sql.send({})
    assert not woken(listener)


def test_a_worker_that_stopped_waits_no_more_and_its_sums_stay(sql: Contract) -> None:
    sql.create()
    sql.create("other")
    for worker in ("a", "b"):
        sql.send({})
        sql.settle(done(sql.claim_one(worker=worker)), worker=worker)
    assert sql.claim(worker="a") == []
    assert sql.claim(worker="a", queue="other") == []

    for worker in ("a", "b", "a", "nobody", ""):
        sql("select redrive.worker_stop(%s)", worker)
    assert sql("select queue, worker, claimed, done from redrive.worker order by 1") == [
        ("jobs", "", 2, 2),
        ("other", "", 0, 0),
    ]
    listener = sql.connect()
    listener.execute("listen redrive")
    sql.send({})
    assert not woken(listener)


def test_a_visitor_counts_as_a_worker_between_its_visits_and_its_sums_are_its_own(sql: Contract) -> None:
    sql.create()

    def visit() -> None:
        sql.send({})
        sql.settle(done(sql.claim_one(worker="a")), worker="a")
        sql("select redrive.worker_stop('a', p_visitor => 'tick')")

    def live() -> int | None:
        return sql("select workers from redrive.metrics('jobs')")[0][0]

    visit()
    sql.clock.move(300)
    assert live() == 0
    visit()
    sql.clock.move(700)
    assert live() == 1
    sql.clock.move(100)
    assert live() == 0
    assert sql("select worker, claimed, done, round(every_sec) from redrive.worker") == [("tick", 2, 2, 300)]
    # After half a day it is a new beginning.
    sql.clock.move(50_000)
    visit()
    assert sql("select every_sec from redrive.worker") == [(None,)]


def test_a_handlers_open_transaction_holds_up_none_of_its_workers_calls(sql: Contract) -> None:
    sql.create()
    for n in range(5):
        sql.send({"n": n})
    a, b, c = sorted(sql.claim(3))
    handler = sql.connect()
    handler.execute("begin")
    assert settle(handler, done(a)) == ["ok"]

    sql("set lock_timeout = '100ms'")
    assert sql.settle(done(b)) == ["ok"]
    assert len(sql.claim(1)) == 1
    assert len(sql.claim(5)) == 1
    assert sql.claim() == []
    assert sql.settle(retry(c)) == ["ok"]
    assert sql.extend(a) == [a.msg_id]
    assert sql.metrics().problem is None
    handler.execute("commit")
    assert counters(sql) == (5, 2, 1, 0, 0)
    sql("select redrive.worker_stop('w')")
    assert sql("select claimed, done, failed from redrive.worker") == [(5, 2, 1)]


def test_the_worker_whose_row_is_held_is_still_woken(sql: Contract) -> None:
    """Its own handler's transaction holds its row: a send must find it waiting all the same."""
    sql.create()
    sql.send({})
    held = sql.claim_one()
    handler = sql.connect()
    handler.execute("begin")
    assert settle(handler, done(held)) == ["ok"]
    assert sql.claim() == []
    listener = sql.connect()
    listener.execute("listen redrive")
    sql.send({})
    assert woken(listener)
