"""Inboxes: the webhook half of an app's declarations: inboxes, their handlers, and the jobs these make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from redrive.app.sharing import merged, told
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
        self._policies[inbox.queue] = merged(
            f"inbox {inbox.source}",
            inbox.queue,
            self._policies.get(inbox.queue),
            policy,
            f"inbox {', '.join(sharing)}",
        )
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
        declared = told(self._policies[queue])
        policy = QueuePolicy(**(defaults | declared))
        made = Dispatcher(queue, ours, self._handlers)
        return JobDefinition.of(queue, made.dispatch, policy, decimals=self._decimals, check=made.check)
