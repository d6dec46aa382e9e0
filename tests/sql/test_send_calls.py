"""send and send_batch: what is written down, what is refused, and that both join the caller's transaction."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from tests.support.contract import Connection, Contract, ids
from tests.support.layouts import newest_only, with_headers, without_headers

pytestmark = pytest.mark.once

REFUSED = psycopg.errors.InvalidParameterValue


def batch(sql: Contract, messages: object, keys: list[str | None] | None = None, **more: object) -> list[int]:
    named = "".join(f", p_{name} => %s" for name in more)
    return sql.column(
        f"select * from redrive.send_batch(p_queue => 'jobs', p_messages => %s, p_keys => %s::text[]{named})",
        json.dumps(messages),
        keys,
        *(json.dumps(v) if isinstance(v, dict) else v for v in more.values()),
    )


def test_a_sent_message_is_due_at_once_unread_and_bare(sql: Contract) -> None:
    sql.create()
    now = sql.clock.stop()
    row = sql.live(sql.send({"n": [1, None, "é"]}))
    assert (row.msg_id, row.read_ct, row.vt, row.message) == (1, 0, now, {"n": [1, None, "é"]})


@pytest.mark.parametrize(
    "payload", ['"text"', "5", "null", "[1, 2]", "true", "12345678901234567890123456789", "1.10"]
)
def test_any_json_value_is_a_payload_and_survives_exactly(sql: Contract, payload: str) -> None:
    sql.create()
    sql("select redrive.send('jobs', %s::jsonb)", payload)
    sql("select redrive.send_batch('jobs', jsonb_build_array(%s::jsonb))", payload)
    read = sql.column("select message::text from redrive.claim('jobs', 60, 10, 'w')")
    assert read == [payload, payload]


@with_headers
def test_headers_and_key_travel_with_the_message(sql: Contract) -> None:
    sql.create()
    sent = sql.send({"n": 1}, key="k", headers={"trace": "abc"})
    assert sql.live(sent).headers == {"trace": "abc", "x-redrive-key": "k"}
    assert sql.live(sql.send({"n": 2})).headers is None

    delivery = next(d for d in sql.claim() if d.msg_id == sent)
    assert (delivery.key, delivery.headers) == ("k", {"trace": "abc", "x-redrive-key": "k"})


def test_a_delay_or_a_time_says_when_a_message_is_due(sql: Contract) -> None:
    sql.create()
    now = sql.clock.stop()
    at = datetime(2040, 1, 2, 3, 4, 5, tzinfo=UTC)
    later, timed, passed = (
        sql.send({}, delay=1.5),
        sql.send({}, at=at, delay=9),
        sql.send({}, at=now - timedelta(1)),
    )

    assert sql.live(later).vt == now + timedelta(seconds=1.5)
    assert sql.live(timed).vt == at
    assert ids(sql.claim()) == [passed]
    assert batch(sql, [1, 2], delay=60) == [4, 5]
    assert {sql.live(n).vt for n in (4, 5)} == {now + timedelta(seconds=60)}


@pytest.mark.parametrize(
    "call", ["send(p_queue => 'jobs', p_message => '{}'", "send_batch(p_queue => 'jobs', p_messages => '[1]'"]
)
@pytest.mark.parametrize("delay", ["-1", "null", "'NaN'", "'Infinity'", "3155760001"])
@newest_only
def test_a_delay_that_is_no_time_to_wait_is_refused(sql: Contract, call: str, delay: str) -> None:
    sql.create()
    with pytest.raises(REFUSED, match=r"delay is .*; it must be a number of seconds from 0 to"):
        sql(f"select redrive.{call}, p_delay => {delay})")
    with pytest.raises(REFUSED, match="at is infinity; give a finite time"):
        sql(f"select redrive.{call}, p_at => 'infinity')")
    assert sql.waiting() == []


@newest_only
def test_a_message_that_is_no_json_is_refused(sql: Contract) -> None:
    sql.create()
    with pytest.raises(REFUSED, match="message is null"):
        sql("select redrive.send('jobs', null)")
    for wrong in (None, "{}", "5"):
        with pytest.raises(REFUSED, match="messages must be one JSON array"):
            sql("select redrive.send_batch('jobs', %s)", wrong)


@pytest.mark.parametrize(
    "headers", [{"x-redrive-key": "mine"}, {"X-Redrive-Credit": 9}, {"ok": 1, "x-redrive-": 1}]
)
@with_headers
def test_redrives_own_header_names_are_refused(sql: Contract, headers: dict[str, object]) -> None:
    sql.create()
    with pytest.raises(REFUSED, match="headers that begin with x-redrive- are redrive's own"):
        sql.send({}, headers=headers)
    with pytest.raises(REFUSED, match="x-redrive-"):
        batch(sql, [1], headers=headers)
    with pytest.raises(REFUSED, match="x-redrive-"):
        sql.send({}, headers=headers, unique=True, key="k")


@pytest.mark.parametrize("headers", ["[]", '"text"', "5", "null"])
@with_headers
def test_headers_that_are_no_object_are_refused(sql: Contract, headers: str) -> None:
    sql.create()
    with pytest.raises(REFUSED, match="they must be a JSON object"):
        sql("select redrive.send('jobs', '{}', p_headers => %s)", headers)


@without_headers
def test_a_queue_without_headers_takes_the_key_of_the_payload_and_refuses_what_needs_them(
    sql: Contract,
) -> None:
    sql.create()
    refused: list[dict[str, Any]] = [{"headers": {"a": 1}}, {"key": "k"}]
    for wrong in refused:
        with pytest.raises(
            psycopg.Error, match=r"made by a pgmq without headers: .*need pgmq 1\.5 or newer"
        ) as caught:
            sql.send({"n": 1}, **wrong)
        assert caught.value.sqlstate == "RD002"
    with pytest.raises(psycopg.Error, match="made by a pgmq without headers"):
        batch(sql, [{"n": 1}], ["k"])
    with pytest.raises(psycopg.Error, match="made by a pgmq without headers"):
        batch(sql, [{"n": 1}], headers={"a": 1})
    assert sql.waiting() == []

    sql.send({"idempotency_key": "k"}, key="k")
    assert batch(sql, [{"idempotency_key": "j"}], ["j"]) == [2]
    assert [d.key for d in sql.claim()] == ["k", "j"]


def test_a_batch_is_sent_in_its_order_and_answers_in_it(sql: Contract) -> None:
    sql.create()
    sent = batch(sql, [{"n": n} for n in range(2000)])
    assert sent == list(range(1, 2001))
    assert sql.column("select message ->> 'n' from pgmq.q_jobs order by msg_id") == [
        str(n) for n in range(2000)
    ]


@with_headers
def test_a_batch_gives_each_message_its_key_and_all_the_same_headers(sql: Contract) -> None:
    sql.create()
    sent = batch(sql, [{"n": 0}, {"idempotency_key": "p"}, {"n": 2}], ["z", None, "a"], headers={"t": 1})
    assert sent == [1, 2, 3]
    assert sql.column("select headers from pgmq.q_jobs order by msg_id") == [
        {"t": 1, "x-redrive-key": "z"},
        {"t": 1},
        {"t": 1, "x-redrive-key": "a"},
    ]
    assert sql("select key, msg_ids from redrive.sent_key order by key") == [
        ("a", [3]),
        ("p", [2]),
        ("z", [1]),
    ]


def test_an_empty_batch_sends_nothing(sql: Contract) -> None:
    sql.create()
    assert batch(sql, []) == []
    assert batch(sql, [], []) == []


@newest_only
def test_a_batch_with_one_bad_key_sends_nothing(sql: Contract) -> None:
    sql.create()
    with pytest.raises(REFUSED, match="key is 513 characters; it must have 1 to 512"):
        batch(sql, [1, 2], ["good", "k" * 513])
    with pytest.raises(REFUSED, match="key is 0 characters"):
        batch(sql, [1], [""])
    with pytest.raises(REFUSED, match="there are 1 keys for 2 messages; give one each, null for none"):
        batch(sql, [1, 2], ["k"])
    assert sql.waiting() == []
    assert sql("select from redrive.sent_key") == []


@pytest.mark.parametrize("unique", [False, True])
def test_a_key_in_the_payload_that_no_index_could_hold_is_refused(sql: Contract, unique: bool) -> None:
    sql.create()
    sql("create temp table hard as select string_agg(md5(n::text), '') as key from generate_series(1, 400) n")
    for call in (
        "redrive.send('jobs', {}, p_unique => %s)",
        "redrive.send_batch('jobs', jsonb_build_array({}), p_unique => %s)",
    ):
        call = call.format("jsonb_build_object('idempotency_key', key)")
        with pytest.raises(REFUSED, match="key is 12800 characters; it must have 1 to 512"):
            sql(f"select {call} from hard", unique)
    assert sql.waiting() == []


@newest_only
def test_the_longest_key_fits_in_any_alphabet(sql: Contract) -> None:
    sql.create()
    key = "".join(chr(0x1F300 + n % 600) for n in range(512))
    assert sql.send({}, key=key, unique=True) == sql.send({}, key=key, unique=True)
    assert sql.claim_one().key == key


def test_a_send_joins_the_callers_transaction(sql: Contract) -> None:
    sql.create()
    sender = sql.connect()
    sender.execute("begin")
    sender.execute("select redrive.send('jobs', '1')")
    sender.execute("select redrive.send_batch('jobs', '[2, 3]')")
    assert sql.claim() == []
    sender.execute("rollback")
    assert sql.waiting() == []

    sender.execute("begin")
    sender.execute("select redrive.send('jobs', '{\"idempotency_key\": \"k\"}')")
    sender.execute("commit")
    assert [d.key for d in sql.claim()] == ["k"]


@newest_only
def test_senders_of_one_key_wait_for_each_other_and_all_their_messages_are_kept(sql: Contract) -> None:
    sql.create()

    def send(session: Connection, place: int) -> int:
        [(sent,)] = session.execute("select redrive.send('jobs', '{}', p_key => 'k')").fetchall()
        return sent

    sent = sql.at_once(20, send)
    assert sorted(sql.value("select msg_ids from redrive.sent_key")) == sorted(sent)


@newest_only
def test_batches_with_the_same_keys_in_different_orders_never_deadlock(sql: Contract) -> None:
    sql.create()

    def send(session: Connection, place: int) -> None:
        keys = [f"k{n}" for n in range(50)]
        for _ in range(5):
            keys.reverse()
            order = keys if place % 2 else keys[::-1]
            session.execute(
                "select redrive.send_batch('jobs', to_jsonb(%s::text[]), p_keys => %s)", (order, order)
            )

    assert sql.at_once(4, send) == [None] * 4
    assert sql.value("select sum(cardinality(msg_ids)) from redrive.sent_key") == 4 * 5 * 50


def test_another_key_field_or_none_is_the_queues_policy(sql: Contract) -> None:
    sql.create(key_field="event id")
    sql.create("plain", key_field=None)
    assert batch(sql, [{"event id": "e", "idempotency_key": "i"}, 1]) == [1, 2]
    sql.send({"idempotency_key": "i"}, queue="plain")

    assert sorted(str(d.key) for d in sql.claim()) == ["None", "e"]
    assert sql.claim_one(queue="plain").key is None


def test_an_unknown_queue_is_an_error_of_its_own(sql: Contract) -> None:
    for call in (
        "send('nothing', '{}')",
        "send_batch('nothing', '[]')",
        "send_checked('nothing', '{}', 'k', p_unique => true)",
    ):
        with pytest.raises(
            psycopg.Error, match="queue nothing does not exist; run: redrive queue create nothing"
        ) as caught:
            sql(f"select redrive.{call}")
        assert caught.value.sqlstate == "RD001"


class TestUnique:
    def test_fifty_at_once_make_one_message(self, sql: Contract) -> None:
        sql.create()

        def send(session: Connection, place: int) -> int:
            call = "select redrive.send('jobs', '{\"idempotency_key\": \"k\"}', p_unique => true)"
            [(sent,)] = session.execute(call.encode()).fetchall()
            return sent

        assert len(set(sql.at_once(50, send))) == 1
        assert len(sql.waiting()) == 1

    def test_a_key_that_is_queued_or_running_or_done_answers_with_its_message(self, sql: Contract) -> None:
        sql.create()
        message = {"idempotency_key": "k"}
        sent = sql.send(message)
        again = "select * from redrive.send_checked('jobs', %s, p_unique => true)"
        assert sql(again, json.dumps(message)) == [(sent, True)]
        [delivery] = sql.claim()
        assert sql(again, json.dumps(message)) == [(sent, True)]
        sql("select redrive.settle('jobs', array[%s::bigint], array[1], array['done'])", delivery.msg_id)
        assert sql(again, json.dumps(message)) == [(sent, True)]
        assert sql(again, json.dumps({"idempotency_key": "another"})) == [(sent + 1, False)]
        assert sql.waiting() == [sent + 1]

    @pytest.mark.parametrize("end", ["reject", "cancel", "purge", "retention"])
    def test_a_key_whose_message_ended_otherwise_may_be_sent_again(self, sql: Contract, end: str) -> None:
        sql.create(key_retention=100)
        sql.clock.stop()
        sent = sql.send({"idempotency_key": "k"}, unique=True)
        if end == "cancel":
            assert sql.cancel(sent) == [sent]
        elif end == "purge":
            sql("delete from pgmq.q_jobs")
        else:
            outcome = "done" if end == "retention" else end
            sql.claim_one()
            sql("select redrive.settle('jobs', array[%s::bigint], array[1], array[%s])", sent, outcome)
            sql.clock.move(101)
        assert sql.send({"idempotency_key": "k"}, unique=True) == sent + 1

    def test_a_message_purged_in_mid_run_does_not_pin_its_key(self, sql: Contract) -> None:
        sql.create()
        sent = sql.send({"idempotency_key": "k"}, unique=True)
        sql.claim_one()
        sql("delete from pgmq.q_jobs")
        assert sql.send({"idempotency_key": "k"}, unique=True) == sent + 1

    @newest_only
    def test_without_a_key_it_is_refused(self, sql: Contract) -> None:
        sql.create()
        with pytest.raises(REFUSED, match="unique needs a key; give one"):
            sql.send({"n": 1}, unique=True)
        with pytest.raises(REFUSED, match="unique needs a key"):
            batch(sql, [{"idempotency_key": "k"}, {}], unique=True)
        assert sql.waiting() == []

    @with_headers
    def test_a_batch_repeats_the_id_of_a_key_it_repeats(self, sql: Contract) -> None:
        sql.create()
        sql.send({}, key="old")
        assert batch(sql, [1, 2, 3, 4], ["b", "old", "a", "b"], unique=True) == [3, 1, 2, 3]
        checked = sql(
            "select * from redrive.send_batch_checked('jobs', '[1, 2]', array['c', 'a'], p_unique => true)"
        )
        assert checked == [(4, False), (2, True)]

    @newest_only
    def test_batches_with_the_same_keys_agree_on_every_message(self, sql: Contract) -> None:
        sql.create()

        def send(session: Connection, place: int) -> dict[str, int]:
            keys = [f"k{n}" for n in range(30)]
            if place % 2:
                keys.reverse()
            call = "select redrive.send_batch('jobs', to_jsonb(%s::text[]), p_keys => %s, p_unique => true)"
            rows = session.execute(call.encode(), (keys, keys)).fetchall()
            return dict(zip(keys, [sent for (sent,) in rows], strict=True))

        answers = sql.at_once(6, send)
        assert all(answer == answers[0] for answer in answers)
        assert len(sql.waiting()) == 30

    @newest_only
    def test_one_message_a_key_is_queued_however_often_it_is_worked_off(self, sql: Contract) -> None:
        """A send races with the end of the key's last message: it finds the key taken or free, never both."""
        sql.create(key_field=None, archive=False, key_retention=0.000001)

        def work(session: Connection, place: int) -> int:
            most = 0
            for _ in range(60):
                if place % 2:
                    session.execute("select redrive.send('jobs', '{}', p_key => 'k', p_unique => true)")
                    [(queued,)] = session.execute("select count(*) from pgmq.q_jobs").fetchall()
                    most = max(most, queued)
                else:
                    session.execute(
                        "select redrive.settle('jobs', array_agg(msg_id), array_agg(read_ct), "
                        "array_agg('done'::text)) from redrive.claim('jobs', 60, 5, null) having count(*) > 0"
                    )
            return most

        answers = sql.at_once(6, work)
        assert all(isinstance(answer, int) and answer <= 1 for answer in answers), answers

    def test_a_key_taken_by_hand_sends_nothing_and_belongs_to_no_message(self, sql: Contract) -> None:
        sql.create()
        assert sql.value("select redrive.begin_job('k', 'me', 60, p_queue => 'jobs')") == "claimed"
        assert sql.send({"idempotency_key": "k"}, unique=True) is None
        assert sql.waiting() == []
