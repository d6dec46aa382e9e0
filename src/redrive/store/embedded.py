"""The embedded server: a Postgres of redrive's own in one directory, shared by all who start it there.

    with EmbeddedServer(Path(".redrive")) as server:
        print(server.description)
        psycopg.connect(server.url)

Guarantees  however many start it at once, there is one server, and each gets its URL once it answers.
            It runs while anybody who started it lives, and is stopped after the last, however that one ended.
            Crash recovery is waited for. No TCP port is opened, no password is needed: the socket is private.
Not given   a server across an `exec` of its only user: the new program has to start it again.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from redrive.errors import ConfigError, Unavailable
from redrive.store import cluster, guard, home
from redrive.store.home import Home

# Generous: a start that gives up on crash recovery stops it, and the next has to begin it anew.
_START_WITHIN = 600.0


class EmbeddedServer:
    """A Postgres server in `directory`, which is redrive's own and is made when it is missing.

    `durable=False` gives up the data with the machine, for tests. A directory for one run only belongs
    directly into the system's temporary directory, and is best ended with `stop(remove=True)`.
    """

    def __init__(self, directory: Path, *, durable: bool = True) -> None:
        self._directory = directory
        self._durable = durable
        self._home: Home | None = None
        self._users: int | None = None
        self._process = 0
        self._url = ""
        self._description = ""

    @property
    def url(self) -> str:
        """The URL that `start` returned."""
        return self._url

    @property
    def description(self) -> str:
        """One line: which server, where, as whom. Empty before `start`."""
        return self._description

    def start(self) -> str:
        """Become a user of the server, starting it where it does not run, and return its URL.

        The role `redrive` is a superuser, the database `redrive` exists. Takes a second or two the first time
        and a tenth later (measured: 1.0 s, 0.1 s, and 0.01 s where it runs already); waits up to 600 seconds
        for crash recovery. A second call changes nothing. Raises `ConfigError` when there are no binaries,
        the data is another major version's, or the directory cannot be used, and `Unavailable` when the
        server does not come up.
        """
        if self._users is not None:
            return self._url
        deadline = time.monotonic() + _START_WITHIN
        try:
            self._enter(deadline)
        except OSError as problem:
            raise ConfigError(
                f"the embedded Postgres in {self._directory} cannot be started ({problem}); "
                "use a directory of your own, or name a database in REDRIVE_DATABASE_URL"
            ) from problem
        return self._url

    def stop(self, *, remove: bool = False) -> None:
        """Leave the server. The last one to leave stops it and, with `remove`, deletes its data.

        Returns when the server has stopped, or at once when others still use it. Fine twice or unstarted.
        """
        users, self._users = self._users, None
        if users is None or self._home is None:
            return
        if self._process != os.getpid():
            os.close(users)  # forked from a user who goes on being one
            return
        place = self._home.path
        try:
            # Two leavers at once would each take the other for somebody who stays.
            start = guard.hold(guard.lock_file(place, "start"), guard.EXCLUSIVE, 5)
        except FileNotFoundError:
            # Somebody removed the directory: Postgres notices within a minute, and stops by itself.
            os.close(users)
            return
        try:
            os.close(users)
            self._stop_if_last(place, remove=remove)
        finally:
            if start is not None:
                os.close(start)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _stop_if_last(self, place: Path, *, remove: bool) -> None:
        users = guard.lock_file(place, "users")
        alone = guard.hold(users, guard.EXCLUSIVE, 0)
        if alone is None:
            # Others use it, or the guard was faster: wait until it has stopped the server, and has ended.
            stopped = guard.hold(users, guard.SHARED, _START_WITHIN)
            if stopped is not None:
                os.close(stopped)
            alone = guard.hold(users, guard.EXCLUSIVE, 0)
        if alone is None:
            return
        try:
            guard.stop_server(place)
            if remove:
                shutil.rmtree(place)
                shutil.rmtree(self._directory, ignore_errors=True)
        finally:
            os.close(alone)

    def _enter(self, deadline: float) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory = self._directory.resolve()
        (directory / "lock").mkdir(mode=0o700, exist_ok=True)
        # A database cluster does not belong in its project's history, nor the word of it in a .gitignore.
        (directory / ".gitignore").write_text("*\n")
        with _held(directory, "home", guard.EXCLUSIVE, deadline):
            self._home = settled = home.settle(directory)
            (settled.path / "lock").mkdir(mode=0o700, exist_ok=True)
        self._process = os.getpid()
        self._users = _take(settled.path, "users", guard.SHARED, deadline)
        try:
            with _held(settled.path, "start", guard.EXCLUSIVE, deadline):
                cluster.post_guard(settled)
                cluster.run(settled, durable=self._durable, deadline=deadline)
                cluster.warn_without_guard(settled)
                self._url = _url(str(settled.socket_directory()))
                self._open(settled)
        except BaseException:
            self.stop()
            raise

    def _open(self, settled: Home) -> None:
        """Make the database where it is missing, and find out what the description tells."""
        try:
            with psycopg.connect(
                self._url, dbname="postgres", autocommit=True, connect_timeout=10
            ) as connection:
                [(version, fsync, missing)] = connection.execute(
                    "select current_setting('server_version'), current_setting('fsync'),"
                    " not exists (select from pg_catalog.pg_database where datname = 'redrive')"
                ).fetchall()
                if missing:
                    connection.execute("create database redrive")
        except psycopg.Error as problem:
            raise Unavailable(
                f"the embedded Postgres in {settled.path} runs but refuses us: {problem}"
            ) from problem
        if self._durable and fsync == "off":
            raise ConfigError(
                f"the Postgres in {settled.path} was started by somebody who does not need its data to last; "
                "wait until it is stopped, or use another directory"
            )
        self._description = self._describe(settled, version.split()[0])

    def _describe(self, settled: Home, version: str) -> str:
        parts = [f"Postgres {version} in {settled.path}"]
        if settled.account is not None:
            name = settled.account.name
            parts.append(f"run as user {name} since Postgres refuses to run as root")
            if settled.path != self._directory:
                parts.append(f"not in {self._directory}, which {name} cannot reach")
        copy = home.copied(settled.path)
        if copy is not None:
            parts.append(f"from a copy of its programs in {copy}")
        if not self._durable:
            parts.append("its data gone if the machine crashes")
        return ", ".join(parts)


def running_url(directory: Path) -> str | None:
    """The URL of the server of `directory` while one runs; None else. For people to look in with psql.

    Starts nothing, and makes nobody a user of the server: it stops when the last user leaves.
    """
    try:
        note = directory / "home"
        place = Path(note.read_text()) if note.is_file() else directory
        running = guard.postmaster(place)
        if running is None or running[1] != "ready":
            return None
        # Postgres notes there where its first socket is.
        return _url((place / "data" / "postmaster.pid").read_text().splitlines()[4])
    except (OSError, IndexError):
        return None


def _url(sockets: str) -> str:
    return f"postgresql://redrive@/redrive?host={sockets}&port={cluster.PORT}"


def _take(place: Path, name: str, kind: int, deadline: float) -> int:
    lock = guard.hold(guard.lock_file(place, name), kind, max(deadline - time.monotonic(), 0))
    if lock is None:
        raise Unavailable(
            f"another process has been starting or stopping the Postgres in {place} for {_START_WITHIN:g} s "
            f"(it holds {guard.lock_file(place, name)}); see {place / 'server.log'}, and try again"
        )
    return lock


@contextmanager
def _held(place: Path, name: str, kind: int, deadline: float) -> Generator[None]:
    lock = _take(place, name, kind, deadline)
    try:
        yield
    finally:
        os.close(lock)
