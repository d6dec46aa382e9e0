"""``redrive schedule`` and ``redrive prune`` on a real database."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from redrive import Redrive
from redrive.store.database import Database
from redrive.watch.scheduler import Scheduler
from tests.support.cli import fine, run
from tests.support.working import count, make_queue, until_blocking

Db = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def _here(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def declared(db: Db, database: Database) -> Scheduler:
    """Two schedules, looked after by a scheduler that has looked once."""
    app = Redrive("postgresql://nowhere/none")
    app.schedule("0 3 * * *", name="nightly", tz="Europe/Berlin")(lambda: None)
    app.schedule(90, name="report", payload={"of": "sales", "token": "secret"}, overlap="skip")(
        app.job("reports")(_report)
    )
    make_queue(db, "schedules")
    make_queue(db, "reports")
    scheduler = Scheduler(database, app.schedules)
    await scheduler.turn()
    return scheduler


def _report(report: dict[str, str]) -> None: ...


@pytest.mark.usefixtures("declared")
class TestSchedules:
    def test_they_are_listed_with_when_they_are_due(self) -> None:
        nightly, report = fine("schedule", "list", "--json").json
        assert (nightly["name"], nightly["cron"], nightly["tz"]) == ("nightly", "0 3 * * *", "Europe/Berlin")
        assert nightly["next_at"] == nightly["next_ticks"][0] and nightly["lag_sec"] is None
        assert (report["every_sec"], report["payload"]["of"]) == (90, "sales")
        listed = fine("schedule", "list").out
        assert "0 3 * * * Europe/Berlin" in listed and "every 90 s" in listed and "nobody" not in listed

    def test_one_that_nobody_fires_is_marked(self, db: Db) -> None:
        db.execute("update redrive.schedule set seen_at = now() - interval '5 minutes' where name = 'report'")
        db.execute("update redrive.schedule set next_at = now() - interval '4 minutes' where name = 'report'")
        listed = fine("schedule", "list").out
        assert "nobody fires it: no running worker declares it" in listed and "4m" in listed

    def test_one_is_shown_with_the_ticks_before_and_after(self) -> None:
        fine("schedule", "run", "report")
        shown = fine("schedule", "show", "report", "--limit", "3").out
        assert shown.count("next  ") == 3 and "sent as message 1" in shown and "secret" not in shown
        found = fine("schedule", "show", "report", "--json").json
        assert len(found["next_ticks"]) == 5 and found["ticks"][0]["outcome"] == "sent"

    def test_by_hand_a_message_is_sent_at_once(self, db: Db) -> None:
        assert fine("schedule", "run", "report").out == "schedule report sent message 1 to queue reports\n"
        assert count(db, "q_reports", "message ->> 'of' = 'sales'") == 1

    def test_a_pause_and_its_end_say_whether_anything_changed(self) -> None:
        assert fine("schedule", "pause", "report").out == "schedule report is paused\n"
        assert fine("schedule", "pause", "report").out == "schedule report was paused already\n"
        assert "paused" in fine("schedule", "list").out
        assert fine("schedule", "resume", "report").out == "schedule report is fired again\n"
        assert fine("schedule", "resume", "report").out == "schedule report was not paused\n"

    def test_to_forget_one_needs_a_yes(self) -> None:
        refused = run("schedule", "drop", "report")
        assert refused.code == 2 and "--yes" in refused.err
        ran = fine("schedule", "drop", "report", "--yes")
        assert ran.out == "schedule report is forgotten\n" and "take it out of the app" in ran.err
        assert len(fine("schedule", "list", "--json").json) == 1

    def test_an_unknown_one_is_refused_in_one_sentence(self) -> None:
        for verb in ("show", "run", "pause", "resume", "drop"):
            ran = run("schedule", verb, "nothing", *(["--yes"] if verb == "drop" else []))
            assert ran.code == 2 and "there is no schedule nothing here" in ran.err
            assert len(ran.err.splitlines()) == 1


@pytest.fixture
def old(db: Db) -> None:
    """A queue with 250 archived messages of 40 days ago and 3 of today, and a live one."""
    make_queue(db, "jobs")
    db.execute(
        "insert into pgmq.a_jobs (msg_id, read_ct, enqueued_at, vt, message, archived_at, outcome)"
        " select 1000 + n, 1, now(), now(), jsonb_build_object('n', n),"
        " clock_timestamp() - make_interval(days => case when n > 250 then 0 else 40 end), 'done'"
        " from generate_series(1, 253) n"
    )
    fine("send", "jobs", "{}")


@pytest.mark.usefixtures("old")
class TestPruning:
    def test_what_would_go_is_counted_and_stays(self, db: Db) -> None:
        [found] = [each for each in fine("prune", "--dry-run", "--json").json if each["over"]]
        assert (found["what"], found["queue"], found["over"], found["deleted"]) == ("archive", "jobs", 250, 0)
        assert found["oldest"] == found["newest"] or found["oldest"] < found["newest"]
        ran = fine("prune", "--dry-run")
        assert "250" in ran.out and "nothing was deleted" in ran.err
        assert count(db, "a_jobs") == 253

    def test_what_is_over_goes_and_what_lives_stays(self, db: Db) -> None:
        refused = run("prune")
        assert refused.code == 2 and "Delete 250 rows of archive of queue jobs, for good?" in refused.err
        assert "250" in fine("prune", "jobs", "--yes", "--batch", "100").out
        assert (count(db, "a_jobs"), count(db, "q_jobs")) == (3, 1)
        assert fine("prune", "--yes").out == "nothing is over\n"

    def test_an_age_may_be_given(self, db: Db) -> None:
        assert fine("prune", "jobs", "--older-than", "50d", "--yes").out == "nothing is over\n"
        fine("prune", "jobs", "--older-than", "0s", "--yes")
        assert (count(db, "a_jobs"), count(db, "q_jobs")) == (0, 1)

    def test_the_rows_are_exported_first_and_a_second_run_adds_to_the_file(self, db: Db) -> None:
        fine("prune", "jobs", "--yes", "--batch", "100", "--export", "old.ndjson")
        lines = [json.loads(line) for line in Path("old.ndjson").read_text().splitlines()]
        assert sorted(line["message"]["n"] for line in lines) == list(range(1, 251))
        assert {line["from"] for line in lines} == {"pgmq.a_jobs"}
        fine("prune", "jobs", "--yes", "--older-than", "0s", "--export", "old.ndjson")
        assert len(Path("old.ndjson").read_text().splitlines()) == 253

    def test_where_the_file_cannot_be_written_nothing_is_deleted(self, db: Db) -> None:
        os.mkfifo("pipe")
        for file, within in (
            ("no/such/folder/old.ndjson", "--export"),
            ("pipe", "must be a regular file"),
            ("/dev/full", "must be a regular file"),
        ):
            ran = run("prune", "jobs", "--yes", "--export", file)
            assert ran.code == 2 and within in ran.err and len(ran.err.splitlines()) == 1
        assert count(db, "a_jobs") == 253

    def test_a_full_disk_leaves_whole_lines_and_a_torn_one_is_taken_away(self, db: Db) -> None:
        file = Path("old.ndjson")
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (45_000, limit[1]))
        try:
            ran = run("prune", "jobs", "--yes", "--export", str(file))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        assert ran.code == 2 and "File too large; the batch was not deleted" in ran.err
        whole = file.read_text()
        assert len(whole.splitlines()) == 253 - count(db, "a_jobs") == 100 and whole.endswith("}\n")
        file.write_text(whole + '{"from": "pgmq.a_jo')
        assert "ended within a row" in fine("prune", "jobs", "--yes", "--export", str(file)).err
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert len({line["msg_id"] for line in lines}) == 250 and count(db, "a_jobs") == 3

    def test_killed_in_the_middle_no_row_is_lost_and_it_goes_on(self, db: Db) -> None:
        db.execute(
            "insert into pgmq.a_jobs (msg_id, read_ct, enqueued_at, vt, message, archived_at)"
            " select 10000 + n, 1, now(), now(), jsonb_build_object('n', 1000 + n),"
            " now() - interval '40 days' from generate_series(1, 3000) n"
        )
        command = (sys.executable, "-m", "redrive.cli", "prune", "jobs", "--yes", "--batch", "20")
        file = Path("old.ndjson")
        with subprocess.Popen([*command, "--export", str(file)], stdout=-3, stderr=-3) as process:
            until_blocking(lambda: file.exists() and file.stat().st_size > 20_000)
            process.send_signal(signal.SIGKILL)
        until_blocking(lambda: not _busy(db))
        left = count(db, "a_jobs")
        assert 3 < left < 3200
        fine("prune", "jobs", "--yes", "--export", str(file))
        assert count(db, "a_jobs") == 3
        seen = {json.loads(line)["message"]["n"] for line in file.read_text().splitlines()}
        assert len(seen) == 3250

    def test_what_cannot_be_deleted_is_named_and_the_rest_goes(self, db: Db, database_url: str) -> None:
        make_queue(db, "other")
        db.execute("insert into redrive.fetched values ('s', 'r', now() - interval '91 days')")
        db.execute(
            "insert into pgmq.a_other (msg_id, read_ct, enqueued_at, vt, message, archived_at)"
            " select n, 1, now(), now(), '{}', now() - interval '40 days' from generate_series(1, 5) n"
        )
        db.execute(
            "create function public.keep() returns trigger language plpgsql as 'begin return null; end';"
            " create trigger keep before delete on pgmq.a_other for each row when (old.msg_id > 3)"
            " execute function public.keep()"
        )
        with psycopg.connect(database_url) as holder:
            holder.execute("lock table pgmq.a_jobs in access exclusive mode")
            ran = run("prune", "--what", "archive,fetched", "--yes")
        assert ran.code == 1
        assert "archive of queue jobs: " in ran.err
        assert "pgmq.a_jobs is locked by somebody else for longer than a second" in ran.err
        assert "archive of queue other: 2 rows could not be deleted" in ran.err
        assert (count(db, "a_other"), db.execute("select from redrive.fetched").rowcount) == (2, 0)

    def test_rules_are_set_all_or_none_and_taken_back(self) -> None:
        def kept(*rules: str) -> dict[str, float]:
            answer = fine("prune", *(f"--keep={rule}" for rule in rules), "--json").json
            return {each["what"]: each["keep_sec"] for each in answer}

        assert run("prune", "--keep", "runs=5d", "--keep", "nothing=1d").code == 2
        assert kept("events=10d")["events"] == 864000
        assert "10d 0h" in fine("prune", "--keep", "runs=10d", "--keep", "events=default").out
        found = kept("runs=default")
        assert (found["events"], found["runs"]) == (7776000, 2592000)

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (("--what", "archives"), "--what 'archives' is nothing that is kept; there are: archive,"),
            (("--older-than", "30d"), "--older-than needs a QUEUE, or --what"),
            (("jobs", "--older-than", "soon"), "--older-than is 'soon'"),
            (("jobs", "--older-than", "1.5d"), "it must be an age, such as 30d"),
            (("jobs", "--older-than", "99999w"), "the longest is 36500d"),
            (("nothing", "--what", "keys"), "queue nothing does not exist"),
            (("jobs", "--older-than", "2026-01-01T00:00Z"), "it must be an age, such as 30d"),
            (("jobs", "--what", "alerts"), "--what alerts belongs to no queue; leave out jobs"),
            (("--what", "keys", "--older-than", "1d"), "keys have no age to give"),
            (("jobs", "--batch", "0"), "--batch is 0"),
            (("jobs", "--batch", "1000000"), "the largest is 100000"),
            (("nothing",), "queue nothing does not exist"),
            (("--keep", "events"), "--keep 'events' is no KIND=AGE"),
            (("--keep", "archive=1d"), "redrive queue policy QUEUE --set archive_retention"),
            (("--keep", "events=1d", "--dry-run"), "--keep only sets rules"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_in_one_sentence(
        self, arguments: tuple[str, ...], sentence: str
    ) -> None:
        ran = run("prune", "--yes", *arguments)
        assert ran.code == 2 and sentence in ran.err and len(ran.err.splitlines()) == 1


def _busy(db: Db) -> bool:
    [row] = db.execute(
        "select count(*) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()"
        " and query like '%purge_rows%' and state <> 'idle'"
    )
    return bool(row[0])
