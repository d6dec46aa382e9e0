"""Dead letters: the envelope with its whole history, and the page an operator reads."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.support.contract import Contract, reject, report, retry
from tests.support.layouts import newest_only, with_headers

# As the article's recipe writes it, without redrive.
ARTICLE = """
select pgmq.send('jobs_dlq', jsonb_build_object('original_msg_id', 42, 'read_ct', 6,
    'enqueued_at', '2026-01-02T03:04:05Z'::timestamptz,
    'dead_lettered_at', '2026-01-03T00:00:00Z'::timestamptz, 'payload', '{"template": "welcome"}'::jsonb))
"""


def test_the_envelope_is_the_articles_and_more(sql: Contract) -> None:
    sql.create(max_attempts=2)
    sql.send({"idempotency_key": "k", "n": 1})
    enqueued_at = sql.live(1).enqueued_at
    sql.settle(retry(sql.claim_one(worker="a"), delay=0, error_type="ValueError", error="first"), worker="a")
    now = sql.clock.stop()
    last = sql.claim_one(worker="b")
    said = retry(last, error_type="KeyError", error="second", traceback="line 1", duration=1.5)
    assert sql.settle(said, worker="b") == ["dead"]

    [(row,)] = sql("select message from pgmq.q_jobs_dlq")
    headers = row.pop("headers")
    at = [f.pop("at") for f in row["failures"]]
    assert len(at) == 2
    assert row == {
        "original_msg_id": 1,
        "read_ct": 2,
        "enqueued_at": sql.value("select to_jsonb(%s::timestamptz)", enqueued_at),
        "dead_lettered_at": sql.value("select to_jsonb(%s::timestamptz)", now),
        "payload": {"idempotency_key": "k", "n": 1},
        "attempts": 2,
        "reason": "failed",
        "error": "KeyError: second",
        "key": "k",
        "generation": 0,
        "origin": 1,
        "failures": [
            {
                "attempt": 1,
                "worker": "a",
                "error_type": "ValueError",
                "error": "first",
                "traceback": None,
                "duration": None,
            },
            {
                "attempt": 2,
                "worker": "b",
                "error_type": "KeyError",
                "error": "second",
                "traceback": "line 1",
                "duration": 1.5,
            },
        ],
    }
    assert headers is None or set(headers) <= {"x-redrive-settled"}


@with_headers
def test_headers_travel_into_the_envelope(sql: Contract) -> None:
    sql.create()
    sql.send({}, key="k", headers={"trace": "abc"})
    sql.settle(reject(sql.claim_one()))
    [letter] = sql.letters()
    assert (letter.headers["trace"], letter.headers["x-redrive-key"], letter.key) == ("abc", "k", "k")


def test_of_many_failures_the_first_and_last_ten_are_kept(sql: Contract) -> None:
    sql.create(max_attempts=25)
    sql.send({})
    for n in range(1, 26):
        sql.settle(retry(sql.claim_one(), delay=0, error=str(n)))
    [letter] = sql.letters()
    assert [f["error"] for f in letter.failures] == [str(n) for n in (*range(1, 11), *range(16, 26))]
    assert letter.error == "retry: 25"
    assert letter.attempts == 25


def test_a_letter_without_any_recorded_failure_has_an_empty_list(sql: Contract) -> None:
    sql.create()
    sql.send({})
    sql("update pgmq.q_jobs set read_ct = 5")
    assert sql.read() == []
    [letter] = sql.letters()
    assert (letter.failures, letter.error, letter.reason) == ([], None, "failed")


def test_any_payload_survives_in_the_envelope(sql: Contract) -> None:
    sql.create()
    payloads = [
        "null",
        '"text"',
        "[1, 2]",
        "12345678901234567890123456789",
        "1.10",
        '{"payload": {"payload": 1}}',
    ]
    for payload in payloads:
        sql("select redrive.send('jobs', %s::jsonb)", payload)
    for delivery in sorted(sql.claim()):
        sql.settle(reject(delivery))
    assert sql.column("select payload::text from redrive.dead_letters('jobs')") == payloads


def test_a_page_follows_the_last_one_and_no_queue_means_all(sql: Contract) -> None:
    sql.create()
    sql.create("other")
    for n in range(5):
        sql.send({"n": n})
        sql.kill(n + 1)
    sql.send({}, queue="other")
    sql.settle(reject(sql.claim_one(queue="other")), queue="other")

    page = "select dead_id from redrive.dead_letters('jobs', p_after => %s::bigint, p_limit => 2)"
    assert sql.column(page, None) == [1, 2]
    assert sql.column(page, 2) == [3, 4]
    assert sql.column(page, 4) == [5]
    assert sql.column(page, 5) == []
    assert [(r.queue, r.dead_id) for r in sql("select * from redrive.dead_letters(p_limit => 2)")] == [
        ("jobs", 1),
        ("jobs", 2),
        ("other", 1),
    ]


def test_the_articles_own_envelope_reads_as_well(sql: Contract) -> None:
    sql.create()
    sql(ARTICLE)
    [letter] = sql.letters()
    assert (letter.dead_id, letter.original_msg_id, letter.read_ct, letter.attempts) == (1, 42, 6, 6)
    assert letter.payload == {"template": "welcome"}
    assert letter.dead_lettered_at.isoformat() == "2026-01-03T00:00:00+00:00"
    assert (letter.reason, letter.error, letter.failures, letter.headers, letter.key) == (None,) * 5
    assert (letter.generation, letter.origin) == (0, 42)


@pytest.mark.parametrize(
    "foreign",
    [
        {"n": 1},
        [1],
        "text",
        None,
        {
            "payload": {},
            "read_ct": "many",
            "enqueued_at": "yesterday-ish",
            "generation": "x",
            "origin": {},
            "original_msg_id": 1.5,
        },
    ],
)
@newest_only
def test_a_row_that_somebody_put_there_hides_no_other(sql: Contract, foreign: object) -> None:
    sql.create()
    sql("select pgmq.send('jobs_dlq', %s::jsonb)", json.dumps(foreign))
    sql.send({"n": 1})
    sql.kill(1)
    assert [letter.dead_id for letter in sql.letters()] == [1, 2]


def test_a_missing_dead_letter_queue_hides_no_others(sql: Contract) -> None:
    sql.create()
    sql.create("other")
    sql.send({})
    sql.kill(1)
    sql("select pgmq.drop_queue('other_dlq')")
    assert [r.queue for r in sql("select * from redrive.dead_letters()")] == ["jobs"]
    assert sql.letters(queue="other") == []


@newest_only
def test_bad_limits_and_unknown_queues_are_refused(sql: Contract) -> None:
    sql.create()
    for limit in ("0", "-1", "null"):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="limit is"):
            sql(f"select * from redrive.dead_letters('jobs', p_limit => {limit})")
    with pytest.raises(psycopg.Error, match="queue nothing does not exist"):
        sql.letters(queue="nothing")


def test_a_dead_message_is_shown_as_dead_with_its_attempts(sql: Contract) -> None:
    sql.create()
    sql.send({"n": 1})
    sql.settle(report(sql.claim_one(), "malformed", error="no"))
    shown = sql.value("select redrive.message('jobs', 1)")
    assert (shown["state"], shown["outcome"], shown["message"]) == ("dead", "dead", {"n": 1})
    assert [f["error"] for f in shown["failures"]] == ["no"]


def test_a_dead_message_is_shown_where_no_archive_is_kept(sql: Contract) -> None:
    sql.create(archive=False)
    sql.send({"n": 1})
    sql.settle(reject(sql.claim_one(), error="no"))
    shown = sql.value("select redrive.message('jobs', 1)")
    assert (shown["state"], shown["message"]) == ("dead", {"n": 1})
