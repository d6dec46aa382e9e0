"""Requests saved in files: header lines and a body, byte for byte.

Guarantees  nothing is trimmed, decoded or joined but what HTTP itself does not carry: line ends, the
            colon and the spaces around a value.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

from redrive.errors import InvalidArgument

Lines = list[tuple[bytes, bytes]]

# POST /webhooks/github HTTP/1.1, or HTTP/1.1 200 OK.
_START_LINE = re.compile(rb"[A-Za-z]+ \S+ HTTP/[0-9.]+|HTTP/[0-9.]+ [0-9]{3}( .*)?")
_RULE = 'lines such as "Name: value", or a JSON object of names and values'


def body_from(name: str) -> bytes:
    """The bytes of a file. Raises `InvalidArgument`."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InvalidArgument(f"{name} cannot be read: {error.strerror or error}") from None


def headers_from(name: str) -> Lines:
    """Header lines of a file: ``Name: value`` a line, or a JSON object of texts or lists of texts.

    The request or status line that tools print before the headers is left out. Raises `InvalidArgument`.
    """
    data = body_from(name)
    return _from_json(data, name) if data.lstrip()[:1] == b"{" else _from_lines(data, name)


def _from_lines(data: bytes, name: str) -> Lines:
    found: Lines = []
    begun = False
    for number, line in enumerate(data.split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        first, begun = not begun, begun or bool(line.strip())
        if not line.strip() or (first and _START_LINE.fullmatch(line.strip())):
            continue
        header, colon, value = line.partition(b":")
        if not colon or not header.strip():
            raise InvalidArgument(f"{name} line {number:,} is no header; the file must have {_RULE}")
        found.append((header.strip(), value.strip(b" \t")))
    return found


def _from_json(data: bytes, name: str) -> Lines:
    try:
        parsed: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(f"{name} is no JSON: {error}; the file must have {_RULE}") from None
    found: Lines = []
    for header, value in cast("dict[str, Any]", parsed).items():
        for each in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if not isinstance(each, str):
                raise InvalidArgument(
                    f"{name}: the value of {header!r:.60} is {each!r:.60}; the file must have {_RULE}"
                )
            found.append((_bytes(header), _bytes(each)))
    return found


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
