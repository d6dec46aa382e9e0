"""A webhook event of over 1 MB is a batch of its own: no worker holds several, and none is starved."""

from __future__ import annotations

from tests.support.contract import Contract, done, retry
from tests.support.inbox import receive, replay, state
from tests.support.layouts import with_headers

pytestmark = with_headers

BIG = {"text": "x" * 1_000_001}


class TestLargeOnes:
    def test_are_marked_by_the_size_of_their_message(self, sql: Contract) -> None:
        sql.create()
        small = receive(sql, {"t": "x" * 999_991}, event_id="a")
        assert sql.value("select octet_length(message::text) from pgmq.q_jobs") == 1_000_000
        large = receive(sql, {"t": "x" * 999_992}, event_id="b")
        number = receive(sql, "1e120000", as_text=True, event_id="c")
        thick = receive(sql, "[" + ",".join(["1e120000"] * 9) + "]", as_text=True, event_id="d")
        marking = "select headers ? 'x-redrive-large' from pgmq.q_jobs where msg_id = %s"
        marked = [sql.value(marking, each.msg_id) for each in (small, large, number, thick)]
        assert marked == [False, True, False, True]

    def test_come_alone_when_they_are_the_longest_due(self, sql: Contract) -> None:
        sql.create()
        order = "ssLssLLs"
        for n, kind in enumerate(order):
            receive(sql, BIG if kind == "L" else {"n": n}, event_id=str(n))
            sql.clock.move(1)
        batches: list[list[int]] = []
        while batch := sql.claim(10):
            batches.append(sorted(d.msg_id for d in batch))
        assert batches == [[1, 2, 4, 5, 8], [3], [6], [7]]

    def test_are_not_starved_by_newer_small_ones(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        receive(sql, {"n": 0}, event_id="first")
        sql.clock.move(1)
        large = receive(sql, BIG, event_id="large")
        for n in range(5):
            sql.clock.move(1)
            receive(sql, {"n": n}, event_id=str(n))
            batch = [d.msg_id for d in sql.claim(3)]
            assert (batch == [large.msg_id]) is (n == 1)
            assert n == 1 or large.msg_id not in batch

    def test_are_retried_dead_and_sent_again_alone_as_well(self, sql: Contract) -> None:
        sql.create(max_attempts=2)
        sql.clock.stop()
        large = receive(sql, BIG, event_id="large")
        sql.settle(retry(sql.claim_one(), delay=0))
        small = sql.send(1)
        assert [d.msg_id for d in sql.claim(10)] == [large.msg_id]
        assert [d.msg_id for d in sql.claim(10)] == [small]
        sql.clock.move(61)
        retried = sql.claim(10)
        assert [d.msg_id for d in retried] == [small]
        assert state(sql, large)[0] == "failed"
        [row] = sql.redrive()
        sql.send(2)
        assert [d.msg_id for d in sql.claim(10)] == [row.new_id]

    def test_that_somebody_holds_hold_nobody_up(self, sql: Contract) -> None:
        sql.create()
        large = receive(sql, BIG, event_id="large")
        sql.clock.move(1)
        small = sql.send(1)
        other = sql.connect()
        other.execute("begin")
        other.execute("select from pgmq.q_jobs where msg_id = %s for update", (large.msg_id,))
        assert [d.msg_id for d in sql.claim(10)] == [small]

    def test_are_read_by_read_with_dlq_like_all_others(self, sql: Contract) -> None:
        sql.create()
        receive(sql, {"n": 1}, event_id="a")
        receive(sql, BIG, event_id="b")
        assert len(sql.read(qty=5)) == 2

    def test_are_replayed_as_large_ones(self, sql: Contract) -> None:
        sql.create()
        large = receive(sql, BIG)
        sql.settle(done(sql.claim_one()))
        sql("select redrive.drop_queue('jobs')")
        sql.create()
        [again] = replay(sql, large)
        assert sql.live(again.msg_id).headers["x-redrive-large"] is True
        sql.clock.move(1)
        small = sql.send(1)
        assert [[d.msg_id for d in sql.claim(10)] for _ in range(2)] == [[again.msg_id], [small]]
