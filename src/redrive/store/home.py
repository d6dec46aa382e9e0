"""Where an embedded server lives, and as whom it runs.

An ordinary user's server lives in the directory asked for and runs as that user. Postgres refuses to run as
root, so root's runs as another user: the directory's owner where that is not root, else `postgres`, else
`nobody`. What that user cannot reach is kept for it under /var/lib/redrive: the server's home when it cannot
get to the directory (whose file `home` then tells where), a copy of the programs when it cannot run them.

Guarantees  outside the directory and /var/lib/redrive nothing is changed, above all no permission.
            Home is 0700: only its owner, and root, reach the socket in it, so no password is asked for.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from redrive.errors import ConfigError
from redrive.store import guard

SHARED_STATE = Path("/var/lib/redrive")

# sun_path has room for 103 bytes on macOS and 107 on Linux; the socket's own name takes 14.
_LONGEST_SOCKET_DIRECTORY = 85
# Anything else would need quoting in a setting of the server's or in some driver's URL.
_PLAIN = re.compile(r"/[A-Za-z0-9._/+-]*")


class RunAs(TypedDict, total=False):
    """What `subprocess.run` needs to run something as another user."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """The user who runs the server for root."""

    name: str
    uid: int
    gid: int

    def run_as(self) -> RunAs:
        """As this user, and without root's groups."""
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def can(self, script: str, path: Path) -> bool:
        """Whether the shell's `script`, with `path` as ``$1``, succeeds for this user."""
        done = subprocess.run(
            ["/bin/sh", "-c", script, "sh", path], capture_output=True, cwd="/", check=False, **self.run_as()
        )
        return done.returncode == 0


@dataclass(frozen=True, slots=True)
class Home:
    """Data, socket, locks and log are in `path`; `account` is None when we run the server ourselves."""

    path: Path
    account: Account | None

    def run_as(self) -> RunAs:
        """As whom the server's own programs run; nothing when as ourselves."""
        return self.account.run_as() if self.account is not None else {}

    def programs(self, binaries: Path) -> Path:
        """`binaries`, or a copy of them that the server's user can run."""
        if self.account is None or self.account.can('"$1/initdb" --version', binaries):
            return binaries
        return _copy(binaries, self.account)

    def socket_directory(self) -> Path:
        """Home, or a short private directory for the socket where home's path is too long or not plain.

        The latter is noted in the file `socket` and removed when the server stops.
        """
        if _plain(self.path):
            return self.path
        note = self.path / "socket"
        try:
            noted = Path(note.read_text())
            told = noted.lstat()
            if stat.S_ISDIR(told.st_mode) and told.st_uid == self.path.stat().st_uid:
                return noted
            note.unlink()
        except FileNotFoundError:
            note.unlink(missing_ok=True)
        usual = Path(tempfile.gettempdir())
        made = Path(
            tempfile.mkdtemp(prefix="redrive-", dir=usual if _plain(usual / "redrive-12345678") else "/tmp")
        )
        self.give(made)
        with os.fdopen(guard.open_own(note, os.O_WRONLY), "w") as stream:
            stream.write(str(made))
        return made

    def give(self, path: Path) -> None:
        """Make `path` the server's own."""
        if self.account is not None:
            os.chown(path, self.account.uid, self.account.gid, follow_symlinks=False)


def settle(directory: Path) -> Home:
    """The home of the server of `directory`, made when there is none. Call it under a lock.

    `directory` is redrive's own: it becomes 0700 and, under root, may change its owner. Raises `ConfigError`
    when it belongs to somebody else, or when there is nobody to run the server as.
    """
    owner = directory.stat().st_uid
    if os.geteuid() != 0:
        _check_ours(directory, owner)
    directory.chmod(0o700)
    if os.geteuid() != 0:
        return Home(directory, None)
    note = directory / "home"
    if note.exists():
        elsewhere = Path(note.read_text())
        if elsewhere.is_dir():
            return Home(elsewhere, _account(elsewhere.stat().st_uid))
    account = _account(owner)
    if (directory / "data").exists() or account.can('cd "$1"', directory.parent):
        home = Home(directory, account)
    else:
        home = Home(_elsewhere(directory), account)
        note.write_text(str(home.path))
    home.give(home.path)
    return home


def copied(home: Path) -> Path | None:
    """The copy of the programs that the server in `home` runs; None when it runs the originals."""
    program = Path((home / "data" / "postmaster.opts").read_text().partition(' "')[0])
    return (
        SHARED_STATE / program.relative_to(SHARED_STATE).parts[0] if SHARED_STATE in program.parents else None
    )


def _check_ours(directory: Path, owner: int) -> None:
    try:
        me = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        raise ConfigError(
            f"user id {os.geteuid()} has no name here, and Postgres's initdb refuses to run without one; "
            "add the user to /etc/passwd, or name a database in REDRIVE_DATABASE_URL"
        ) from None
    if owner != os.geteuid():
        raise ConfigError(
            f"{directory} belongs to user id {owner}, not to {me}, so its Postgres cannot run as {me}; "
            "run redrive as its owner, or remove the directory"
        )


def _account(owner: int) -> Account:
    for look_up in (
        lambda: pwd.getpwuid(owner),
        lambda: pwd.getpwnam("postgres"),
        lambda: pwd.getpwnam("nobody"),
    ):
        try:
            entry = look_up()
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise ConfigError(
        "Postgres refuses to run as root, and there is neither a user postgres nor nobody to run it as; "
        "add one, run redrive as an ordinary user, or name a database in REDRIVE_DATABASE_URL"
    )


def _elsewhere(directory: Path) -> Path:
    # Never one that is there already: who removed the directory expects to start empty.
    label = hashlib.sha256(os.fsencode(directory)).hexdigest()[:12]
    return Path(tempfile.mkdtemp(prefix=f"{label}-", dir=_shared_state()))


def _shared_state() -> Path:
    if not SHARED_STATE.is_dir():
        SHARED_STATE.mkdir(parents=True, exist_ok=True)
        SHARED_STATE.chmod(0o755)
    return SHARED_STATE


def _copy(binaries: Path, account: Account) -> Path:
    prefix = binaries.parent
    if not (prefix / "share").is_dir() or not (prefix / "lib").is_dir():
        raise ConfigError(
            f"user {account.name}, who runs Postgres for root, cannot run the programs in {binaries}; "
            "let that user read them, or name others in REDRIVE_PG_BIN"
        )
    program = (binaries / "postgres").stat()
    identity = f"{prefix}:{program.st_size}:{program.st_mtime_ns}"
    target = _shared_state() / f"postgres-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    inside = Path(prefix.parent.name, prefix.name)
    if not target.is_dir():
        scratch = Path(tempfile.mkdtemp(prefix="copy-", dir=SHARED_STATE))
        needless = shutil.ignore_patterns("include", "doc", "man", "pgxs", "pkgconfig", "*.a")
        shutil.copytree(prefix, scratch / inside, ignore=needless)
        # Where a wheel keeps the libraries that its programs look for, relative to themselves.
        libraries = prefix.parent.with_name(f"{prefix.parent.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, scratch / libraries.name)
        _open_to_all(scratch)
        try:
            scratch.rename(target)
        except OSError:  # somebody else was faster
            shutil.rmtree(scratch)
    return target / inside / "bin"


def _open_to_all(top: Path) -> None:
    for folder, _, files in os.walk(top):
        os.chmod(folder, 0o755)
        for name in files:
            path = Path(folder, name)
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _plain(directory: Path) -> bool:
    return (
        len(os.fsencode(directory)) <= _LONGEST_SOCKET_DIRECTORY
        and _PLAIN.fullmatch(str(directory)) is not None
    )
