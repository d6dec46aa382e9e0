"""``redrive inbox``: look at events, replay them, and see what was refused, on a real database."""

from __future__ import annotations

import base64
import json
from typing import Any

import psycopg
import pytest

from tests.support.cli import fine, run
from tests.support.roles import Roles

Db = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _here(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    fine("queue", "create", "hooks")


def receive(
    db: Db,
    event_id: str,
    type: str = "invoice.paid",
    *,
    source: str = "stripe",
    payload: Any = None,
    raw: bytes | None = None,
    resource: str | None = None,
) -> str:
    """Record an event, as a receiver does; its id. A `raw` alone is a body that is no JSON."""
    text = json.dumps(payload if payload is not None else {"id": event_id}) if raw is None else None
    row = db.execute(
        "select id from redrive.receive_event(%s, %s, %s, %s::jsonb, %s, %s::jsonb, 'hooks', %s)",
        (
            *(source, event_id, type, text, raw if text is None else text.encode()),
            *('{"content-type": "application/json", "x-token": "hunter2"}', resource),
        ),
    ).fetchone()
    assert row is not None
    return str(row.id)


def settle(db: Db, outcome: str, *, qty: int = 1, error: str = "boom") -> None:
    """Claim messages, as a worker does, and report them."""
    rows = db.execute("select msg_id, read_ct from redrive.claim('hooks', 60, %s, 'w')", (qty,)).fetchall()
    assert len(rows) == qty
    db.execute(
        "select * from redrive.settle('hooks', %s, %s, %s, p_error_types => %s, p_errors => %s)",
        (
            *([row.msg_id for row in rows], [row.read_ct for row in rows], [outcome] * qty),
            *(["ValueError"] * qty, [error] * qty),
        ),
    )


def listed(*arguments: str) -> list[str]:
    """The sender's ids of the events that `inbox list` shows."""
    return [each["event_id"] for each in fine("inbox", "list", *arguments, "--json").json]


class TestListing:
    def test_the_newest_comes_first_and_pages_go_on_after_an_event(self, db: Db) -> None:
        for number in range(5):
            receive(db, f"evt_{number}")
        assert listed() == ["evt_4", "evt_3", "evt_2", "evt_1", "evt_0"]
        page = fine("inbox", "list", "--limit", "2")
        assert "evt_4" in page.out and "evt_3" in page.out and "evt_2" not in page.out
        after = page.err.split("--after ")[1].strip()
        assert listed("--limit", "2", "--after", after) == ["evt_2", "evt_1"]

    def test_filters_narrow_it_and_go_together(self, db: Db) -> None:
        receive(db, "a", "video.media.ready", source="fastpix", resource="m1")
        receive(db, "b", "video.media.deleted", source="fastpix", resource="m2")
        receive(db, "c", "video.live_stream.idle", source="fastpix")
        receive(db, "d", "invoice.paid")
        settle(db, "done")
        settle(db, "reject")
        assert listed("fastpix") == ["c", "b", "a"]
        assert listed("--type", "video.media.*") == ["b", "a"]
        assert listed("--type", "*.paid") == ["d"]
        assert listed("--status", "received") == ["d", "c"]
        assert listed("--status", "processed") == ["a"]
        assert listed("fastpix", "--resource", "m2", "--status", "failed") == ["b"]

    def test_times_are_how_long_ago_or_moments(self, db: Db) -> None:
        receive(db, "old")
        receive(db, "new")
        db.execute(
            "update redrive.webhook_event set received_at = '2026-01-31T12:00Z' where event_id = 'old'"
        )
        assert listed("--since", "24h") == ["new"]
        assert listed("--until", "24h") == ["old"]
        assert listed("--since", "2026-01-31T12:00Z", "--until", "2026-01-31T12:00:01Z") == ["old"]
        assert listed("--since", "2026-01-31T13:00+01:00", "--until", "2026-01-31T12:00Z") == []

    def test_a_limit_is_what_postgres_can_count(self) -> None:
        ran = run("inbox", "list", "--limit", "99999999999")
        assert ran.code == 2 and "limit is 99999999999; it must be at most 2147483647" in ran.err, ran

    def test_what_comes_from_outside_cannot_drive_the_terminal(self, db: Db) -> None:
        receive(db, "evt\x1b[2J", "paid\x07")
        settle(db, "reject", error="\x1b]0;owned\x07 https://u:hunter2@api.example")
        for command in (["list"], ["show", "stripe/evt\x1b[2J"], ["replay", "--all", "--dry-run"]):
            out = fine("inbox", *command).out
            assert "\x1b" not in out and "\x07" not in out and "hunter2" not in out
            assert "\\x1b" in out

    def test_what_cannot_be_right_is_refused_in_one_sentence(self) -> None:
        for arguments, said in [
            (
                ["--status", "done"],
                "--status is 'done'; it must be one of received, processed, failed, ignored",
            ),
            (["--since", "soon"], "--since is 'soon'; it must be how long ago, such as"),
            (["--since", "2026-01-01T00:00"], "has no time zone"),
            (["--since", "999999999w"], "--since is '999999999w'"),
            (["--since", "9999999w"], "is before all calendars"),
            (["--type", ""], "--type is empty"),
            (["--limit", "0"], "--limit is 0"),
            (["--after", "7"], "event id '7' is no uuid"),
        ]:
            ran = run("inbox", "list", *arguments)
            assert ran.code == 2 and said in ran.err and len(ran.err.splitlines()) == 1, ran


class TestShowing:
    def test_an_event_is_found_by_its_id_and_by_its_senders(self, db: Db) -> None:
        event = receive(db, "ord/42", payload={"amount": 4200, "card_number": "4242"})
        for name in (event, event.upper(), "stripe/ord/42"):
            shown = fine("inbox", "show", name, "--json").json
            assert (shown["id"], shown["status"], shown["message"]["state"]) == (event, "received", "ready")
            assert shown["payload"] == {"amount": 4200, "card_number": "[redacted]"}
            assert shown["headers"]["x-token"] == "[redacted]"

    def test_secrets_are_left_out_unless_raw_and_the_body_is_there_byte_for_byte(self, db: Db) -> None:
        event = receive(db, "e", payload={"token": "hunter2", "n": 1})
        for form in ([], ["--json"]):
            assert "hunter2" not in fine("inbox", "show", event, *form).out
            assert "hunter2" in fine("inbox", "show", event, "--raw", *form).out
        raw = fine("inbox", "show", event, "--raw", "--json").json["raw_base64"]
        assert base64.b64decode(raw) == b'{"token": "hunter2", "n": 1}'

    def test_a_body_that_is_no_json_is_shown_when_asked_for(self, db: Db) -> None:
        event = receive(db, "e", raw=b"password=hunter2\xff\x00")
        assert (
            "18 bytes that are no JSON Postgres can hold; --raw shows them"
            in fine("inbox", "show", event).out
        )
        assert "password=hunter2\\xff\\x00" in fine("inbox", "show", event, "--raw").out

    def test_a_payload_nested_too_deeply_is_shown_as_what_it_is(self, db: Db) -> None:
        deep = "[" * 1_500 + "]" * 1_500
        event = receive(db, "e", payload=0)
        db.execute("update redrive.webhook_event set payload = %s::jsonb where id = %s", (deep, event))
        assert "[nested too deeply to be read: 3,000 characters]" in fine("inbox", "show", event).out
        assert fine("inbox", "show", event, "--raw", "--json").json["payload"] == deep

    def test_its_failed_attempts_are_told(self, db: Db) -> None:
        event = receive(db, "e")
        settle(db, "retry", error="no route")
        shown = fine("inbox", "show", event)
        assert "ValueError: no route" in shown.out
        found = fine("inbox", "show", event, "--json").json
        assert (found["status"], found["attempts"]) == ("received", 1)
        assert "no route" in found["last_error"] and found["failures"][0]["error"] == "no route"

    def test_it_is_shown_when_its_queue_is_gone(self, db: Db) -> None:
        event = receive(db, "e")
        fine("queue", "drop", "hooks", "--yes")
        shown = fine("inbox", "show", event, "--json").json
        assert (shown["status"], shown["message"]) == ("failed", None)

    def test_the_message_of_another_in_a_queue_made_anew_is_not_shown_as_its_own(self, db: Db) -> None:
        event = receive(db, "e")
        fine("queue", "drop", "hooks", "--yes")
        fine("queue", "create", "hooks")
        other = receive(db, "other")
        settle(db, "retry", error="of the other")
        shown = fine("inbox", "show", event, "--json").json
        assert (shown["msg_id"], shown["status"]) == (1, "failed")
        assert (shown["message"], shown["failures"]) == (None, [])
        assert fine("inbox", "show", other, "--json").json["failures"] != []

    def test_an_event_nobody_knows_exits_1(self) -> None:
        for name in ("8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33", "stripe/evt_9"):
            ran = run("inbox", "show", name)
            assert ran.code == 1 and f"there is no event {name}" in ran.err
        assert "'evt_9' names no event; give an id as" in run("inbox", "show", "evt_9").err


class TestReplaying:
    def test_it_goes_through_the_queue_again_and_keeps_its_identity(self, db: Db) -> None:
        event = receive(db, "e", payload={"n": 1})
        settle(db, "done")
        answered = fine("inbox", "replay", "stripe/e", "--yes", "--json").json
        [again] = answered["replayed"]
        assert again["id"] == event and answered["kept"] == [] and answered["untried"] == 0
        shown = fine("inbox", "show", event, "--json").json
        assert (shown["event_id"], shown["status"], shown["generation"]) == ("e", "received", 1)
        assert shown["msg_id"] == again["msg_id"]
        settle(db, "done")
        assert fine("inbox", "show", event, "--json").json["status"] == "processed"

    def test_a_failed_event_leaves_the_dead_letters_by_it(self, db: Db) -> None:
        receive(db, "e")
        settle(db, "reject")
        assert len(fine("dlq", "list", "hooks", "--json").json) == 1
        assert "1 event replayed" in fine("inbox", "replay", "--status", "failed", "--yes").out
        assert fine("dlq", "list", "hooks", "--json").json == []
        assert listed("--status", "received") == ["e"]

    def test_a_filter_takes_what_fits_the_oldest_first(self, db: Db) -> None:
        ids = [receive(db, f"e{number}", "a.b" if number < 3 else "c") for number in range(4)]
        settle(db, "done", qty=4)
        answered = fine("inbox", "replay", "--source", "stripe", "--type", "a.*", "--yes", "--json").json
        assert [each["id"] for each in answered["replayed"]] == ids[:3]

    def test_a_dry_run_counts_shows_the_oldest_few_and_changes_nothing(self, db: Db) -> None:
        for number in range(7):
            receive(db, f"evt_{number}")
        settle(db, "done", qty=7)
        ran = fine("inbox", "replay", "--all", "--dry-run")
        assert "7 events would be replayed; nothing was changed" in ran.out
        assert "evt_0" in ran.out and "evt_4" in ran.out and "evt_5" not in ran.out
        sampled = fine("inbox", "replay", "--all", "--dry-run", "--json").json
        assert sampled["count"] == 7
        assert [each["event_id"] for each in sampled["sample"]] == [f"evt_{number}" for number in range(5)]
        assert listed("--status", "processed") == [f"evt_{number}" for number in range(6, -1, -1)]

    def test_what_waits_or_is_not_there_is_left_and_exits_1(self, db: Db) -> None:
        waiting, done = receive(db, "waiting"), receive(db, "done")
        db.execute(
            "select redrive.reschedule('hooks', array[msg_id], 600) from redrive.event(%s)", (waiting,)
        )
        settle(db, "done")
        unknown = "8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33"
        ran = run("inbox", "replay", waiting, done, unknown, "stripe/nothing", "--yes", "--json")
        assert ran.code == 1
        assert [each["id"] for each in ran.json["replayed"]] == [done]
        kept = {each["id"]: each["status"] for each in ran.json["kept"]}
        assert kept == {waiting: "live", unknown: "missing", "stripe/nothing": "missing"}
        assert fine("inbox", "show", waiting, "--json").json["generation"] == 0

        told = run("inbox", "replay", waiting, "stripe/nothing", "--yes")
        assert told.code == 1
        assert "1 left alone: their job waits or runs already" in told.out and "1 not found" in told.out
        missing = run("inbox", "replay", "stripe/nothing", "--dry-run")
        assert missing.code == 1 and "there is no event stripe/nothing" in missing.err

    def test_an_event_that_is_named_twice_is_replayed_once_the_oldest_first(self, db: Db) -> None:
        first, second = receive(db, "e1"), receive(db, "e2")
        settle(db, "done", qty=2)
        named = ("stripe/e2", first, second.upper(), "stripe/e1", second)
        answered = fine("inbox", "replay", *named, "--rate", "1000", "--yes", "--json").json
        assert [each["id"] for each in answered["replayed"]] == [first, second]
        assert (answered["kept"], answered["untried"]) == ([], 0)

    def test_it_asks_first(self, db: Db) -> None:
        receive(db, "e")
        settle(db, "done")
        refused = run("inbox", "replay", "--all")
        assert refused.code == 2 and "Send 1 event through their queues again?" in refused.err
        assert listed("--status", "processed") == ["e"]

    def test_a_rate_is_kept(self, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
        pauses: list[float] = []
        monkeypatch.setattr("redrive.cli.session.Session.pause", lambda self, seconds: pauses.append(seconds))
        for number in range(5):
            receive(db, f"e{number}")
        settle(db, "done", qty=5)
        fine("inbox", "replay", "--all", "--rate", "2", "--yes")
        # batches of 2, 2 and 1; the clock does not move, so the second waits 1 s and the third 2 s
        assert [round(each) for each in pauses] == [1, 2]

    def test_ctrl_c_leaves_the_answer_of_what_was_done(self, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(self: object, seconds: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("redrive.cli.session.Session.pause", interrupted)
        first, *_ = [receive(db, f"e{number}") for number in range(3)]
        settle(db, "done", qty=3)
        ran = run("inbox", "replay", "--all", "--rate", "1", "--yes", "--json")
        assert ran.code == 130 and ran.json["untried"] == 2
        assert [each["id"] for each in ran.json["replayed"]] == [first]

    def test_what_cannot_be_right_is_refused_in_one_sentence(self) -> None:
        for arguments, said in [
            ([], "which events? Name their ids"),
            (["stripe/e", "--all"], "ids name the events already"),
            (["stripe/e", "--source", "stripe"], "ids name the events already"),
            (["--all", "--source", "stripe"], "--all means all events there are"),
            (["--source", ""], "--source is empty"),
            (["--all", "--rate", "0"], "--rate is 0"),
            (["evt_1"], "'evt_1' names no event; give an id as"),
        ]:
            ran = run("inbox", "replay", *arguments, "--yes")
            assert ran.code == 2 and said in ran.err and len(ran.err.splitlines()) == 1, ran


class TestQuarantine:
    @pytest.fixture(autouse=True)
    def _refused(self, db: Db) -> None:
        body = base64.b64encode(b'{"token": "x"}').decode()
        sample = {
            "detail": "no secret fits \x1b[2J",
            "headers": {"x-token": "hunter2"},
            "body_base64": body,
            "size": 14,
        }
        refusals = [
            {"source": "stripe", "reason": "mismatch", "count": 300, "samples": [sample]},
            {"source": "github", "reason": "no_header", "count": 2, "samples": [sample, sample]},
        ]
        db.execute("select redrive.note_refusals(%s)", (json.dumps(refusals),))
        receive(db, "e", payload={"n": 1})
        receive(db, "e", payload={"n": 2})

    def test_it_counts_by_reason_and_shows_samples(self) -> None:
        shown = fine("inbox", "quarantine").out
        assert "mismatch" in shown and "300" in shown and "no secret fits \\x1b[2J" in shown
        assert "hunter2" not in shown and "\x1b" not in shown
        found = fine("inbox", "quarantine", "--json").json
        assert {(each["source"], each["reason"], each["total"]) for each in found["counts"]} == {
            ("stripe", "mismatch", 300),
            ("stripe", "conflict", 1),
            ("github", "no_header", 2),
        }
        assert len(found["samples"]) == 4

    def test_source_reason_and_limit_narrow_it(self) -> None:
        found = fine("inbox", "quarantine", "github", "--limit", "1", "--json").json
        assert [each["source"] for each in found["counts"]] == ["github"] and len(found["samples"]) == 1
        [conflict] = fine("inbox", "quarantine", "--reason", "conflict", "--json").json["samples"]
        assert conflict["event_id"] == "e" and base64.b64decode(conflict["body_base64"]) == b'{"n": 2}'
        assert fine("inbox", "quarantine", "--reason", "mismatch", "--json").json["samples"][0][
            "headers"
        ] == {"x-token": "[redacted]"}
        ran = run("inbox", "quarantine", "--reason", "late")
        assert ran.code == 2 and "--reason is 'late'; it must be one of no_header," in ran.err


class TestStatus:
    def test_everything_handled_and_nothing_ever_arrived_are_told_apart(self, db: Db) -> None:
        nothing = run("inbox", "status", "--check")
        assert nothing.code == 1 and "nothing has ever arrived, from any source" in nothing.out
        assert fine("inbox", "status", "--json").json == []

        receive(db, "a")
        receive(db, "b")
        settle(db, "done")
        settle(db, "ignored")
        handled = fine("inbox", "status", "--check")
        assert "stripe: everything that arrived was handled (1 processed, 1 ignored)" in handled.out

    def test_what_waits_and_what_failed_is_said(self, db: Db) -> None:
        receive(db, "a")
        waiting = run("inbox", "status", "stripe", "--check")
        assert waiting.code == 1 and "stripe: 1 event not handled yet, the oldest for 0s" in waiting.out

        settle(db, "reject")
        failed = run("inbox", "status", "--check")
        assert (
            failed.code == 1
            and "stripe: 1 event failed; redrive inbox list stripe --status failed" in failed.out
        )
        [found] = fine("inbox", "status", "--json").json
        assert (found["failed"], found["verdict"]) == (1, "failed")
        # a look is a look
        assert fine("inbox", "status").code == 0

    def test_what_was_refused_is_told_beside_it(self, db: Db) -> None:
        db.execute("""select redrive.note_refusals('[{"source": "mux", "reason": "stale", "count": 3}]')""")
        shown = fine("inbox", "status").out
        assert (
            "mux: nothing has ever arrived; quarantined, ever: stale 3; redrive inbox quarantine mux" in shown
        )

    def test_counting_stops_somewhere(self, db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
        db.execute(
            "insert into redrive.webhook_event"
            " (source, event_id, type, received_at, status, raw, msg_id, queue)"
            " select 'mux', n::text, 't', now(), 'processed', '', n, 'hooks' from generate_series(1, 10001) n"
        )
        assert "10,000+" in fine("inbox", "status").out
        [found] = fine("inbox", "status", "--json").json
        assert (found["processed"], found["more"], found["verdict"]) == (10_000, True, "handled")


class TestASourceThatIsNamed:
    COMMANDS = (
        ["list", "strpe"],
        ["status", "strpe"],
        ["quarantine", "strpe"],
        ["replay", "--source", "strpe", "--yes"],
        ["replay", "--source", "strpe", "--dry-run"],
    )

    @pytest.mark.parametrize("command", COMMANDS)
    def test_is_refused_in_one_sentence_where_nobody_knows_it(
        self, db: Db, monkeypatch: pytest.MonkeyPatch, command: list[str]
    ) -> None:
        receive(db, "evt_1")
        db.execute("""select redrive.note_refusals('[{"source": "mux", "reason": "stale", "count": 3}]')""")
        ran = run("inbox", *command)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err == (
            "nothing has ever arrived from 'strpe', and no app is named that could declare it; the sources "
            "that are known: mux, stripe\n"
        )
        monkeypatch.setenv("REDRIVE_APP", "no_such_module:app")
        assert "cannot be imported here" in run("inbox", *command).err

    @pytest.mark.parametrize("command", COMMANDS)
    def test_may_be_empty_where_the_app_declares_it(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, command: list[str]
    ) -> None:
        (tmp_path / "mistyped_hooks.py").write_text(
            "from redrive import Redrive\napp = Redrive()\n"
            'app.inbox("strpe", provider="stripe", secret="s", queue="hooks")\n'
        )
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setenv("REDRIVE_APP", "mistyped_hooks:app")
        fine("inbox", *command)
        assert "strpe: nothing has ever arrived" in fine("inbox", "status", "strpe").out
        assert run("inbox", "status", "strpe", "--check").code == 1
        [told] = fine("inbox", "status", "strpe", "--json").json
        assert told["verdict"] == "nothing arrived"
        ran = run("inbox", "list", "stripe")
        assert ran.code == 1 and "app mistyped_hooks:app declares no such inbox" in ran.err

    def test_may_be_empty_where_something_came_from_it_once(self, db: Db) -> None:
        db.execute("""select redrive.note_refusals('[{"source": "mux", "reason": "stale", "count": 3}]')""")
        receive(db, "evt_1")
        fine("inbox", "list", "mux")
        fine("inbox", "list", "stripe", "--status", "failed")
        assert "the quarantine is empty" in fine("inbox", "quarantine", "stripe").out
        fine("inbox", "replay", "--source", "stripe", "--type", "none", "--yes")


def test_looking_needs_the_part_read_and_replaying_the_part_operate(
    db: Db, roles: Roles, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive(db, "e")
    settle(db, "done")
    looks = [
        ["list", "--since", "1h"],
        ["show", "stripe/e"],
        ["status"],
        ["quarantine"],
        ["replay", "--all", "--dry-run"],
    ]
    for part in ("read", "operate"):
        role = roles.create(f"inbox_{part}", "login")
        fine("grant", role, part)
        with monkeypatch.context() as patched:
            patched.setenv("REDRIVE_DATABASE_URL", roles.url(db.info, role))
            for look in looks:
                fine("inbox", *look)
            ran = run("inbox", "replay", "stripe/e", "--yes")
        assert ran.code == (0 if part == "operate" else 2), ran
    sender = roles.create("inbox_send", "login")
    fine("grant", sender, "send")
    monkeypatch.setenv("REDRIVE_DATABASE_URL", roles.url(db.info, sender))
    for look in looks:
        ran = run("inbox", *look)
        assert ran.code == 2 and "this role lacks part" in ran.err and len(ran.err.splitlines()) == 1
