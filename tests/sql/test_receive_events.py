"""receive_events: what receive_event does, for many events in one call."""

from __future__ import annotations

import json
import threading
from typing import Any

import psycopg
import pytest

from tests.support.contract import Contract
from tests.support.inbox import event, receive
from tests.support.layouts import newest_only, with_headers, without_headers


def described(
    event_id: str, payload: object = ..., *, raw: bytes | None = None, **rest: Any
) -> tuple[dict[str, Any], bytes]:
    """One event of the call; without a payload where none is given."""
    facts = {"source": "stripe", "event_id": event_id, "type": "t", "queue": "jobs", **rest}
    if payload is not ...:
        facts["payload"] = payload
    body = json.dumps(payload).encode() if raw is None else raw
    return {**facts, "size": len(body)}, body


def receive_all(sql: Contract, *given: tuple[dict[str, Any], bytes]) -> list[Any]:
    return sql(
        "select * from redrive.receive_events(%s::jsonb, %s::bytea) order by n",
        json.dumps([facts for facts, _ in given]),
        b"".join(raw for _, raw in given),
    )


@without_headers
def test_a_queue_without_headers_is_refused(sql: Contract) -> None:
    sql.create()
    with pytest.raises(psycopg.Error, match=r"webhook events need pgmq 1\.5 or newer"):
        receive_all(sql, described("e", {}))


@with_headers
class TestManyEvents:
    def test_are_recorded_as_one_is(self, sql: Contract) -> None:
        sql.create()
        sql.clock.stop()
        rest = {"headers": {"a": "b"}, "resource": "r", "volatile": ["attempts"]}
        one = receive(
            sql, {"n": 1}, event_id="one", type="t", headers={"a": "b"}, resource="r", volatile=["attempts"]
        )
        [many] = receive_all(sql, described("many", {"n": 1}, **rest))
        assert (many.n, many.duplicate, many.conflict) == (1, False, False)
        alike = [event(sql, each)._replace(id=None, event_id=None, msg_id=None) for each in (one.id, many.id)]
        assert alike[0] == alike[1]
        messages = [sql.live(each) for each in (one.msg_id, many.msg_id)]
        assert messages[1].headers == {"x-redrive-event": str(many.id), "x-redrive-key": ""}
        assert [(m.message, m.vt, m.read_ct) for m in messages] == [({"n": 1}, messages[0].vt, 0)] * 2
        assert [d.msg_id for d in sql.claim(10)] == [one.msg_id, many.msg_id]

    def test_each_have_their_own_body_whatever_stands_before_it(self, sql: Contract) -> None:
        sql.create()
        bodies = [b"", b"\x00\xff", b'{"a":1}', b"", b"x" * 3000]
        got = receive_all(sql, *(described(f"e{n}", raw=body) for n, body in enumerate(bodies)))
        assert [row.n for row in got] == [1, 2, 3, 4, 5]
        assert [bytes(event(sql, row.id).raw) for row in got] == bodies
        assert sql.live(got[2].msg_id).message == {"event_id": "e2", "type": "t"}

    @pytest.mark.parametrize(
        "sizes", [(2, 2), (4, 2), (-1, 6), (5, None), (None, None), ("3x", 2), (2.5, 2.5), (10**12, 5)]
    )
    def test_that_share_out_their_bodies_wrongly_are_refused(self, sql: Contract, sizes: Any) -> None:
        sql.create()
        both = [described("a", raw=b"abc"), described("b", raw=b"de")]
        wrong = [({**facts, "size": size}, raw) for (facts, raw), size in zip(both, sizes, strict=True)]
        with pytest.raises(psycopg.Error, match="sizes of the events must be whole numbers, in all as many"):
            receive_all(sql, *wrong)
        assert sql("select from redrive.webhook_event") == []

    def test_tell_json_null_from_no_payload(self, sql: Contract) -> None:
        sql.create()
        null, nothing = receive_all(sql, described("null", None), described("nothing", raw=b"null"))
        stored = "select payload::text from redrive.webhook_event where id = %s"
        assert (sql.value(stored, null.id), sql.value(stored, nothing.id)) == ("null", None)

    def test_that_came_before_are_duplicates_also_of_each_other(self, sql: Contract) -> None:
        sql.create()
        earlier = receive(sql, {"n": 1}, event_id="b")
        got = receive_all(
            sql,
            *(described("c", {"n": 2}), described("b", {"n": 1}), described("a", {"n": 3})),
            *(described("c", {"n": 2}), described("c", {"n": 9})),
        )
        assert [(row.duplicate, row.conflict) for row in got] == [
            *((False, False), (True, False), (False, False), (True, False), (True, True))
        ]
        assert got[1].id == earlier.id and got[3].id == got[0].id == got[4].id
        assert len(sql.waiting()) == 3
        assert got[0].msg_id < got[2].msg_id, "jobs are in the order of their arrival"

    def test_of_several_queues_and_sources_go_where_they_belong(self, sql: Contract) -> None:
        sql.create()
        sql.create(queue="others")
        got = receive_all(
            sql,
            *(described("e", {"n": 1}), described("e", {"n": 2}, source="mux", queue="others")),
            described("e", {"n": 3}, source="github"),
        )
        assert [event(sql, row.id).queue for row in got] == ["jobs", "others", "jobs"]
        assert [event(sql, row.id).payload["n"] for row in got] == [1, 2, 3]
        assert sql.live(got[1].msg_id, queue="others").message == {"n": 2}

    def test_with_a_derived_id_are_suppressed_for_a_while_only(self, sql: Contract) -> None:
        sql.create()
        first, again = receive_all(
            sql, described("d", {"n": 1}, derived=True), described("d", {"n": 2}, derived=True)
        )
        assert (again.id, again.duplicate, again.conflict) == (first.id, True, False)
        sql("update redrive.webhook_event set status = 'processed'")
        sql.clock.move(2 * 3600 + 1)
        [later] = receive_all(sql, described("d", {"n": 3}, derived=True))
        assert not later.duplicate and event(sql, later.id).event_id.startswith("d@")

    def test_are_all_recorded_or_none(self, sql: Contract) -> None:
        sql.create()
        with pytest.raises(psycopg.Error, match="queue gone does not exist"):
            receive_all(sql, described("a", {}), described("b", {}, queue="gone"))
        with pytest.raises(psycopg.Error, match="the id of an event"):
            receive_all(sql, described("a", {}), described("", {}))
        assert sql("select 1 from redrive.webhook_event") == [] and sql.waiting() == []

    def test_over_a_megabyte_are_known_as_large(self, sql: Contract) -> None:
        sql.create()
        small, large = receive_all(sql, described("s", {}), described("l", {"x": "\x01" * 200_000}))
        assert "x-redrive-large" not in sql.live(small.msg_id).headers
        assert sql.live(large.msg_id).headers["x-redrive-large"] is True
        assert sql.value("select large and inbox from redrive.queue where queue = 'jobs'")

    @pytest.mark.once
    def test_whose_few_bytes_are_too_many_digits_are_refused(self, sql: Contract) -> None:
        sql.create()
        raw = b"[" + b",".join([b"1e100000"] * 3000) + b"]"
        facts = {**described("e", raw=raw)[0], "payload": 0}
        text = json.dumps([facts]).replace('"payload": 0', f'"payload": {raw.decode()}')
        with pytest.raises(psycopg.Error, match="bytes of JSON") as refused:
            sql("select * from redrive.receive_events(%s::jsonb, %s::bytea)", text, raw)
        assert refused.value.sqlstate == "54000"

    @pytest.mark.parametrize("events", ["null", "{}", "3"])
    def test_are_an_array(self, sql: Contract, events: str) -> None:
        with pytest.raises(psycopg.Error, match="events are a JSON array"):
            sql("select * from redrive.receive_events(%s::jsonb, '')", events)
        assert sql("select * from redrive.receive_events('[]', '')") == []


@newest_only
def test_the_same_events_in_different_orders_at_once_are_recorded_once(sql: Contract) -> None:
    sql.create()
    ids = [f"e{n}" for n in range(20)]
    begin = threading.Barrier(8)
    answers: list[list[Any]] = []

    def bring(turned: list[str]) -> None:
        connection = sql.connect()
        events = [described(each, {"id": each}, derived=each == "e7") for each in turned]
        facts, raws = json.dumps([facts for facts, _ in events]), b"".join(raw for _, raw in events)
        begin.wait()
        rows = connection.execute(
            "select * from redrive.receive_events(%s::jsonb, %s::bytea) order by n", (facts, raws)
        ).fetchall()
        answers.append([(each, row) for each, row in zip(turned, rows, strict=True)])

    threads = [
        threading.Thread(target=bring, args=(ids[n:] + ids[:n] if n % 2 else ids[::-1],)) for n in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(answers) == 8
    assert len(sql.waiting()) == len(sql("select 1 from redrive.webhook_event")) == 20
    for each in ids:
        named = [row for answer in answers for name, row in answer if name == each]
        assert len({row.id for row in named}) == 1
        assert sum(not row.duplicate for row in named) == 1 and not any(row.conflict for row in named)
