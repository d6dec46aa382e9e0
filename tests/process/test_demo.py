"""``redrive demo``: the story with real processes, and what is left of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from rich.console import Console

from redrive.demo.page import Page
from tests.support.cli import run
from tests.support.embedded import until

COMMAND = [sys.executable, "-m", "redrive.cli", "demo"]


class Stage:
    """A temporary directory of the story's own, and what is in it and runs for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            COMMAND,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": str(self.folder), **environment},
            start_new_session=True,
        )

    @property
    def leftovers(self) -> list[str]:
        return [each.name for each in self.folder.iterdir()]

    @property
    def processes(self) -> set[int]:
        found: set[int] = set()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if b"DEMO_STARTS=" + os.fsencode(self.folder) in environment:
                found.add(int(entry.name))
        return found


@pytest.fixture
def stage() -> Generator[Stage]:
    # Not pytest's own: the user who runs root's Postgres has to reach it.
    folder = Path(tempfile.mkdtemp(prefix="redrive-stage-", dir="/tmp"))
    folder.chmod(0o755)
    yield Stage(folder)
    shutil.rmtree(folder, ignore_errors=True)


def read_until(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if text in line:
            return
    raise AssertionError(f"it ended without saying {text!r}")


def test_every_count_is_right_in_under_a_minute_whatever_databases_are_named(stage: Stage) -> None:
    began = time.monotonic()
    process = stage.begin(
        REDRIVE_DATABASE_URL="postgresql://u:hunter2@127.0.0.1:1/d",
        DATABASE_URL="\n",
        REDRIVE_APP="nowhere:app",
    )
    said, _ = process.communicate(timeout=110)
    assert process.returncode == 0, said
    # Promised for two idle cores; the load average is of what else ran here meanwhile.
    busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    assert time.monotonic() - began < (100 if busy else 60)
    counts = re.search(r"All (\d+) counts are right", said)
    assert counts is not None and int(counts[1]) == said.count("✓") > 25
    assert "✗" not in said and "hunter2" not in said
    assert "attempts started: 1, 2, 3, 4, 5" in said
    assert stage.leftovers == [] and stage.processes == set()


@pytest.mark.parametrize("moment", ["A Postgres of its own", "A poison message"])
def test_ctrl_c_leaves_nothing_behind(stage: Stage, moment: str) -> None:
    process = stage.begin()
    read_until(process, moment)
    os.kill(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert stage.leftovers == [] and stage.processes == set()


def test_its_processes_and_its_server_end_with_it_when_it_is_killed(stage: Stage) -> None:
    process = stage.begin()
    read_until(process, "A poison message")
    assert stage.processes
    [lock] = stage.folder.glob("redrive-demo-db-*/data/postmaster.pid")
    process.kill()
    process.communicate(timeout=30)
    until(lambda: not stage.processes, within=60)
    until(lambda: not lock.exists(), within=30)


def test_a_wrong_count_shows_and_is_counted() -> None:
    with open(os.devnull, "w") as nowhere:
        page = Page(Console(file=nowhere))
        page.check("starts", 5, 5)
        page.check("starts", 5, 4)
    assert (page.checked, page.wrong) == (2, 1)


def test_a_wrong_count_exits_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(self: object) -> bool:
        return False

    monkeypatch.setattr("redrive.demo.story.Story.play", play)
    assert run("demo").code == 1
