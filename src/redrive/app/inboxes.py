"""Inboxes: the webhook half of an app's declarations: inboxes, their handlers, and the jobs these make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from redrive.errors import ConfigError
from redrive.inbox.handlers import Dispatcher, Handlers
from redrive.inbox.inbox import Inbox
from redrive.job import JobDefinition
from redrive.policy import QueuePolicy


class Inboxes:
    """What an app declared. `decimals` as of `Redrive`."""

    def __init__(self, *, decimals: bool) -> None:
        self._decimals = decimals
        self._inboxes: dict[str, Inbox] = {}
        self._policies: dict[str, QueuePolicy] = {}
        """By queue: what the inboxes have said of it in so many words."""
        self._handlers = Handlers()
        self._jobs: dict[str, JobDefinition] | None = None

    def add(self, inbox: Inbox, policy: QueuePolicy) -> None:
        """Raises `ConfigError` when the source has an inbox, or another inbox told the queue otherwise."""
        if first := self._inboxes.get(inbox.source):
            raise ConfigError(
                f"inbox {inbox.source!r} is declared twice, for the queues {first.queue} and {inbox.queue}; "
                "a source has one inbox: name the second otherwise"
            )
        sharing = [each.source for each in self._inboxes.values() if each.queue == inbox.queue]
        self._policies[inbox.queue] = _merged(inbox, self._policies.get(inbox.queue), policy, sharing)
        self._inboxes[inbox.source] = inbox
        self._jobs = None

    def on(self, source: str, pattern: str, function: Callable[..., Any]) -> None:
        """Raises `ConfigError`; an unknown source is found out in `checked`: it may be declared later."""
        self._handlers.add(source, pattern, function)

    def of_queue(self, queue: str) -> list[str]:
        """The sources that send into `queue`."""
        return [each.source for each in self._inboxes.values() if each.queue == queue]

    @property
    def checked(self) -> Mapping[str, Inbox]:
        """The inboxes by source. Raises `ConfigError` for a handler whose source has none."""
        for source, handlers in self._handlers.sources.items():
            if source not in self._inboxes:
                there_are = ", ".join(sorted(self._inboxes)) or "none"
                raise ConfigError(
                    f"{handlers[0].name} handles events of {source!r}, which is no inbox of this app (there "
                    f"are: {there_are}); declare it with app.inbox({source!r}, ...)"
                )
        return MappingProxyType(self._inboxes)

    async def close(self) -> None:
        """Close what this event loop has opened to the inboxes' APIs."""
        for inbox in self._inboxes.values():
            if inbox.api is not None:
                await inbox.api.close()

    @property
    def jobs(self) -> Mapping[str, JobDefinition]:
        """The job that each queue of an inbox has. Raises `ConfigError` as `checked`."""
        inboxes = self.checked
        if self._jobs is None:
            self._jobs = {queue: self._job(queue, inboxes) for queue in self._policies}
        return self._jobs

    def _job(self, queue: str, inboxes: Mapping[str, Inbox]) -> JobDefinition:
        ours = {source: inbox for source, inbox in inboxes.items() if inbox.queue == queue}
        defaults: dict[str, Any] = {}
        for inbox in reversed(ours.values()):
            if inbox.api is not None:
                defaults |= inbox.api.policy
        declared = _told(self._policies[queue])
        policy = QueuePolicy(**(defaults | declared))
        made = Dispatcher(queue, ours, self._handlers)
        return JobDefinition.of(queue, made.dispatch, policy, decimals=self._decimals, check=made.check)


def _told(policy: QueuePolicy) -> dict[str, Any]:
    values = {each.name: getattr(policy, each.name) for each in fields(policy)}
    return {name: value for name, value in values.items() if value is not None}


def _merged(inbox: Inbox, known: QueuePolicy | None, told: QueuePolicy, sharing: list[str]) -> QueuePolicy:
    if known is None:
        return told
    before, now = _told(known), _told(told)
    for name in before.keys() & now.keys():
        if before[name] != now[name]:
            raise ConfigError(
                f"inbox {inbox.source}: queue {inbox.queue} has {name} {before[name]!r} from inbox "
                f"{', '.join(sharing)} already, and cannot have {now[name]!r} too; say it once, or use "
                "another queue"
            )
    return replace(known, **now)
