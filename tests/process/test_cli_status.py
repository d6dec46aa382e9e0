"""redrive status: the numbers, who works, and whether anything is wrong."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.cli import fine, run
from tests.support.working import make_queue, send

Db = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)


def beat(db: Db, worker: str, running: int = 0) -> None:
    db.execute("select redrive.worker_beat(%s, '{mail}', array[%s]::integer[], '{}', 4)", (worker, running))


def header(said: str) -> list[str]:
    return said.splitlines()[0].split()


def test_shows_what_is_measured(db: Db) -> None:
    make_queue(db, "mail")
    assert "in/s" not in header(fine("status").out)
    assert header(fine("status").out)[-1] == "workers"
    [row] = fine("status", "--json").json
    assert (row["workers"], row["inflow_per_sec"], row["drain_sec"]) == (0, None, None)


def test_shows_the_workers(db: Db) -> None:
    make_queue(db, "mail")
    beat(db, "here:1:ab", running=3)
    db.execute("select redrive.claim('mail', 60, 1, 'gone')")
    db.execute("update redrive.worker set last_seen = now() - interval '2 hours' where worker = 'gone'")
    db.execute("select redrive.read_with_dlq('mail', 60, 1)")
    lines = fine("status", "--workers").out.splitlines()
    assert [line.rstrip().endswith("reads by SQL") for line in lines if "read_with_dlq" in line] == [True]
    [here] = [line.split() for line in lines if "here:1:ab" in line]
    [gone] = [line for line in lines if " gone " in line]
    assert here[:2] == ["mail", "here:1:ab"]
    assert here[4] == "3"
    assert "2h 0m ago" in gone and gone.endswith("not seen for over a minute")
    [row] = fine("status", "--workers", "--json").json
    assert {w["worker"]: w["alive"] for w in row["seen"]} == {
        "here:1:ab": True,
        "gone": False,
        "read_with_dlq": True,
    }


def test_checks_each_thing_that_may_be_wrong(db: Db) -> None:
    make_queue(db, "mail")
    assert run("status", "--check").code == 0
    send(db, "mail", {})
    said = run("status", "--check")
    assert said.code == 1
    assert (
        "queue mail has 1 ready message and no living worker; start one: "
        "redrive worker --app MODULE:ATTR --queue mail" in said.err
    )
    beat(db, "here")
    assert run("status", "--check").code == 0
    db.execute(
        "select redrive.settle('mail', array[c.msg_id], array[c.read_ct], '{reject}', p_worker => 'here')"
        " from redrive.claim('mail', 60, 1, 'here') c"
    )
    said = run("status", "--check")
    assert (said.code, said.err) == (1, "queue mail has 1 dead letter; see: redrive dlq list mail\n")
    assert run("status", "--check", "--json").code == 1
    db.execute("select redrive.check_queue_health()")
    assert "alert dead_letters fires: " in run("status", "--check").err
    make_queue(db, "other")
    assert run("status", "--check", "--queue", "other").code == 0
    db.execute("drop table pgmq.q_other")
    assert "queue other cannot be read: " in run("status", "--check", "--queue", "other").err


def test_a_pause_with_a_backlog_is_nothing_wrong(db: Db) -> None:
    make_queue(db, "mail")
    send(db, "mail", {})
    db.execute("select redrive.pause_queue('mail')")
    assert run("status", "--check").code == 0


def test_watching_takes_neither_check_nor_workers() -> None:
    assert run("status", "--watch", "--check").code == 2
    assert run("status", "--watch", "--workers").code == 2
