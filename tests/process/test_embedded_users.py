"""As whom an embedded server runs: for root as somebody else, wherever the files are; for others as them."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Generator
from functools import cache
from pathlib import Path

import psycopg
import pytest

import redrive
from redrive.store import home
from redrive.store.binaries import find_binaries
from redrive.store.embedded import EmbeddedServer
from tests.support.embedded import User, free, guards, place, postmaster, until

SOURCES = Path(redrive.__file__).parents[1]
AS_NOBODY = ("setpriv", "--reuid=nobody", "--regid", str(pwd.getpwnam("nobody").pw_gid), "--clear-groups")
# setpriv itself still has root's rights when it looks for the program: so a shell looks for it.
AS_NOBODY += ("/bin/sh", "-c", 'exec "$@"', "sh")


@pytest.fixture
def top(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.delenv("REDRIVE_PG_BIN", raising=False)
    with place() as directory:
        yield directory


@cache
def nobodys_python() -> str | None:
    """An interpreter that an unprivileged user can run with our packages; None where there is none."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        command = [*AS_NOBODY, candidate, "-c", "import redrive.store.embedded"]
        try:
            done = subprocess.run(command, env=environment(), cwd="/", capture_output=True, check=False)
        except FileNotFoundError:
            return None
        if done.returncode == 0:
            return candidate
    return None


def environment() -> dict[str, str]:
    packages = sysconfig.get_path("purelib")
    return {
        **os.environ,
        "PYTHONPATH": f"{SOURCES}:{packages}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/nowhere",
    }


def permissions(path: Path) -> dict[Path, tuple[int, int]]:
    """Mode and owner of a directory and all above it."""
    return {each: (each.stat().st_mode, each.stat().st_uid) for each in (path, *path.parents)}


def owner_of(pid: int) -> str:
    return pwd.getpwuid(os.stat(f"/proc/{pid}").st_uid).pw_name


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: only root's server runs as somebody else")
class TestRoot:
    @pytest.fixture
    def shared(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """Stands for /var/lib/redrive."""
        monkeypatch.setattr(home, "SHARED_STATE", top / "shared")
        return top / "shared"

    @pytest.fixture
    def private(self, top: Path) -> Path:
        """A directory, such as root's home, that only root can enter."""
        path = top / "private"
        path.mkdir(mode=0o700)
        return path

    def test_a_reachable_directory_keeps_everything_and_nothing_above_it_changes(self, top: Path) -> None:
        before = permissions(top)
        with EmbeddedServer(top / ".redrive", durable=False) as server:
            name = owner_of(postmaster(top / ".redrive"))
            assert name in ("postgres", "nobody")
            assert f"run as user {name} since Postgres refuses to run as root" in server.description
            assert stat.S_IMODE((top / ".redrive").stat().st_mode) == 0o700
        assert permissions(top) == before

    def test_nobody_else_reaches_the_socket(self, top: Path) -> None:
        with EmbeddedServer(top / ".redrive", durable=False) as server:
            question = "import psycopg, sys; psycopg.connect(sys.argv[1])"
            python = nobodys_python()
            if python is None or owner_of(postmaster(top / ".redrive")) == "nobody":
                pytest.skip("setpriv, or an interpreter for nobody, is missing")
            command = [*AS_NOBODY, python, "-c", question, server.url]
            done = subprocess.run(
                command, env=environment(), cwd="/", capture_output=True, text=True, check=False
            )
            assert "Permission denied" in done.stderr

    def test_a_directory_of_an_ordinary_user_is_served_as_that_user(self, top: Path) -> None:
        directory = top / ".redrive"
        directory.mkdir()
        shutil.chown(directory, "nobody")
        with EmbeddedServer(directory, durable=False) as server:
            assert owner_of(postmaster(directory)) == "nobody"
            assert "run as user nobody" in server.description

    def test_an_unreachable_directory_has_its_data_elsewhere_and_says_so(
        self, private: Path, shared: Path
    ) -> None:
        before = permissions(private)
        with EmbeddedServer(private / ".redrive", durable=False) as server:
            with psycopg.connect(server.url) as connection:
                connection.execute("create table kept as select 42 as answer")
            [elsewhere] = shared.glob("*/data")
            assert "Postgres 18" in server.description and f"in {elsewhere.parent}" in server.description
            assert f"not in {private / '.redrive'}, which" in server.description
            assert stat.S_IMODE(elsewhere.parent.stat().st_mode) == 0o700
        assert permissions(private) == before
        with (
            EmbeddedServer(private / ".redrive", durable=False) as server,
            psycopg.connect(server.url) as connection,
        ):
            assert connection.execute("select answer from kept").fetchone() == (42,)

    def test_removing_that_directory_means_to_start_empty(self, private: Path, shared: Path) -> None:
        with (
            EmbeddedServer(private / ".redrive", durable=False) as server,
            psycopg.connect(server.url) as connection,
        ):
            connection.execute("create table kept as select 42 as answer")
        shutil.rmtree(private / ".redrive")
        with (
            EmbeddedServer(private / ".redrive", durable=False) as server,
            psycopg.connect(server.url) as connection,
        ):
            assert connection.execute("select to_regclass('kept')").fetchone() == (None,)

    def test_the_last_one_takes_the_data_elsewhere_along(self, private: Path, shared: Path) -> None:
        server = EmbeddedServer(private / ".redrive", durable=False)
        server.start()
        server.stop(remove=True)
        assert not list(shared.iterdir())
        assert not (private / ".redrive").exists()

    def test_a_killed_user_of_data_elsewhere_takes_the_server_down(self, private: Path) -> None:
        user = User(private / ".redrive")
        url = user.url
        elsewhere = Path(url.partition("host=")[2].partition("&")[0])
        try:
            assert elsewhere.parent == home.SHARED_STATE
            user.kill()
            until(lambda: free(elsewhere, "server"))
            until(lambda: not guards(elsewhere))
        finally:
            shutil.rmtree(elsewhere)

    def test_unreachable_programs_are_copied_once_and_it_is_said(
        self, top: Path, private: Path, shared: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installed = find_binaries().parent
        hidden = private / installed.parent.name
        shutil.copytree(installed, hidden / installed.name)
        shutil.copytree(installed.parent.with_name(f"{hidden.name}.libs"), private / f"{hidden.name}.libs")
        (hidden / installed.name / "bin" / "initdb").chmod(0o700)
        before = permissions(hidden / installed.name / "bin")
        monkeypatch.setenv("REDRIVE_PG_BIN", str(hidden / installed.name / "bin"))
        with EmbeddedServer(top / ".redrive", durable=False) as server:
            [copy] = shared.iterdir()
            assert f"from a copy of its programs in {copy}" in server.description
            assert copy.stat().st_uid == 0
            with psycopg.connect(server.url) as connection:
                connection.execute("create extension pg_trgm")
        inode = copy.stat().st_ino
        with EmbeddedServer(top / "another", durable=False) as server:
            assert f"in {copy}" in server.description
        assert [each.stat().st_ino for each in shared.iterdir()] == [inode]
        assert permissions(hidden / installed.name / "bin") == before


@pytest.mark.skipif(os.geteuid() != 0, reason="not root: the other tests are the ordinary user's already")
class TestAnOrdinaryUser:
    @pytest.fixture
    def command(self) -> tuple[str, ...]:
        python = nobodys_python()
        if python is None:
            pytest.skip("setpriv, or an interpreter that user nobody can run with our packages, is missing")
        return (*AS_NOBODY, python)

    @pytest.fixture
    def directory(self, top: Path) -> Path:
        mine = top / "mine"
        mine.mkdir()
        shutil.chown(mine, "nobody")
        return mine / ".redrive"

    def test_runs_the_server_as_itself_from_programs_it_cannot_write(
        self, directory: Path, command: tuple[str, ...]
    ) -> None:
        user = User(directory, command=command, environment=environment())
        assert user.url == f"postgresql://redrive@/redrive?host={directory}&port=5432"
        assert user.description.startswith("Postgres 18.")
        assert owner_of(postmaster(directory)) == "nobody"
        assert [owner_of(pid) for pid in guards(directory)] == ["nobody"]
        assert (
            not os.access(find_binaries(), os.W_OK, effective_ids=True) or find_binaries().stat().st_uid == 0
        )
        user.kill()
        until(lambda: free(directory, "server"))

    def test_starts_over_the_file_of_a_killed_postmaster(
        self, directory: Path, command: tuple[str, ...]
    ) -> None:
        first = User(directory, command=command, environment=environment())
        assert first.url
        os.kill(postmaster(directory), 9)
        second = User(directory, command=command, environment=environment())
        assert second.url
        first.leave()
        second.leave()
        assert free(directory, "server")

    def test_is_refused_the_directory_that_root_made(self, top: Path, command: tuple[str, ...]) -> None:
        with EmbeddedServer(top / ".redrive", durable=False):
            pass
        user = User(top / ".redrive", command=command, environment=environment())
        _, errors = user.process.communicate(timeout=30)
        assert "ConfigError" in errors and "Permission denied" in errors
