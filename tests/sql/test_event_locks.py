"""Receivers, workers and operators over the same events: none waits for long, deadlocks, or loses one."""

from __future__ import annotations

import json
import random
import time
from typing import Any

from tests.support.contract import Connection, Contract, done, reject, report, retry, settle, snooze
from tests.support.inbox import receive
from tests.support.layouts import newest_only

pytestmark = newest_only


def test_events_that_are_received_worked_redriven_and_replayed_all_at_once(sql: Contract) -> None:
    sql.create(max_attempts=2, backoff={"base": 0})
    sql.create("mails", max_attempts=2, backoff={"base": 0})
    until = time.monotonic() + 4

    def bring(session: Connection, rng: random.Random) -> int:
        """Every event comes several times, and now and then with another body or from a state."""
        turns = 0
        while time.monotonic() < until:
            n = rng.randrange(60)
            receive(
                session,
                {"n": n, "again": rng.random() < 0.05},
                event_id=str(n),
                queue=("jobs", "mails")[n % 2],
                derived=n % 3 == 0,
            )
            turns += 1
        return turns

    def work(session: Connection, rng: random.Random, place: int) -> int:
        held: dict[str, list[Any]] = {"jobs": [], "mails": []}
        turns = 0
        while time.monotonic() < until:
            session.execute("begin")
            for queue in sorted(held, reverse=place % 2 == 0):
                said = [
                    rng.choice((done(d), report(d, "ignored"), retry(d, delay=0), reject(d), snooze(d, 0)))
                    for d in held[queue]
                ]
                settle(session, *said, worker=f"w{place}", queue=queue)
                call = "select * from redrive.claim(%s, 60, 10, %s)"
                held[queue] = session.execute(call, (queue, f"w{place}")).fetchall()
            session.execute("commit")
            turns += 1
        return turns

    def operate(session: Connection, rng: random.Random) -> int:
        turns = 0
        while time.monotonic() < until:
            session.execute("select * from redrive.redrive(%s)", (rng.choice(("jobs", "mails")),))
            ids = [row.id for row in session.execute("select id from redrive.list_events(p_limit => 60)")]
            some = rng.sample(ids, min(len(ids), 20))
            rows = session.execute("select * from redrive.replay_events(%s)", (some,)).fetchall()
            assert len(rows) == len(some)
            turns += 1
        return turns

    def take_part(session: Connection, place: int) -> int:
        rng = random.Random(place)
        if place < 2:
            return bring(session, rng)
        return work(session, rng, place) if place < 5 else operate(session, rng)

    answers = sql.at_once(7, take_part)
    assert all(isinstance(answer, int) and answer > 3 for answer in answers), answers

    # Every event is where its newest message is.
    for queue in ("jobs", "mails"):
        wrong = sql(
            "select e.status, e.msg_id, m.msg_id is not null as live, a.outcome from redrive.webhook_event e "
            f"left join pgmq.q_{queue} m on m.msg_id = e.msg_id "
            f"left join pgmq.a_{queue} a on a.msg_id = e.msg_id "
            "where e.queue = %s and e.status is distinct from case when m.msg_id is not null then 'received' "
            "when a.outcome = 'done' then 'processed' when a.outcome = 'ignored' then 'ignored' "
            "when a.outcome = 'dead' then 'failed' end",
            queue,
        )
        assert wrong == []
        stray = sql(
            f"select m.msg_id from pgmq.q_{queue} m left join redrive.webhook_event e "
            "on e.id::text = m.headers ->> 'x-redrive-event' and e.msg_id = m.msg_id where e.id is null"
        )
        assert stray == [], "a message that no event names: an event was sent twice"
    assert sql.value("select count(*) from redrive.webhook_event") == 60


def test_a_batch_with_a_repeat_of_an_event_that_a_handler_completes_just_now_does_not_wait(
    sql: Contract,
) -> None:
    sql.create()
    first = receive(sql)
    handler = sql.connect()
    handler.execute("begin")
    assert settle(handler, done(sql.claim_one())) == ["ok"]
    sql("set lock_timeout = '100ms'")
    batch = [
        {"source": "stripe", "event_id": id, "type": "t", "queue": "jobs", "size": 0, "payload": {}}
        for id in ("evt_1", "evt_2")
    ]
    rows = sql(
        "select n, duplicate, id = %s as first from redrive.receive_events(%s::jsonb, '') order by n",
        first.id,
        json.dumps(batch),
    )
    assert rows == [(1, True, True), (2, False, False)]
