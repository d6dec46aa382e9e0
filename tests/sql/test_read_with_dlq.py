"""read_with_dlq and queue_archive: what the article's workers call, without its recipe's faults."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.support.contract import Connection, Contract, done, ids, retry
from tests.support.layouts import newest_only, with_headers


def archive(sql: Contract, msg_id: int, read_ct: int | None = None, *, queue: str = "jobs") -> bool:
    return sql.value("select redrive.queue_archive(%s, %s, %s::integer)", queue, msg_id, read_ct)


def test_a_read_hands_out_what_is_due_with_the_articles_columns_first(sql: Contract) -> None:
    sql.create()
    sent = sql.send({"n": 1})
    enqueued_at = sql.live(sent).enqueued_at
    now = sql.clock.stop()
    [row] = sql.read(vt=30)
    assert row._fields[:6] == ("msg_id", "read_ct", "enqueued_at", "vt", "message", "headers")
    assert row == (sent, 1, enqueued_at, now + timedelta(seconds=30), {"n": 1}, None, 1, None)
    assert sql.read() == []
    sql.clock.move(31)
    assert [(r.read_ct, r.attempt) for r in sql.read()] == [(2, 2)]


def test_the_defaults_are_the_articles(sql: Contract) -> None:
    sql.create()
    for n in range(7):
        sql.send({"n": n})
    now = sql.clock.stop()
    rows = sql("select * from redrive.read_with_dlq('jobs')")
    assert len(rows) == 5
    assert {r.vt for r in rows} == {now + timedelta(seconds=60)}


def test_five_reads_hand_it_out_and_the_sixth_dead_letters_it(sql: Contract) -> None:
    sql.create()
    sql.send({"poison": True})
    for attempt in range(1, 6):
        [row] = sql.read(vt=1)
        assert (row.read_ct, row.attempt) == (attempt, attempt)
        sql.clock.move(1)
    assert sql.read(vt=1) == []
    [letter] = sql.letters()
    assert (letter.original_msg_id, letter.read_ct, letter.attempts, letter.reason) == (1, 5, 5, "failed")
    assert letter.payload == {"poison": True}
    assert sql.waiting() == []
    assert sql.archived(1).outcome == "dead"
    assert sql.read(vt=1) == []
    assert len(sql.letters()) == 1


def test_a_timeout_of_zero_may_be_used_and_counts_as_well(sql: Contract) -> None:
    sql.create()
    sql.send({"poison": True})
    assert [len(sql.read(vt=0)) for _ in range(7)] == [1, 1, 1, 1, 1, 0, 0]
    assert len(sql.letters()) == 1


def test_five_poison_and_three_healthy_in_a_batch_of_five_bring_three(sql: Contract) -> None:
    sql.create()
    for n in range(5):
        sql.send({"poison": n})
    for _ in range(5):
        assert len(sql.read(vt=1)) == 5
        sql.clock.move(1)
    for n in range(3):
        sql.send({"healthy": n})
    assert ids(sql.read(qty=5)) == [6, 7, 8]
    assert [letter.original_msg_id for letter in sql.letters()] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("vt", [0, 60])
def test_a_call_returns_each_message_once_and_a_full_batch_whatever_poison_is_between(
    sql: Contract, vt: int
) -> None:
    sql.create()
    for n in range(40):
        sql.send({"poison" if n % 3 == 0 else "healthy": n})
        sql.clock.move(0.001)
    sql("update pgmq.q_jobs set read_ct = 5 where message ? 'poison'")
    rows = sql.read(vt=vt, qty=20)
    assert len(rows) == len({r.msg_id for r in rows}) == 20
    assert all("healthy" in r.message for r in rows)


def test_with_a_timeout_of_zero_poison_makes_no_call_return_a_message_twice(sql: Contract) -> None:
    sql.create()
    for n in range(3):
        sql.send({"n": n})
    sql("update pgmq.q_jobs set read_ct = 5 where msg_id = 1")
    assert [r.msg_id for r in sql.read(vt=0, qty=5)] == [2, 3]
    assert [sql.live(n).read_ct for n in (2, 3)] == [1, 1]


def test_at_most_a_thousand_and_a_batch_are_diverted_a_call(sql: Contract) -> None:
    sql.create()
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 2500))))")
    sql("update pgmq.q_jobs set read_ct = 5")
    dead: list[int] = []
    for _ in range(4):
        assert sql.read(qty=5) == []
        dead.append(sql.value("select count(*) from pgmq.q_jobs_dlq"))
    assert dead[0] <= 1005
    assert dead == sorted(dead)
    assert dead[-1] == 2500


def test_a_missing_dead_letter_queue_blocks_nothing(sql: Contract) -> None:
    sql.create()
    sql.send({"poison": True})
    sql("update pgmq.q_jobs set read_ct = 5")
    sql("select pgmq.drop_queue('jobs_dlq')")
    healthy = sql.send({"healthy": True})
    now = sql.clock.stop()
    assert ids(sql.read(qty=1)) == [healthy]
    assert sql.live(1).vt == now + timedelta(minutes=5)

    sql.create()
    sql.clock.move(301)
    assert ids(sql.read()) == [healthy]
    assert [letter.original_msg_id for letter in sql.letters()] == [1]


@with_headers
def test_the_budget_counts_attempts_so_that_what_was_given_back_is_free(sql: Contract) -> None:
    sql.create()
    sql.send({})
    for _ in range(8):
        sql.release(sql.claim_one())
    for attempt in range(1, 6):
        [row] = sql.read(vt=0)
        assert (row.read_ct, row.attempt) == (8 + attempt, attempt)
    assert sql.read(vt=0) == []
    assert [letter.attempts for letter in sql.letters()] == [5]


@with_headers
def test_the_dead_letter_keeps_headers_and_the_failures_a_worker_reported(sql: Contract) -> None:
    sql.create()
    sql.send({"n": 1}, headers={"trace": "abc"}, key="k")
    sql.settle(retry(sql.claim_one(), delay=0, error="boom"))
    sql("update pgmq.q_jobs set read_ct = 5")
    assert sql.read() == []
    [letter] = sql.letters()
    assert letter.headers["trace"] == "abc"
    assert (letter.key, letter.error) == ("k", "retry: boom")


def test_keys_are_the_callers_business(sql: Contract) -> None:
    sql.create()
    for _ in range(2):
        sql.send({"idempotency_key": "k"})
    assert [r.key for r in sql.read()] == ["k", "k"]
    assert sql("select from redrive.key") == []


def test_many_at_once_read_every_message_once(sql: Contract) -> None:
    sql.create()
    sql("select count(*) from redrive.send_batch('jobs', to_jsonb(array(select generate_series(1, 300))))")
    sql("update pgmq.q_jobs set read_ct = 5 where msg_id % 10 = 0")

    def read(session: Connection, place: int) -> list[int]:
        got: list[int] = []
        for _ in range(20):
            got += [
                row.msg_id for row in session.execute("select * from redrive.read_with_dlq('jobs', 60, 7)")
            ]
        return got

    taken = sorted(n for answer in sql.at_once(5, read) for n in answer)
    assert taken == [n for n in range(1, 301) if n % 10]
    assert len(sql.letters()) == 30


@pytest.mark.parametrize(
    "arguments", ["-1, 5, 5", "null, 5, 5", "60, 0, 5", "60, -1, 5", "60, null, 5", "60, 5, 0", "60, 5, null"]
)
@newest_only
def test_arguments_that_can_mean_nothing_are_refused(sql: Contract, arguments: str) -> None:
    sql.create()
    sql.send({})
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="read_with_dlq takes p_vt >= 0 seconds"):
        sql(f"select * from redrive.read_with_dlq('jobs', {arguments})")
    assert sql.live(1).read_ct == 0


class TestForeignQueue:
    """A pgmq queue that redrive was never told of, as the article's readers have it."""

    def test_it_works_without_adoption(self, sql: Contract) -> None:
        sql("select pgmq.create(name) from unnest(array['mails', 'mails_dlq']) name")
        sql("select pgmq.send('mails', '{\"n\": 1}'::jsonb)")
        for _ in range(5):
            assert [r.message for r in sql.read(vt=0, queue="mails")] == [{"n": 1}]
        assert sql.read(vt=0, queue="mails") == []
        [envelope] = sql.column("select message from pgmq.read('mails_dlq', 0, 1)")
        assert envelope["payload"] == {"n": 1}
        assert (envelope["original_msg_id"], envelope["read_ct"]) == (1, 5)
        assert sql("select from redrive.queue") == []

    def test_without_a_dead_letter_queue_the_poison_is_parked(self, sql: Contract) -> None:
        sql("select pgmq.create('mails')")
        sql("select pgmq.send_batch('mails', array['1', '2']::jsonb[])")
        sql("update pgmq.q_mails set read_ct = 5 where msg_id = 1")
        assert ids(sql.read(vt=60, queue="mails")) == [2]
        assert sql.read(vt=60, queue="mails") == []

    def test_it_is_archived_by_queue_archive(self, sql: Contract) -> None:
        sql("select pgmq.create('mails')")
        sql("select pgmq.send('mails', '{\"n\": 1}'::jsonb)")
        [row] = sql.read(queue="mails")
        assert archive(sql, row.msg_id, row.read_ct, queue="mails") is True
        assert sql("select outcome, message from pgmq.a_mails") == [("done", {"n": 1})]
        assert sql.value("select queue_length from pgmq.metrics('mails')") == 0

    def test_capitals_in_its_name_find_the_same_table(self, sql: Contract) -> None:
        sql("select pgmq.create('Mails')")
        sql("select pgmq.send('Mails', '{\"n\": 1}'::jsonb)")
        assert [r.message for r in sql.read(queue="Mails")] == [{"n": 1}]

    @newest_only
    def test_one_that_is_not_there_is_an_error_of_its_own(self, sql: Contract) -> None:
        for call in ("read_with_dlq('mails')", "queue_archive('mails', 1)"):
            with pytest.raises(psycopg.Error, match="queue mails does not exist") as caught:
                sql(f"select redrive.{call}")
            assert caught.value.sqlstate == "RD001"


class TestQueueArchive:
    def test_it_ends_the_message_as_done(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        sql.read()
        now = sql.clock.stop()
        assert archive(sql, 1) is True
        archived = sql.archived(1)
        assert (archived.outcome, archived.duration, archived.archived_at) == ("done", None, now)
        assert sql.key("k").state == "done"
        assert archive(sql, 1) is False
        assert archive(sql, 99) is False

    @newest_only
    def test_of_many_at_once_one_ends_it(self, sql: Contract) -> None:
        sql.create()
        sql.send({})

        def work(session: Connection, place: int) -> bool:
            return session.execute("select redrive.queue_archive('jobs', 1)").fetchall()[0][0]

        assert sorted(sql.at_once(20, work)) == [False] * 19 + [True]

    def test_with_a_read_count_it_is_fenced(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        [first] = sql.read(vt=1)
        sql.clock.move(2)
        [second] = sql.read(vt=60)
        assert archive(sql, 1, first.read_ct) is False
        assert sql.waiting() == [1]
        assert archive(sql, 1, second.read_ct) is True

    def test_the_key_of_a_message_ended_by_hand_ends_its_twins(self, sql: Contract) -> None:
        sql.create()
        for _ in range(2):
            sql.send({"idempotency_key": "k"})
        assert archive(sql, 1) is True
        assert sql.claim() == []
        assert sql.archived(2).outcome == "duplicate"

    def test_the_worker_that_held_it_finds_its_report_repeated(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        delivery = sql.claim_one()
        assert archive(sql, delivery.msg_id, delivery.read_ct) is True
        assert sql.settle(done(delivery)) == ["repeat"]

    def test_a_queue_without_an_archive_only_deletes(self, sql: Contract) -> None:
        sql.create(archive=False)
        sql.send({})
        assert archive(sql, 1) is True
        assert sql.waiting() == []
        assert sql("select from pgmq.a_jobs") == []
