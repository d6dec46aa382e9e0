"""Handlers: which function takes which event, and the job that every queue of an inbox has: find it, call it.

Guarantees  an event that nobody takes ends as ignored, visible and not failed;
            the handler is given the event as it was recorded, its payload as the message has it now: an
            operator may have patched that;
            a function runs in a thread, and is told through its `SyncJob` when it should stop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from redrive.errors import ConfigError
from redrive.inbox.event import Event
from redrive.inbox.inbox import Inbox
from redrive.inbox.patterns import Pattern
from redrive.inbox.refetch import refetch
from redrive.inbox.source import Source
from redrive.job import Ignored, Job, Reject, ask, blocking, in_thread, parameters_of, place_of
from redrive.store import events

_RULE = "a handler of events takes (event) or (event, job)"


@dataclass(frozen=True, slots=True, eq=False)
class Handler:
    """A function and the events of one source that it takes."""

    pattern: Pattern
    function: Callable[..., Any]
    is_async: bool
    wants_job: bool

    @classmethod
    def of(cls, pattern: str, function: Callable[..., Any]) -> Handler:
        """Read the function's signature. Raises `ConfigError` naming it."""
        event, job = parameters_of(function, _RULE)
        if event is None:
            raise ConfigError(f"{place_of(function)}: {_RULE}, in this order, the job annotated as Job")
        return cls(Pattern(pattern), function, inspect.iscoroutinefunction(function), job is not None)

    @property
    def name(self) -> str:
        return place_of(self.function)

    async def run(self, event: Event, job: Job) -> object:
        """What the function returns; raises what it raises."""
        if self.is_async:
            return await self.function(*((event, job) if self.wants_job else (event,)))
        here = blocking(job)
        arguments = (event, here) if self.wants_job else (event,)
        return await in_thread(lambda: self.function(*arguments), here)


class Handlers:
    """The handlers of an app, by source."""

    def __init__(self) -> None:
        self._by_source: dict[str, list[Handler]] = {}

    @property
    def sources(self) -> Mapping[str, list[Handler]]:
        return self._by_source

    def add(self, source: str, pattern: str, function: Callable[..., Any]) -> None:
        """Raises `ConfigError` for a pattern that has a handler already, naming both functions."""
        for name, value, such in (("source", source, "stripe"), ("pattern", pattern, "invoice.*")):
            if not isinstance(cast("object", value), str) or not value:
                raise ConfigError(
                    f"{place_of(function)}: the {name} must be text such as {such!r}, not {value!r}"
                )
        known = self._by_source.setdefault(source, [])
        handler = Handler.of(pattern, function)
        for other in known:
            if other.pattern.text == pattern:
                raise ConfigError(
                    f"{pattern!r} of {source} has the handler {other.name}; {handler.name} cannot be a "
                    "second one; call one from the other, or choose another pattern"
                )
        known.append(handler)
        # Stable: of two as specific as each other the one declared first stays first.
        known.sort(key=lambda each: each.pattern.rank, reverse=True)

    def takes_all(self, source: str) -> bool:
        """Whether every event of the source has a handler."""
        return any(handler.pattern.text == "*" for handler in self._by_source.get(source, ()))

    def find(self, event: Event) -> Handler | None:
        """The most specific handler of this event."""
        for handler in self._by_source.get(event.source, ()):
            if handler.pattern.fits(event.name, event.type):
                return handler
        return None


class Dispatcher:
    """The job of `queue`, into which the `inboxes`, by source, send their events."""

    def __init__(self, queue: str, inboxes: Mapping[str, Inbox], handlers: Handlers) -> None:
        self._queue = queue
        self._inboxes = inboxes
        self._handlers = handlers

    def check(self) -> None:
        """Raises `ConfigError` where an API that events are fetched from lacks its credentials."""
        for source, inbox in self._inboxes.items():
            if isinstance(inbox.api, Source) and not self._handlers.takes_all(source):
                inbox.api.check_credentials()

    async def dispatch(self, payload: Any, job: Job) -> object:
        """Handle the event that a message stands for."""
        event = await self._event(payload, job)
        handler = self._handlers.find(event)
        if handler is not None:
            return await handler.run(event, job)
        api = self._inboxes[event.source].api
        if api is not None:
            return await refetch(event, job, api)
        return Ignored()

    async def _event(self, payload: Any, job: Job) -> Event:
        """Raises `Reject` when there is none, or none of ours."""
        if job.event is None:
            return self._by_hand(payload)
        found = await ask(job, events.load(job.event))
        if found is None:
            raise Reject(
                f"the message names the webhook event {job.event}, of which there is no record (any more)"
            )
        inbox = self._inboxes.get(found.source)
        if inbox is None:
            raise Reject(
                f"the event is of source {found.source!r}, and this app's inboxes on queue {self._queue} "
                f"are: {', '.join(sorted(self._inboxes))}; declare it, or give each app a queue of its own"
            )
        # Beside a record without payload the message has only the names of the event.
        headers: dict[str, str] = found.headers or {}
        held = None if found.payload is None else payload
        return Event(
            id=found.id,
            source=found.source,
            event_id=found.event_id,
            type=found.type,
            action=inbox.provider.action_of(held, headers, found.raw),
            resource=found.resource,
            payload=held,
            raw=found.raw,
            headers=headers,
            received_at=found.received_at,
            origin=found.origin,
            generation=found.generation,
            attempts=found.attempts,
        )

    def _by_hand(self, payload: Any) -> Event:
        """A message that some other `send` put into the queue, as the payload of the one inbox it has."""
        if len(self._inboxes) > 1:
            raise Reject(
                f"the message was sent to queue {self._queue} without an event, and the queue has the "
                f"inboxes {', '.join(sorted(self._inboxes))}: nobody can tell of which it is"
            )
        [inbox] = self._inboxes.values()
        return inbox.event_of(payload)
