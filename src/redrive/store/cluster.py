"""The Postgres cluster in a home: made, launched, awaited.

Guarantees  `run` returns when the server of that home accepts connections, whoever launched it, after
            whatever recovery it needed. A half-made cluster is never used. The server is nobody's child: no
            signal of a terminal reaches it, and nobody has to reap it.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Unpack

from redrive.errors import ConfigError, Unavailable
from redrive.store import guard
from redrive.store.binaries import SETTING, find_binaries, major_version
from redrive.store.home import Home, RunAs

log = logging.getLogger("redrive.embedded")

PORT = 5432  # only part of the socket's name
_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_TICK = 0.02
_SAY_AFTER = 2.0
_LOG_LIMIT = 10_000_000


def run(home: Home, *, durable: bool, deadline: float) -> None:
    """Have the server run and accept connections. Call it under the lock `start`.

    Raises `Unavailable` when it ends early, or is not there at `deadline` (of the monotonic clock).
    """
    journal = home.path / "server.log"
    seen: int | None = None
    begun = said = time.monotonic()
    while True:
        # Held by others as long as any process of a server is left, also of one whose postmaster was killed.
        alone = guard.hold(guard.lock_file(home.path, "server"), guard.EXCLUSIVE, 0)
        if alone is not None:
            try:
                if seen is not None:
                    raise Unavailable(
                        f"the embedded Postgres in {home.path} did not start: {_told(journal, seen)}"
                    )
                seen = _trim(journal)
                _launch(home, alone, durable=durable)
            finally:
                os.close(alone)
        running = guard.postmaster(home.path)
        status = running[1] if running is not None else "starting"
        if status == "ready":
            return
        now = time.monotonic()
        if now > deadline:
            raise Unavailable(
                f"the embedded Postgres in {home.path} is still {status} after {now - begun:.0f} s; "
                f"{journal} tells why"
            )
        if now - said > _SAY_AFTER:
            said = now
            log.info("waiting for the embedded Postgres in %s, which is %s", home.path, status)
        time.sleep(_TICK)


def post_guard(home: Home) -> None:
    """Start the guard where there is none. Call it as a user of the server, or the guard will end at once."""
    alone = guard.hold(guard.lock_file(home.path, "guard"), guard.EXCLUSIVE, 0)
    if alone is None:
        return
    try:
        command = [sys.executable, "-I", "-S", guard.__file__, home.path, str(alone)]
        _detach(command, home.path / "guard.log", alone)
    finally:
        os.close(alone)


def warn_without_guard(home: Home) -> None:
    """Say so when the guard could not be run, such as by an interpreter that is not this one's program."""
    alone = guard.hold(guard.lock_file(home.path, "guard"), guard.EXCLUSIVE, 0)
    if alone is not None:
        os.close(alone)
        log.warning(
            "nobody guards the embedded Postgres in %s: it runs on if its last user is killed; %s tells why",
            home.path,
            home.path / "guard.log",
        )


def _launch(home: Home, lock: int, *, durable: bool) -> None:
    data = home.path / "data"
    found = find_binaries()
    binaries = home.programs(found)
    if (data / "PG_VERSION").exists():
        _check_version(data, found)
        _forget_stranger(home.path)
    else:
        _make(home, binaries, lock, durable=durable)
    sockets = home.socket_directory()
    # Ours alone, and no server of ours runs: what it says about a process is out of date.
    (sockets / f".s.PGSQL.{PORT}.lock").unlink(missing_ok=True)
    settings = {
        "listen_addresses": "",
        "port": str(PORT),
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "cluster_name": "redrive",
        **({} if durable else _FAST),
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    _detach([binaries / "postgres", "-D", data, *options], home.path / "server.log", lock, **home.run_as())


def _make(home: Home, binaries: Path, lock: int, *, durable: bool) -> None:
    # Renamed when it is complete: an initdb that was killed leaves nothing that looks like a cluster.
    # It holds the lock too: one whose starter was killed goes on, and the next starter waits for it.
    scratch = home.path / "data.new"
    shutil.rmtree(scratch, ignore_errors=True)
    command: list[str | Path] = [binaries / "initdb", "-D", scratch, "--username=redrive", "--encoding=UTF8"]
    command += ["--no-locale", "--auth-local=trust", "--auth-host=reject", "--no-instructions", "--no-sync"]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        pass_fds=(lock,),
        cwd="/",
        env=_environment(),
        check=False,
        **home.run_as(),
    )
    if done.returncode != 0:
        raise Unavailable(f"initdb could not make a Postgres cluster in {home.path}: {_last(done.stderr)}")
    data = scratch.rename(home.path / "data")
    if durable:
        # Nobody waits for it: flushing 1000 files took 0.7 s on an idle disk and 5 s on a busy one.
        _detach(
            [binaries / "initdb", "--sync-only", "-D", data], home.path / "server.log", lock, **home.run_as()
        )


def _check_version(data: Path, binaries: Path) -> None:
    made_by = (data / "PG_VERSION").read_text().strip()
    ours = major_version(binaries)
    if made_by != str(ours):
        raise ConfigError(
            f"the data in {data} was made by Postgres {made_by}, "
            f"which Postgres {ours} in {binaries} cannot read; "
            f"set {SETTING} to the bin directory of a Postgres {made_by}, or remove {data} to start empty"
        )


def _forget_stranger(home: Path) -> None:
    """Remove a postmaster.pid that names a stranger or a zombie, because of which Postgres would not start.

    Numbers are used again, in a container after every restart, where often nobody reaps an orphan either.
    One that names nobody Postgres clears away itself, after a look for remains of that server.
    """
    note = home / "data" / "postmaster.pid"
    if not note.exists() or guard.postmaster(home) is not None:
        return
    try:
        os.kill(int(note.read_text().split("\n", 1)[0]), 0)
    except ProcessLookupError:
        return
    except (ValueError, PermissionError):  # torn by a crash of the machine, or somebody else's
        pass
    note.unlink()


def _detach(command: list[str | Path], journal: Path, lock: int, **run_as: Unpack[RunAs]) -> None:
    """Run `command` in the background, in a session of its own, as nobody's child, the lock in its hands."""
    output = guard.open_own(journal, os.O_WRONLY | os.O_APPEND)
    try:
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "sh", *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=(lock,),
            cwd="/",
            env=_environment(),
            check=True,
            **run_as,
        )
    finally:
        os.close(output)


def _environment() -> dict[str, str]:
    """Without PGPORT, PGDATA and the like, which are meant for some other server; messages in English."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")} | {"LC_ALL": "C"}


def _trim(journal: Path) -> int:
    """The size of the log, which starts anew when it has grown large."""
    size = journal.stat().st_size if journal.exists() else 0
    if size > _LOG_LIMIT:
        journal.replace(journal.with_suffix(".log.1"))
        return 0
    return size


def _told(journal: Path, since: int) -> str:
    with journal.open(errors="replace") as stream:
        stream.seek(since)
        return _last(stream.read())


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " · ".join(lines[-4:]) or "it said nothing"
