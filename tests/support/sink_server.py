"""A receiver of alerts on a loopback port: keeps what it was sent, and answers as the test says."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, NamedTuple, Self


class Posted(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class SinkServer:
    """``with SinkServer() as sink: sink.url``; `status`, `headers` and `hang` may be changed at any time."""

    def __init__(self) -> None:
        self.posted: list[Posted] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.hang = 0.0
        """Seconds before it answers."""
        self._news = threading.Condition()
        self._end = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.take(self)

            do_GET = do_POST

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        """Its path is a secret: tests look for it where it must not stand."""
        return f"http://{self.host}/hooks/t0p5ecretpath"

    def alerts(self) -> list[dict[str, Any]]:
        """Every alert that came as a webhook, in order."""
        return [alert for each in self.posted for alert in each.json["alerts"]]

    def wait_for(self, condition: Callable[[list[Posted]], bool], within: float = 20.0) -> None:
        deadline = time.monotonic() + within
        with self._news:
            while not condition(self.posted):
                left = deadline - time.monotonic()
                assert left > 0, f"only {self.posted} came"
                self._news.wait(left)

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self._news:
            self.posted.append(Posted(handler.path, headers, body))
            self._news.notify_all()
        if self.hang:
            self._end.wait(self.hang)
        try:
            # A phrase of its own, as anybody may have: with what drives a terminal, and what it was sent.
            handler.send_response_only(self.status, f"\x1b[31m{handler.path}")
            for name, value in self.headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", "2")
            handler.end_headers()
            handler.wfile.write(b"ok")
        except OSError:
            pass  # nobody waits any more
