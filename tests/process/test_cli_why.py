"""redrive why: one message's life, for people and for programs."""

from __future__ import annotations

import json
from typing import Any

import psycopg

from tests.support.cli import run
from tests.support.working import make_queue, send

Db = psycopg.Connection[Any]


def fail(db: Db, error: str) -> None:
    db.execute(
        "select redrive.settle('mail', array_agg(c.msg_id), array_agg(c.read_ct), array_agg('reject'::text),"
        " p_error_types => array_agg('Reject'::text), p_errors => array_agg(%s::text), p_worker => 'w')"
        " from redrive.claim('mail', 60, 1, 'w') c",
        (error,),
    )


def test_says_why_a_message_does_not_run(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    message = send(db, "mail", {"token": "secret"})
    said = run("why", "mail", str(message), "--database", database_url)
    assert said.code == 0
    first, then, _, life = said.out.splitlines()
    assert first == "message 1 of queue mail does not run because no worker has ever taken queue mail"
    assert then == "  next: start one: redrive worker --app MODULE:ATTR --queue mail"
    assert life.endswith("Z  sent")


def test_finds_a_dead_letter_by_its_own_id_and_hides_its_secrets(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    send(db, "mail", {})
    fail(db, "cannot reach https://user:hunter2@host/ with Bearer abc")
    said = run("why", "mail", "1", "--dead", "--json", "--database", database_url)
    found = json.loads(said.out)
    assert (said.code, found["cause"], found["msg_id"], found["letter"]["dead_id"]) == (0, "dead", 1, 1)
    assert found["next"].startswith("nothing, until somebody decides: redrive dlq redrive mail 1")
    assert "hunter2" not in said.out
    assert "abc" not in said.out


def test_ends_with_1_for_a_message_there_is_not(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    said = run("why", "mail", "7", "--database", database_url)
    assert (said.code, said.out.splitlines()[0]) == (
        1,
        "message 7 of queue mail was never sent: queue mail has not given this id; it has given none yet",
    )
    assert run("why", "mail", "0", "--database", database_url).code == 2
    assert run("why", "other", "1", "--database", database_url).code == 2
