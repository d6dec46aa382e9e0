"""Schedules: what an app declares to be sent at which times, and the jobs that its functions make."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any

from redrive import payload as payloads
from redrive.app.handle import JobHandle
from redrive.app.sharing import merged
from redrive.errors import ConfigError, InvalidArgument, PayloadError
from redrive.job import JobDefinition, place_of
from redrive.policy import QueuePolicy
from redrive.store import messages
from redrive.watch.schedule import Dispatcher, Function, Schedule

QUEUE = "schedules"


class Schedules:
    """What an app declared. `decimals` and `max_payload` as of `Redrive`."""

    def __init__(self, *, decimals: bool, max_payload: int) -> None:
        self._decimals = decimals
        self._max_payload = max_payload
        self._schedules: dict[str, Schedule] = {}
        self._functions: dict[str, Function] = {}
        """By schedule; those of jobs are not among them."""
        self._policies: dict[str, QueuePolicy] = {}
        self._jobs: dict[str, JobDefinition] | None = None

    @property
    def declared(self) -> Mapping[str, Schedule]:
        """By name."""
        return MappingProxyType(self._schedules)

    def of_queue(self, queue: str) -> list[str]:
        """The schedules whose functions work `queue`."""
        return [name for name in self._functions if self._schedules[name].queue == queue]

    def add(
        self,
        target: Any,
        when: object,
        *,
        name: str | None,
        queue: str | None,
        payload: object,
        policy: QueuePolicy,
        **how: object,
    ) -> Schedule:
        """Put a function, or a job, on a schedule. Raises `ConfigError`."""
        place = place_of(target)
        name = getattr(target, "__name__", None) if name is None else name
        if isinstance(target, JobHandle):
            return self._add_job(target.definition, when, name, queue, payload, policy, how)
        if payload is not None:
            raise ConfigError(
                f"schedule {name!r}: {place} is a function, which is given the tick; a payload is for a job: "
                "put @app.schedule above its @app.job"
            )
        queue = QUEUE if queue is None else queue
        try:
            messages.check_sendable(queue)
        except InvalidArgument as error:
            raise ConfigError(f"schedule {name!r}: {error}") from None
        function = Function.of(target)
        made = self._checked(Schedule.of(name, when, queue=queue, payload=None, place=place, **how))  # type: ignore[arg-type]
        others = ", ".join(f"schedule {each}" for each in self.of_queue(queue))
        self._policies[queue] = merged(
            f"schedule {made.name}", queue, self._policies.get(queue), policy, others
        )
        self._schedules[made.name] = made
        self._functions[made.name] = function
        self._jobs = None
        return made

    def add_own(self, name: str, when: object, function: Callable[[], Awaitable[None]]) -> Schedule:
        """Put something of redrive's on a schedule, at UTC's times. Raises `ConfigError`."""
        how = {"tz": "UTC", "missed": "one", "overlap": "skip"}
        return self.add(function, when, name=name, queue=None, payload=None, policy=QueuePolicy(), **how)

    def _add_job(
        self,
        job: JobDefinition,
        when: object,
        name: str | None,
        queue: str | None,
        payload: object,
        policy: QueuePolicy,
        how: Mapping[str, Any],
    ) -> Schedule:
        if policy != QueuePolicy():
            raise ConfigError(
                f"schedule {name!r}: the policy of queue {job.queue} belongs to its job {job.name}: "
                "say it in @app.job"
            )
        if queue is not None and queue != job.queue:
            raise ConfigError(
                f"schedule {name!r}: it sends to the job {job.name}, whose queue is {job.queue}; "
                "leave out queue"
            )
        try:
            text = payloads.encode(job.plain(payload), limit=self._max_payload)
        except PayloadError as error:
            raise ConfigError(
                f"schedule {name!r}: its payload does not fit the job {job.name}: {error}"
            ) from error
        made = self._checked(Schedule.of(name, when, queue=job.queue, payload=text, place=job.name, **how))
        self._schedules[made.name] = made
        return made

    def _checked(self, made: Schedule) -> Schedule:
        if first := self._schedules.get(made.name):
            raise ConfigError(
                f"schedule {made.name!r} is declared for {first.place}; {made.place} cannot have a second "
                "one of that name: give one of them a name=..."
            )
        return made

    @property
    def jobs(self) -> Mapping[str, JobDefinition]:
        """The job that each queue of functions on schedules has."""
        if self._jobs is None:
            self._jobs = {queue: self._job(queue) for queue in self._policies}
        return self._jobs

    def _job(self, queue: str) -> JobDefinition:
        ours = self.of_queue(queue)
        made = Dispatcher(
            queue,
            {name: self._schedules[name] for name in ours},
            {name: self._functions[name] for name in ours},
        )
        return JobDefinition.of(queue, made.dispatch, self._policies[queue], decimals=self._decimals)
