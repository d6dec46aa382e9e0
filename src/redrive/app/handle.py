"""JobHandle: what `@app.job` makes of a function, which it still is, and a typed way to send to its queue."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, Generic, ParamSpec, TypeVar, Unpack, cast

from redrive.app.outbox import Outbox, SendManyOptions, SendOptions
from redrive.app.sync import SyncHandle
from redrive.job import JobDefinition
from redrive.store.messages import Sent

P = TypeVar("P")
A = ParamSpec("A")
R = TypeVar("R")


class JobHandle(Generic[P, A, R]):
    """Call it to run the handler here and now, as a unit test does; `send` to have a worker run it.

    `send` and `send_many` are `Redrive.send` and `Redrive.send_many` for the job's queue and payload type: a
    payload that does not fit is refused with a `PayloadError` before it is sent. `sync` has the same for
    blocking code.
    """

    def __init__(self, outbox: Outbox, definition: JobDefinition) -> None:
        self._outbox = outbox
        self.definition = definition
        self.sync: SyncHandle[P] = SyncHandle(outbox, definition)
        functools.update_wrapper(cast("Any", self), definition.handler)

    def __repr__(self) -> str:
        return f"<job {self.definition.name} of queue {self.queue}>"

    def __call__(self, *args: A.args, **kwargs: A.kwargs) -> R:
        return self.definition.handler(*args, **kwargs)

    @property
    def queue(self) -> str:
        return self.definition.queue

    async def send(self, payload: P, **options: Unpack[SendOptions]) -> Sent:
        """Send one message to this job; see `Redrive.send`."""
        return await self._outbox.send(self.queue, payload, self.definition, **options)

    async def send_many(self, payloads: Iterable[P], **options: Unpack[SendManyOptions]) -> list[Sent]:
        """Send many messages to this job, all or none; see `Redrive.send_many`."""
        return await self._outbox.send_many(self.queue, payloads, self.definition, **options)
