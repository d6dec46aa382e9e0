"""receive_event: recorded and sent once, however often it comes and from how many at once."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support.contract import Connection, Contract, done, retry
from tests.support.inbox import event, receive
from tests.support.layouts import newest_only, with_headers, without_headers


@without_headers
def test_a_queue_without_headers_is_refused(sql: Contract) -> None:
    sql.create()
    with pytest.raises(psycopg.Error, match=r"webhook events need pgmq 1\.5 or newer") as refused:
        receive(sql)
    assert refused.value.sqlstate == "RD002"
    assert sql("select 1 from redrive.webhook_event") == []


@without_headers
def test_and_so_says_the_check_of_a_receiver(sql: Contract) -> None:
    sql.create()
    with pytest.raises(psycopg.Error, match="made by a pgmq without headers") as error:
        sql("select redrive.check_inbox('{jobs}')")
    assert error.value.sqlstate == "RD002"


@newest_only
class TestWhetherWebhooksCanBeRecorded:
    def test_where_they_can_nothing_is_said_or_changed(self, sql: Contract) -> None:
        sql.create()
        sql.create("other")
        for queues in (["jobs"], ["jobs", "other"], [], None):
            assert sql.value("select redrive.check_inbox(%s::text[])::text", queues) == ""

    def test_the_first_queue_that_is_missing_is_named(self, sql: Contract) -> None:
        sql.create()
        with pytest.raises(
            psycopg.Error, match="queue none does not exist; run: redrive queue create none"
        ) as error:
            sql("select redrive.check_inbox('{jobs,none,more}')")
        assert error.value.sqlstate == "RD001"
        sql("drop table pgmq.q_jobs")
        with pytest.raises(psycopg.Error, match="queue jobs"):
            sql("select redrive.check_inbox('{jobs}')")

    def test_a_session_that_may_not_write_cannot(self, sql: Contract) -> None:
        sql.create()
        sql("set default_transaction_read_only = on")
        with pytest.raises(psycopg.Error, match="read-only session") as error:
            sql("select redrive.check_inbox('{jobs}')")
        assert error.value.sqlstate == "RD002"
        sql("set default_transaction_read_only = off")


@with_headers
class TestANewEvent:
    def test_is_recorded_and_its_payload_is_the_message(self, sql: Contract) -> None:
        sql.create()
        now = sql.clock.stop()
        got = receive(
            sql, {"id": "evt_1", "n": 1}, headers={"a": "b"}, type="t.x", resource="r_1", origin="reconcile"
        )
        assert (got.duplicate, got.conflict) == (False, False)
        recorded = event(sql, got.id)
        assert recorded.payload == {"id": "evt_1", "n": 1}
        assert bytes(recorded.raw) == b'{"id": "evt_1", "n": 1}'
        assert recorded.headers == {"a": "b"}
        assert (recorded.source, recorded.event_id, recorded.type) == ("stripe", "evt_1", "t.x")
        assert (recorded.resource, recorded.origin, recorded.received_at) == ("r_1", "reconcile", now)
        assert (recorded.status, recorded.attempts, recorded.last_error) == ("received", 0, None)
        assert (recorded.msg_id, recorded.queue, recorded.generation) == (got.msg_id, "jobs", 0)
        assert recorded.settled_at is None
        message = sql.live(got.msg_id)
        assert message.message == {"id": "evt_1", "n": 1}
        assert message.headers == {"x-redrive-event": str(got.id), "x-redrive-key": ""}
        assert (message.vt, message.read_ct) == (now, 0)

    def test_that_jsonb_cannot_hold_is_its_bytes_and_a_message_that_names_it(self, sql: Contract) -> None:
        sql.create()
        got = receive(sql, None, raw=b'{"a": "\\u0000"}', event_id="sha256:12", type="unknown")
        assert sql.live(got.msg_id).message == {"event_id": "sha256:12", "type": "unknown"}
        recorded = event(sql, got.id)
        assert (recorded.payload, bytes(recorded.raw)) == (None, b'{"a": "\\u0000"}')

    def test_of_json_null_is_a_payload_of_null(self, sql: Contract) -> None:
        sql.create()
        got = sql(
            "select * from redrive.receive_event('s', 'e', 't', 'null', 'null', '{}', 'jobs')",
        )[0]
        assert sql.value("select message::text from pgmq.q_jobs where msg_id = %s", got.msg_id) == "null"

    def test_without_a_body_is_recorded_as_well(self, sql: Contract) -> None:
        sql.create()
        assert bytes(event(sql, receive(sql, None, raw=b"").id).raw) == b""

    @pytest.mark.parametrize("field", ["idempotency_key", None])
    def test_has_no_key_though_its_payload_has_the_key_field(self, sql: Contract, field: str | None) -> None:
        sql.create(key_field=field)
        taken = sql.send({"idempotency_key": "k"}, key=None)
        first, second = sorted(
            receive(sql, {"idempotency_key": "k"}, event_id=each).msg_id for each in ("evt_1", "evt_2")
        )
        got = {d.msg_id: d.key for d in sql.claim(10)}
        assert got == {taken: "k" if field else None, first: None, second: None}
        assert sql("select 1 from redrive.key where owner_msg in (%s, %s)", first, second) == []
        assert sql.cancel(first) == []

    def test_is_in_the_callers_transaction(self, sql: Contract) -> None:
        sql.create()
        sql("begin")
        receive(sql)
        sql("rollback")
        assert sql("select 1 from redrive.webhook_event") == []
        assert sql.waiting() == []
        assert receive(sql).duplicate is False

    def test_wakes_a_waiting_worker(self, sql: Contract) -> None:
        sql.create()
        assert sql.claim() == []
        listener = sql.connect()
        listener.execute("listen redrive")
        receive(sql)
        assert [n.payload for n in listener.notifies(timeout=5, stop_after=1)] == ["jobs"]

    def test_into_a_queue_that_is_not_there_is_refused(self, sql: Contract) -> None:
        with pytest.raises(psycopg.Error, match="queue jobs does not exist") as refused:
            receive(sql)
        assert refused.value.sqlstate == "RD001"

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"source": ""}, "the source of an event"),
            ({"source": None}, "the source of an event"),
            ({"event_id": ""}, "the id of an event"),
            ({"event_id": None}, "the id of an event"),
            ({"event_id": "x" * 256}, "the id of an event"),
            ({"type": None}, "the type of an event"),
            ({"type": "x" * 256}, "the type of an event"),
            ({"resource": "x" * 513}, "the resource of an event"),
            ({"raw": None}, "the raw body"),
            ({"origin": "elsewhere"}, "origin is elsewhere"),
        ],
    )
    def test_that_cannot_be_recorded_is_refused(
        self, sql: Contract, given: dict[str, Any], said: str
    ) -> None:
        sql.create()
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=said):
            receive(sql, **given)

    def test_of_the_longest_names_in_the_widest_alphabet_fits_the_indexes(self, sql: Contract) -> None:
        sql.create()
        wide = "\N{GRINNING FACE}"
        got = receive(sql, source=wide * 255, event_id=wide * 255, type=wide * 255, resource=wide * 512)
        assert event(sql, got.id).event_id == wide * 255
        assert receive(sql, source=wide * 255, event_id=wide * 255, derived=True).duplicate


@with_headers
class TestARepeat:
    def test_answers_the_first_record_and_sends_nothing(self, sql: Contract) -> None:
        sql.create()
        first = receive(sql)
        assert receive(sql) == first._replace(duplicate=True)
        assert sql.waiting() == [first.msg_id]

    def test_of_another_source_is_none(self, sql: Contract) -> None:
        sql.create()
        assert receive(sql, source="a").id != receive(sql, source="b").id

    def test_is_one_whatever_became_of_the_event(self, sql: Contract) -> None:
        sql.create()
        first = receive(sql)
        sql.settle(done(sql.claim_one()))
        sql.clock.move(30 * 86400)
        assert receive(sql) == first._replace(duplicate=True)
        assert sql.waiting() == []

    def test_fifty_at_once_are_one_event_and_one_job(self, sql: Contract) -> None:
        sql.create()

        def work(session: Connection, place: int) -> Any:
            return receive(session)

        answers = sql.at_once(50, work)
        assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 49
        assert len({(answer.id, answer.msg_id, answer.conflict) for answer in answers}) == 1
        assert sql.value("select count(*) from redrive.webhook_event") == 1
        assert sql.waiting() == [answers[0].msg_id]

    def test_waits_for_the_first_one_and_is_new_where_that_was_rolled_back(self, sql: Contract) -> None:
        sql.create()
        other = sql.connect()
        other.execute("begin")
        gone = receive(other)
        sql("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            receive(sql)
        other.execute("rollback")
        got = receive(sql)
        assert (got.duplicate, got.id == gone.id) == (False, False)
        assert sql.waiting() == [got.msg_id]

    def test_does_not_wait_for_a_handler_that_completes_the_event_in_its_transaction(
        self, sql: Contract
    ) -> None:
        sql.create()
        first = receive(sql)
        held = sql.claim_one()
        handler = sql.connect()
        handler.execute("begin")
        handler.execute(
            "select 1 from redrive.settle('jobs', array[%s::bigint], array[%s::integer], array['done'])",
            (held.msg_id, held.read_ct),
        )
        sql("set lock_timeout = '100ms'")
        assert receive(sql) == first._replace(duplicate=True)


@with_headers
class TestTheSameIdWithAnotherBody:
    def test_is_a_conflict_that_is_kept_and_counted_and_not_sent(self, sql: Contract) -> None:
        sql.create()
        now = sql.clock.stop()
        first = receive(sql, {"n": 1})
        assert receive(sql, {"n": 2}, headers={"h": "2"}) == first._replace(duplicate=True, conflict=True)
        assert sql.waiting() == [first.msg_id]
        assert event(sql, first.id).payload == {"n": 1}
        [kept] = sql("select * from redrive.refusals('stripe')")
        assert (kept.source, kept.reason, kept.event_id, kept.at) == ("stripe", "conflict", "evt_1", now)
        assert (bytes(kept.body), kept.size, kept.headers) == (b'{"n": 2}', 8, {"h": "2"})
        assert sql.value("select refused from redrive.inbox_status('stripe')") == {"conflict": 1}

    @pytest.mark.parametrize(
        ("first", "second", "conflict"),
        [
            ({"n": 1, "attempts": [1]}, {"n": 1, "attempts": [1, 2]}, False),
            ({"n": 1}, {"n": 1, "attempts": [1, 2]}, False),
            ({"n": 1, "attempts": []}, {"n": 2, "attempts": []}, True),
            ({"n": 1, "d": {"attempts": 1}}, {"n": 1, "d": {"attempts": 2}}, True),
            ([1, "attempts"], [1], True),
            ("attempts", "x", True),
            ([1], {"n": 1}, True),
            (None, {"n": 1}, False),
            ({"n": 1}, None, False),
            (None, None, False),
        ],
    )
    def test_is_none_where_only_what_the_provider_changes_differs(
        self, sql: Contract, first: Any, second: Any, conflict: bool
    ) -> None:
        sql.create()
        receive(sql, first, raw=b"first")
        assert receive(sql, second, raw=b"second", volatile=["attempts"]).conflict is conflict

    def test_differs_by_its_bytes_where_nothing_is_volatile(self, sql: Contract) -> None:
        sql.create()
        receive(sql, {"n": 1}, raw=b'{"n": 1}')
        assert receive(sql, {"n": 1}, raw=b'{"n":1}').conflict
        assert receive(sql, {"n": 1}, raw=b'{"n":1}', volatile=[]).conflict
        assert not receive(sql, {"n": 1}, raw=b'{"n":1}', volatile=["x"]).conflict
        for volatile in (None, []):
            assert receive(sql, None, raw=b'{"n":"\\u0000"}', volatile=volatile).conflict


@with_headers
class TestAnIdMadeFromAState:
    def test_suppresses_for_two_hours_and_is_then_a_new_event(self, sql: Contract) -> None:
        sql.create()
        start = sql.clock.stop()
        first = receive(sql, {"n": 1}, event_id="v:4", derived=True)
        sql.settle(done(sql.claim_one()))
        sql.clock.move(2 * 3600 - 1)
        assert receive(sql, {"n": 2}, event_id="v:4", derived=True) == first._replace(duplicate=True)
        sql.clock.set(start)
        at = sql.clock.move(2 * 3600)
        again = receive(sql, {"n": 3}, event_id="v:4", derived=True)
        assert (again.duplicate, again.conflict) == (False, False)
        assert event(sql, again.id).event_id == f"v:4@{at:%Y-%m-%dT%H:%M:%S.%f}Z"
        # The newest of them suppresses from now on.
        sql.settle(done(sql.claim_one()))
        sql.clock.move(3600)
        assert receive(sql, {"n": 4}, event_id="v:4", derived=True) == again._replace(duplicate=True)
        sql.clock.move(3601)
        third = receive(sql, {"n": 5}, event_id="v:4", derived=True)
        assert third.duplicate is False
        assert sql.value("select count(*) from redrive.webhook_event") == 3

    def test_suppresses_for_days_while_the_event_is_unprocessed(self, sql: Contract) -> None:
        sql.create()
        first = receive(sql, event_id="v:4", derived=True)
        for _day in range(3):
            sql.clock.move(86400)
            assert receive(sql, event_id="v:4", derived=True) == first._replace(duplicate=True)
        sql.settle(retry(sql.claim_one()))
        assert receive(sql, event_id="v:4", derived=True).duplicate
        sql.clock.move(3600)
        sql.settle(done(sql.claim_one()))
        assert receive(sql, event_id="v:4", derived=True).duplicate is False

    def test_never_conflicts(self, sql: Contract) -> None:
        sql.create()
        receive(sql, {"n": 1}, event_id="v:4", derived=True)
        got = receive(sql, {"n": 2}, event_id="v:4", derived=True)
        assert (got.duplicate, got.conflict) == (True, False)
        assert sql("select 1 from redrive.webhook_refused") == []

    @pytest.mark.parametrize(
        "other", ["v:4@home", "v:4A", "v:40", "v:4@2026-01-01T00:00:00.000000Z!", "v:4?"]
    )
    def test_is_not_taken_for_one_that_only_begins_like_it(self, sql: Contract, other: str) -> None:
        sql.create()
        receive(sql, event_id=other, derived=True)
        assert receive(sql, event_id="v:4", derived=True).duplicate is False

    def test_that_comes_back_fifty_times_at_once_is_one_new_event(self, sql: Contract) -> None:
        sql.create()
        receive(sql, event_id="v:4", derived=True)
        sql.settle(done(sql.claim_one()))
        sql.clock.move(7201)

        def work(session: Connection, place: int) -> Any:
            return receive(session, event_id="v:4", derived=True)

        answers = sql.at_once(50, work)
        assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 49
        assert len({answer.id for answer in answers}) == 1
        assert len(sql.waiting()) == 1


@newest_only
class TestABodyThatPostgresRefuses:
    """SQLSTATE classes 22 and 54: the receiver records such a body without a payload."""

    @pytest.mark.parametrize(
        ("text", "sqlstate"),
        [
            ("not json", "22P02"),
            ("", "22P02"),
            ('{"a": 1', "22P02"),
            ('{"a": NaN}', "22P02"),
            ('"\\u0000"', "22P05"),
            ('{"\\u0000": 1}', "22P05"),
            ('"\\ud800"', "22P02"),
            ('"\\ude00 \\ud83d"', "22P02"),
            ("1e200000", "22003"),
            ("[" + ",".join(["1e131000"] * 2100) + "]", "54000"),
            ("[" * 100_000 + "]" * 100_000, "54001"),
        ],
    )
    def test_is_of_class_22_or_54(self, sql: Contract, text: str, sqlstate: str) -> None:
        sql.create()
        with pytest.raises(psycopg.Error) as refused:
            receive(sql, text, as_text=True, raw=b"x")
        assert refused.value.sqlstate == sqlstate
        assert receive(sql, None, raw=b"x").duplicate is False

    def test_bytes_that_are_no_text(self, sql: Contract) -> None:
        sql.create()
        with pytest.raises(psycopg.Error) as refused:
            sql("select convert_from(%s::bytea, 'UTF8')::jsonb", b'"\xff"')
        assert refused.value.sqlstate == "22021"

    def test_headers_likewise(self, sql: Contract) -> None:
        sql.create()
        with pytest.raises(psycopg.Error) as refused:
            receive(sql, headers={"a": "\0"})
        assert refused.value.sqlstate == "22P05"

    def test_an_event_of_ten_megabytes_is_none(self, sql: Contract) -> None:
        sql.create()
        got = receive(sql, {"text": "x" * 10_000_000})
        assert (
            sql.value("select length(message ->> 'text') from pgmq.q_jobs where msg_id = %s", got.msg_id)
            == 10_000_000
        )


@with_headers
class TestRefusedRequests:
    def note(self, sql: Contract, *refusals: dict[str, Any]) -> None:
        sql("select redrive.note_refusals(%s::jsonb)", json.dumps(refusals))

    def test_are_counted_and_their_samples_kept(self, sql: Contract) -> None:
        now = sql.clock.stop()
        sample = {
            "at": "2026-11-30T10:00:00Z",
            "detail": "d",
            "headers": {"h": ["1"]},
            "size": 3,
            "event_id": "e",
        }
        self.note(
            sql,
            {
                "source": "a",
                "reason": "mismatch",
                "count": 5,
                "samples": [sample | {"body_base64": "AP8B"}, {}],
            },
            {"source": "a", "reason": "stale", "count": 2},
            {"source": "b", "reason": "stale", "count": 1, "samples": []},
        )
        self.note(sql, {"source": "a", "reason": "stale", "count": 1})
        assert sql("select source, refused, last_refused_at from redrive.inbox_status()") == [
            ("a", {"mismatch": 5, "stale": 3}, now),
            ("b", {"stale": 1}, now),
        ]
        second, first = sql("select * from redrive.refusals('a')")
        assert (first.detail, bytes(first.body), first.size) == ("d", b"\0\xff\1", 3)
        assert (first.headers, first.event_id, first.at.hour) == ({"h": ["1"]}, "e", 10)
        assert (second.detail, second.body, second.size, second.headers, second.at) == (
            None,
            None,
            None,
            None,
            now,
        )
        assert sql("select 1 from redrive.refusals('b')") == []

    def test_of_a_source_are_the_newest_two_hundred(self, sql: Contract) -> None:
        self.note(sql, {"source": "b", "reason": "stale", "count": 1, "samples": [{"detail": "b"}]})
        samples = [{"detail": str(n)} for n in range(150)]
        for _ in range(3):
            self.note(sql, {"source": "a", "reason": "stale", "count": 150, "samples": samples})
        kept = sql("select detail from redrive.webhook_refused where source = 'a' order by id")
        assert len(kept) == 200
        assert (kept[0].detail, kept[-1].detail) == ("100", "149")
        assert len(sql("select 1 from redrive.refusals('b')")) == 1
        assert len(sql("select 1 from redrive.refusals(p_limit => 7)")) == 7

    def test_conflicts_are_bounded_too(self, sql: Contract) -> None:
        sql.create()
        receive(sql, {"n": 0})
        sql(
            "select count(*) from generate_series(1, 250) n, redrive.receive_event('stripe', 'evt_1', 't', "
            "to_jsonb(n), n::text::bytea, '{}', 'jobs')"
        )
        assert sql.value("select count(*) from redrive.webhook_refused") == 200
        assert sql.value("select refused from redrive.inbox_status('stripe')") == {"conflict": 250}

    def test_a_large_body_or_many_headers_are_cut(self, sql: Contract) -> None:
        sql.create()
        receive(sql, {"n": 0})
        receive(sql, None, raw=b"x" * 100_000, headers={"a": "y" * 100_000})
        [kept] = sql("select * from redrive.refusals('stripe')")
        assert (len(bytes(kept.body)), kept.size, kept.headers) == (65536, 100_000, None)

    @pytest.mark.parametrize(
        "refusals",
        [
            "null",
            "{}",
            '[{"reason": "stale", "count": 1}]',
            '[{"source": "a", "reason": "Stale!", "count": 1}]',
            '[{"source": "a", "reason": "stale"}]',
            '[{"source": "a", "reason": "stale", "count": -1}]',
            '[{"source": "a", "reason": "stale", "count": 1, "samples": {}}]',
        ],
    )
    def test_that_are_none_are_refused(self, sql: Contract, refusals: str) -> None:
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            sql("select redrive.note_refusals(%s::jsonb)", refusals)

    @pytest.mark.once
    def test_of_many_receivers_at_once_are_all_counted(self, sql: Contract) -> None:
        def work(session: Connection, place: int) -> None:
            for _ in range(10):
                order = ["a", "b"] if place % 2 else ["b", "a"]
                said = [{"source": s, "reason": "stale", "count": 1, "samples": [{}] * 30} for s in order]
                session.execute("select redrive.note_refusals(%s::jsonb)", (json.dumps(said),))

        assert sql.at_once(8, work) == [None] * 8
        assert sql("select source, refused from redrive.inbox_status()") == [
            ("a", {"stale": 80}),
            ("b", {"stale": 80}),
        ]
        assert (
            sql.value(
                "select max(n) from (select count(*) as n from redrive.webhook_refused group by source) s"
            )
            <= 440
        )


@with_headers
class TestAnAnswerOfAnApi:
    def fetched(self, session: Any, at: str) -> bool:
        [(may,)] = session("select redrive.note_fetch('a', 'r', %s)", at)
        return may

    def test_counts_unless_a_later_one_was_written(self, sql: Contract) -> None:
        assert self.fetched(sql, "2026-01-01 00:00:02Z")
        assert not self.fetched(sql, "2026-01-01 00:00:01Z")
        assert self.fetched(sql, "2026-01-01 00:00:02Z")
        assert self.fetched(sql, "2026-01-01 00:00:03Z")
        assert sql.value("select redrive.note_fetch('a', 'another', '2026-01-01 00:00:00Z')")
        assert sql.value("select redrive.note_fetch('b', 'r', '2026-01-01 00:00:00Z')")

    def test_that_is_being_written_is_waited_for(self, sql: Contract) -> None:
        assert self.fetched(sql, "2026-01-01 00:00:01Z")
        other = sql.connect()
        other.execute("begin")
        # Even one that must not be written holds the row: what it decided stays true until its end.
        other.execute("select redrive.note_fetch('a', 'r', '2026-01-01 00:00:00Z')")
        sql("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            self.fetched(sql, "2026-01-01 00:00:03Z")
        other.execute("rollback")
        assert self.fetched(sql, "2026-01-01 00:00:03Z")

    @pytest.mark.parametrize(
        "given", ["null, 'r', now()", "'a', null, now()", "'a', 'r', null", "'a', 'r', 'infinity'"]
    )
    def test_of_nothing_is_refused(self, sql: Contract, given: str) -> None:
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            sql(f"select redrive.note_fetch({given})")
