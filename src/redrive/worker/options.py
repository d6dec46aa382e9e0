"""WorkerOptions: what `redrive worker` was asked for. Sent to its processes by pipe: it holds the URL."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from redrive.errors import ConfigError
from redrive.policy import check_count, check_seconds
from redrive.worker.logs import LogFormat

DEFAULT_CONCURRENCY = 20
DEFAULT_DRAIN = 25.0
DEFAULT_POLL = 2.0

# How a worker process ends; the supervisor ends as its processes did.
EXIT_OK = 0
EXIT_CONFIG = 2
EXIT_UNAVAILABLE = 3
EXIT_HUNG = 70
EXIT_REPLACE = 75


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`app_spec` is module:attr, imported by every process anew.

    queues         only these of the app's queues; empty for all
    concurrency    20     jobs at once in each process, shared by its queues
    processes      1
    drain_timeout  25 s   how long running jobs may go on after SIGTERM
    poll           2 s    longest pause between two looks at an idle queue
    health         HOST:PORT for /livez and /readyz
    log_format     'text' or 'json'
    """

    app_spec: str
    url: str
    queues: tuple[str, ...] = ()
    concurrency: int = DEFAULT_CONCURRENCY
    processes: int = 1
    drain_timeout: float = DEFAULT_DRAIN
    poll: float = DEFAULT_POLL
    health: str | None = None
    log_format: LogFormat = "text"

    def __post_init__(self) -> None:
        check_count(self.concurrency, "--concurrency")
        check_count(self.processes, "--processes")
        check_seconds(self.drain_timeout, "--drain-timeout")
        check_seconds(self.poll, "--poll", above=True)
        if self.log_format not in ("text", "json"):
            raise ConfigError(f"--log-format is {self.log_format!r}; it must be text or json")
        if self.health is not None:
            address(self.health)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerOptions:
        fields: dict[str, Any] = json.loads(text)
        fields["queues"] = tuple(fields["queues"])
        return cls(**fields)


def address(text: str) -> tuple[str, int]:
    """HOST:PORT as a pair. Raises `ConfigError`."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"--health is {text!r}; it must be HOST:PORT, such as 127.0.0.1:8080")
    return host.strip("[]"), int(port)
