"""Export: the file that ``redrive prune`` writes rows to before it deletes them.

Guarantees  a batch is on disk as a whole, or not in the file: also after a full disk;
            what a killed run left half written is taken away before anything is added.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from redrive.cli.output import say
from redrive.errors import InvalidArgument

_BACK = 65536


class Export:
    """A regular file that one process adds lines to. Raises `InvalidArgument` where it cannot be written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = -1

    def __enter__(self) -> Self:
        try:
            new = not self.path.exists()
            if not new:
                self._refuse_odd(os.stat(self.path))
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._end_line()
            if new:
                _sync_folder(self.path.parent)
        except BlockingIOError:
            self._close()
            raise InvalidArgument(f"--export {self.path} is being written by another prune") from None
        except OSError as error:
            self._close()
            raise self._refusal(error) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @contextmanager
    def batch(self) -> Generator[Callable[[bytes], int]]:
        """Yields what to write with; all of it is on disk at the end, after an error nothing of it."""
        start = os.fstat(self._file).st_size
        try:
            yield self._write
            os.fsync(self._file)
        except BaseException as error:
            with suppress(OSError):
                os.ftruncate(self._file, start)
            if isinstance(error, OSError):
                raise self._refusal(error, "; the batch was not deleted") from None
            raise

    def _write(self, data: bytes) -> int:
        left = memoryview(data)
        while left:
            left = left[os.write(self._file, left) :]
        return len(data)

    def _refuse_odd(self, found: os.stat_result) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise InvalidArgument(
                f"--export {self.path} must be a regular file: nothing else says that a row is on disk"
            )
        for standard in (1, 2):
            with suppress(OSError):
                if os.path.samestat(found, os.fstat(standard)):
                    raise InvalidArgument(
                        f"--export {self.path} is where the command's own output goes; name another file"
                    )

    def _end_line(self) -> None:
        """A last line without its end is what a killed run had written of a row that is not deleted."""
        end = at = os.fstat(self._file).st_size
        tail = b""
        while at and b"\n" not in tail:
            begin = max(0, at - _BACK)
            tail = os.pread(self._file, at - begin, begin) + tail
            at = begin
        tail = tail[tail.rfind(b"\n") + 1 :]
        if not tail:
            return
        if tail.startswith(b"{") and not _whole(tail):
            os.ftruncate(self._file, end - len(tail))
            say(f"{self.path} ended within a row; that beginning was taken away")
        else:
            self._write(b"\n")

    def _refusal(self, error: OSError, more: str = "") -> InvalidArgument:
        return InvalidArgument(f"--export {self.path} cannot be written: {error.strerror or error}{more}")

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _whole(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    """A new file's name is on disk too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
