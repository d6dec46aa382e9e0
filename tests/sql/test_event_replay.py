"""An event that is sent again, by its dead letter or by a replay: once, under its own identity."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.support.contract import Connection, Contract, done, reject, report, settle
from tests.support.inbox import event, receive, replay, state
from tests.support.layouts import with_headers

pytestmark = with_headers


@pytest.fixture
def got(sql: Contract) -> Any:
    """An event that was received into `jobs`, on a clock that stands."""
    sql.create(max_attempts=3)
    sql.clock.stop()
    return receive(sql)


class TestSentAgain:
    def test_a_redriven_dead_letter_makes_it_received_again(self, sql: Contract, got: Any) -> None:
        sql.kill(got.msg_id)
        assert state(sql, got) == ("failed", 1, "reject: killed")
        [row] = sql.redrive()
        found = event(sql, got.id)
        assert (found.status, found.attempts, found.last_error, found.settled_at) == (
            "received",
            0,
            None,
            None,
        )
        assert (found.msg_id, found.generation) == (row.new_id, 1)
        delivery = sql.claim_one()
        assert delivery.headers["x-redrive-event"] == str(got.id)
        assert (delivery.headers["x-redrive-generation"], delivery.headers["x-redrive-origin"]) == (
            1,
            got.msg_id,
        )
        assert delivery.key is None
        sql.settle(done(delivery))
        assert state(sql, got) == ("processed", 1, None)

    def test_a_discarded_letter_leaves_it_ignored_with_its_error_and_it_can_be_replayed(
        self, sql: Contract, got: Any
    ) -> None:
        sql.kill(got.msg_id)
        [letter] = sql.letters()
        now = sql.clock.stop()
        assert sql.column("select redrive.discard('jobs', array[%s::bigint])", letter.dead_id) == [
            letter.dead_id
        ]
        assert state(sql, got) == ("ignored", 1, "discarded: reject: killed")
        assert event(sql, got.id).settled_at == now
        [again] = replay(sql, got)
        assert again.status == "replayed"
        assert sql.claim_one().msg_id == again.msg_id
        assert state(sql, got) == ("received", 0, None)

    def test_a_discarded_letter_of_an_earlier_message_moves_no_event(self, sql: Contract, got: Any) -> None:
        sql.kill(got.msg_id)
        [letter] = sql.letters()
        # The letter was copied away and put back: the event went on meanwhile, with another message.
        sql("create temp table kept as select * from pgmq.q_jobs_dlq")
        [again] = replay(sql, got)
        sql("insert into pgmq.q_jobs_dlq overriding system value select * from kept")
        assert sql.column("select redrive.discard('jobs', array[%s::bigint])", letter.dead_id) == [
            letter.dead_id
        ]
        assert event(sql, got.id).msg_id == again.msg_id
        assert state(sql, got) == ("received", 0, None)

    @pytest.mark.parametrize("outcome", ["done", "ignored"])
    @pytest.mark.parametrize("archive", [True, False])
    def test_a_replay_sends_what_was_recorded(self, sql: Contract, outcome: str, archive: bool) -> None:
        sql.create(archive=archive)
        sql.clock.stop()
        got = receive(sql, {"idempotency_key": "k"})
        sql.settle(report(sql.claim_one(), outcome))
        [again] = replay(sql, got)
        assert (again.id, again.status) == (got.id, "replayed")
        found = event(sql, got.id)
        assert (found.status, found.attempts, found.settled_at) == ("received", 0, None)
        assert (found.msg_id, found.generation, found.event_id) == (again.msg_id, 1, "evt_1")
        delivery = sql.claim_one()
        assert (delivery.msg_id, delivery.message, delivery.key) == (
            again.msg_id,
            {"idempotency_key": "k"},
            None,
        )
        assert delivery.headers == {
            "x-redrive-event": str(got.id),
            "x-redrive-key": "",
            "x-redrive-generation": 1,
            "x-redrive-origin": got.msg_id,
        }
        sql.settle(done(delivery))
        [third] = replay(sql, got)
        assert sql.live(third.msg_id).headers["x-redrive-generation"] == 2
        assert sql.live(third.msg_id).headers["x-redrive-origin"] == (got.msg_id if archive else again.msg_id)
        assert receive(sql, {"idempotency_key": "k"}).duplicate

    def test_a_replay_of_a_body_without_payload_names_the_event(self, sql: Contract) -> None:
        sql.create()
        got = receive(sql, None, raw=b"\xff", type="unknown")
        sql.settle(done(sql.claim_one()))
        [again] = replay(sql, got)
        assert sql.live(again.msg_id).message == {"event_id": "evt_1", "type": "unknown"}

    def test_a_replay_of_a_failed_event_closes_its_dead_letter(self, sql: Contract, got: Any) -> None:
        sql.kill(got.msg_id)
        [again] = replay(sql, got)
        assert again.status == "replayed"
        assert sql.letters() == []
        assert sql.column("select outcome from pgmq.a_jobs_dlq") == ["redriven"]
        assert event(sql, got.id).generation == 1
        assert sql.claim_one().headers["x-redrive-generation"] == 1

    def test_a_replay_says_what_it_could_not_send(self, sql: Contract) -> None:
        sql.create()
        sql.create("gone")
        queued, running = receive(sql), receive(sql, event_id="evt_2")
        lost = receive(sql, event_id="evt_3", queue="gone")
        sql("update pgmq.q_jobs set vt = vt + interval '1 h' where msg_id = %s", queued.msg_id)
        assert sql.claim_one().msg_id == running.msg_id
        sql("select redrive.drop_queue('gone')")
        nobody = "00000000-0000-4000-8000-000000000000"
        ids = [str(queued.id), str(running.id), str(lost.id), nobody, str(queued.id), None]
        rows = sql("select * from redrive.replay_events(%s::uuid[])", ids)
        assert {(str(row.id), row.msg_id, row.status) for row in rows} == {
            (str(queued.id), queued.msg_id, "live"),
            (str(running.id), running.msg_id, "live"),
            (str(lost.id), lost.msg_id, "no queue"),
            (nobody, None, "missing"),
        }
        assert len(rows) == 4
        assert sql.waiting() == [queued.msg_id, running.msg_id]

    def test_events_of_a_dropped_queue_can_be_replayed_into_a_new_one(self, sql: Contract, got: Any) -> None:
        sql("select redrive.drop_queue('jobs')")
        assert [row.status for row in replay(sql, got)] == ["no queue"]
        sql.create()
        [again] = replay(sql, got)
        assert again.status == "replayed"
        sql.settle(done(sql.claim_one()))
        assert state(sql, got) == ("processed", 1, None)

    def test_an_event_whose_message_was_purged_can_be_replayed(self, sql: Contract, got: Any) -> None:
        sql("delete from pgmq.q_jobs")
        assert [row.status for row in replay(sql, got)] == ["replayed"]

    def test_many_are_sent_in_the_order_they_came(self, sql: Contract) -> None:
        sql.create()
        got: list[Any] = []
        for n in range(20):
            sql.clock.set(datetime.fromisoformat(f"2026-01-01T00:00:{n:02}+00:00"))
            got.append(receive(sql, event_id=str(n)))
        held = sql.claim(20)
        sql.settle(*(done(d) if d.msg_id % 3 else reject(d) for d in held))
        rows = replay(sql, *reversed(got))
        assert {row.status for row in rows} == {"replayed"}
        new = {row.id: row.msg_id for row in rows}
        in_order = [new[each.id] for each in got]
        assert in_order == sorted(in_order), "dead letters among them, too"
        assert sql.letters() == []

    def test_what_was_recorded_is_sent_where_a_redrive_had_patched_it(self, sql: Contract, got: Any) -> None:
        recorded = sql.live(got.msg_id).message
        sql.kill(got.msg_id)
        sql("select * from redrive.redrive('jobs', p_patch => '{\"patched\": true}')")
        patched = event(sql, got.id).msg_id
        assert sql.live(patched).message == {**recorded, "patched": True}
        sql.kill(patched)
        [again] = replay(sql, got)
        found = sql.live(again.msg_id)
        assert found.message == recorded
        assert found.headers["x-redrive-generation"] == event(sql, got.id).generation == 2
        assert found.headers["x-redrive-origin"] == got.msg_id
        assert sql.letters() == []

    def test_one_whose_dead_letter_somebody_redrives_just_now_is_left(self, sql: Contract, got: Any) -> None:
        other = receive(sql, event_id="evt_2")
        sql.kill(got.msg_id)
        sql.kill(other.msg_id)
        [letter] = [each for each in sql.letters() if each.original_msg_id == got.msg_id]
        somebody = sql.connect()
        somebody.execute("begin")
        somebody.execute("select from pgmq.q_jobs_dlq where msg_id = %s for update", (letter.dead_id,))
        assert {(row.id, row.status) for row in replay(sql, got, other)} == {
            (got.id, "locked"),
            (other.id, "replayed"),
        }
        somebody.execute("commit")
        assert state(sql, got)[0] == "failed" and len(sql.letters()) == 1
        assert [row.status for row in replay(sql, got)] == ["replayed"]

    def test_two_replays_at_once_send_one_message(self, sql: Contract) -> None:
        sql.create()
        got = [receive(sql, event_id=str(n)) for n in range(10)]
        held = sorted(sql.claim(10))
        sql.settle(*(done(d) for d in held[:5]), *(reject(d) for d in held[5:]))

        def work(session: Connection, place: int) -> Any:
            ids = [str(each.id) for each in (got if place % 2 else reversed(got))]
            return session.execute("select * from redrive.replay_events(%s::uuid[])", (ids,)).fetchall()

        answers = [row for rows in sql.at_once(6, work) for row in rows]
        assert sorted(row.id for row in answers if row.status == "replayed") == sorted(
            each.id for each in got
        )
        assert {row.status for row in answers} <= {"replayed", "live", "locked"}
        assert len(sql.waiting()) == 10
        assert {event(sql, each.id).generation for each in got} == {1}

    def test_a_replay_neither_waits_for_a_handler_nor_makes_a_worker_wait(self, sql: Contract) -> None:
        sql.create()
        running, other = receive(sql), receive(sql, event_id="evt_2")
        held = {d.msg_id: d for d in sql.claim(2)}
        handler = sql.connect()
        handler.execute("begin")
        assert settle(handler, done(held[running.msg_id])) == ["ok"]
        operator = sql.connect()
        operator.execute("begin")
        operator.execute("set local lock_timeout = '100ms'")
        rows = operator.execute(
            "select status from redrive.replay_events(%s::uuid[])", ([str(running.id), str(other.id)],)
        ).fetchall()
        assert rows == [("live",), ("live",)]
        sql("set lock_timeout = '100ms'")
        assert sql.settle(done(held[other.msg_id])) == ["ok"]
        handler.execute("commit")
        operator.execute("commit")
        assert state(sql, running)[0] == state(sql, other)[0] == "processed"
