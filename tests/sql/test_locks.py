"""Locks: many sessions over the same messages neither deadlock nor wait for a handler's own transaction."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from typing import Any

import psycopg
import pytest

from tests.support.contract import (
    Connection,
    Contract,
    Report,
    done,
    extend,
    reject,
    report,
    retry,
    settle,
    snooze,
)
from tests.support.layouts import newest_only

pytestmark = newest_only


def test_settles_and_heartbeats_of_400_messages_in_random_order_from_four_sessions(sql: Contract) -> None:
    """One report of each message counts; until then every heartbeat owns it, afterwards none does."""
    sql.create(max_attempts=3)
    sql(
        "select count(*) from redrive.send_batch('jobs', (select jsonb_agg(case when n % 2 = 0 "
        "then jsonb_build_object('idempotency_key', n) else to_jsonb(n) end) from generate_series(1, 400) n))"
    )
    held = sql.claim(400, vt=600)
    assert len(held) == 400
    settled: dict[int, str] = {}
    busy: Counter[int] = Counter()
    guard = threading.Lock()
    until = time.monotonic() + 3

    def work(session: Connection, place: int) -> list[str]:
        rng = random.Random(place)
        wrong: list[str] = []
        while time.monotonic() < until:
            some = rng.sample(held, rng.randint(1, 60))
            if rng.random() < 0.7:
                with guard:
                    before = set(settled)
                owned = set(extend(session, *some, vt=600))
                with guard:
                    after = set(settled) | {n for n, calls in busy.items() if calls}
                wrong += [f"{d.msg_id} lost" for d in some if d.msg_id not in owned | after]
                wrong += [f"{d.msg_id} still owned" for d in some if d.msg_id in owned & before]
                continue
            outcomes = ["done", "done", "retry", "snooze", "reject"]
            said = [report(d, rng.choice(outcomes), delay=3600, error="x") for d in some[:5]]
            with guard:
                busy.update(each.msg_id for each in said)
            verdicts = settle(session, *said, worker=f"w{place % 2}")
            with guard:
                busy.subtract(each.msg_id for each in said)
                for each, verdict in zip(said, verdicts, strict=True):
                    if verdict in ("ok", "dead"):
                        if each.msg_id in settled:
                            wrong.append(f"{each.msg_id} settled twice")
                        settled[each.msg_id] = each.outcome
                    elif verdict not in ("locked", "repeat", "lost"):
                        wrong.append(f"{each.msg_id} {verdict}")
        return wrong

    answers = sql.at_once(4, work)
    assert answers == [[], [], [], []]

    left = [d for d in held if d.msg_id not in settled]
    assert sql.settle(*(done(d) for d in left)) == ["ok"] * len(left)
    by = {o: sorted(n for n, s in settled.items() if s == o) for o in ("retry", "snooze", "reject")}
    waiting = sql.waiting()
    assert waiting == sorted(by["retry"] + by["snooze"])
    assert [
        letter.original_msg_id for letter in sorted(sql.letters(), key=lambda r: r.original_msg_id)
    ] == by["reject"]
    assert sql("select count(*), count(distinct msg_id) as ids from pgmq.a_jobs") == [
        (400 - len(waiting),) * 2
    ]
    assert sql("select count(*) from redrive.key where state = 'running'") == [(0,)]


def test_workers_in_whole_turns_over_two_queues_and_shared_keys_never_deadlock(sql: Contract) -> None:
    """A turn is one transaction: settles and claims of every queue, in whatever order."""
    queues = ("jobs", "mails")
    for queue in queues:
        sql.create(queue, max_attempts=50, backoff={"base": 0})
        sql(
            "select count(*) from redrive.send_batch(%s, (select jsonb_agg(jsonb_build_object("
            "'idempotency_key', n %% 40)) from generate_series(1, 400) n))",
            queue,
        )
    until = time.monotonic() + 3

    def send(session: Connection) -> int:
        sent = 0
        while time.monotonic() < until:
            for queue in queues:
                call = "select redrive.send(%s, jsonb_build_object('idempotency_key', %s), p_unique => %s)"
                session.execute(call, (queue, sent % 40, sent % 3 == 0))
            sent += 1
        return sent

    def work(session: Connection, place: int) -> int:
        if place == 4:
            return send(session)
        rng = random.Random(place)
        held: dict[str, list[Any]] = {queue: [] for queue in queues}
        turns = 0
        while time.monotonic() < until:
            session.execute("begin")
            for queue in queues if place % 2 else reversed(queues):
                said = [rng.choice((done(d), retry(d, delay=0), snooze(d, 0))) for d in held[queue]]
                rng.shuffle(said)
                settle(session, *said, worker=f"w{place}", queue=queue)
                call = "select * from redrive.claim(%s, 60, 20, %s)"
                held[queue] = session.execute(call, (queue, f"w{place}")).fetchall()
            session.execute("commit")
            turns += 1
        return turns

    answers = sql.at_once(5, work)
    assert all(isinstance(answer, int) and answer > 3 for answer in answers), answers


def test_a_handlers_long_transaction_on_its_own_row_delays_nobodys_calls(sql: Contract) -> None:
    sql.create()
    for n in range(20):
        sql.send({"idempotency_key": str(n)} if n % 2 else {"n": n})
    held = sorted(sql.claim(10, worker="w"))
    handler = sql.connect()
    handler.execute("begin")
    assert settle(handler, done(held[1]), worker="w") == ["ok"]
    assert settle(handler, retry(held[2]), reject(held[3]), worker="w") == ["ok", "dead"]

    sql("set lock_timeout = '200ms'")
    assert sql.extend(*held) == [d.msg_id for d in held]
    assert sql.settle(done(held[0]), done(held[1])) == ["ok", "locked"]
    assert sql.release(*held[1:5]) == [held[4].msg_id]
    assert len(sql.claim(20)) == 11
    assert sql.cancel(held[1].msg_id) == []
    assert sql.read() == []
    assert sql.metrics().problem is None
    sql.send({"n": 1})
    handler.execute("rollback")
    assert sql.settle(done(held[1])) == ["ok"]


def test_a_sender_of_a_running_key_waits_for_the_handlers_transaction_at_most(sql: Contract) -> None:
    sql.create()
    sql.send({"idempotency_key": "k"})
    delivery = sql.claim_one()
    handler = sql.connect()
    handler.execute("begin")
    assert settle(handler, done(delivery)) == ["ok"]
    sql("set lock_timeout = '100ms'")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        sql.send({"idempotency_key": "k"}, unique=True)
    sql.send({"idempotency_key": "another"}, unique=True)
    handler.execute("commit")
    assert sql.send({"idempotency_key": "k"}, unique=True) == delivery.msg_id


def test_a_report_for_a_message_of_many_locked_ones_is_still_answered(sql: Contract) -> None:
    sql.create()
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 100))))")
    held = sql.claim(100)
    handler = sql.connect()
    handler.execute("begin")
    handler.execute("select from pgmq.q_jobs where msg_id % 2 = 0 for update")
    sql("set lock_timeout = '200ms'")
    verdicts = sql.settle(*(Report(d.msg_id, d.read_ct, "done") for d in held))
    assert [v for d, v in zip(held, verdicts, strict=True) if d.msg_id % 2] == ["ok"] * 50
    assert [v for d, v in zip(held, verdicts, strict=True) if not d.msg_id % 2] == ["locked"] * 50
