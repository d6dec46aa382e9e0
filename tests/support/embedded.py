"""Embedded servers for tests: a place for one, processes that use one, and a look at what runs there."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from redrive.store import guard
from redrive.store.embedded import EmbeddedServer

# Prints what it got, stays until its input ends, and leaves.
_USER = """
import sys
from pathlib import Path
from redrive.store.embedded import EmbeddedServer
server = EmbeddedServer(Path(sys.argv[1]), durable=False)
print(server.start(), flush=True)
print(server.description, flush=True)
sys.stdin.read()
server.stop()
"""


@cache
def _stopped() -> Path:
    """A directory whose server ran and was stopped: a copy of it saves a test the making of a cluster."""
    top = Path(tempfile.mkdtemp(prefix="redrive-test-", dir="/tmp"))
    top.chmod(0o755)
    atexit.register(shutil.rmtree, top)
    with EmbeddedServer(top / ".redrive", durable=False):
        pass
    (top / ".redrive" / "server.log").unlink()
    return top / ".redrive"


def ran_before(directory: Path) -> Path:
    """Make `directory` one in which a server ran and was stopped."""
    subprocess.run(["cp", "-a", _stopped(), directory], check=True)
    return directory


@contextmanager
def place(prefix: str = "redrive-test-") -> Generator[Path]:
    """A directory that every user can reach, for homes in it; whatever runs in one is stopped at the end."""
    top = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    top.chmod(0o755)
    try:
        yield top
    finally:
        for lock in top.rglob("lock/server"):
            home = lock.parent.parent
            users = guard.hold(guard.lock_file(home, "users"), guard.EXCLUSIVE, 30)
            assert users is not None, f"somebody still uses the server in {home}"
            guard.stop_server(home)
            os.close(users)
        shutil.rmtree(top, ignore_errors=True)


class User:
    """A process that uses the server in `directory`; `url` waits until it does."""

    def __init__(
        self,
        directory: Path,
        *,
        command: Sequence[str] = (sys.executable,),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [*command, "-c", _USER, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env={**os.environ, **(environment or {})},
        )

    @property
    def url(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, self.process.communicate(timeout=30)[1]
        return line

    @property
    def description(self) -> str:
        """After `url`."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)

    def leave(self) -> None:
        _, errors = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, errors


def until(true: Callable[[], object], within: float = 30) -> None:
    """Wait for a state of another process that no signal tells of."""
    deadline = time.monotonic() + within
    while not true():
        assert time.monotonic() < deadline, f"not within {within:g} s: {true}"
        time.sleep(0.01)


def free(home: Path, name: str) -> bool:
    """Whether nobody holds the lock `name` of the server in `home`."""
    lock = guard.hold(guard.lock_file(home, name), guard.EXCLUSIVE, 0)
    if lock is None:
        return False
    os.close(lock)
    return True


def postmaster(home: Path) -> int:
    running = guard.postmaster(home)
    assert running is not None, f"no server runs in {home}"
    return running[0]


def guards(home: Path) -> list[int]:
    """The process ids of the guards of the server in `home`."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if os.fsencode(guard.__file__) in arguments and os.fsencode(home) in arguments:
            found.append(int(entry.name))
    return found


def kill_guard(home: Path) -> None:
    until(lambda: guards(home))
    for pid in guards(home):
        os.kill(pid, signal.SIGKILL)
    until(lambda: free(home, "guard"))
