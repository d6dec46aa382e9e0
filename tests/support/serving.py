"""An ASGI application served by uvicorn on a loopback port, in a thread of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from types import TracebackType
from typing import Any, Self

import uvicorn


class Serving:
    """``with Serving(app) as served: served.url``. What `call` runs, runs in the server's own event loop."""

    def __init__(self, app: Any, **config: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._server = uvicorn.Server(
            uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=2, **config)
        )
        self._thread = threading.Thread(target=self._run, name="served", daemon=True)
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def __enter__(self) -> Self:
        # The socket listens already: who is early waits for the server to accept.
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._socket.close()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))
