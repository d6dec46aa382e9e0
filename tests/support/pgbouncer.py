"""A PgBouncer in transaction mode: what many hosted databases put between a client and Postgres."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row

from tests.support.server import unprivileged

# Debian keeps it out of an ordinary user's PATH.
_SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])

_CONFIG = """
[databases]
* = host={host} port={port} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
logfile = {home}/log
pool_mode = transaction
default_pool_size = {pool}
max_client_conn = 500
auth_type = any
log_connections = 0
log_disconnections = 0
"""


class PgBouncer:
    """`pool` connections to the server a database, shared by everybody, one transaction at a time."""

    def __init__(self, server_tcp_url: str, *, pool: int = 5) -> None:
        known = conninfo_to_dict(server_tcp_url)
        self._host, self._to_port, self._user = known["host"], known["port"], known["user"]
        self._pool = pool
        self._home = Path(tempfile.mkdtemp(prefix="redrive-pgbouncer-"))
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str) -> str:
        return f"postgresql://{self._user}@127.0.0.1:{self.port}/{database}"

    def log(self) -> str:
        return (self._home / "log").read_text()

    def stats(self, database: str) -> dict[str, Any]:
        """What went through since the start: total_query_count, total_xact_count and more."""
        with psycopg.connect(self.url("pgbouncer"), autocommit=True) as console:
            # The console speaks the simple protocol only.
            rows = psycopg.ClientCursor(console, row_factory=dict_row).execute("show stats").fetchall()
        return next(row for row in rows if row["database"] == database)

    def __enter__(self) -> Self:
        user = unprivileged()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        config = self._home / "pgbouncer.ini"
        config.write_text(
            _CONFIG.format(
                host=self._host,
                port=self._to_port,
                user=self._user,
                listen=self.port,
                home=self._home,
                pool=self._pool,
            )
        )
        if user:
            shutil.chown(self._home, user)
        program = shutil.which("pgbouncer", path=_SEARCH_PATH)
        assert program is not None
        self._process = subprocess.Popen(
            [program, "-q", config],
            user=user,
            extra_groups=[] if user else None,
            cwd=self._home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        self._await_ready()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self._process.poll() is None, f"PgBouncer ended:\n{self.log()}"
                assert time.monotonic() < deadline, "PgBouncer does not listen"
            time.sleep(0.02)


def installed() -> bool:
    return shutil.which("pgbouncer", path=_SEARCH_PATH) is not None
