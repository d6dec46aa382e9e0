"""claim_job and begin_job, finish_job, abandon_job: idempotency keys for work that is no message of ours."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.support.contract import Connection, Contract, done, ids
from tests.support.layouts import newest_only

REFUSED = psycopg.errors.InvalidParameterValue
pytestmark = newest_only


def begin(sql: Contract, key: str = "k", owner: str = "me", seconds: float = 60, queue: str = "") -> str:
    return sql.value("select redrive.begin_job(%s, %s, %s::numeric, %s)", key, owner, seconds, queue)


def finish(sql: Contract, key: str = "k", owner: str = "me", result: str | None = None) -> bool:
    return sql.value("select redrive.finish_job(%s, %s, %s)", key, owner, result)


def abandon(sql: Contract, key: str = "k", owner: str = "me") -> bool:
    return sql.value("select redrive.abandon_job(%s, %s)", key, owner)


class TestClaimJob:
    def test_the_first_caller_is_told_true_and_every_other_null(self, sql: Contract) -> None:
        assert [sql.value("select redrive.claim_job('k')") for _ in range(3)] == [True, None, None]
        assert sql.value("select redrive.claim_job('another')") is True
        assert sql.value("select redrive.claim_job('k', 'a queue')") is True

    def test_of_fifty_at_once_one_is_told_true(self, sql: Contract) -> None:
        def claim(session: Connection, place: int) -> object:
            return session.execute("select redrive.claim_job('k')").fetchall()[0][0]

        assert sorted(sql.at_once(50, claim), key=str) == [None] * 49 + [True]

    def test_it_is_remembered_for_thirty_days(self, sql: Contract) -> None:
        assert sql.value("select redrive.claim_job('k')")
        sql.clock.move(30 * 86400 - 1)
        assert sql.value("select redrive.claim_job('k')") is None
        sql.clock.move(2)
        assert sql.value("select redrive.claim_job('k')") is True

    def test_it_is_undone_by_a_rollback_and_the_waiting_caller_gets_it(self, sql: Contract) -> None:
        first = sql.connect()
        first.execute("begin")
        assert first.execute("select redrive.claim_job('k')").fetchall() == [(True,)]

        def claim(session: Connection, place: int) -> object:
            if place:
                # The first caller lets go only when the other is seen to wait: its answer is final.
                waiting = (
                    "select count(*) from pg_stat_activity "
                    "where wait_event = 'advisory' and datname = current_database()"
                )
                while session.execute(waiting.encode()).fetchall()[0][0] == 0:
                    pass
                first.execute("rollback")
                return None
            return session.execute("select redrive.claim_job('k')").fetchall()[0][0]

        assert sql.at_once(2, claim)[0] is True

    def test_a_message_with_that_key_is_a_duplicate(self, sql: Contract) -> None:
        sql.create()
        assert sql.value("select redrive.claim_job('k', 'jobs')")
        sql.send({"idempotency_key": "k"})
        assert sql.claim() == []
        assert sql.archived(1).outcome == "duplicate"

    def test_a_running_key_is_taken(self, sql: Contract) -> None:
        assert begin(sql) == "claimed"
        assert sql.value("select redrive.claim_job('k')") is None
        sql.clock.move(61)
        assert sql.value("select redrive.claim_job('k')") is True
        assert begin(sql) == "done"

    def test_a_key_that_is_none_is_refused(self, sql: Contract) -> None:
        for arguments in ("null", "''", "repeat('k', 513)", "'k', null"):
            with pytest.raises(REFUSED):
                sql(f"select redrive.claim_job({arguments})")


class TestTwoPhases:
    def test_begun_finished_and_done_for_good(self, sql: Contract) -> None:
        now = sql.clock.stop()
        assert begin(sql) == "claimed"
        assert sql.key("k", queue="").lease_until == now + timedelta(seconds=60)
        assert begin(sql, owner="you") == "busy"
        assert finish(sql, result='{"sent": 3}') is True
        assert begin(sql) == begin(sql, owner="you") == "done"
        key = sql.key("k", queue="")
        assert (key.state, key.result, key.done_at) == ("done", {"sent": 3}, now)
        sql.clock.move(30 * 86400 + 1)
        assert begin(sql, owner="you") == "claimed"

    def test_a_failure_gives_it_to_the_next_at_once(self, sql: Contract) -> None:
        begin(sql)
        assert abandon(sql) is True
        assert begin(sql, owner="you") == "claimed"

    def test_a_crash_gives_it_to_the_next_when_the_lease_ends(self, sql: Contract) -> None:
        begin(sql, seconds=60)
        sql.clock.move(59)
        assert begin(sql, owner="you") == "busy"
        sql.clock.move(1)
        assert begin(sql, owner="you") == "claimed"

    def test_asking_again_renews_ones_own(self, sql: Contract) -> None:
        begin(sql, seconds=60)
        sql.clock.move(50)
        assert begin(sql, seconds=60) == "claimed"
        sql.clock.move(50)
        assert begin(sql, owner="you") == "busy"

    def test_a_former_owner_neither_finishes_nor_abandons_what_another_holds(self, sql: Contract) -> None:
        begin(sql, seconds=10)
        sql.clock.move(11)
        begin(sql, owner="you")
        assert (finish(sql), abandon(sql)) == (False, False)
        assert begin(sql) == "busy"
        assert finish(sql, owner="you") is True
        assert (abandon(sql, owner="you"), finish(sql, owner="you")) == (False, False)

    def test_a_late_owner_whose_key_nobody_took_still_finishes(self, sql: Contract) -> None:
        begin(sql, seconds=10)
        sql.clock.move(100)
        assert finish(sql) is True

    def test_of_fifty_at_once_one_has_it_and_all_others_are_told_busy(self, sql: Contract) -> None:
        def start(session: Connection, place: int) -> str:
            return session.execute("select redrive.begin_job('k', %s, 60)", (f"w{place}",)).fetchall()[0][0]

        assert sorted(sql.at_once(50, start)) == ["busy"] * 49 + ["claimed"]

    def test_a_key_in_somebodys_open_transaction_is_busy_and_not_waited_for(self, sql: Contract) -> None:
        other = sql.connect()
        sql("set lock_timeout = '100ms'")
        other.execute("begin")
        other.execute("select redrive.begin_job('k', 'you', 60)")
        assert begin(sql) == "busy", "its row is being inserted"
        other.execute("commit")
        sql.clock.move(100)
        other.execute("begin")
        other.execute("select from redrive.key for update")
        assert begin(sql) == "busy", "its row is locked"
        other.execute("rollback")
        assert begin(sql) == "claimed"

    def test_in_a_queues_own_keys_it_holds_up_that_queues_messages(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        assert begin(sql, queue="jobs") == "claimed"
        assert sql.claim() == []
        sql.value("select redrive.abandon_job('k', 'me', 'jobs')")
        sql.clock.move(6)
        assert ids(sql.claim()) == [1]
        assert begin(sql, queue="jobs") == "busy"

    def test_a_message_that_outlived_its_lease_loses_to_a_hand_that_took_the_key(self, sql: Contract) -> None:
        sql.create()
        sql.send({"idempotency_key": "k"})
        delivery = sql.claim_one()
        sql.clock.move(61)
        assert begin(sql, queue="jobs") == "claimed"
        assert sql.settle(done(delivery)) == ["lost"]
        assert sql.key("k").owner == "me"

    def test_the_same_key_in_another_queue_is_another_key(self, sql: Contract) -> None:
        assert begin(sql) == begin(sql, queue="jobs") == "claimed"
        assert finish(sql) is True
        assert begin(sql, owner="you", queue="jobs") == "busy"

    @pytest.mark.parametrize(
        "arguments",
        [
            "null, 'me', 60",
            "'k', null, 60",
            "'k', 'me', null",
            "'k', 'me', 0",
            "'k', 'me', -1",
            "'k', 'me', 'NaN'",
            "'k', 'me', 'Infinity'",
            "'', 'me', 60",
            "repeat('k', 513), 'me', 60",
            "'k', 'me', 60, null",
        ],
    )
    def test_what_can_mean_nothing_is_refused(self, sql: Contract, arguments: str) -> None:
        with pytest.raises(REFUSED):
            sql(f"select redrive.begin_job({arguments})")

    def test_a_repeated_send_answers_with_the_message_that_ended_under_a_finished_key(
        self, sql: Contract
    ) -> None:
        send = "select redrive.send('jobs', '{}', 'k', p_unique => true)"
        sql.create()
        message = sql.value(send)
        sql.value("select msg_id from redrive.read_with_dlq('jobs')")
        assert begin(sql, queue="jobs") == "claimed"
        assert sql.value("select redrive.finish_job('k', 'me', null, 'jobs')")
        assert sql.value("select redrive.queue_archive('jobs', %s, 1)", message)
        assert sql.value(send) == message
