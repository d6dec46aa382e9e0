"""``redrive dev``: a Postgres of its own, and new code at work as soon as it is saved."""

from __future__ import annotations

import signal
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from tests.support.cli import fine
from tests.support.command import Command
from tests.support.embedded import place, until

APP = """
from redrive import Redrive
app = Redrive()

@app.job("mail")
async def handle(payload: dict) -> None:
    with open("journal", "a") as journal:
        journal.write(f"{payload['n']} by VERSION\\n")
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    for name in ("REDRIVE_DATABASE_URL", "DATABASE_URL", "REDRIVE_APP"):
        monkeypatch.delenv(name, raising=False)
    with place() as found:
        monkeypatch.chdir(found)
        yield found


def write(folder: Path, version: str) -> None:
    (folder / "shop.py").write_text(APP.replace("VERSION", version))


def works(folder: Path, n: int, version: str) -> None:
    fine("send", "mail", f'{{"n": {n}}}')
    journal = folder / "journal"
    until(lambda: journal.exists() and f"{n} by {version}\n" in journal.read_text())


def test_code_is_at_work_as_soon_as_it_is_saved(folder: Path) -> None:
    write(folder, "one")
    with Command("dev", "--app", "shop:app", folder=folder) as dev:
        at = dev.wait_for("worker_started")
        assert dev.lines[0].startswith("database: embedded Postgres ")
        assert dev.lines[0].endswith("(from redrive dev)")
        # the settings find what dev left, from now on
        works(folder, 1, "one")

        write(folder, "two")
        at = dev.wait_for("worker_started", after=dev.wait_for("shop.py changed", after=at))
        works(folder, 2, "two")

        (folder / "shop.py").write_text("1 / 0")
        at = dev.wait_for("starts again when a file changes", after=at)
        assert "ZeroDivisionError" in dev.said
        write(folder, "three")
        dev.wait_for("worker_started", after=at)
        works(folder, 3, "three")

        assert dev.end(signal.SIGINT) == 0
    assert "Traceback" not in dev.said
    [queue] = fine("status", "--json").json
    assert (queue["queue"], queue["ready"], queue["in_flight"], queue["dead"]) == ("mail", 0, 0, 0)


def test_a_worker_that_dies_is_replaced(folder: Path) -> None:
    (folder / "shop.py").write_text(
        APP.replace("    with open", "    import os; os.kill(os.getpid(), 9)\n    with open")
    )
    with Command("dev", "--app", "shop:app", folder=folder) as dev:
        at = dev.wait_for("worker_started")
        fine("send", "mail", '{"n": 1}')
        dev.wait_for("worker_started", after=dev.wait_for("the worker died (-9)", after=at))
        assert dev.end(signal.SIGTERM) == 0


def test_a_database_named_only_by_database_url_is_asked_about(folder: Path, empty_database_url: str) -> None:
    write(folder, "one")
    environment = {"DATABASE_URL": empty_database_url}
    with Command("dev", "--app", "shop:app", folder=folder, environment=environment) as dev:
        assert dev.end() == 2
        assert "which only DATABASE_URL names?" in dev.said and "--yes" in dev.said
    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("select to_regnamespace('redrive')").fetchone() == (None,)
    with Command("dev", "--app", "shop:app", "--yes", folder=folder, environment=environment) as dev:
        dev.wait_for("worker_started")
        assert dev.end(signal.SIGINT) == 0
    assert not (folder / ".redrive").exists()
