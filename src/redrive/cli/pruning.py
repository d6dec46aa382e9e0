"""Pruning: the batches of ``redrive prune``, and the file that its rows are written to first.

Guarantees  a batch is deleted only when its rows are on disk: after a crash some lines may be there twice,
            and none is missing;
            between two batches nothing is open: whoever ends the command loses nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple, Self

import psycopg

from redrive.cli.progress import progress
from redrive.cli.session import Session
from redrive.errors import InvalidArgument
from redrive.store import retention
from redrive.store.database import connect
from redrive.store.faults import explain_psycopg
from redrive.store.retention import Over

# A batch that took longer than this is followed by a pause as long: others want the database too.
_SLOW = 0.2
_MOST_IDLE = 100


class Part(NamedTuple):
    """One kind of thing, of a queue or of all, with what there was to delete when it was counted."""

    what: str
    queue: str | None
    older_than: timedelta | None
    over: Over

    @property
    def name(self) -> str:
        return f"{self.what} of queue {self.queue}" if self.queue else self.what


class Export:
    """A file that lines are added to. Raises `InvalidArgument` where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            new = not self.path.exists()
            self._file = open(self.path, "ab")
            if new:
                _sync_folder(self.path.parent)
        except OSError as error:
            raise InvalidArgument(
                f"--export {self.path} cannot be written: {error.strerror or error}"
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, lines: Sequence[str]) -> None:
        """On disk when it returns."""
        assert self._file is not None
        try:
            self._file.write("".join(f"{line}\n" for line in lines).encode())
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise InvalidArgument(
                f"--export {self.path} cannot be written: {error.strerror or error}; "
                "the batch was not deleted"
            ) from None


def delete(store: Session, parts: Sequence[Part], *, batch: int, export: Export | None) -> list[int]:
    """Delete what is over, in batches; how many rows of each part went."""
    done: list[int] = []
    with progress("pruning", total=sum(part.over.total for part in parts)) as advance:
        for part in parts:
            total = idle = 0
            while True:
                began = time.monotonic()
                if export is None or part.what in ("sent_keys", "workers"):
                    gone = store.run(retention.purge(part.what, part.queue, part.older_than, batch=batch))
                else:
                    gone = _exported(store.url, part, batch, export)
                total += gone
                advance(gone)
                if gone < batch and part.what != "sent_keys":
                    break
                # Each call looks at the next ten batches of those keys, and may find nothing among them.
                idle = 0 if gone else idle + 1
                if part.what == "sent_keys" and (total >= part.over.total or idle > _MOST_IDLE):
                    break
                if (took := time.monotonic() - began) > _SLOW:
                    store.pause(took)
            done.append(total)
    return done


def _exported(url: str, part: Part, batch: int, export: Export) -> int:
    statement = retention.purge_rows(part.what, part.queue, part.older_than, batch=batch)
    try:
        with connect(url) as connection, connection.transaction():
            cursor = connection.execute(statement.sql.encode(), statement.params)
            lines = statement.load(cursor.fetchall())
            export.write(lines)
    except psycopg.Error as error:
        raise (explain_psycopg(error) or error) from error
    return len(lines)


def _sync_folder(folder: Path) -> None:
    """A new file's name is on disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
