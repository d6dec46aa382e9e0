"""The guard of an embedded server: a small process that stops it when nobody uses it any more.

A bare interpreter runs this file (``python -I -S guard.py HOME FD``), hence nothing here but the standard
library. `redrive.store.embedded` shares the locks. They are flocks on files in ``HOME/lock``, which the
kernel drops with the process that held them, however it died:

    users    shared by everybody who uses the server; who gets it exclusively may stop the server
    start    held while somebody looks at the server and starts it, or leaves
    guard    held by the guard, inherited from whoever started it: never two guards, never a gap
    server   inherited by the postmaster and its children: free means that no process of the server is left

Guarantees  a server is stopped within moments of its last user's end, also of a SIGKILL.
Not given   that, when guard and users are all killed; the next to start the server guards it again.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

SHARED = fcntl.LOCK_SH
EXCLUSIVE = fcntl.LOCK_EX

_TICK = 0.02
# A fast shutdown writes a checkpoint first; after this many seconds an immediate one leaves it to recovery.
_PATIENCE = 60.0


def lock_file(home: Path, name: str) -> Path:
    """Where the lock `name` of the server in `home` stands."""
    return home / "lock" / name


def open_own(path: Path, flags: int) -> int:
    """Open or create a file of our own in a home."""
    # Root's server has its home for its own: who breaks into it must not choose, by a link, what root opens.
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)


def hold(path: Path, kind: int, within: float) -> int | None:
    """A descriptor that holds the lock at `path`; None when others still held it after `within` seconds."""
    deadline = time.monotonic() + within
    descriptor = open_own(path, os.O_RDWR)
    try:
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                return descriptor
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(descriptor)
                    return None
            time.sleep(_TICK)
    except BaseException:
        os.close(descriptor)
        raise


def postmaster(home: Path) -> tuple[int, str] | None:
    """Process id and status (``starting``, ``ready``, ``stopping``) of the server in `home`, if it runs."""
    data = home / "data"
    try:
        lines = (data / "postmaster.pid").read_text().splitlines()
        pid = int(lines[0])
        if not _is_postgres(pid, data):
            return None
    except (FileNotFoundError, ValueError, IndexError):
        return None
    return pid, lines[7].strip() if len(lines) > 7 else "starting"


def _is_postgres(pid: int, data: Path) -> bool:
    """False also for a zombie, and for a stranger that got a dead server's number, as in any container."""
    if not os.path.exists("/proc/self/stat"):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        told = Path(f"/proc/{pid}/stat").read_text()
        owner = os.stat(f"/proc/{pid}").st_uid
        name, _, rest = told.partition("(")[2].rpartition(")")
        if owner != data.stat().st_uid or name not in ("postgres", "postmaster") or rest.split()[0] in "ZX":
            return False
        return os.path.samefile(f"/proc/{pid}/cwd", data)
    except PermissionError:  # root in a container may not look: Postgres itself will tell
        return True
    except (FileNotFoundError, ProcessLookupError):
        return False


def stop_server(home: Path) -> None:
    """Stop the server in `home`, if one runs, and wait until nothing of it is left.

    Only for the holder of `users`, exclusively. Raises TimeoutError after two minutes.
    """
    begun = time.monotonic()
    asked: set[tuple[int, signal.Signals]] = set()
    # A server just launched has no postmaster.pid yet: hence asking again, until the lock is free.
    while (free := hold(lock_file(home, "server"), EXCLUSIVE, 0)) is None:
        waited = time.monotonic() - begun
        if waited > 2 * _PATIENCE:
            raise TimeoutError(f"the Postgres server in {home} does not stop")
        running = postmaster(home)
        if running is not None:
            request = (running[0], signal.SIGINT if waited < _PATIENCE else signal.SIGQUIT)
            if request not in asked:
                asked.add(request)
                _signal(*request)
        time.sleep(_TICK)
    os.close(free)
    _remove_socket_directory(home)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _remove_socket_directory(home: Path) -> None:
    note = home / "socket"
    try:
        os.rmdir(note.read_text())
    except OSError:  # there is none, or something of somebody else's is in it
        pass
    note.unlink(missing_ok=True)


def _main(home: Path, guard: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    users = open_own(lock_file(home, "users"), os.O_RDWR)
    fcntl.flock(users, EXCLUSIVE)
    stop_server(home)
    # In this order: who gets in after us must find that there is no guard.
    os.close(guard)
    os.close(users)


if __name__ == "__main__":
    try:
        _main(Path(sys.argv[1]), int(sys.argv[2]))
    except FileNotFoundError:  # the last user stopped the server itself, and removed its directory
        pass
