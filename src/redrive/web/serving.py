"""Serving: the application on a port, by uvicorn, until SIGTERM or Ctrl-C.

Guarantees  after the first signal nothing new is taken, and what is being answered is answered, for so many
            seconds; a second signal ends at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

import uvicorn
import uvloop
from starlette.applications import Starlette

from redrive.errors import ConfigError
from redrive.web.protocol import Protocol

log = logging.getLogger("redrive.serve")

DRAIN = 6
# What a silent database may hold up beyond that: containers are killed after ten seconds.
_LEAVING = 3
_BACKLOG = 2048


class _Server(uvicorn.Server):
    """uvicorn's, but a signal that it has obeyed is no way to die: this process ends with exit code 0."""

    def __init__(
        self, config: uvicorn.Config, started: Callable[[], None], ending: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._tell = started
        self._tell_end = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._tell()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._obey, number)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    def _obey(self, number: int) -> None:
        if self.should_exit:
            os._exit(128 + number)
        log.info("draining", extra={"event": "serve_draining"})
        self.should_exit = True
        self._tell_end()
        timer = threading.Timer(DRAIN + _LEAVING, os._exit, [0])
        timer.daemon = True
        timer.start()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises `ConfigError` where that is not possible."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        found = socket.create_server((host, port), family=family, backlog=_BACKLOG, reuse_port=False)
    except (OSError, OverflowError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ConfigError(f"--host {host} --port {port}: cannot listen there: {said}") from error
    found.setblocking(False)
    # asyncio switches Nagle's algorithm off only where it sees that this is TCP; with it on, an answer's body
    # waits 40 ms for the acknowledgement of its head.
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=found.detach())


def serve(
    application: Starlette,
    listening: socket.socket,
    started: Callable[[], None],
    ending: Callable[[], None],
) -> None:
    """Answer requests on `listening` until a signal; then what is under way, in `DRAIN` seconds at most.

    `started` is called when signals are obeyed and requests answered, `ending` when the first signal came.
    """
    config = uvicorn.Config(
        application,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=DRAIN,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_Server(config, started, ending).serve([listening]))
