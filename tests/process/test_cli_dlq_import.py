"""``redrive dlq import`` on a real database: dead letters that other workers made."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.support.cli import fine, run

Db = psycopg.Connection[Any]

LETTER = {"payload": {"type": "video.ready"}, "attempts": 6}
IMPORT = ("dlq", "import", "hooks_dead", "--queue", "hooks")


@pytest.fixture(autouse=True)
def _here(database_url: str, db: Db, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
    monkeypatch.chdir(tmp_path)
    fine("queue", "create", "hooks")
    db.execute("select pgmq.create('hooks_dead')")


def put(db: Db, *messages: object) -> None:
    for each in messages:
        db.execute("select pgmq.send('hooks_dead', %s::jsonb)", (json.dumps(each),))


def letters() -> list[Any]:
    return fine("dlq", "list", "hooks", "--limit", "1000", "--json").json


def test_they_are_taken_in_listed_shown_and_redriven(db: Db) -> None:
    put(db, LETTER, LETTER)
    assert "2 messages of hooks_dead became dead letters of queue hooks" in fine(*IMPORT, "--yes").out
    assert [(each["attempts"], each["reason"]) for each in letters()] == [(6, "failed")] * 2
    assert "video.ready" in fine("dlq", "show", "hooks", "1").out
    assert fine("dlq", "redrive", "hooks", "1", "--json").json["redriven"] == [{"dead_id": 1, "new_id": 1}]
    fine("dlq", "discard", "hooks", "2", "--yes")
    assert letters() == []


def test_a_letter_with_failures_of_any_kind_is_shown(db: Db) -> None:
    failures = [1, None, "boom", {"at": 5, "error": ["x"], "traceback": {"a": 1}, "duration": "long"}]
    db.execute("select pgmq.send('hooks_dlq', %s::jsonb)", (json.dumps(LETTER | {"failures": failures}),))
    assert "at 5" in fine("dlq", "show", "hooks", "1").out


def test_all_batches_of_many_are_taken(db: Db) -> None:
    db.execute(
        "select pgmq.send('hooks_dead', %s::jsonb) from generate_series(1, 450)", (json.dumps(LETTER),)
    )
    assert fine(*IMPORT, "--yes", "--json").json == {
        "from": "hooks_dead", "queue": "hooks", "imported": 450, "left": []
    }  # fmt: skip
    assert len(letters()) == 450


def test_what_is_no_dead_letter_is_left_and_named(db: Db) -> None:
    put(db, {"n": 1}, LETTER)
    ran = run(*IMPORT, "--yes")
    assert ran.code == 1
    assert "1 message of hooks_dead became dead letters" in ran.out
    assert "left where it is: 1 (no dead letter: neither {original_msg_id, payload, ...}" in ran.out
    ran = run(*IMPORT, "--yes", "--json")
    assert (ran.code, ran.json["left"]) == (1, [{"msg_id": 1, "status": "no envelope"}])


def test_a_limit_counts_what_is_taken_in(db: Db) -> None:
    put(db, {"n": 1}, LETTER, LETTER, LETTER)
    assert run(*IMPORT, "--yes", "--limit", "2", "--json").json["imported"] == 2
    assert db.execute("select array_agg(msg_id order by 1) from pgmq.q_hooks_dead").fetchone() == ([1, 4],)


def test_a_dry_run_and_one_without_a_yes_change_nothing(db: Db) -> None:
    put(db, LETTER)
    assert "1 message of hooks_dead would become dead letters" in fine(*IMPORT, "--dry-run").out
    ran = run(*IMPORT)
    assert (ran.code, letters()) == (2, [])
    assert "Take 1 dead letter of hooks_dead in as those of queue hooks? There is no terminal" in ran.err


def test_nothing_there_is_fine() -> None:
    assert "0 messages of hooks_dead became dead letters" in fine(*IMPORT).out


def test_a_queue_that_there_is_not_exits_2() -> None:
    ran = run("dlq", "import", "nothing", "--queue", "hooks", "--yes")
    assert (ran.code, "pgmq has no queue nothing" in ran.err) == (2, True)
    assert run("dlq", "import", "hooks_dead", "--queue", "other", "--yes").code == 2
