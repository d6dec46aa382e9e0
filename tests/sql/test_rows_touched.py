"""Work grows with what is asked for, not with what is parked: counted in rows, since time would lie."""

from __future__ import annotations

from collections.abc import Callable, Generator

import pytest

from tests.support import contract
from tests.support.contract import Contract, Rows, done, retry
from tests.support.databases import Databases
from tests.support.layouts import NEWEST, newest_only

PARKED = 200_000


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def crowded(request: pytest.FixtureRequest, databases: Databases) -> Generator[Contract]:
    """A queue with 200,000 messages that are due in an hour, and then 100 that are due now."""
    url = databases.migrated(NEWEST)
    contract.prepare(url)
    sql = Contract(url)
    sql.create()
    sql("alter table pgmq.q_jobs set (autovacuum_enabled = false)")
    sql(
        "insert into pgmq.q_jobs (vt, message) "
        "select redrive.clock() + interval '1 hour' + n * interval '1 ms', jsonb_build_object('n', n) "
        "from generate_series(1, %s) n",
        PARKED,
    )
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 100))))")
    if request.param == "analyzed":
        sql("analyze pgmq.q_jobs")
    yield sql
    sql.close()
    databases.drop(url)


@pytest.fixture
def parked(crowded: Contract) -> Generator[Contract]:
    """Its test's changes are rolled back."""
    crowded("begin")
    yield crowded
    crowded("rollback")


def touched(sql: Contract, work: Callable[[], object], table: str = "pgmq.q_jobs") -> int:
    """How many rows of `table` were read by `work`, which is rolled back."""
    reads = (
        "select coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) "
        "from pg_stat_xact_all_tables where relid = %s::regclass"
    )
    sql("savepoint before")
    before = sql.value(reads, table)
    work()
    after = sql.value(reads, table)
    sql("rollback to before")
    return after - before


def batch(sql: Contract, count: int) -> Rows:
    rows = sql.claim(count, vt=600)
    assert len(rows) == count
    return rows


@pytest.mark.parametrize("qty", [1, 10, 100])
def test_a_claim_reads_what_it_hands_out(parked: Contract, qty: int) -> None:
    assert qty <= touched(parked, lambda: batch(parked, qty)) <= 10 * qty + 10


def test_a_claim_that_finds_nothing_reads_nothing(parked: Contract) -> None:
    parked("delete from pgmq.q_jobs where vt <= redrive.clock()")
    assert touched(parked, parked.claim) <= 210, "the rows just deleted are not cleaned up yet"


def test_a_claim_of_retries_reads_what_it_hands_out(parked: Contract) -> None:
    parked.settle(*(retry(d, delay=0) for d in batch(parked, 100)))
    assert touched(parked, lambda: batch(parked, 50)) <= 800


def test_a_read_with_dlq_reads_what_it_hands_out(parked: Contract) -> None:
    assert touched(parked, lambda: parked.read(qty=10)) <= 100


def test_settling_extending_and_releasing_read_what_they_are_asked_for(parked: Contract) -> None:
    held = batch(parked, 100)
    assert touched(parked, lambda: parked.settle(*(done(d) for d in held))) <= 1000
    assert touched(parked, lambda: parked.settle(*(retry(d) for d in held))) <= 1500
    assert touched(parked, lambda: parked.extend(*held)) <= 1000
    assert touched(parked, lambda: parked.release(*held)) <= 1000
    assert touched(parked, lambda: parked.cancel(*(range(1, 51)))) <= 1000


def test_next_due_reads_one_row(parked: Contract) -> None:
    assert touched(parked, lambda: parked.value("select redrive.next_due('jobs')")) <= 5


def test_metrics_count_no_further_than_they_say(parked: Contract) -> None:
    assert touched(parked, parked.metrics) <= 25_000


def test_a_send_reads_nothing_of_the_queue(parked: Contract) -> None:
    assert touched(parked, lambda: parked.send({"n": 1})) == 0
    assert touched(parked, lambda: parked.send({"idempotency_key": "k"}, unique=True)) <= 5


@newest_only
def test_keyed_messages_read_their_own_keys_and_no_others(sql: Contract) -> None:
    sql.create()
    sql(
        "insert into redrive.key (queue, key, state, owner_msg, done_at, expires_at) "
        "select 'jobs', 'old ' || n, 'done', n, now(), now() + interval '30 days' "
        "from generate_series(1, 50000) n"
    )
    sql(
        "select count(*) from redrive.send_batch('jobs', "
        "(select jsonb_agg(jsonb_build_object('idempotency_key', n)) from generate_series(1, 100) n))"
    )
    # Before Postgres 17 an index keeps its order only where `= any` is no index condition: without statistics
    # the planner takes that for cheap, and reads a key table whole until autovacuum's first analyze. So it
    # does on any version with the statistics of a test before this one.
    sql("analyze redrive.key")
    sql("begin")
    assert touched(sql, lambda: batch(sql, 100), "redrive.key") <= 1000
    held = batch(sql, 100)
    assert touched(sql, lambda: sql.settle(*(done(d) for d in held)), "redrive.key") <= 1500
    assert touched(sql, lambda: sql.settle(*(retry(d) for d in held)), "redrive.key") <= 1500
    assert touched(sql, lambda: sql.extend(*held), "redrive.key") <= 1500
