"""Inputs: payloads from an argument, files and stdin, each as checked JSON text that knows where it stood.

Guarantees  nothing is changed on the way: integers and fractions keep every digit;
            what is no JSON, or no payload, is refused with its file and line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from redrive import payload as payloads
from redrive.errors import InvalidArgument, PayloadError

STDIN = "-"
_LINES = (".ndjson", ".jsonl")


class Input(NamedTuple):
    """One payload: the JSON `text`, and `where` it stood, such as ``events.ndjson line 3``."""

    where: str
    text: str


def from_argument(text: str) -> Input:
    """The payload given on the command line. Raises `InvalidArgument`."""
    try:
        return Input("the payload", _checked(text, "the payload"))
    except InvalidArgument as error:
        if _names_a_file(text):
            raise InvalidArgument(
                f"{error}; to send what the file {text} holds, write --file {text}"
            ) from None
        raise


def from_files(names: Sequence[str], *, each: bool = False) -> Iterator[Input]:
    """The payloads of `names`, one after the other; ``-`` is stdin.

    A ``.ndjson`` or ``.jsonl`` file and stdin hold one a line, empty lines aside; another file is one as a
    whole, or with `each` an array of them. Raises `InvalidArgument`, also for a file that cannot be read.
    """
    for name in names:
        try:
            if name == STDIN:
                if cast("object", sys.stdin) is None:
                    raise InvalidArgument("stdin is closed; give the payloads as files or as an argument")
                yield from _lines("stdin", sys.stdin.buffer)
            elif Path(name).suffix.lower() in _LINES:
                with open(name, "rb") as stream:
                    yield from _lines(name, stream)
            elif each:
                yield from _elements(name)
            else:
                yield Input(name, _checked(_decoded(Path(name).read_bytes(), name), name))
        except OSError as error:
            raise InvalidArgument(f"{name} cannot be read: {error.strerror or error}") from None


def _names_a_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        # Too long for a name, or with a NUL.
        return False


def _lines(name: str, stream: IO[bytes]) -> Iterator[Input]:
    for number, line in enumerate(stream, 1):
        where = f"{name} line {number:,}"
        if text := _decoded(line, where).strip():
            yield Input(where, _checked(text, where, hint="; here each line is one payload"))


def _elements(name: str) -> Iterator[Input]:
    value = _value(_decoded(Path(name).read_bytes(), name), name)
    if not isinstance(value, list):
        raise InvalidArgument(f"{name} is no JSON array; leave out --each to send it as one message")
    for number, element in enumerate(cast("list[Any]", value), 1):
        where = f"{name} element {number:,}"
        yield Input(where, _encoded(element, where))


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{where} is not UTF-8 at byte {error.start + 1:,}; convert it") from None


def _checked(text: str, where: str, *, hint: str = "") -> str:
    return _encoded(_value(text, where, hint=hint), where)


def _value(text: str, where: str, *, hint: str = "") -> Any:
    try:
        return payloads.decode(text, decimals=True)
    except PayloadError as error:
        raise InvalidArgument(f"{where} {error.problem}{hint}") from None


def _encoded(value: Any, where: str) -> str:
    try:
        return payloads.encode(value)
    except PayloadError as error:
        raise InvalidArgument(f"{where}: {error.path}: {error.problem}") from None
