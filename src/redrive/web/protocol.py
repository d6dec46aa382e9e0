"""Protocol: uvicorn's HTTP over httptools, without two of its surprises.

Guarantees  an offer to speak another protocol (curl --http2, Java's client) is passed over, and the body is
            read: httptools would take the request to end at its headers;
            what stands before a body, and behind a chunked one, is bounded: httptools keeps it whatever its
            size.
"""

from __future__ import annotations

import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

# Beyond the most that one read of a socket brings, so that a body in it is never taken for a head.
_MOST_WITHOUT_BODY = 512 * 1024
_UPGRADE = re.compile(rb"(?<=\r\n)upgrade:[^\r\n]*\r\n", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """For `uvicorn.Config(http=...)`."""

    def __init__(self, *args: Any, **rest: Any) -> None:
        super().__init__(*args, **rest)
        self._in_head = True
        self._without_body = 0

    def data_received(self, data: bytes) -> None:
        self._without_body += len(data)
        if self._without_body > _MOST_WITHOUT_BODY:
            self.send_400_response("Too many headers.")
            return
        if self._in_head:
            head, end, body = data.partition(_END_OF_HEAD)
            if _UPGRADE.search(head + b"\r\n"):
                # Whoever offers must take no for an answer (RFC 9110, 7.8).
                data = _UPGRADE.sub(b"", head + b"\r\n")[:-2] + end + body
        super().data_received(data)

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._without_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._without_body = 0
        super().on_message_complete()
