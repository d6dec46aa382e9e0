"""A script that sends with `app.sync`, and simply ends or cannot begin."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg

from tests.support.working import make_queue

SCRIPT = """
import sys
from redrive import Redrive
app = Redrive(sys.argv[1])
print(app.sync.send("mails", {"n": 1}).id, app.sync.send_many("mails", [2, 3])[1].id)
"""


def test_a_script_that_never_closes_its_app_ends_without_a_word(
    db: psycopg.Connection[Any], database_url: str
) -> None:
    make_queue(db, "mails")
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", SCRIPT, database_url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1 3\n", "")


def test_a_database_out_of_reach_is_said_once() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, "postgresql://ada:hunter2@127.0.0.1:1/shop"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("Traceback") and ended.stderr.count("connection failed") == 1
    assert "hunter2" not in ended.stderr
