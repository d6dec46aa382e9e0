"""What `redrive serve` speaks on a socket, byte by byte: offers of other protocols, and heads without end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from redrive.web.protocol import Protocol
from tests.support.serving import Serving

H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n"
POST = b"POST /webhooks/x HTTP/1.1\r\nHost: here\r\n"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the body that arrived."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if len(body) > 1000:
        body = str(len(body)).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with Serving(echo, http=Protocol, ws="none") as served:
        yield int(served.url.rpartition(":")[2])


class Line:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.answers = self.socket.makefile("rb")

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.answers.close()
        self.socket.close()

    def say(self, *pieces: bytes) -> None:
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            self.socket.sendall(piece)

    def answer(self) -> tuple[int, bytes]:
        status = int(self.answers.readline().split()[1])
        length = 0
        while (line := self.answers.readline().strip().lower()) != b"":
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return status, self.answers.read(length)


@pytest.mark.parametrize(
    "request_",
    [
        POST + H2C + b'Content-Length: 7\r\n\r\n{"a":1}',
        POST + b"Content-Length: 7\r\n" + H2C + b'\r\n{"a":1}',
        POST + H2C.lower() + b'Content-Length: 7\r\n\r\n{"a":1}',
        POST + H2C + b'Transfer-Encoding: chunked\r\n\r\n7\r\n{"a":1}\r\n0\r\n\r\n',
        POST + b'Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 7\r\n\r\n{"a":1}',
    ],
)
def test_an_offer_to_speak_another_protocol_is_passed_over_and_the_body_read(
    port: int, request_: bytes
) -> None:
    with Line(port) as line:
        for _ in range(2):
            line.say(request_)
            assert line.answer() == (200, b'{"a":1}')


def test_so_is_one_whose_head_comes_in_pieces(port: int) -> None:
    with Line(port) as line:
        line.say(POST)
        line.say(H2C + b"Content-Length: 2\r\n")
        line.say(b"\r\n")
        line.say(b"{}")
        assert line.answer() == (200, b"{}")


def test_a_body_that_reads_like_an_offer_is_left_as_it_is(port: int) -> None:
    body = b"\r\nUpgrade: h2c\r\n\r\n"
    with Line(port) as line:
        line.say(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert line.answer() == (200, body)
        line.say(POST + b"Content-Length: %d\r\n\r\n" % len(body), body)
        assert line.answer() == (200, body)


def test_large_bodies_are_no_heads(port: int) -> None:
    with Line(port) as line:
        line.say(POST + b"Content-Length: 3000000\r\n\r\n" + b"x" * 3_000_000)
        assert line.answer() == (200, b"3000000")
        chunk = b"10000\r\n" + b"y" * 0x10000 + b"\r\n"
        line.say(POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 40 + b"0\r\n\r\n")
        assert line.answer() == (200, b"%d" % (40 * 0x10000))


@pytest.mark.parametrize(
    ("before", "endless"),
    [
        (POST, b"X-%d: " + b"y" * 1000 + b"\r\n"),
        (POST + b"X-One: ", b"z" * 1000),
        (b"POST /", b"u" * 1000),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X-%d: " + b"y" * 1000 + b"\r\n"),
    ],
)
def test_what_has_no_end_and_is_no_body_is_cut_off(port: int, before: bytes, endless: bytes) -> None:
    sent = 0
    with Line(port) as line:
        line.say(before)
        with pytest.raises(OSError):
            while sent < 50_000_000:
                line.say(endless.replace(b"%d", str(sent).encode()))
                sent += len(endless)
    # What the sockets' buffers took goes beyond what was read.
    assert sent < 20_000_000
