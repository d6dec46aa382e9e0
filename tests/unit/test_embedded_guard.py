"""The locks that count a server's users, and how a running server is told from what is left of one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from redrive.store import guard
from redrive.store.guard import EXCLUSIVE, SHARED, hold, postmaster
from tests.support.embedded import until


class TestLocks:
    def test_many_share_one_and_only_then_nobody_has_it_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "users"
        first, second = hold(path, SHARED, 0), hold(path, SHARED, 0)
        assert first is not None and second is not None
        os.close(first)
        assert hold(path, EXCLUSIVE, 0) is None
        os.close(second)
        alone = hold(path, EXCLUSIVE, 0)
        assert alone is not None
        os.close(alone)

    def test_a_killed_holder_lets_go(self, tmp_path: Path) -> None:
        path = tmp_path / "users"
        script = (
            "import sys, pathlib; sys.path.insert(0, sys.argv[1]); import guard\n"
            "guard.hold(pathlib.Path(sys.argv[2]), guard.SHARED, 0); print(flush=True); sys.stdin.read()"
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", script, str(Path(guard.__file__).parent), path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert holder.stdout is not None
        holder.stdout.readline()
        assert hold(path, EXCLUSIVE, 0) is None
        holder.kill()
        holder.communicate()
        alone = hold(path, EXCLUSIVE, 0)
        assert alone is not None
        os.close(alone)

    def test_a_link_is_not_followed(self, tmp_path: Path) -> None:
        (tmp_path / "users").symlink_to(tmp_path / "chosen by somebody else")
        with pytest.raises(OSError):
            hold(tmp_path / "users", SHARED, 0)
        assert not (tmp_path / "chosen by somebody else").exists()


class TestTellingWhetherAServerRuns:
    @pytest.fixture
    def data(self, tmp_path: Path) -> Path:
        path = tmp_path / "data"
        path.mkdir()
        return path

    @pytest.mark.parametrize("text", [None, "", "\n", "no number\n"])
    def test_nothing_or_nonsense_in_its_file_means_no(self, data: Path, text: str | None) -> None:
        if text is not None:
            (data / "postmaster.pid").write_text(text)
        assert postmaster(data.parent) is None

    def test_a_stranger_with_its_number_means_no(self, data: Path) -> None:
        (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n")
        assert postmaster(data.parent) is None

    @pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc: a process's name is unknown")
    def test_a_process_of_that_name_counts_only_at_work_in_these_data_and_while_it_lives(
        self, data: Path, tmp_path: Path
    ) -> None:
        program = tmp_path / "postgres"
        shutil.copy("/bin/sleep", program)
        elsewhere = subprocess.Popen([program, "600"], cwd=tmp_path)
        (data / "postmaster.pid").write_text(f"{elsewhere.pid}\n")
        assert postmaster(data.parent) is None
        elsewhere.kill()
        elsewhere.wait()

        here = subprocess.Popen([program, "600"], cwd=data)
        lines = [str(here.pid), str(data), "0", "5432", "/tmp", "", "1 2", "ready   "]
        (data / "postmaster.pid").write_text("\n".join(lines) + "\n")
        assert postmaster(data.parent) == (here.pid, "ready")
        here.kill()
        until(lambda: Path(f"/proc/{here.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
        assert postmaster(data.parent) is None
        here.wait()
