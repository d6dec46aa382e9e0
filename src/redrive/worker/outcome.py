"""What a delivery ended in, decided from how its handler ended. Pure: reads no clock and no database.

| how the handler ended                        | not called off | timeout | drain   | lost    |
|----------------------------------------------|----------------|---------|---------|---------|
| committed in its own transaction             | nothing        | nothing | nothing | nothing |
| None, without having been told to stop       | done           | done    | done    | done    |
| None, told to stop                           |                | retry   | release | nothing |
| Retry, Reject, returned or raised            | as it says     | as says | as says | nothing |
| Snooze, returned or raised                   | as it says     | retry   | as says | nothing |
| Ignored: no handler takes the event          | ignored        | ignored | ignored | nothing |
| the payload does not fit                     | malformed      | malformed | malformed | nothing |
| CancelledError, or another exception, told   | retry          | retry   | release | nothing |
| another exception, not told                  | retry          | retry   | retry   | nothing |
| any other value                              | retry          | retry   | retry   | nothing |

Told to stop: a coroutine by its cancellation; a thread only when it looked at `job.cancelled`. What returns
after that may have finished or given up; it runs again, because nobody can tell. A timeout is a failed
attempt whatever the handler would rather: with Snooze it could time out for ever without charge.
"""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass
from typing import Literal

from redrive.job import Ignored, Malformed, Reject, Retry, Snooze
from redrive.worker.held import CalledOff
from redrive.worker.protocol import Outcome

MESSAGE_LIMIT = 2_000
TRACEBACK_LIMIT = 8_000
_CALLERS = ("redrive.worker.", "redrive.inbox.handlers", "redrive.job.threads", "redrive.watch.schedule")


@dataclass(slots=True, frozen=True)
class Ending:
    """How a handler ended: `value` returned, or `error` raised."""

    value: object = None
    error: BaseException | None = None
    called_off: CalledOff | None = None
    told: bool = False
    """The handler knew that it was called off."""
    committed: bool = False
    """Its own transaction has settled it already."""
    timeout: float | None = None


@dataclass(slots=True, frozen=True)
class Decision:
    """`release`: give it back without charge. `nothing`: there is nothing to report."""

    outcome: Outcome | Literal["release", "nothing"]
    delay: float | None = None
    error_type: str | None = None
    error: str | None = None
    traceback: str | None = None


DONE = Decision("done")
NOTHING = Decision("nothing")
RELEASE = Decision("release")


def decide(end: Ending) -> Decision:
    """The decision of the table above."""
    said = end.value if end.error is None else end.error
    if end.committed:
        return NOTHING
    if said is None and not end.told:
        return DONE
    if end.called_off == "lost":
        return NOTHING
    match said:
        case Snooze() if end.called_off == "timeout":
            return _timed_out(
                Ending(timeout=end.timeout), "and was stopped; the Snooze it then answered does not count"
            )
        case Retry() | Snooze() | Reject():
            return _asked_for(said)
        case Ignored():
            return Decision("ignored")
        case Malformed():
            return Decision("malformed", error_type="Malformed", error=clean(str(said), MESSAGE_LIMIT))
        case _:
            pass
    if end.told or isinstance(said, asyncio.CancelledError):
        match end.called_off:
            case "drain":
                return RELEASE
            case "timeout":
                return _timed_out(end)
            case _:
                pass
    if isinstance(said, BaseException):
        return failure(said)
    kind = type(said).__name__
    return Decision(
        "retry",
        error_type="UnknownOutcome",
        error=f"the handler returned {_article(kind)}; None means done, Retry, Snooze, Reject what they say; "
        "return one of these",
    )


def failure(error: BaseException) -> Decision:
    """A failed attempt, with what is known of it."""
    if isinstance(error, asyncio.CancelledError):
        text = "the handler was cancelled from inside: something it awaited was cancelled, not by the worker"
    else:
        text = message_of(error)
    return Decision("retry", None, name_of(error), text, traceback_of(error))


def given_up(called_off: CalledOff | None, timeout: float | None) -> Decision:
    """The handler did not return within the grace: its slot is stuck and its process will be replaced."""
    match called_off:
        case "timeout":
            return _timed_out(
                Ending(timeout=timeout), "and did not stop when told to; its process is replaced"
            )
        case "drain":
            return RELEASE
        case _:
            return NOTHING


def _asked_for(said: Retry | Snooze | Reject) -> Decision:
    match said:
        case Retry():
            return Decision("retry", said.after, "Retry", clean(str(said), MESSAGE_LIMIT))
        case Snooze():
            return Decision("snooze", said.seconds)
        case Reject():
            return Decision("reject", None, "Reject", clean(said.reason, MESSAGE_LIMIT))


def _timed_out(end: Ending, more: str = "and was stopped") -> Decision:
    limit = "" if end.timeout is None else f" of {end.timeout:g} s"
    text = f"the handler did not finish within its timeout{limit} {more}"
    if end.error is None or isinstance(end.error, asyncio.CancelledError):
        trace = None if end.error is None else traceback_of(end.error)
    else:
        text, trace = (
            f"{text}; it then raised {name_of(end.error)}: {message_of(end.error)}",
            traceback_of(end.error),
        )
    return Decision("retry", None, "Timeout", clean(text, MESSAGE_LIMIT), trace)


def name_of(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def message_of(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its str() raised {type(broken).__name__})"
    return clean(text, MESSAGE_LIMIT)


def traceback_of(error: BaseException) -> str:
    """The handler's part of the traceback: the frames of redrive's own that called it say nothing."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals.get("__name__", "").startswith(_CALLERS):
        frames = frames.tb_next
    try:
        text = "".join(traceback.TracebackException(type(error), error, frames, compact=True).format())
    except Exception as broken:
        text = f"(the traceback cannot be written: {type(broken).__name__})"
    return clean(text, TRACEBACK_LIMIT, keep="end")


def clean(text: str, limit: int, *, keep: Literal["start", "end"] = "start") -> str:
    """`text` as Postgres can store it: no NUL, no lone surrogate, `limit` characters at most."""
    if len(text) > limit:
        text = text[: limit - 1] + "…" if keep == "start" else "…" + text[1 - limit :]
    if not text.isascii() or "\x00" in text:
        text = text.replace("\x00", "␀").encode("utf-8", "replace").decode()
    return text


def _article(kind: str) -> str:
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
