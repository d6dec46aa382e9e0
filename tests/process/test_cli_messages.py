"""``redrive message`` and ``redrive dlq`` on a real database."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from redrive.cli import canary
from tests.support.cli import fine, run

Db = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _here(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    fine("queue", "create", "emails")


def send(payload: object, *options: str) -> int:
    return fine("send", "emails", json.dumps(payload), "--json", *options).json["sent"][0]["id"]


def settle(db: Db, outcome: str, *, qty: int = 1, error: str = "boom") -> list[int]:
    """Claim messages, as a worker does, and report them."""
    rows = db.execute("select msg_id, read_ct from redrive.claim('emails', 60, %s, 'w')", (qty,)).fetchall()
    ids = [row[0] for row in rows]
    db.execute(
        "select * from redrive.settle('emails', %s, %s, %s, p_error_types => %s, p_errors => %s)",
        (ids, [row[1] for row in rows], [outcome] * len(ids), ["ValueError"] * len(ids), [error] * len(ids)),
    )
    return ids


def bury(db: Db, *payloads: object, error: str = "template missing") -> list[int]:
    """Dead letters of these payloads; their ids."""
    before = {each["dead_id"] for each in fine("dlq", "list", "emails", "--json").json}
    for payload in payloads:
        send(payload)
    assert len(settle(db, "reject", qty=len(payloads), error=error)) == len(payloads)
    after = [each["dead_id"] for each in fine("dlq", "list", "emails", "--json").json]
    return [each for each in after if each not in before]


class TestMessages:
    def test_show_finds_it_in_every_state(self, db: Db) -> None:
        ready, running = send({"n": 1}), send({"n": 2})
        delayed = send({"n": 3}, "--delay", "60")

        def state(msg_id: int) -> str:
            return fine("message", "show", "emails", str(msg_id), "--json").json["state"]

        assert [state(each) for each in (ready, running, delayed)] == ["ready", "ready", "delayed"]
        settle(db, "done")
        db.execute("select * from redrive.claim('emails', 60, 1, 'w')")
        assert [state(ready), state(running)] == ["archived", "running"]
        assert "archived" in fine("message", "show", "emails", str(ready)).out

    def test_show_tells_of_failed_attempts(self, db: Db) -> None:
        msg_id = send({"n": 1})
        settle(db, "retry", error="no route")
        shown = fine("message", "show", "emails", str(msg_id))
        assert "ValueError: no route" in shown.out

    def test_secrets_are_left_out_unless_raw(self) -> None:
        msg_id = send({"user": {"api_key": "hunter2", "name": "Ada"}})
        for form in ([], ["--json"]):
            out = fine("message", "show", "emails", str(msg_id), *form).out
            assert "hunter2" not in out and "Ada" in out
            assert "hunter2" in fine("message", "show", "emails", str(msg_id), "--raw", *form).out

    def test_cancel_ends_what_is_not_running_and_says_what_it_left_alone(self, db: Db) -> None:
        running = send({})
        db.execute("select * from redrive.claim('emails', 60, 1, 'w')")
        waiting = send({})
        refused = run("message", "cancel", "emails", str(waiting))
        assert refused.code == 2 and "--yes" in refused.err

        ran = run("message", "cancel", "emails", str(waiting), str(running), "99", "--yes")
        assert ran.code == 1
        assert f"1 message of queue emails cancelled: {waiting}" in ran.out
        assert f"message {running} of queue emails is running; left alone" in ran.err
        assert "queue emails has no message 99" in ran.err

    def test_now_and_snooze_move_the_due_time(self, db: Db) -> None:
        msg_id = send({}, "--delay", "60")
        fine("message", "now", "emails", str(msg_id))
        assert fine("message", "show", "emails", str(msg_id), "--json").json["state"] == "ready"
        fine("message", "snooze", "emails", str(msg_id), "--for", "90")
        assert fine("message", "show", "emails", str(msg_id), "--json").json["state"] == "delayed"
        assert run("message", "snooze", "emails", str(msg_id), "--for", "-1").code == 2

    def test_release_takes_a_running_message_back_without_charge(self, db: Db) -> None:
        msg_id = send({})
        assert "is ready, not running" in run("message", "release", "emails", str(msg_id), "--yes").err
        db.execute("select * from redrive.claim('emails', 60, 1, 'w')")
        fine("message", "release", "emails", str(msg_id), "--yes")
        [again] = db.execute("select attempt, read_ct from redrive.claim('emails', 60, 1, 'w')").fetchall()
        assert (again.attempt, again.read_ct) == (1, 2)

    def test_a_message_nobody_knows_exits_1(self) -> None:
        for verb in (["show"], ["now"], ["release", "--yes"], ["cancel", "--yes"]):
            ran = run("message", verb[0], "emails", "99", *verb[1:])
            assert ran.code == 1 and "queue emails has no message 99" in ran.err


class TestListing:
    def test_lists_are_redacted_and_paged(self, db: Db) -> None:
        first, second, third = bury(db, {"password": "hunter2", "n": 1}, {"n": 2}, {"n": 3})
        page = fine("dlq", "list", "emails", "--limit", "2", "--json").json
        assert [each["dead_id"] for each in page] == [first, second]
        assert page[0]["payload"] == {"password": "[redacted]", "n": 1}
        assert (page[0]["reason"], page[0]["error"]) == ("rejected", "ValueError: template missing")

        shown = fine("dlq", "list", "emails", "--limit", "2")
        assert "hunter2" not in shown.out and f"redrive dlq list emails --after {second}" in shown.err
        rest = fine("dlq", "list", "emails", "--after", str(second), "--json").json
        assert [each["dead_id"] for each in rest] == [third]

    def test_without_a_queue_all_are_listed(self, db: Db) -> None:
        bury(db, {"n": 1})
        fine("queue", "create", "other")
        assert [each["queue"] for each in fine("dlq", "list", "--json").json] == ["emails"]

    def test_show_has_the_failures_and_raw_the_secrets(self, db: Db) -> None:
        [dead_id] = bury(db, {"token": "hunter2"})
        shown = fine("dlq", "show", "emails", str(dead_id))
        assert "template missing" in shown.out and "hunter2" not in shown.out
        assert fine("dlq", "show", "emails", str(dead_id), "--json").json["failures"][0]["attempt"] == 1
        assert "hunter2" in fine("dlq", "show", "emails", str(dead_id), "--raw").out

        missing = run("dlq", "show", "emails", "99")
        assert missing.code == 1 and "queue emails has no dead letter 99" in missing.err


class TestPayloadsNestedTooDeeply:
    """As only SQL can send them: one must not hide the others, nor be beyond all help."""

    @pytest.fixture(autouse=True)
    def _buried(self, db: Db) -> None:
        for depth in (1_500, 300):
            db.execute(
                "select redrive.send('emails', (repeat('[', %s) || repeat(']', %s))::jsonb)", [depth] * 2
            )
        send({"n": 1})
        assert len(settle(db, "reject", qty=3)) == 3

    def test_they_are_listed_as_what_they_are(self) -> None:
        for arguments in (["emails"], []):
            assert "[nested too deeply to be read: 3,000 characters]" in fine("dlq", "list", *arguments).out
        payloads = [each["payload"] for each in fine("dlq", "list", "--json").json]
        assert payloads[1:] == ["[nested too deeply to be read: 600 characters]", {"n": 1}]

    @pytest.mark.parametrize("noun", ["dlq", "message"])
    def test_they_are_shown_and_raw_as_their_text(self, noun: str) -> None:
        field = "payload" if noun == "dlq" else "message"
        assert "too deeply to be read: 3,000 characters]" in fine(noun, "show", "emails", "1").out
        assert "[[[[[" in fine(noun, "show", "emails", "1", "--raw").out
        raw = fine(noun, "show", "emails", "1", "--raw", "--json").json
        assert raw[field] == "[" * 1_500 + "]" * 1_500

    def test_they_are_sent_again_and_given_up(self) -> None:
        assert "1 dead letter" in fine("dlq", "discard", "emails", "1", "--yes").out
        assert "2 dead letters" in fine("dlq", "redrive", "emails", "--reason", "rejected").out


class TestRedriving:
    def test_by_id_it_is_sent_again_with_a_new_budget(self, db: Db) -> None:
        first, second = bury(db, {"n": 1}, {"n": 2})
        answered = fine("dlq", "redrive", "emails", str(second), "--json").json
        [new] = answered["redriven"]
        assert new["dead_id"] == second and answered["kept"] == []
        assert fine("message", "show", "emails", str(new["new_id"]), "--json").json["message"] == {"n": 2}
        assert [each["dead_id"] for each in fine("dlq", "list", "emails", "--json").json] == [first]

    def test_by_reason_and_by_error_and_by_limit(self, db: Db) -> None:
        timeouts = bury(db, {"n": 1}, {"n": 2}, error="Timeout after 5 s")
        others = bury(db, {"n": 3}, error="template missing")
        assert (
            "0 dead letters of queue emails sent again"
            in fine("dlq", "redrive", "emails", "--reason", "crashed").out
        )
        chosen = fine("dlq", "redrive", "emails", "--error", "Timeout", "--limit", "1", "--json").json
        assert [each["dead_id"] for each in chosen["redriven"]] == timeouts[:1]
        chosen = fine("dlq", "redrive", "emails", "--reason", "rejected", "--error", "missing", "--json").json
        assert [each["dead_id"] for each in chosen["redriven"]] == others
        assert (
            "1 dead letter of queue emails sent again as message "
            in fine("dlq", "redrive", "emails", "--all").out
        )

    def test_a_patch_replaces_fields(self, db: Db) -> None:
        [dead_id] = bury(db, {"template": None, "user": 7})
        fine("dlq", "redrive", "emails", str(dead_id), "--patch", '{"template": "welcome"}')
        [(message,)] = db.execute("select message from pgmq.q_emails").fetchall()
        assert message == {"template": "welcome", "user": 7}

    def test_a_dry_run_changes_nothing(self, db: Db) -> None:
        bury(db, *({"n": n} for n in range(7)))
        ran = fine("dlq", "redrive", "emails", "--all", "--dry-run")
        assert "7 dead letters would be sent again; nothing was changed" in ran.out
        sampled = fine("dlq", "redrive", "emails", "--all", "--dry-run", "--json").json
        assert sampled["count"] == 7 and len(sampled["sample"]) == 5
        assert len(fine("dlq", "list", "emails", "--json").json) == 7

    def test_a_dry_run_names_the_ids_that_are_not_there(self, db: Db) -> None:
        [dead_id] = bury(db, {})
        for verb in ("redrive", "discard"):
            ran = run("dlq", verb, "emails", str(dead_id), "99", "--dry-run")
            assert ran.code == 1 and "queue emails has no dead letter 99" in ran.err
            assert run("dlq", verb, "emails", "99", "--dry-run", "--json").json["missing"] == [99]

    def test_ctrl_c_leaves_the_answer_of_what_was_done(self, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(self: object, seconds: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("redrive.cli.session.Session.pause", interrupted)
        first, _, _ = bury(db, *({"n": n} for n in range(3)))
        ran = run("dlq", "redrive", "emails", "--all", "--rate", "1", "--json")
        assert ran.code == 130 and ran.json["untried"] == 2
        assert [each["dead_id"] for each in ran.json["redriven"]] == [first]

    def test_a_completed_key_stays_dead_unless_forced(self, db: Db) -> None:
        send({"n": 1}, "--key", "k")
        settle(db, "reject")
        send({"n": 2}, "--key", "k")
        settle(db, "done")
        kept = run("dlq", "redrive", "emails", "--all")
        assert kept.code == 1 and "another message has completed their key (--force frees it)" in kept.out
        assert fine("dlq", "redrive", "emails", "--all", "--force", "--json").json["kept"] == []

    def test_an_id_that_is_not_there_exits_1_and_the_others_go(self, db: Db) -> None:
        [dead_id] = bury(db, {})
        ran = run("dlq", "redrive", "emails", str(dead_id), "99", "--json")
        assert ran.code == 1
        assert ran.json["kept"] == [{"dead_id": 99, "status": "missing"}]
        assert [each["dead_id"] for each in ran.json["redriven"]] == [dead_id]

    def test_a_rate_is_kept(self, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
        pauses: list[float] = []
        monkeypatch.setattr("redrive.cli.session.Session.pause", lambda self, seconds: pauses.append(seconds))
        bury(db, *({"n": n} for n in range(5)))
        fine("dlq", "redrive", "emails", "--all", "--rate", "2")
        # batches of 2, 2 and 1; the clock does not move, so the second waits 1 s and the third 2 s
        assert [round(each) for each in pauses] == [1, 2]

    def test_what_cannot_be_right_is_refused_in_one_sentence(self, db: Db) -> None:
        bury(db, {})
        for arguments, said in [
            ([], "which dead letters?"),
            (["1", "--all"], "ids name the dead letters already"),
            (["--all", "--reason", "failed"], "--all means all of the queue"),
            (["--all", "--limit", "0"], "--limit is 0"),
            (["--all", "--rate", "0"], "--rate is 0"),
            (["--all", "--canary", "0"], "--canary is 0"),
            (["--all", "--patch", "[]"], "--patch is []; it must be a JSON object"),
            (["--all", "--patch", "{"], "--patch is no JSON"),
            (["--all", "--patch", '{"a": "\\u0000"}'], "--patch.a: the text holds a NUL character"),
            (["--all", "--patch", '{"a": "\\u0000"}', "--dry-run"], "--patch.a: the text holds a NUL"),
            (["--error", ""], "--error is empty"),
            (["--error", " "], "--error is empty"),
            (["--reason", ""], "--reason is ''; it must be one of failed, crashed, rejected, malformed"),
            (["--reason", "fialed"], "--reason is 'fialed'; it must be one of failed,"),
        ]:
            ran = run("dlq", "redrive", "emails", *arguments)
            assert ran.code == 2 and said in ran.err and len(ran.err.splitlines()) == 1, ran
        assert len(fine("dlq", "list", "emails", "--json").json) == 1


class TestCanaries:
    def test_when_they_end_well_the_rest_follows(self, db: Db, database_url: str) -> None:
        bury(db, *({"n": n} for n in range(5)))
        with_worker(database_url, lambda db: settle(db, "done"), 2)
        answered = fine("dlq", "redrive", "emails", "--all", "--canary", "2", "--json").json
        assert len(answered["redriven"]) == 5 and answered["canary_failure"] is None

    @pytest.mark.parametrize("outcome", ["retry", "reject"])
    def test_the_first_that_fails_again_stops_it(self, db: Db, database_url: str, outcome: str) -> None:
        bury(db, *({"n": n} for n in range(5)))
        with_worker(database_url, lambda db: settle(db, outcome, error="still broken"), 1)
        ran = run("dlq", "redrive", "emails", "--all", "--canary", "2", "--json")
        assert ran.code == 1
        assert (len(ran.json["redriven"]), ran.json["untried"]) == (2, 3)
        assert "failed again" in ran.err and "still broken" in ran.err

    def test_a_queue_without_an_archive_tells_too(self, db: Db, database_url: str) -> None:
        fine("queue", "policy", "emails", "--set", "archive=false")
        bury(db, {"n": 1}, {"n": 2})
        with_worker(database_url, lambda db: settle(db, "done"), 1)
        assert run("dlq", "redrive", "emails", "--all", "--canary", "1").code == 0

        bury(db, {"n": 3})
        with_worker(database_url, lambda db: settle(db, "reject", error="still broken"), 2)
        ran = run("dlq", "redrive", "emails", "--all", "--canary", "1")
        assert ran.code == 1 and "still broken" in ran.err

    def test_whoever_waits_for_long_is_told_why(
        self, db: Db, database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(canary, "_PATIENCE", 0.01)
        fine("queue", "pause", "emails")
        bury_paused(db)

        def resume(db: Db) -> list[int]:
            db.execute("select redrive.resume_queue('emails')")
            return settle(db, "done")

        with_worker(database_url, resume, 1, after=0.5)
        ran = fine("dlq", "redrive", "emails", "--all", "--canary", "1")
        assert "the queue is paused; resume it: redrive queue resume emails" in ran.err


def bury_paused(db: Db) -> None:
    db.execute("select redrive.resume_queue('emails')")
    bury(db, {})
    db.execute("select redrive.pause_queue('emails')")


def with_worker(url: str, turn: Callable[[Db], list[int]], messages: int, *, after: float = 0.0) -> None:
    """A worker in a thread that takes turns until it has had that many messages."""

    def work() -> None:
        with psycopg.connect(url, autocommit=True) as db:
            seen = 0
            stop.wait(after)
            while seen < messages and not stop.wait(0.02):
                seen += len(turn(db))

    stop = threading.Event()
    threading.Timer(60, stop.set).start()
    threading.Thread(target=work, daemon=True).start()


class TestDiscarding:
    def test_it_needs_a_yes_and_says_what_was_missing(self, db: Db) -> None:
        first, second = bury(db, {"n": 1}, {"n": 2})
        refused = run("dlq", "discard", "emails", str(first))
        assert refused.code == 2 and "Give up 1 dead letter of queue emails?" in refused.err

        ran = run("dlq", "discard", "emails", str(first), "99", "--yes", "--json")
        assert (ran.code, ran.json["discarded"], ran.json["missing"]) == (1, [first], [99])
        assert [each["dead_id"] for each in fine("dlq", "list", "emails", "--json").json] == [second]
        assert fine("dlq", "discard", "emails", "--all", "--dry-run", "--json").json["count"] == 1
        assert (
            "1 dead letter of queue emails given up" in fine("dlq", "discard", "emails", "--all", "--yes").out
        )
