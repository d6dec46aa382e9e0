"""What an embedded server makes of deaths: of its users, its guard, its postmaster, and of all of them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from redrive.store.embedded import EmbeddedServer
from tests.support.embedded import User, free, guards, kill_guard, place, postmaster, ran_before, until


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.delenv("REDRIVE_PG_BIN", raising=False)
    with place() as top:
        yield ran_before(top / ".redrive")


def keep(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("create table kept as select 42 as answer")


def kept(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("select answer from kept").fetchone() == (42,)


class TestAKilledUser:
    def test_alone_takes_the_server_down_in_good_order(self, directory: Path) -> None:
        user = User(directory)
        keep(user.url)
        user.kill()
        until(lambda: free(directory, "server"))
        until(lambda: not guards(directory))
        assert "database system is shut down" in (directory / "server.log").read_text()
        with EmbeddedServer(directory, durable=False) as server:
            assert kept(server.url)
        assert "recovery" not in (directory / "server.log").read_text()

    def test_among_others_disturbs_nobody(self, directory: Path) -> None:
        victim, other = User(directory), User(directory)
        url = victim.url
        assert other.url == url
        with psycopg.connect(url) as connection:
            victim.kill()
            assert connection.execute("select 1").fetchone() == (1,)
        other.leave()
        assert free(directory, "server")

    @pytest.mark.parametrize("moment", ["data.new", "data", "data/postmaster.pid"])
    def test_in_the_middle_of_a_start_leaves_a_place_where_the_next_one_succeeds(
        self, directory: Path, moment: str
    ) -> None:
        shutil.rmtree(directory)
        victim = User(directory)
        until((directory / moment).exists)
        victim.kill()
        with EmbeddedServer(directory, durable=False) as server:
            keep(server.url)
        assert free(directory, "server")
        until(lambda: not guards(directory))

    def test_is_not_mistaken_for_gone_while_a_child_of_it_lives(self, directory: Path) -> None:
        """A forked child shares the lock: it uses the server too."""
        with EmbeddedServer(directory, durable=False) as server:
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            os.close(reader)
            server.stop()
            assert not free(directory, "server")
            os.close(writer)
            os.waitpid(child, 0)
            until(lambda: free(directory, "server"))


class TestAKilledGuard:
    def test_is_replaced_by_the_next_start(self, directory: Path) -> None:
        first = User(directory)
        url = first.url
        kill_guard(directory)
        second = User(directory)
        assert second.url == url
        assert len(guards(directory)) == 1
        first.kill()
        second.kill()
        until(lambda: free(directory, "server"))

    def test_is_not_needed_by_who_leaves_in_good_order(self, directory: Path) -> None:
        user = User(directory)
        assert user.url
        kill_guard(directory)
        user.leave()
        assert free(directory, "server")

    def test_one_that_cannot_be_run_is_told_of_and_missed_only_by_the_killed(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        with EmbeddedServer(directory, durable=False) as server:
            keep(server.url)
            assert f"nobody guards the embedded Postgres in {directory}" in caplog.text
            assert "/nowhere/python" in (directory / "guard.log").read_text()
        assert free(directory, "server")

    def test_together_with_every_user_leaves_a_server_that_the_next_one_takes_over(
        self, directory: Path
    ) -> None:
        user = User(directory)
        keep(user.url)
        pid = postmaster(directory)
        kill_guard(directory)
        user.kill()
        heir = User(directory)
        assert kept(heir.url)
        assert postmaster(directory) == pid
        heir.kill()
        until(lambda: free(directory, "server"))


class TestAKilledPostmaster:
    def test_is_started_again_over_its_stale_file_with_every_commit(self, directory: Path) -> None:
        with EmbeddedServer(directory) as server:
            keep(server.url)
            os.kill(postmaster(directory), signal.SIGKILL)
            assert (directory / "data" / "postmaster.pid").exists()
            again = User(directory)
            assert kept(again.url)
            assert "was not properly shut down" in (directory / "server.log").read_text()
            again.leave()
        assert free(directory, "server")

    def test_with_a_backend_still_at_work_is_started_when_that_has_ended(self, directory: Path) -> None:
        with EmbeddedServer(directory) as server:
            keep(server.url)
            with psycopg.connect(server.url, autocommit=True) as connection:
                backend = connection.info.backend_pid
                # Stopped, it cannot notice that its postmaster has gone.
                os.kill(backend, signal.SIGSTOP)
                os.kill(postmaster(directory), signal.SIGKILL)
                again = User(directory)
                until(lambda: not free(directory, "start"))
                assert again.process.poll() is None
                assert not free(directory, "server")
                os.kill(backend, signal.SIGCONT)
                assert kept(again.url)
                again.leave()

    def test_whose_number_a_stranger_got_is_started_all_the_same(self, directory: Path) -> None:
        server = EmbeddedServer(directory)
        keep(server.start())
        os.kill(postmaster(directory), signal.SIGKILL)
        server.stop()
        data = directory / "data"
        owner = data.stat()
        account = owner.st_uid if os.geteuid() == 0 else None
        # The server's own user must own the stranger: only such a one keeps Postgres from starting.
        with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, user=account) as stranger:
            note = data / "postmaster.pid"
            note.write_text("\n".join([str(stranger.pid), *note.read_text().split("\n")[1:]]))
            assert kept(server.start())
            server.stop()
            assert stranger.poll() is None

    def test_with_a_file_that_a_crash_of_the_machine_emptied_is_started_all_the_same(
        self, directory: Path
    ) -> None:
        server = EmbeddedServer(directory)
        keep(server.start())
        os.kill(postmaster(directory), signal.SIGKILL)
        server.stop()
        (directory / "data" / "postmaster.pid").write_text("")
        assert kept(server.start())
        server.stop()
