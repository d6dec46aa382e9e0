"""Schedule: what is sent at which times, as an app declares it, and the job of functions on schedules.

Guarantees  a declaration that can never work is refused where it stands, naming the schedule;
            a message for a schedule this app does not have fails and is retried: another version may have it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, cast, get_args

from redrive.errors import ConfigError, RedriveError
from redrive.job import Job, Reject, blocking, in_thread, parameters_of, place_of
from redrive.watch.times import Times, zone_of

MISSED = ("skip", "one", "all")
OVERLAP = ("allow", "skip", "queue")
_RULE = "a function on a schedule takes (tick), (tick, job), (job) or nothing"
_LONGEST_NAME = 100


class Tick(NamedTuple):
    """One firing of a schedule: its name, and when it was due, in the schedule's time zone."""

    schedule: str
    at: datetime


class UnknownSchedule(RedriveError):
    """A message for a schedule that this app does not declare."""


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A name, its times, and what is sent into which queue. `payload`: JSON text; None: schedule, tick."""

    name: str
    times: Times
    missed: str
    overlap: str
    queue: str
    payload: str | None
    place: str
    """The function it was declared for."""

    @classmethod
    def of(
        cls,
        name: object,
        when: object,
        *,
        tz: object,
        missed: object,
        overlap: object,
        queue: str,
        payload: str | None,
        place: str,
    ) -> Schedule:
        """Raises `ConfigError`."""
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise ConfigError(
                f"{place}: a schedule's name is 1 to {_LONGEST_NAME} printable characters, not {name!r}"
            )
        if name.startswith("redrive."):
            raise ConfigError(f"schedule {name!r}: names that begin with redrive. are redrive's own")
        for field, value, known in (("missed", missed, MISSED), ("overlap", overlap, OVERLAP)):
            if value not in known:
                raise ConfigError(
                    f"schedule {name!r}: {field} is {value!r}; it must be "
                    f"{', '.join(known[:-1])} or {known[-1]}"
                )
        try:
            times = Times.of(when, tz)
        except ConfigError as error:
            raise ConfigError(f"schedule {name!r}: {error}") from None
        return cls(name, times, cast("str", missed), cast("str", overlap), queue, payload, place)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function on a schedule, and what it takes."""

    function: Callable[..., Any]
    is_async: bool
    wants_tick: bool
    wants_job: bool

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Function:
        """Read the signature. Raises `ConfigError` naming the function."""
        tick, job = parameters_of(function, _RULE)
        if tick is not None and not _takes_tick(tick.annotation):
            raise ConfigError(f"{place_of(function)}: {_RULE}, the tick annotated as Tick")
        return cls(function, inspect.iscoroutinefunction(function), tick is not None, job is not None)

    async def run(self, tick: Tick, job: Job) -> object:
        """What the function returns; raises what it raises."""
        given = (tick,) if self.wants_tick else ()
        if self.is_async:
            return await self.function(*given, *((job,) if self.wants_job else ()))
        here = blocking(job)
        arguments = (*given, *((here,) if self.wants_job else ()))
        return await in_thread(lambda: self.function(*arguments), here)


class Dispatcher:
    """The job of a queue into which schedules send their ticks."""

    def __init__(
        self, queue: str, schedules: Mapping[str, Schedule], functions: Mapping[str, Function]
    ) -> None:
        self._queue = queue
        self._schedules = schedules
        self._functions = functions

    async def dispatch(self, payload: Any, job: Job) -> object:
        """Run the function of the schedule that a message names."""
        name, at = _named(payload)
        if name not in self._functions:
            there_are = ", ".join(sorted(self._functions))
            raise UnknownSchedule(
                f"the message is of schedule {name!r}, which this app does not declare on queue "
                f"{self._queue} (it declares: {there_are}); start the version that does, or give each app a "
                "queue of its own"
            )
        tick = Tick(name, at.astimezone(zone_of(self._schedules[name].times.tz)))
        return await self._functions[name].run(tick, job)


def _takes_tick(annotation: Any) -> bool:
    if annotation in (inspect.Parameter.empty, Any, object):
        return True
    return Tick in (get_args(annotation) or (annotation,))


def _named(payload: Any) -> tuple[str, datetime]:
    try:
        name, at = payload["schedule"], datetime.fromisoformat(payload["tick"])
        if not isinstance(name, str) or at.utcoffset() is None:
            raise ValueError
    except (TypeError, KeyError, ValueError):
        raise Reject(
            'a message of a schedule is {"schedule": name, "tick": ISO time}; something else sent this one'
        ) from None
    return name, at
