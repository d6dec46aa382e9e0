"""worker_beat: a worker lives and says what it holds, also while it claims nothing; it waits for nobody."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support.contract import Contract, done, settle
from tests.support.layouts import newest_only


def beat(
    sql: Contract, held: dict[str, Any], *running: int, worker: str = "w", most: int | None = None
) -> None:
    sql(
        "select redrive.worker_beat(%s, %s::text[], %s::integer[], %s::jsonb, %s)",
        worker,
        list(held),
        list(running) or [len(ids) for ids in held.values()],
        json.dumps(held),
        most,
    )


def row(sql: Contract, queue: str = "jobs", worker: str = "w") -> Any:
    [found] = sql("select * from redrive.worker where queue = %s and worker = %s", queue, worker)
    return found


def test_a_worker_that_claims_nothing_is_seen(sql: Contract) -> None:
    sql.create()
    sql.create("mail")
    sql.clock.stop()
    sql.send({})
    held = sql.claim_one()
    now = sql.clock.move(300)
    beat(sql, {"jobs": [held.msg_id], "mail": []}, most=4)
    jobs, mail = row(sql), row(sql, "mail")
    assert (jobs.last_seen, jobs.running, jobs.concurrency, jobs.held, jobs.claimed) == (
        now,
        1,
        4,
        [held.msg_id],
        1,
    )
    assert (mail.last_seen, mail.running, mail.held, mail.held_at) == (now, 0, [], now)
    later = sql.clock.move(10)
    beat(sql, {"jobs": []})
    assert (row(sql).running, row(sql).held, row(sql).last_seen) == (0, [], later)


@newest_only
def test_no_row_comes_to_be_for_a_queue_that_is_gone(sql: Contract) -> None:
    sql.create()
    beat(sql, {"gone": [1], "jobs": []})
    assert [each.queue for each in sql("select queue from redrive.worker")] == ["jobs"]


@newest_only
def test_a_thousand_ids_are_kept_and_what_is_none_is_left_out(sql: Contract) -> None:
    sql.create()
    beat(sql, {"jobs": list(range(1, 1501))})
    assert (row(sql).running, len(row(sql).held)) == (1500, 1000)
    beat(sql, {"jobs": [7, "x", None, 1.5, 8]})
    assert row(sql).held == [7, 8]


@newest_only
def test_it_waits_for_no_handlers_transaction(sql: Contract) -> None:
    sql.create()
    sql.send({})
    delivery = sql.claim_one()
    handler = sql.connect()
    handler.execute("begin")
    assert settle(handler, done(delivery)) == ["ok"]
    sql.clock.stop()
    sql("set lock_timeout = '100ms'")
    now = sql.clock.move(30)
    beat(sql, {"jobs": [delivery.msg_id]})
    rows = sql("select * from redrive.worker where queue = 'jobs' and worker like 'w#%%'")
    assert [(each.last_seen, each.running, each.held) for each in rows] == [(now, 0, None)]
    handler.execute("commit")
    sql("select redrive.worker_stop('w')")
    assert sql("select worker, claimed, done, running from redrive.worker") == [("", 1, 1, 0)]


@newest_only
@pytest.mark.parametrize(
    "call",
    [
        "select redrive.worker_beat(null, '{jobs}', '{0}', '{}')",
        "select redrive.worker_beat('', '{jobs}', '{0}', '{}')",
        "select redrive.worker_beat('w', '{jobs}', '{0,1}', '{}')",
        "select redrive.worker_beat('w', '{jobs}', '{0}', '[]')",
    ],
)
def test_what_makes_no_sense_is_refused(sql: Contract, call: str) -> None:
    with pytest.raises(psycopg.Error, match="worker_beat takes") as caught:
        sql(call)
    assert caught.value.sqlstate == "22023"
