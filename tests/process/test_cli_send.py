"""``redrive send`` on a real database: what arrives, and what is said when something does not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.cli import fine, run
from tests.support.embedded import until

Db = psycopg.Connection[Any]

REFUSED: list[tuple[list[str], str]] = [
    (["{'a': 1}"], "the payload is no JSON: "),
    (["NaN"], "no JSON number"),
    (['"\\u0000"'], "NUL character"),
    (['{"a": "\\ud800"}'], "$.a: the text holds a lone surrogate"),
    (["{}", "--delay", "-1"], "delay is -1"),
    (["{}", "--delay", "soon"], "--delay is 'soon'; it must be seconds, or a time with its zone"),
    (["{}", "--delay", "nan"], "delay is nan"),
    (["{}", "--delay", "2030-01-01T10:00"], "has no time zone; add one: 2030-01-01T10:00Z"),
    (["{}", "--header", "trace"], "--header 'trace' is no NAME=VALUE"),
    (["{}", "--header", "x-redrive-key=k"], "names beginning x-redrive- are redrive's own"),
    (["{}", "--key", ""], "key is 0 characters"),
    (["[" * 2_000 + "]" * 2_000], "the payload is nested too deeply to be read"),
    (["x" * 5_000], "the payload is no JSON"),
    (["{}", "--database", ""], "--database is empty"),
    (["{}", "{}"], "2 payloads are given"),
    ([], "what is to be sent?"),
    (["{}", "--each"], "--each is for files"),
]
UNSENDABLE = [
    ("bad.ndjson", b"{}\n{}\n{oops\n", "bad.ndjson line 3 is no JSON"),
    ("latin.jsonl", b"{}\n\xff\n", "latin.jsonl line 2 is not UTF-8 at byte 1"),
    ("nul.ndjson", b'{}\n{"a": {"b": "\\u0000"}}\n', "nul.ndjson line 2: $.a.b: the text holds a NUL"),
    ("two.json", b"{}\n{}\n", "two.json is no JSON"),
    ("missing.json", None, "missing.json cannot be read: No such file"),
]


@pytest.fixture(autouse=True)
def _here(database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    fine("queue", "create", "emails")


def arrived(db: Db) -> list[Any]:
    return [row[0] for row in db.execute("select message from pgmq.q_emails order by msg_id")]


class TestOne:
    def test_a_queues_name_in_capitals_is_told_the_right_one(self) -> None:
        ran = run("send", "Emails", "{}")
        assert ran.code == 2
        assert ran.err == (
            "redrive: queue Emails does not exist; queue emails does: write its name in lower case\n"
        )

    def test_the_argument_is_json(self, db: Db) -> None:
        assert fine("send", "emails", '{"template": "welcome"}').out == "1 message sent to queue emails: 1\n"
        assert arrived(db) == [{"template": "welcome"}]

    def test_it_arrives_digit_for_digit(self, db: Db) -> None:
        payloads = ["12345678901234567890123", "1.10", '"text"', "null", '{"pi": 3.1400}', "[]"]
        for payload in payloads:
            fine("send", "emails", payload)
        rows = db.execute("select message::text from pgmq.q_emails order by msg_id").fetchall()
        assert [text for (text,) in rows] == payloads

    def test_json_answers_with_ids_and_duplicates(self) -> None:
        first = fine("send", "emails", "{}", "--key", "k", "--unique", "--json").json
        again = fine("send", "emails", "{}", "--key", "k", "--unique", "--json").json
        assert first["sent"] == [{"id": 1, "duplicate": False}]
        assert again["sent"] == [{"id": 1, "duplicate": True}]
        assert "known already" in fine("send", "emails", "{}", "--key", "k", "--unique").out

    def test_headers_and_key_travel_along(self, db: Db) -> None:
        fine("send", "emails", "{}", "--header", "trace=8f=3c", "--header", "tenant=7", "--key", "k")
        [(headers,)] = db.execute("select headers from pgmq.q_emails")
        assert headers == {"trace": "8f=3c", "tenant": "7", "x-redrive-key": "k"}

    def test_the_delay_is_seconds_or_a_time_with_its_zone(self, db: Db) -> None:
        at = datetime.now(UTC) + timedelta(hours=2)
        fine("send", "emails", "{}", "--delay", "90.5")
        fine("send", "emails", "{}", "--delay", at.isoformat())
        (first,), (second,) = db.execute("select vt from pgmq.q_emails order by msg_id").fetchall()
        assert abs((first - datetime.now(UTC)).total_seconds() - 90.5) < 10
        assert second == at

    def test_what_cannot_be_right_is_one_sentence_and_nothing_is_sent(self, db: Db) -> None:
        for arguments, said in REFUSED:
            ran = run("send", "emails", *arguments)
            assert (ran.code, ran.out) == (2, ""), ran
            assert said in ran.err and len(ran.err.splitlines()) == 1, ran
        assert arrived(db) == []

    def test_a_file_name_in_place_of_a_payload_is_explained(self) -> None:
        Path("x.json").write_text("{}")
        assert "write --file x.json" in run("send", "emails", "x.json").err

    def test_an_unknown_queue_exits_2(self) -> None:
        for queue in ("nowhere", "emails_dlq", "no such"):
            ran = run("send", queue, "{}")
            assert ran.code == 2 and queue in ran.err and len(ran.err.splitlines()) == 1


class TestFiles:
    def test_a_json_file_is_one_message_whatever_it_holds(self, db: Db) -> None:
        Path("list.json").write_text("[1,\n2]")
        Path("object.json").write_bytes(b'\xef\xbb\xbf{\n"a": 1}\n')
        fine("send", "emails", "--file", "list.json", "--file", "object.json")
        assert arrived(db) == [[1, 2], {"a": 1}]

    def test_a_shell_may_unfold_the_names(self, db: Db) -> None:
        for n in (1, 2, 3):
            Path(f"{n}.json").write_text(str(n))
        fine("send", "emails", "--file", "1.json", "2.json", "3.json")
        assert arrived(db) == [1, 2, 3]

    def test_an_array_can_be_taken_apart(self, db: Db) -> None:
        Path("list.json").write_text("[1, [2], null]")
        fine("send", "emails", "--each", "--file", "list.json")
        assert arrived(db) == [1, [2], None]
        Path("object.json").write_text("{}")
        assert "is no JSON array" in run("send", "emails", "--each", "--file", "object.json").err

    def test_ndjson_and_stdin_hold_one_a_line(self, db: Db) -> None:
        Path("x.ndjson").write_text('{"n": 1}\n\n{"n": 2}')
        fine("send", "emails", "--file", "x.ndjson")
        fine("send", "emails", "-", stdin='{"n": 3}\r\n{"n": "ü"}\n')
        assert arrived(db) == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": "ü"}]

    def test_nothing_in_a_file_is_nothing_sent(self, db: Db) -> None:
        assert fine("send", "emails", "-", stdin="").out == "0 messages sent to queue emails\n"
        assert arrived(db) == []

    def test_what_cannot_be_sent_is_named_by_file_and_line_and_its_batch_stays(self, db: Db) -> None:
        for name, content, said in UNSENDABLE:
            if content is not None:
                Path(name).write_bytes(content)
            ran = run("send", "emails", "--file", name)
            assert ran.code == 2 and said in ran.err, ran
        assert arrived(db) == []

    def test_after_a_bad_line_it_says_what_was_sent(self, db: Db) -> None:
        lines = [json.dumps({"n": n}) for n in range(1, 1_500)]
        Path("x.ndjson").write_text("\n".join([*lines, "oops"]))
        ran = run("send", "emails", "--file", "x.ndjson", "--json")
        assert ran.code == 2
        first, second = ran.err.splitlines()
        assert first == "1,000 messages sent to queue emails: 1 to 1000, up to x.ndjson line 1,000"
        assert second.startswith("redrive: x.ndjson line 1,500 is no JSON")
        assert [each["id"] for each in ran.json["sent"]] == list(range(1, 1_001))
        assert arrived(db) == [{"n": n} for n in range(1, 1_001)]

    def test_one_key_on_several_is_refused_before_any_is_sent(self, db: Db) -> None:
        ran = run("send", "emails", "-", "--key", "k", stdin="1\n2\n")
        assert ran.code == 2 and "--key is for one message" in ran.err
        assert arrived(db) == []

    def test_keys_in_the_payloads_hold_with_unique(self, db: Db) -> None:
        lines = '{"idempotency_key": "a"}\n{"idempotency_key": "b"}\n{"idempotency_key": "a"}\n'
        answered = fine("send", "emails", "-", "--unique", "--json", stdin=lines).json
        assert [each["duplicate"] for each in answered["sent"]] == [False, False, True]
        assert len(arrived(db)) == 2


def test_a_database_out_of_reach_exits_3_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://u:hunter2@127.0.0.1:1/d")
    ran = run("send", "emails", "{}")
    assert ran.code == 3
    assert "out of reach" in ran.err and "hunter2" not in ran.err


def test_a_database_that_was_never_migrated_says_so(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", empty_database_url)
    ran = run("send", "emails", "{}")
    assert ran.code == 2 and "run `redrive migrate`" in ran.err


def test_without_any_database_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REDRIVE_DATABASE_URL")
    monkeypatch.delenv("DATABASE_URL", raising=False)
    for command in (["send", "emails", "{}"], ["status"], ["worker", "--app", "x:app"], ["migrate"]):
        ran = run(*command)
        assert ran.code == 2 and "no database is named; set REDRIVE_DATABASE_URL" in ran.err


def test_the_database_can_be_named_before_and_after_the_command(
    database_url: str, monkeypatch: pytest.MonkeyPatch, db: Db
) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://127.0.0.1:1/d")
    fine("--database", database_url, "send", "emails", "1")
    fine("send", "emails", "2", "--database", database_url)
    assert arrived(db) == [1, 2]


def at_rest(db: Db) -> int:
    """Connections beside ours whose last answer was half a second ago."""
    [(count,)] = db.execute(
        "select count(*) from pg_stat_activity where datname = current_database() "
        "and pid <> pg_backend_pid() and state = 'idle' "
        "and state_change < clock_timestamp() - interval '0.5 seconds'"
    ).fetchall()
    return count


def test_whoever_interrupts_is_told_what_was_sent(database_url: str, db: Db, tmp_path: Path) -> None:
    source, sink = os.pipe()
    with os.fdopen(source) as lines, os.fdopen(sink, "w") as feed:
        sending = subprocess.Popen(
            [sys.executable, "-m", "redrive.cli", "send", "emails", "-", "--database", database_url],
            stdin=lines,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        feed.writelines(f'{{"n": {n}}}\n' for n in range(1_500))
        feed.flush()
        until(lambda: len(arrived(db)) == 1_000)
        # Committed is not yet answered: it has had its answer when it has asked nothing more for a while.
        until(lambda: at_rest(db) == 1)
        sending.send_signal(signal.SIGINT)
        _, said = sending.communicate(timeout=30)
    assert sending.returncode == 130
    assert said == "1,000 messages sent to queue emails: 1 to 1000, up to stdin line 1,000\n"
    assert len(arrived(db)) == 1_000
