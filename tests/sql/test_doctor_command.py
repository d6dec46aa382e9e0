"""``redrive doctor``: what it prints, how it ends, and that it ends."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import typer.main

import redrive.watch.doctor
from redrive.cli import app
from redrive.sql import function_files
from redrive.store.grants import grant
from redrive.watch.doctor import CHECKS, Check, Finding, examine
from redrive.watch.doctor.made import functions
from redrive.watch.doctor.patient import Patient
from tests.support.cli import fine, run
from tests.support.databases import Databases
from tests.support.examining import Doctor
from tests.support.layouts import LAYOUTS
from tests.support.roles import Roles

pytestmark = pytest.mark.once

DOCUMENT = Path(__file__).parents[2] / "docs" / "doctor.md"


@pytest.fixture
def broken(doctor: Doctor) -> Generator[Doctor]:
    """Two findings, one of which is mended safely, and a note."""
    doctor.sql("select redrive.create_queue('jobs')")
    doctor.sql("select pgmq.drop_queue('jobs_dlq')")
    doctor.sql("drop index pgmq.q_jobs_vt_idx")
    doctor.sql("select redrive.pause_queue('jobs')")
    yield doctor
    doctor.sql("select redrive.drop_queue('jobs')")


CHOSEN = ("dead_letter_queues", "indexes", "paused_queues", "cron_failing")
ONLY = tuple(word for name in CHOSEN for word in ("--only", name))


def test_it_tells_the_worst_first_with_what_mends_it_and_how_many(broken: Doctor) -> None:
    ran = run("doctor", *ONLY, "--database", broken.url)
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "error: dead_letter_queues: queue jobs: the dead-letter queue jobs_dlq is missing, so what fails for "
        "good "
        "stays in the queue, parked",
        "    select redrive.create_queue('jobs');  -- safe: --fix runs it",
        "error: indexes: pgmq.q_jobs has no index on vt: every claim reads the whole table",
        "    create index concurrently on pgmq.q_jobs (vt);",
        "note: paused_queues: queue jobs is paused: nothing is handed out",
        "    redrive queue resume jobs",
        "not checked: cron_failing: pg_cron is not installed in this database",
        "4 checks, 2 findings, 1 note, 1 not checked",
    ]
    assert "redrive doctor --fix mends 1 of them" in ran.err


def test_notes_and_what_was_not_checked_are_no_findings(broken: Doctor) -> None:
    ran = fine("doctor", "--only", "paused_queues", "--only", "cron_failing", "--database", broken.url)
    assert ran.out.splitlines()[-1] == "2 checks, 0 findings, 1 note, 1 not checked"


def test_json(broken: Doctor) -> None:
    ran = run("doctor", *ONLY, "--json", "--database", broken.url)
    assert ran.code == 1 and ran.err == ""
    first = ran.json[0]
    assert first == {
        "check": "dead_letter_queues",
        "severity": "error",
        "subject": "jobs",
        "problem": first["problem"],
        "fix": "select redrive.create_queue('jobs');",
        "safe": True,
        "fixed": False,
    }
    assert [row["severity"] for row in ran.json] == ["error", "error", "note", "not checked"]


class TestFix:
    def test_it_asks_first_and_changes_nothing_without_an_answer(self, broken: Doctor) -> None:
        ran = run("doctor", *ONLY, "--fix", "--database", broken.url)
        assert ran.code == 2 and "add --yes" in ran.err
        assert "    select redrive.create_queue('jobs');" in ran.out
        assert broken.one("dead_letter_queues")

    def test_it_runs_the_safe_ones_alone_and_checks_again(self, broken: Doctor) -> None:
        ran = run("doctor", *ONLY, "--fix", "--yes", "--database", broken.url)
        assert ran.code == 1
        lines = ran.out.splitlines()
        assert lines[1:3] == ["    select redrive.create_queue('jobs');", "1 finding mended; checking again"]
        assert lines[-1] == "4 checks, 1 finding, 1 note, 1 not checked"
        assert "concurrently" in lines[4]

    def test_json_says_what_was_fixed(self, broken: Doctor) -> None:
        ran = run("doctor", *ONLY, "--fix", "--yes", "--json", "--database", broken.url)
        assert ran.code == 1
        assert [(row["check"], row["fixed"]) for row in ran.json[:2]] == [
            ("dead_letter_queues", True),
            ("indexes", False),
        ]

    def test_a_fix_that_fails_is_told_and_stays_a_finding(self, broken: Doctor, roles: Roles) -> None:
        role = roles.create("onlooker", "login in role pg_read_all_data")
        url = roles.url(broken.db.info, role)
        ran = run("doctor", "--only", "dead_letter_queues", "--fix", "--yes", "--database", url)
        assert ran.code == 1
        assert "dead_letter_queues could not be mended: permission denied" in ran.err


class TestHowItEnds:
    def test_a_check_that_does_not_exist(self, doctor: Doctor) -> None:
        ran = run("doctor", "--only", "role_right", "--database", doctor.url)
        assert ran.code == 2 and "there is no check 'role_right'; did you mean role_rights?" in ran.err

    def test_a_database_out_of_reach(self) -> None:
        ran = run("doctor", "--database", "postgresql://postgres@127.0.0.1:1/postgres")
        assert ran.code == 3 and ran.err.count("\n") == 2 and "the database is out of reach" in ran.err

    def test_an_app_that_does_not_exist(self, doctor: Doctor) -> None:
        ran = run("doctor", "--app", "tests.support.nowhere:app", "--database", doctor.url)
        assert ran.code == 2 and "nowhere" in ran.err

    def test_an_app_that_only_the_settings_name_need_not_be_there(
        self, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_APP", "tests.support.nowhere:app")
        ran = run("doctor", "--only", "inbox_secrets", "--database", doctor.url)
        assert ran.code == 0 and "not checked: inbox_secrets" in ran.out
        assert "its inboxes are not checked" in ran.err

    def test_the_inboxes_of_an_app(self, doctor: Doctor) -> None:
        named = ("--app", "tests.support.inbox_app:app")
        ran = run("doctor", *named, "--only", "inbox_secrets", "--database", doctor.url)
        assert (ran.code, ran.out) == (0, "1 check, 0 findings\n")

    def test_a_table_that_somebody_has_locked_holds_it_up_for_moments_only(self, doctor: Doctor) -> None:
        with doctor.db.transaction():
            doctor.sql("lock table redrive.queue in access exclusive mode")
            began = time.monotonic()
            ran = run("doctor", "--database", doctor.url)
            assert time.monotonic() - began < 10
        assert "not checked: " in ran.out and "somebody holds a lock that this would wait for" in ran.out

    def test_a_question_that_takes_too_long_is_called_off(self, doctor: Doctor) -> None:
        async def slow(patient: Patient) -> list[Finding]:
            return await patient.rows("select pg_sleep(10)", within=0.1)

        found = asyncio.run(examine(doctor.url, None, [Check("slow", "", slow), CHECKS[0]]))
        assert [each.problem for each in found] == ["the database took over 0.1 s to answer"]

    def test_a_check_that_fails_takes_no_other_with_it(self, broken: Doctor) -> None:
        async def fails(patient: Patient) -> list[Finding]:
            raise TypeError("what a table\nholds")

        async def loses(patient: Patient) -> list[Finding]:
            return await patient.rows("select pg_terminate_backend(pg_backend_pid())")

        checks = [Check("fails", "", fails), Check("loses", "", loses)]
        checks += [check for check in CHECKS if check.name in CHOSEN]
        found = asyncio.run(examine(broken.url, None, checks))
        assert [each.check for each in found if each.counts] == ["dead_letter_queues", "indexes"]
        lost = {each.check: each.problem for each in found if each.severity == "not checked"}
        assert lost["fails"] == "this check failed: TypeError: what a table holds"
        assert "terminating connection" in lost["loses"]

    def test_the_whole_has_an_end_too(self, doctor: Doctor) -> None:
        found = asyncio.run(examine(doctor.url, within=0))
        assert {each.problem for each in found} == {"the doctor's 0 s were over"}
        assert len(found) == len(CHECKS)

    def test_a_role_without_any_right_gets_answers(self, doctor: Doctor, roles: Roles) -> None:
        role = roles.create("nobody", "login")
        ran = run("doctor", "--database", roles.url(doctor.db.info, role))
        assert ran.code == 1
        assert f"role {role} cannot work: it lacks usage on schema redrive" in ran.out
        assert "permission denied for schema redrive; run the doctor as the owner" in ran.out
        assert "the database answered" not in ran.out

    def test_a_worker_gets_answers(self, doctor: Doctor, roles: Roles) -> None:
        role = roles.create("worker", "login")
        grant(doctor.db, role, "work")
        ran = run("doctor", "--database", roles.url(doctor.db.info, role))
        assert "role_rights" not in ran.out and "the database answered" not in ran.out

    def test_a_database_with_nothing_in_it(self, databases: Databases) -> None:
        url = databases.empty()
        ran = run("doctor", "--database", url)
        assert ran.code == 1 and "error: schema: there is no schema redrive in this database" in ran.out
        assert "the database answered" not in ran.out
        databases.drop(url)


@pytest.mark.parametrize("whole", LAYOUTS)
def test_a_database_as_it_should_be(databases: Databases, whole: str) -> None:
    """On every layout each check is made, and finds nothing but what nobody has set up."""
    doctor = Doctor(databases.migrated(whole))
    doctor.sql("select redrive.create_queue('jobs')")
    doctor.sql("select redrive.send('jobs', '{}', p_delay => 60)")
    ran = run("doctor", "--json", "--database", doctor.url)
    assert {row["check"] for row in ran.json} == {
        *("watcher", "alert_sinks", "idle_timeout"),
        *("inbox_secrets", "cron_failing", "cron_stalled", "cron_inactive", "vault_names", "net_failing"),
        *("own_jobs", "vault_values"),
    }
    assert not [row for row in ran.json if "the database answered" in row["problem"]]
    doctor.close()
    databases.drop(doctor.url)


def test_supabase_as_it_should_be(supabase: Doctor) -> None:
    ran = run("doctor", "--json", "--database", supabase.url)
    assert {row["check"] for row in ran.json} == {"watcher", "alert_sinks", "idle_timeout", "inbox_secrets"}


def test_list_names_every_check_and_so_does_the_document() -> None:
    ran = fine("doctor", "--list")
    listed = dict(line.split(maxsplit=1) for line in ran.out.splitlines()[1:])
    assert listed == {check.name: check.title for check in CHECKS}
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", DOCUMENT.read_text(), re.MULTILINE))
    assert rows == listed


@pytest.mark.once
def test_every_command_that_is_printed_is_one() -> None:
    folder = Path(redrive.watch.doctor.__file__).parent
    said = "\n".join(path.read_text() for path in folder.glob("*.py"))
    commands = re.findall(r"""[( ]f?"(redrive [^"]*)[",]""", said)
    assert len(commands) > 15
    for each in commands:
        command: Any = typer.main.get_command(app)
        words = re.sub(r"\{[^}]*\}", "1", each).split()[1:]
        while getattr(command, "commands", None):
            command = command.commands[words.pop(0)]
        # Parsed, not run.
        command.make_context(each, words)


def test_each_function_file_s_bodies_are_found() -> None:
    """Else an edited one would be taken for a whole one."""
    assert [file.name for file in function_files() if not functions(file.text)] == []
