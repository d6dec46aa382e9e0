"""Logs: one line an event, as text or JSON, with queue, msg_id and attempt where there are any.

Text:  2026-11-30T14:45:07.123Z WARNING attempt 2 of 5 failed: … event=job_retry queue=mail msg_id=7 attempt=2
JSON:  {"time": …, "level": "warning", "event": "job_retry", "message": …, "queue": "mail", "msg_id": 7, …}
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Literal

LogFormat = Literal["text", "json"]

# What every record has; anything else was given by `extra` and is shown.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
# All but the tab; the last ones turn the direction of what follows.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_FIRST = ("event", "queue", "msg_id", "attempt")


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    extra = {
        name: value for name, value in vars(record).items() if name not in _ORDINARY and value is not None
    }
    first = {name: extra.pop(name) for name in _FIRST if name in extra}
    return first | extra


def _time(record: logging.LogRecord) -> str:
    return (
        datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )


class TextFormatter(logging.Formatter):
    """A line for people; a traceback stands on the same line, its newlines escaped.

    So is what would drive a terminal: messages hold words of handlers, databases and other people's servers.
    """

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += " | " + self.formatException(record.exc_info)
        pairs = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{_time(record)} {record.levelname:<7} {text}{pairs}"
        return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), line)


class JsonFormatter(logging.Formatter):
    """A line for machines."""

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def configure(log_format: LogFormat, level: int = logging.INFO) -> None:
    """Send every log record of this process to stderr, formatted. For processes that are ours alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Its pool and cancel warnings repeat what we say ourselves, once an outage.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    # A line for each request to an API that went well.
    for library in ("httpx", "httpcore"):
        logging.getLogger(library).setLevel(logging.WARNING)
