"""The built-in rules: what each sees, what it does not mistake for trouble, and what it says."""

from __future__ import annotations

import pytest

from tests.support.contract import Contract, done, retry
from tests.support.layouts import NEWEST, newest_only, with_headers


def fires(sql: Contract, after: float = 0) -> dict[tuple[str, str], str]:
    """What fires after an evaluation, and what it says."""
    sql.clock.move(after)
    sql("select redrive.check_queue_health()")
    rows = sql("select rule, subject, summary from redrive.alerts() where state = 'firing'")
    return {(a.rule, a.subject): a.summary for a in rows}


def reading(sql: Contract, gauge: str, subject: str = "jobs") -> float | None:
    [value] = sql.column(
        "select value from redrive._readings() where gauge = %s and subject = %s", gauge, subject
    )
    return value


def pass_time(sql: Contract, seconds: int) -> None:
    """Evaluate every minute, as a checker does."""
    for _ in range(seconds // 60):
        fires(sql, 60)


class TestQueues:
    def test_one_message_delayed_by_an_hour_is_no_alert(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        sql.send({}, delay=3600)
        for _ in range(12):
            assert fires(sql, 295) == {}
        assert ("no_worker", "jobs") in fires(sql, 200) | fires(sql, 61)

    @newest_only
    def test_an_empty_queue_nobody_works_on_is_no_alert(self, sql: Contract) -> None:
        sql.create()
        assert fires(sql) == {}
        assert fires(sql, 7200) == {}

    @newest_only
    def test_a_dead_letter_is_one_until_it_is_redriven(self, sql: Contract) -> None:
        sql.create()
        sql.kill(sql.send({}))
        assert fires(sql) == {
            ("dead_letters", "jobs"): "Queue jobs has 1 dead letter: nobody runs these jobs again."
        }
        sql("select redrive.discard('jobs', array[1])")
        assert fires(sql, 60) == {}

    @newest_only
    def test_the_oldest_ready_one_counts_from_when_it_was_due(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        sql.send({}, delay=600)
        sql.clock.move(600)
        for _ in range(15):
            assert ("oldest_ready", "jobs") not in fires(sql, 60)
        assert "has been waiting for 15 min (1 ready, 0 workers)" in fires(sql, 1)["oldest_ready", "jobs"]

    @newest_only
    def test_a_backlog_without_a_living_worker_is_one_after_a_minute(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        sql.claim(worker="w")
        sql.send({})
        sql.send({})
        assert fires(sql, 59) == {}
        assert fires(sql, 2) == {}
        assert fires(sql, 60) == {
            ("no_worker", "jobs"): "Queue jobs has 2 jobs ready and no worker: the last was seen 2 min ago."
        }
        sql.claim(1, worker="w2")
        assert fires(sql, 30) == {}

    @newest_only
    def test_a_worker_that_is_gone_is_none(self, sql: Contract) -> None:
        sql.create()
        sql.claim(worker="w")
        sql.send({})
        sql("select redrive.worker_stop('w')")
        fires(sql)
        assert ("no_worker", "jobs") in fires(sql, 60)

    @newest_only
    def test_between_the_visits_of_a_cron_job_a_queue_is_not_left_alone(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        for minute in range(12):
            sql.send({})
            if minute % 5 == 0:
                sql.read(qty=50)
            sql.clock.move(60)
            # Of the first visit nobody can know that there will be another.
            assert minute < 5 or ("no_worker", "jobs") not in fires(sql), minute
        assert sql.metrics().workers == 1
        fires(sql, 640)
        assert ("no_worker", "jobs") in fires(sql, 60)

    @newest_only
    def test_a_worker_seen_tomorrow_lives_no_longer_than_another(self, sql: Contract) -> None:
        sql.create()
        sql.clock.move(86400)
        sql.claim(worker="w")
        sql.read()
        assert sql.metrics().workers == 2
        sql.clock.move(-86400)
        assert sql.metrics().workers == 0
        sql.read()
        assert sql.metrics().workers == 1

    @newest_only
    def test_the_checks_of_a_clock_that_was_ahead_stop_nobody(self, sql: Contract) -> None:
        sql.clock.move(86400)
        sql("select redrive.check_queue_health(60)")
        sql.clock.move(-86400)
        sql("select redrive.check_queue_health(60)")
        assert 0 <= sql.value("select age_sec from redrive.watch_state()") < 30

    @newest_only
    @pytest.mark.parametrize(
        "change",
        [
            "update pgmq.q_odd set read_ct = -2147483648",
            "update pgmq.q_odd set vt = '-infinity'",
            "update pgmq.q_odd set vt = 'infinity'",
            "update pgmq.a_odd set archived_at = 'infinity', outcome = 'done'",
        ],
    )
    def test_an_odd_row_blinds_nobody(self, sql: Contract, change: str) -> None:
        sql.create("odd")
        sql.create()
        sql.kill(sql.send({}))
        for _ in range(2):
            sql.send({}, queue="odd")
        sql(
            "select redrive.queue_archive('odd', m.msg_id, m.read_ct) "
            "from redrive.read_with_dlq('odd', 0, 1) m"
        )
        sql(change)
        assert ("dead_letters", "jobs") in fires(sql)
        assert sql.value("select problems from redrive.watch_state()") == []
        assert sql.metrics("odd").problem is None
        bodies = sql.value("select coalesce(string_agg(body::text, ''), '') from redrive.alert_delivery")
        assert "nfinity" not in bodies + str(sql("select summary from redrive.alerts()"))

    @newest_only
    def test_a_queue_that_is_locked_is_not_read_but_not_unreadable(self, sql: Contract) -> None:
        sql.create()
        other = sql.connect()
        with other.transaction(force_rollback=True):
            other.execute("lock table pgmq.q_jobs in access exclusive mode")
            fires(sql)
            found = fires(sql, 120)
        assert set(found) == {("gauges_unread", "")}
        assert "unreadable of jobs: another session has locked its tables" in found["gauges_unread", ""]
        assert fires(sql, 60) == {}

    def test_who_reads_with_read_with_dlq_is_a_worker(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        for _ in range(8):
            sql.read()
            sql.send({})
            assert fires(sql, 30) == {}
        [worker] = sql("select * from redrive.workers()")
        assert (worker.worker, worker.alive) == ("read_with_dlq", True)
        fires(sql, 60)
        assert ("no_worker", "jobs") in fires(sql, 60)

    @newest_only
    def test_a_paused_queue_needs_no_worker(self, sql: Contract) -> None:
        sql.create()
        sql.send({})
        sql("select redrive.pause_queue('jobs')")
        fires(sql)
        assert fires(sql, 120) == {}
        assert "0 workers; it is paused" in fires(sql, 900)["oldest_ready", "jobs"]

    def test_failed_attempts_count_and_deliveries_do_not(self, sql: Contract) -> None:
        sql.create(max_attempts=4)
        sql.clock.stop()
        sql.send({})
        for _ in range(2):
            sql.settle(retry(sql.claim_one(), delay=0))
            assert reading(sql, "attempts_left") == pytest.approx(3 if _ == 0 else 2)
        sql.claim_one(vt=600)
        assert ("attempts_nearly_spent", "jobs") not in fires(sql)
        sql.clock.move(601)
        assert fires(sql)["attempts_nearly_spent", "jobs"].startswith(
            "A job of queue jobs has failed 3 times of 4: 1 attempt left"
        )

    @newest_only
    def test_with_two_attempts_the_first_failure_is_no_alarm(self, sql: Contract) -> None:
        sql.create(max_attempts=2)
        sql.send({})
        sql.settle(retry(sql.claim_one(), delay=500))
        assert fires(sql) == {}

    @with_headers
    def test_parked_messages_are_one(self, sql: Contract) -> None:
        sql.create(max_attempts=1)
        sql.send({})
        sql.claim(2)
        sql.clock.move(61)
        sql("select pgmq.drop_queue('jobs_dlq')")
        assert sql.claim() == []
        assert fires(sql)["parked", "jobs"].startswith("Queue jobs has 1 message over budget")

    def test_a_queue_that_cannot_be_read_is_one_and_breaks_no_other(self, sql: Contract) -> None:
        sql.create("broken")
        sql.create()
        sql.kill(sql.send({}))
        sql("drop table pgmq.a_broken")
        assert set(fires(sql)) == {("dead_letters", "jobs")}
        found = fires(sql, 120)
        assert set(found) == {("dead_letters", "jobs"), ("queue_unreadable", "broken")}
        assert "a_broken" in found["queue_unreadable", "broken"]

    @with_headers
    @pytest.mark.parametrize(
        "headers",
        [
            "[1, 2]",
            '"text"',
            "7",
            '{"x-redrive-settled": "many", "x-redrive-credit": -1, "x-redrive-key": {"a": 1}}',
            '{"x-redrive-settled": 99999999999999999999, "x-redrive-credit": [3]}',
            "null",
        ],
    )
    def test_foreign_headers_raise_nothing(self, sql: Contract, headers: str) -> None:
        sql.create()
        for vt in ("-1 second", "1 hour"):
            sql(
                "insert into pgmq.q_jobs (read_ct, enqueued_at, vt, message, headers) "
                f"values (3, now(), redrive.clock() + interval '{vt}', '[]', %s)",
                headers,
            )
        assert sql.metrics().problem is None
        assert fires(sql) == {}


class TestRates:
    @pytest.fixture
    def layout(self) -> str:
        return NEWEST

    def work(self, sql: Contract, good: int, bad: int) -> None:
        for _ in range(good + bad):
            sql.send({})
        deliveries = sql.claim(good + bad)
        sql.settle(*map(done, deliveries[:good]), *(retry(d, delay=100_000) for d in deliveries[good:]))

    def test_what_comes_in_and_goes_out_a_second(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        assert sql.metrics().inflow_per_sec is None
        fires(sql)
        self.work(sql, 30, 0)
        for _ in range(30):
            sql.send({})
        sql.clock.move(29)
        assert sql.metrics().inflow_per_sec is None
        sql.clock.move(31)
        m = sql.metrics()
        assert (m.inflow_per_sec, m.outflow_per_sec, m.drain_sec) == (1, 0.5, None)
        fires(sql)
        sql.settle(*map(done, sql.claim(20)))
        fires(sql, 60)
        sql.clock.move(180)
        m = sql.metrics()
        assert m.inflow_per_sec == pytest.approx(0)
        assert m.outflow_per_sec == pytest.approx(20 / 240)
        assert m.drain_sec == pytest.approx(10 * 240 / 20)

    def test_who_works_without_reporting_is_counted_by_what_is_missing(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        for _ in range(6):
            sql.send({})
        fires(sql)
        for each in sql.read(qty=3):
            sql("select redrive.queue_archive('jobs', %s)", each.msg_id)
        sql.clock.move(60)
        assert sql.metrics().outflow_per_sec == pytest.approx(3 / 60)

    def test_a_failure_rate_needs_ten_attempts(self, sql: Contract) -> None:
        sql.create(max_attempts=100)
        sql.clock.stop()
        fires(sql)
        self.work(sql, 3, 6)
        sql.clock.move(60)
        assert (sql.metrics().failure_rate, reading(sql, "failure_rate")) == (None, None)
        self.work(sql, 0, 1)
        assert sql.metrics().failure_rate == pytest.approx(0.7)

    def test_most_attempts_failing_for_five_minutes_is_an_alert(self, sql: Contract) -> None:
        sql.create(max_attempts=100)
        sql.clock.stop()
        fires(sql)
        for minute in range(7):
            self.work(sql, 2, 12)
            assert (("failure_rate", "jobs") in fires(sql, 60)) == (minute >= 5), minute
        # Nothing is tried any more: that is no success.
        [alert] = sql("select * from redrive.alerts() where rule = 'failure_rate'")
        assert alert.summary == "86 % of the attempts of queue jobs fail."
        for _ in range(6):
            self.work(sql, 30, 0)
            fires(sql, 60)
        assert ("failure_rate", "jobs") not in fires(sql, 60)

    def test_few_attempts_count_over_half_an_hour_and_fewer_end_it(self, sql: Contract) -> None:
        sql.create(max_attempts=1000)
        sql.clock.stop()
        fires(sql)
        for _ in range(7):
            self.work(sql, 0, 10)
            fires(sql, 60)
        assert sql.value("select count(*) from redrive.alerts() where rule = 'failure_rate'") == 1
        # Mended, and slow: one attempt a minute, one of four fails.
        for minute in range(14):
            self.work(sql, minute % 4 and 1, 0 if minute % 4 else 1)
            found = fires(sql, 60)
        assert ("failure_rate", "jobs") not in found
        sql(
            "select redrive.set_rule('failure_rate', %s)",
            '{"threshold": 0.1, "clear_at": null, "for_sec": 0}',
        )
        assert ("failure_rate", "jobs") in fires(sql, 60)
        for _ in range(6):
            found = fires(sql, 300)
        assert ("failure_rate", "jobs") not in found

    def test_a_queue_made_anew_begins_anew(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        self.work(sql, 5, 0)
        fires(sql)
        sql("select redrive.drop_queue('jobs')")
        sql.create()
        sql.clock.move(60)
        assert sql.metrics().inflow_per_sec is None

    def test_samples_of_more_than_an_hour_ago_go(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        for _ in range(8):
            fires(sql, 600)
        assert sql.value("select count(*) from redrive.sample") == 7
