"""The SQL files: what they are called, what they say, and who may execute what they create.

tables/NNNN_name.sql    numbered migrations, applied once, in order, never edited after a release
functions/name.sql      one function each, all its overloads, replaced as a whole when the file changes

The head of a function file is comment lines: ``-- name: what it does``, and ``-- part: send, work`` when a
role with one of these parts may execute it. No such line: internal, and the name begins with ``_``; or it is
called by the owner alone, and the head says so.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FOLDER = Path(__file__).parent

# What a role may be allowed to do: put messages in, run a worker, manage queues, look.
PARTS = ("send", "work", "operate", "read")


@dataclass(frozen=True)
class SqlFile:
    """One file: `name` without its ending, and its `text`."""

    name: str
    text: str

    @cached_property
    def checksum(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """Who may execute what this file creates; nobody when its head has no ``-- part:`` line."""
        for line in self.text.splitlines():
            if not line.startswith("--"):
                break
            label, _, listed = line.removeprefix("--").partition(":")
            if label.strip() == "part":
                return tuple(part.strip() for part in listed.split(","))
        return ()


def table_files(folder: Path = FOLDER) -> list[SqlFile]:
    """The numbered migrations in their order."""
    return _read(folder / "tables")


def function_files(folder: Path = FOLDER) -> list[SqlFile]:
    """The function files by name. The order means nothing: bodies are not checked while they are created."""
    return _read(folder / "functions")


def _read(folder: Path) -> list[SqlFile]:
    return [SqlFile(path.stem, path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.sql"))]
