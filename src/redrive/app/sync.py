"""The blocking face: the same calls without await, the same statements, each a line deep.

With a connection they run on the caller's thread; without one, on the app's own pool, and the caller waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar, Unpack

from redrive.app.outbox import Outbox, SendManyOptions, SendOptions
from redrive.job import JobDefinition
from redrive.store import messages
from redrive.store.messages import Sent

P = TypeVar("P")


class SyncRedrive:
    """`Redrive`'s calls for blocking code: ``app.sync.send(...)``; a `connection` is a blocking one."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    def send(self, queue: str, payload: object, **options: Unpack[SendOptions]) -> Sent:
        """As `Redrive.send`."""
        return self._outbox.send_blocking(queue, payload, **options)

    def send_many(
        self, queue: str, payloads: Iterable[object], **options: Unpack[SendManyOptions]
    ) -> list[Sent]:
        """As `Redrive.send_many`."""
        return self._outbox.send_many_blocking(queue, payloads, **options)

    def cancel(
        self,
        queue: str,
        ids: Iterable[int] | None = None,
        *,
        key: str | None = None,
        connection: object = None,
    ) -> list[int]:
        """As `Redrive.cancel`."""
        return self._outbox.run_blocking(messages.cancel(queue, ids, key=key), connection)

    def reschedule(
        self, queue: str, ids: Iterable[int], delay: float, *, connection: object = None
    ) -> list[int]:
        """As `Redrive.reschedule`."""
        return self._outbox.run_blocking(messages.reschedule(queue, ids, delay), connection)


class SyncHandle(Generic[P]):
    """A job's `send` and `send_many` for blocking code: ``send_email.sync.send(...)``."""

    def __init__(self, outbox: Outbox, definition: JobDefinition) -> None:
        self._outbox = outbox
        self._job = definition

    def send(self, payload: P, **options: Unpack[SendOptions]) -> Sent:
        """As `JobHandle.send`."""
        return self._outbox.send_blocking(self._job.queue, payload, self._job, **options)

    def send_many(self, payloads: Iterable[P], **options: Unpack[SendManyOptions]) -> list[Sent]:
        """As `JobHandle.send_many`."""
        return self._outbox.send_many_blocking(self._job.queue, payloads, self._job, **options)
