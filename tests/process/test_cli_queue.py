"""``redrive queue``, ``status``, ``key``, ``lease`` and ``grant`` on a real database."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.cli import fine, run
from tests.support.command import Command

Db = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _here(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)


class TestQueues:
    def test_a_queue_is_made_once_and_listed_with_its_policy(self) -> None:
        fine("queue", "create", "emails")
        fine("queue", "create", "emails")
        [listed] = fine("queue", "list", "--json").json
        assert (listed["queue"], listed["kind"], listed["paused"]) == ("emails", "created", False)
        assert listed["policy"]["max_attempts"] == 5

    @pytest.mark.parametrize("name", ["Emails", "e-mails", "x" * 44, "emails_dlq", ""])
    def test_a_name_outside_the_rule_is_refused_in_one_sentence(self, name: str) -> None:
        ran = run("queue", "create", name)
        assert ran.code == 2
        assert ran.err.startswith("redrive: queue name ") and len(ran.err.splitlines()) == 1

    def test_a_queue_of_pgmq_is_listed_as_foreign_until_it_is_adopted(self, db: Db) -> None:
        db.execute("select pgmq.create('legacy-jobs')")
        [listed] = fine("queue", "list", "--json").json
        assert (listed["kind"], listed["policy"]) == ("foreign", None)
        refused = run("queue", "pause", "legacy-jobs")
        assert refused.code == 2 and "redrive queue adopt legacy-jobs" in refused.err

        fine("queue", "adopt", "legacy-jobs")
        assert fine("queue", "show", "legacy-jobs", "--json").json["kind"] == "adopted"

    def test_show_has_the_policy_and_the_numbers(self) -> None:
        fine("queue", "create", "emails")
        fine("send", "emails", "{}", "--delay", "60")
        shown = fine("queue", "show", "emails", "--json").json
        assert (shown["metrics"]["delayed"], shown["policy"]["visibility_timeout"]) == (1, 60)
        assert "policy max_attempts" in fine("queue", "show", "emails").out

    def test_pausing_and_resuming_say_whether_anything_changed(self) -> None:
        fine("queue", "create", "emails")
        assert "is paused" in fine("queue", "pause", "emails").out
        assert "was paused already" in fine("queue", "pause", "emails").out
        assert fine("status", "--json").json[0]["paused"] is True
        assert "is handed out again" in fine("queue", "resume", "emails").out
        assert "was not paused" in fine("queue", "resume", "emails").out

    def test_dropping_needs_a_yes(self) -> None:
        fine("queue", "create", "emails")
        fine("send", "emails", "{}")
        refused = run("queue", "drop", "emails")
        assert refused.code == 2
        assert "1 unfinished message" in refused.err and "--yes" in refused.err
        assert len(fine("queue", "list", "--json").json) == 1

        fine("queue", "drop", "emails", "--yes")
        assert fine("queue", "list", "--json").json == []

    @pytest.mark.parametrize("verb", ["show", "policy", "pause", "resume", "adopt"])
    def test_a_queue_that_is_missing_exits_2_with_the_way_out(self, verb: str) -> None:
        ran = run("queue", verb, "nowhere")
        assert (ran.code, ran.out) == (2, "")
        assert "queue nowhere does not exist" in ran.err and "redrive queue create nowhere" in ran.err


class TestPolicy:
    @pytest.fixture(autouse=True)
    def _queue(self, db: Db) -> None:
        db.execute("select redrive.create_queue('emails', '{\"max_attempts\": 7, \"timeout\": null}')")

    def test_it_shows_who_said_what(self) -> None:
        fine("queue", "policy", "emails", "--set", "max_attempts=3", "--set", "key_field=null")
        policy = fine("queue", "policy", "emails", "--json").json["policy"]
        assert policy["max_attempts"] == {"value": 3, "declared": 7, "override": 3}
        assert policy["timeout"] == {"value": None, "declared": None}
        assert policy["key_field"] == {"value": None, "override": None}
        assert policy["notify"] == {"value": True}

    def test_an_override_is_taken_back_by_name(self) -> None:
        fine("queue", "policy", "emails", "--set", "max_attempts=3")
        fine("queue", "policy", "emails", "--reset", "max_attempts")
        assert fine("queue", "policy", "emails", "--json").json["policy"]["max_attempts"]["value"] == 7

    def test_one_member_of_the_backoff_can_be_set_beside_another(self) -> None:
        fine("queue", "policy", "emails", "--set", "backoff.base=1")
        fine("queue", "policy", "emails", "--set", "backoff.cap=9", "--set", "backoff.jitter=0")
        policy = fine("queue", "policy", "emails", "--json").json["policy"]["backoff"]
        assert policy["value"] == {"base": 1, "factor": 2, "cap": 9, "jitter": 0}

    @pytest.mark.parametrize(
        ("setting", "said"),
        [
            ("max_attempts=0", "max_attempts is 0"),
            ("max_attempts=many", "max_attempts"),
            ("visibility_timeout=-1", "visibility_timeout is -1"),
            ("max_atempts=3", "policy field max_atempts is unknown; the fields are max_attempts"),
            ("max_attempts", "is no FIELD=VALUE"),
            ("paused=1", "must be true or false"),
        ],
    )
    def test_what_cannot_be_right_is_refused_by_name(self, setting: str, said: str) -> None:
        ran = run("queue", "policy", "emails", "--set", setting)
        assert ran.code == 2 and said in ran.err and len(ran.err.splitlines()) == 1
        assert fine("queue", "policy", "emails", "--json").json["policy"]["max_attempts"]["value"] == 7

    def test_an_unknown_field_cannot_be_reset(self) -> None:
        ran = run("queue", "policy", "emails", "--reset", "max_atempts")
        assert ran.code == 2 and "max_atempts is unknown" in ran.err


class TestStatus:
    def test_it_counts_each_state(self, db: Db) -> None:
        fine("queue", "create", "emails")
        for _ in range(2):
            fine("send", "emails", "{}")
        fine("send", "emails", "{}", "--delay", "60")
        db.execute("select * from redrive.claim('emails', 60, 1, 'w')")
        [row] = fine("status", "--json").json
        assert {
            name: row[name] for name in ("queue", "ready", "delayed", "in_flight", "dead", "problem")
        } == {
            "queue": "emails",
            "ready": 1,
            "delayed": 1,
            "in_flight": 1,
            "dead": 0,
            "problem": None,
        }
        assert "emails" in fine("status", "--queue", "emails").out

    def test_a_database_without_queues_says_how_to_make_one(self) -> None:
        assert "redrive queue create" in fine("status").out
        assert fine("status", "--json").json == []


class TestKeys:
    def test_a_key_is_shown_and_freed(self) -> None:
        fine("queue", "create", "emails")
        fine("send", "emails", "{}", "--key", "welcome:1")
        assert fine("key", "show", "emails", "welcome:1", "--json").json["queued"] == [1]
        assert run("key", "free", "emails", "welcome:1").code == 2
        fine("key", "free", "emails", "welcome:1", "--yes")

        unknown = run("key", "show", "emails", "welcome:1", "--json")
        assert (unknown.code, unknown.json) == (1, None)
        assert run("key", "free", "emails", "welcome:1", "--yes").code == 1

    def test_keys_without_a_queue_have_the_empty_one(self, db: Db) -> None:
        db.execute("select redrive.claim_job('import:7')")
        assert fine("key", "show", "", "import:7", "--json").json["state"] == "done"


class TestLeases:
    def test_a_lease_is_listed_and_taken_away(self, db: Db) -> None:
        db.execute("select redrive.acquire_lease('nightly', 60)")
        [listed] = fine("lease", "list", "--json").json
        assert (listed["name"], listed["held"]) == ("nightly", True)
        assert "nightly" in fine("lease", "list").out
        fine("lease", "release", "nightly", "--yes")
        assert fine("lease", "list", "--json").json == []
        assert run("lease", "release", "nightly", "--yes").code == 1


class TestGrants:
    def test_a_role_gets_several_parts_and_loses_one(self, db: Db) -> None:
        role = f"cli_{db.info.dbname}"
        db.execute(f"create role {role}".encode())
        try:
            fine("grant", role, "send", "read")
            assert _parts(db, role) == ["read", "send"]
            fine("grant", role, "send", "--revoke")
            assert _parts(db, role) == ["read"]
        finally:
            db.execute(f"drop owned by {role}; drop role {role}".encode())

    def test_an_unknown_part_or_role_is_refused(self) -> None:
        ran = run("grant", "postgres", "everything")
        assert ran.code == 2 and "send, work, operate, read" in ran.err
        ran = run("grant", "nobody_here", "send")
        assert ran.code == 2 and "'nobody_here' does not exist" in ran.err


def _parts(db: Db, role: str) -> list[str]:
    return [
        p for (p,) in db.execute("select part from redrive.role_grant where role = %s order by 1", (role,))
    ]


def test_watching_survives_a_lost_connection_and_ends_with_ctrl_c(
    database_url: str, db: Db, tmp_path: Path
) -> None:
    fine("queue", "create", "emails")
    with Command("status", "--watch", "--database", database_url, folder=tmp_path) as status:
        at = status.wait_for("emails")
        assert "(from --database)" in status.lines[0]
        db.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        status.wait_for("emails", after=at)
        assert status.end(signal.SIGINT) == 0
    assert "Traceback" not in status.said
