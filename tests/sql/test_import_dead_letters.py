"""import_dead_letters takes in what other workers put into a queue of their own: moved, each once."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support.contract import Connection, Contract
from tests.support.layouts import newest_only, with_headers

ONE = {
    "original_msg_id": 42,
    "read_ct": 6,
    "enqueued_at": "2026-01-02T03:04:05+00:00",
    "dead_lettered_at": "2026-01-03T00:00:00+00:00",
    "payload": {"template": "welcome", "idempotency_key": "k"},
}
OTHER = {"payload": {"type": "video.ready"}, "attempts": 7}


def take(sql: Contract, *, after: int = 0, limit: int = 200, dry_run: bool = False) -> list[Any]:
    return sql(
        "select msg_id, dead_id, status from redrive.import_dead_letters('jobs_dead', 'jobs', %s, %s, %s)",
        after,
        limit,
        dry_run,
    )


@pytest.fixture
def dead(sql: Contract) -> Contract:
    """A queue of redrive's, and one that somebody puts dead letters into."""
    sql.create()
    sql("select pgmq.create('jobs_dead')")
    return sql


def put(sql: Contract, *messages: object) -> None:
    for each in messages:
        sql("select pgmq.send('jobs_dead', %s::jsonb)", json.dumps(each))


def there(sql: Contract) -> list[int]:
    return sql.column("select msg_id from pgmq.q_jobs_dead order by msg_id")


def test_both_envelopes_become_dead_letters(dead: Contract) -> None:
    put(dead, ONE, OTHER)
    assert take(dead) == [(1, 1, "imported"), (2, 2, "imported")]
    one, other = dead.letters()
    assert (one.original_msg_id, one.read_ct, one.attempts, one.key) == (42, 6, 6, "k")
    assert one.payload == ONE["payload"]
    assert one.enqueued_at.isoformat() == ONE["enqueued_at"]
    assert one.dead_lettered_at.isoformat() == ONE["dead_lettered_at"]
    assert (one.reason, one.error, one.failures, one.generation, one.origin) == ("failed", None, [], 0, 42)
    assert (other.original_msg_id, other.read_ct, other.attempts) == (None, 7, 7)
    assert (other.payload, other.reason, other.enqueued_at, other.key) == (
        OTHER["payload"],
        "failed",
        None,
        None,
    )
    assert other.dead_lettered_at == dead.value("select enqueued_at from pgmq.a_jobs_dead where msg_id = 2")


def test_they_leave_their_queue_for_its_archive(dead: Contract) -> None:
    put(dead, ONE, OTHER)
    take(dead)
    assert there(dead) == []
    assert dead.column("select message from pgmq.a_jobs_dead order by msg_id") == [ONE, OTHER]
    assert take(dead) == []


def test_they_are_redriven_and_discarded_like_any_other(dead: Contract) -> None:
    put(dead, OTHER, ONE, OTHER)
    take(dead)
    assert dead.redrive(1, 2) == [(1, 1, "redriven"), (2, 2, "redriven")]
    assert [each.message for each in dead.claim(qty=5)] == [OTHER["payload"], ONE["payload"]]
    assert dead.column("select redrive.discard('jobs', array[3])") == [3]
    assert dead.letters() == []


@newest_only
def test_a_time_that_no_client_can_read_is_as_if_it_were_absent(dead: Contract) -> None:
    for time in ("infinity", "-infinity", "20000-01-01T00:00:00Z", "0044-03-15 BC", "soon", 5):
        odd = ONE | {"enqueued_at": time, "dead_lettered_at": time}
        put(dead, odd)
        dead("select pgmq.send('jobs_dlq', %s::jsonb)", json.dumps(odd))
    dead("update pgmq.q_jobs_dlq set enqueued_at = 'infinity'")
    take(dead)
    assert [each.enqueued_at for each in dead.letters()] == [None] * 12
    assert all(2000 < each.dead_lettered_at.year < 9999 for each in dead.letters())
    assert "infinity" not in json.dumps(dead.value("select redrive.why('jobs', 42)"))


@newest_only
def test_failures_that_are_no_objects_are_left_out(dead: Contract) -> None:
    put(dead, OTHER | {"failures": ["boom", None, {"error": "a"}, 5, {"error": "b"}]})
    take(dead)
    assert dead.letters()[0].failures == [{"error": "a"}, {"error": "b"}]


@newest_only
def test_why_and_message_speak_of_them(dead: Contract) -> None:
    put(dead, OTHER, ONE)
    take(dead)
    assert dead.value("select redrive.why('jobs', 42)")
    assert dead.redrive(2) == [(2, 1, "redriven")]
    assert dead.value("select redrive.why('jobs', 1)")


@pytest.mark.parametrize(
    "message",
    [
        {"n": 1},
        {"payload": {}},
        {"payload": {}, "attempts": "many"},
        {"payload": {}, "original_msg_id": 1.5},
        {"attempts": 3},
        [1],
        "text",
        None,
    ],
)
@newest_only
def test_what_fits_no_envelope_is_left_and_named(dead: Contract, message: object) -> None:
    put(dead, message, OTHER)
    assert take(dead) == [(1, None, "no envelope"), (2, 1, "imported")]
    assert there(dead) == [1]


@newest_only
def test_what_somebody_has_read_or_holds_is_left(dead: Contract) -> None:
    put(dead, ONE, OTHER, OTHER)
    dead("select * from pgmq.read('jobs_dead', 60, 1)")
    with psycopg.connect(dead.url) as other:
        other.execute("select from pgmq.q_jobs_dead where msg_id = 2 for update")
        assert take(dead) == [(1, None, "in flight"), (2, None, "locked"), (3, 1, "imported")]
    assert there(dead) == [1, 2]


@newest_only
def test_a_dry_run_says_the_same_and_changes_nothing(dead: Contract) -> None:
    put(dead, ONE, {"n": 1}, OTHER)
    dead("select pgmq.set_vt('jobs_dead', 3, 60)")
    assert take(dead, dry_run=True) == [
        (1, None, "imported"),
        (2, None, "no envelope"),
        (3, None, "in flight"),
    ]
    assert (there(dead), dead.letters()) == ([1, 2, 3], [])


@newest_only
def test_a_batch_is_bounded_and_the_next_goes_on_behind_it(dead: Contract) -> None:
    put(dead, {"n": 1}, *[OTHER] * 4)
    assert [each.msg_id for each in take(dead, limit=2)] == [1, 2]
    assert [each.msg_id for each in take(dead, after=2, limit=2)] == [3, 4]
    assert there(dead) == [1, 5]


@newest_only
def test_two_at_once_make_one_copy(dead: Contract) -> None:
    put(dead, *[OTHER] * 300)

    def run(session: Connection, place: int) -> None:
        for _ in range(5):
            session.execute("select * from redrive.import_dead_letters('jobs_dead', 'jobs', null, 80)")

    dead.at_once(4, run)
    take(dead)
    took = dead.column("select message -> 'imported_from' -> 'msg_id' from pgmq.q_jobs_dlq order by 1")
    assert took == list(range(1, 301))
    assert there(dead) == []


@newest_only
def test_a_batch_that_is_not_committed_never_was(dead: Contract) -> None:
    put(dead, ONE)
    with psycopg.connect(dead.url) as other:
        other.execute("select * from redrive.import_dead_letters('jobs_dead', 'jobs')")
        other.rollback()
    assert (there(dead), dead.letters()) == ([1], [])


@newest_only
def test_headers_are_kept_but_for_redrives_own(dead: Contract) -> None:
    mine = {"trace": "a", "x-redrive-key": "stolen", "X-Redrive-Event": "x"}
    put(
        dead,
        OTHER
        | {"headers": mine, "failures": [{"error": "no"}], "error": "no", "reason": "rejected", "note": 1},
    )
    take(dead)
    [letter] = dead.letters()
    assert (letter.headers, letter.error, letter.reason) == ({"trace": "a"}, "no", "rejected")
    assert letter.failures == [{"error": "no"}]
    assert dead.value("select message -> 'note' from pgmq.q_jobs_dlq") == 1
    dead.redrive(1)
    assert dead.claim_one().headers["trace"] == "a"


@with_headers
def test_headers_of_the_letters_own_message_are_kept_too(dead: Contract) -> None:
    dead(
        "select pgmq.send('jobs_dead', %s::jsonb, %s::jsonb)",
        json.dumps(OTHER),
        '{"a": 1, "x-redrive-key": "k"}',
    )
    take(dead)
    assert dead.letters()[0].headers == {"a": 1}


@newest_only
def test_what_cannot_be_is_refused(dead: Contract) -> None:
    def refusal(source: str | None, queue: str = "jobs", limit: int = 5) -> str:
        with pytest.raises(psycopg.Error) as caught:
            dead("select * from redrive.import_dead_letters(%s, %s, null, %s)", source, queue, limit)
        return str(caught.value)

    assert "queue jobs_dlq has the dead letters of jobs already; see redrive dlq list jobs" in refusal(
        "jobs_dlq"
    )
    assert "cannot be taken from the queue itself" in refusal("jobs")
    dead("select redrive.create_queue('mails')")
    assert "queue mails is one of redrive's: its messages are jobs" in refusal("mails")
    assert "pgmq has no queue nothing" in refusal("nothing")
    assert "queue other does not exist" in refusal("jobs_dead", "other")
    assert "limit is 0" in refusal("jobs_dead", limit=0)
    assert "cannot be taken from null" in refusal(None)
    dead("select pgmq.drop_queue('jobs_dlq')")
    assert "the dead-letter queue of jobs is missing" in refusal("jobs_dead")
