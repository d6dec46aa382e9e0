"""Project: the files of a Supabase project that redrive writes, all of them or none.

A migration is never changed: a new one is written, under a time later than every file there. What the project
itself is to edit is written once.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from redrive.errors import ConfigError

SCHEMA, APP = "redrive_schema", "redrive_app"
_STAMP = "%Y%m%d%H%M%S"
# What Supabase's command line takes for a migration.
_MIGRATION = re.compile(r"(\d+)_(.*)\.sql")
_RECIPE = re.compile(
    r"create\s+(?:or\s+replace\s+)?function\s+((?:public\s*\.\s*)?(?:read_with_dlq|queue_archive|claim_job|"
    r"claim_worker_lease|check_queue_health)|app\s*\.\s*backoff)\s*\(",
    re.IGNORECASE,
)


Undo = Callable[[], object]


class File(NamedTuple):
    """A file that is there, and what it says."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """A file to be written."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Project:
    """Where its files are; `config` None: files that are put anywhere, beside no config.toml."""

    migrations: Path
    functions: Path
    config: Path | None

    @classmethod
    def find(cls, start: Path) -> Project:
        """The project that `start` is in. Raises `ConfigError`."""
        for folder in (start, *start.parents):
            if (folder / "supabase" / "config.toml").exists():
                home = folder / "supabase"
                return cls(home / "migrations", home / "functions", home / "config.toml")
        raise ConfigError(
            f"{start} is in no Supabase project: there is no supabase/config.toml here or above; run "
            "`supabase init` first, or name a folder for the migrations with --out DIR"
        )

    @classmethod
    def at(cls, folder: Path) -> Project:
        """Migrations in `folder` itself, functions in a folder of it."""
        return cls(folder, folder / "functions", None)

    def all(self, kind: str) -> list[File]:
        """The migrations of a kind, the oldest first."""
        return [File(path, read(path)) for path in self._files() if _kind(path) == kind]

    def newest(self, kind: str) -> File | None:
        """The newest migration of a kind."""
        return next(reversed(self.all(kind)), None)

    def stamps(self, now: datetime) -> Iterator[str]:
        """Times for new migrations, each later than the one before and than every file there.

        Raises `ConfigError` where a file's name stands behind every time there can be.
        """
        at = now.astimezone(UTC).replace(microsecond=0, tzinfo=None)
        last = max((path.name for path in self._files()), default="")
        if last >= at.strftime(_STAMP):
            at = _after(last, self.migrations)
        while True:
            yield at.strftime(_STAMP)
            at += timedelta(seconds=1)

    def recipe(self) -> dict[str, list[str]]:
        """The functions of the articles' recipe that the project's own migrations make, by file."""
        others = [path for path in self._files() if _kind(path) not in (SCHEMA, APP)]
        found = {path.name: _RECIPE.findall(read(path)) for path in others}
        return {name: sorted({_plain(each) for each in made}) for name, made in found.items() if made}

    def _files(self) -> list[Path]:
        with _sentence(self.migrations, "read"):
            if not self.migrations.exists():
                return []
            return sorted(path for path in self.migrations.iterdir() if _MIGRATION.fullmatch(path.name))


def read(path: Path, *, strict: bool = False) -> str:
    """A file's text, whatever ends its lines. Raises `ConfigError`; `strict`: also for what is no text."""
    with _sentence(path, "read"):
        try:
            return path.read_text(encoding="utf-8", errors="strict" if strict else "replace")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is no UTF-8 text (byte {error.start}); mend it first") from None


def write(changes: Sequence[Change]) -> None:
    """Write all of them or none. Raises `ConfigError` with the file's name and why."""
    undo: list[Undo] = []
    try:
        waiting = [_prepared(change, undo) for change in changes]
        for made, path, back in waiting:
            with _sentence(path, "written"):
                os.replace(made, path)
            undo.append(back)
    except BaseException:
        for each in reversed(undo):
            try:
                each()
            except OSError:
                # What cannot be taken back either is told by the error that is on its way.
                pass
        raise


def _prepared(change: Change, undo: list[Undo]) -> tuple[Path, Path, Undo]:
    """The new text in a file beside the one it will replace, that one, and how to take it back.

    A link is followed to the file it means; lines end as they do there.
    """
    path = change.path.resolve()
    with _sentence(change.path, "written"):
        for folder in reversed([each for each in path.parents if not each.exists()]):
            folder.mkdir()
            undo.append(folder.rmdir)
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, os.strerror(13))
        old = path.read_bytes() if path.exists() else None
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        made = Path(name)
        undo.append(lambda: made.unlink(missing_ok=True))
        ends = "\r\n" if old is not None and b"\r\n" in old else "\n"
        with os.fdopen(handle, "w", encoding="utf-8", newline=ends) as file:
            file.write(change.text)
        made.chmod(0o666 & ~_umask() if old is None else path.stat().st_mode & 0o777)
    return made, path, path.unlink if old is None else lambda: path.write_bytes(old)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _sentence(path: Path, verb: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(f"{path} cannot be {verb}: {why}; nothing was written") from error


def _after(name: str, folder: Path) -> datetime:
    stamp = name.partition("_")[0]
    try:
        return datetime.strptime(stamp, _STAMP) + timedelta(seconds=1)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{folder / name} is sorted behind every time of day, so no migration can follow it; name it by "
            "a time, such as 20260131120000_name.sql"
        ) from None


def _kind(path: Path) -> str:
    return path.stem.partition("_")[2]


def _plain(name: str) -> str:
    """As Postgres calls it: without blanks, with its schema."""
    plain = re.sub(r"\s", "", name).lower()
    return plain if "." in plain else f"public.{plain}"
