"""An embedded server from the outside: what a start gives, who shares it, and when it stops."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Generator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from redrive.errors import ConfigError, Unavailable
from redrive.store import guard
from redrive.store.embedded import EmbeddedServer
from tests.support.embedded import User, free, guards, kill_guard, place, postmaster, ran_before, until

POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.delenv("REDRIVE_PG_BIN", raising=False)
    with place() as top:
        yield ran_before(top / ".redrive")


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.delenv("REDRIVE_PG_BIN", raising=False)
    with place() as top:
        yield top / ".redrive"


def ask(url: str, question: LiteralString) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()
    assert row is not None
    return row[0]


class TestAStart:
    def test_gives_a_superuser_a_database_of_its_own_on_a_private_socket_without_tcp(
        self, untouched: Path
    ) -> None:
        with EmbeddedServer(untouched, durable=False) as server:
            assert server.url == f"postgresql://redrive@/redrive?host={untouched}&port=5432"
            assert (
                ask(server.url, "select current_user || ' in ' || current_database()") == "redrive in redrive"
            )
            assert ask(server.url, "select rolsuper from pg_roles where rolname = current_user") is True
            assert ask(server.url, "show listen_addresses") == ""
            assert ask(server.url, "show server_encoding") == "UTF8"
            assert stat.S_IMODE(untouched.stat().st_mode) == 0o700

    @pytest.mark.parametrize("durable", [True, False])
    def test_is_durable_unless_told_otherwise(self, untouched: Path, durable: bool) -> None:
        with EmbeddedServer(untouched, durable=durable) as server:
            for name in ("fsync", "synchronous_commit", "full_page_writes"):
                assert ask(server.url, f"show {name}") == ("on" if durable else "off")

    def test_keeps_its_directory_out_of_the_projects_history(self, directory: Path) -> None:
        with EmbeddedServer(directory, durable=False):
            assert (directory / ".gitignore").read_text() == "*\n"

    def test_describes_the_server_in_one_line(self, directory: Path) -> None:
        with EmbeddedServer(directory, durable=False) as server:
            version = ask(server.url, "show server_version")
            assert server.description.startswith(f"Postgres {version} in {directory}")
            assert "\n" not in server.description

    def test_ignores_what_the_environment_says_about_other_servers(
        self, directory: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PGPORT", "6543")
        monkeypatch.setenv("PGDATA", "/nowhere")
        monkeypatch.setenv("PGHOST", "db.example.com")
        monkeypatch.setenv("PGUSER", "somebody")
        with EmbeddedServer(directory, durable=False) as server:
            assert ask(server.url, "select current_user") == "redrive"

    def test_a_second_call_of_a_server_or_of_its_end_changes_nothing(self, directory: Path) -> None:
        server = EmbeddedServer(directory, durable=False)
        server.stop()
        assert server.start() == server.start()
        server.stop()
        server.stop()
        assert free(directory, "server")
        server.start()
        assert ask(server.url, "select 1") == 1
        server.stop()

    def test_data_outlive_the_server(self, directory: Path) -> None:
        with EmbeddedServer(directory, durable=False) as server, psycopg.connect(server.url) as connection:
            connection.execute("create table kept as select 42 as answer")
        assert free(directory, "server")
        with EmbeddedServer(directory, durable=False) as server:
            assert ask(server.url, "select answer from kept") == 42

    @pytest.mark.parametrize("name", ["with space/.redrive", 'it\'s $HOME, "ü" & more/.redrive', "x" * 120])
    def test_a_path_that_no_socket_can_have_works_and_leaves_nothing_behind(
        self, untouched: Path, name: str
    ) -> None:
        home = untouched.parent / name
        server = EmbeddedServer(home, durable=False)
        url = server.start()
        sockets = Path(url.partition("host=")[2].partition("&")[0])
        assert len(str(sockets)) < 86 and " " not in str(sockets)
        assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
        assert ask(url, "select 1") == 1
        with EmbeddedServer(home, durable=False) as other:
            assert other.url == url
        server.stop()
        assert not sockets.exists()
        assert server.start() != url
        server.stop()

    def test_what_an_interrupted_initdb_left_is_made_anew(self, untouched: Path) -> None:
        (untouched / "data.new").mkdir(parents=True)
        (untouched / "data.new" / "PG_VERSION").write_text("18\n")
        with EmbeddedServer(untouched, durable=False) as server:
            assert ask(server.url, "select 1") == 1
        assert not (untouched / "data.new").exists()

    def test_one_that_fails_says_why_in_the_servers_words_and_leaves_nothing_running(
        self, directory: Path
    ) -> None:
        server = EmbeddedServer(directory, durable=False)
        settings = directory / "data" / "postgresql.conf"
        settings.write_text(settings.read_text() + "\nnonsense = 1\n")
        with pytest.raises(
            Unavailable, match=r'did not start: .*unrecognized configuration parameter "nonsense"'
        ):
            server.start()
        for name in ("users", "start", "server"):
            until(lambda name=name: free(directory, name))


class TestSharing:
    def test_many_who_start_it_at_once_get_one_server_and_one_guard(self, untouched: Path) -> None:
        users = [User(untouched) for _ in range(5)]
        urls = {user.url for user in users}
        assert urls == {f"postgresql://redrive@/redrive?host={untouched}&port=5432"}
        assert (untouched / "server.log").read_text().count("starting PostgreSQL") == 1
        assert len(guards(untouched)) == 1
        for user in users:
            user.leave()
        assert free(untouched, "server")

    def test_it_runs_until_the_last_one_leaves(self, directory: Path) -> None:
        first, second = User(directory), User(directory)
        url = first.url
        assert second.url == url
        pid = postmaster(directory)
        first.leave()
        assert ask(url, "select 1") == 1
        assert postmaster(directory) == pid
        second.leave()
        assert free(directory, "server")

    def test_all_who_leave_at_once_leave_no_server_even_without_a_guard(self, directory: Path) -> None:
        users = [User(directory) for _ in range(4)]
        for user in users:
            assert user.url
        kill_guard(directory)
        for user in users:
            assert user.process.stdin is not None
            user.process.stdin.close()
            user.process.stdin = None
        for user in users:
            user.leave()
        assert free(directory, "server")

    def test_a_fork_that_leaves_takes_nobody_with_it(self, directory: Path) -> None:
        with EmbeddedServer(directory, durable=False) as server:
            child = os.fork()
            if child == 0:
                server.stop()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert not free(directory, "users")
            assert ask(server.url, "select 1") == 1

    def test_who_needs_durable_data_refuses_a_server_that_is_not(self, directory: Path) -> None:
        with (
            EmbeddedServer(directory, durable=False),
            pytest.raises(ConfigError, match="does not need its data"),
        ):
            EmbeddedServer(directory).start()
        assert free(directory, "server")


class TestRemoving:
    def test_the_last_one_can_take_the_data_along(self, directory: Path) -> None:
        server = EmbeddedServer(directory, durable=False)
        server.start()
        server.stop(remove=True)
        assert not directory.exists()

    def test_not_while_others_use_it(self, directory: Path) -> None:
        other = User(directory)
        url = other.url
        server = EmbeddedServer(directory, durable=False)
        server.start()
        server.stop(remove=True)
        assert ask(url, "select 1") == 1
        other.leave()

    def test_a_directory_removed_under_a_user_does_not_trouble_its_end(self, directory: Path) -> None:
        server = EmbeddedServer(directory, durable=False)
        server.start()
        moved = directory.rename(directory.parent / "moved")
        server.stop()
        # Postgres itself would notice within a minute.
        until(lambda: free(moved, "users"))
        guard.stop_server(moved)
        assert free(moved, "server")


class TestRecovery:
    def test_it_is_waited_for(self, directory: Path) -> None:
        server = EmbeddedServer(directory, durable=False)
        data = directory / "data"
        # Recovery asks for a file from the archive, and gets its answer when the test has seen it wait.
        wait = f"touch {data}/asked; until test -e {data}/answer; do sleep 0.1; done; false"
        (data / "postgresql.auto.conf").write_text(f"restore_command = '{wait}'\nhot_standby = off\n")
        (data / "recovery.signal").touch()
        os.chown(data / "recovery.signal", data.stat().st_uid, data.stat().st_gid)

        starting = threading.Thread(target=server.start, daemon=True)
        starting.start()
        until((data / "asked").exists)
        running = guard.postmaster(directory)
        assert running is not None and running[1] in ("starting", "standby")
        assert starting.is_alive()
        (data / "answer").touch()
        starting.join(60)
        assert ask(server.url, "select pg_is_in_recovery()") is False
        server.stop()


class TestAnotherMajorVersion:
    def test_is_refused_in_one_sentence_whose_way_out_works(
        self, untouched: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not (POSTGRES_15 / "initdb").exists():
            pytest.skip("Postgres 15 is missing: /usr/lib/postgresql/15/bin")
        monkeypatch.setenv("REDRIVE_PG_BIN", str(POSTGRES_15))
        with EmbeddedServer(untouched, durable=False) as server:
            assert server.description.startswith("Postgres 15.")
            assert ask(server.url, "select 1") == 1
        monkeypatch.delenv("REDRIVE_PG_BIN")
        with pytest.raises(ConfigError) as caught:
            server.start()
        assert "was made by Postgres 15, which Postgres 18" in str(caught.value)
        assert "\n" not in str(caught.value)
        until(lambda: free(untouched, "users"))

        monkeypatch.setenv("REDRIVE_PG_BIN", str(POSTGRES_15))
        server.start()
        server.stop()
