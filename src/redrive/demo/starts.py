"""Starts: every start of a handler, one line a start in a file that all processes append to.

Guarantees  a start is in the file before the handler does anything, whatever kills it then.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from redrive import Job

VARIABLE = "DEMO_STARTS"


class Start(NamedTuple):
    queue: str
    msg_id: int
    attempt: int
    process: int


def started(job: Job) -> None:
    """Called by each handler first. Silent where nobody asked for the file."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    line = json.dumps(Start(job.queue, job.msg_id, job.attempt, os.getpid()))
    # One write of a short line to a file opened for appending is never torn.
    with open(path, "a", buffering=1) as file:
        file.write(line + "\n")


def read(path: Path) -> list[Start]:
    """All starts until now."""
    return [Start(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
