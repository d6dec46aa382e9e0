"""Job and SyncJob: one delivery as its handler sees it. It acts through a port that the worker lends."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import AsyncGenerator, Generator, MutableMapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast

from psycopg import AsyncConnection, Connection
from psycopg.rows import TupleRow

from redrive.errors import Lost
from redrive.store.messages import check_delay
from redrive.store.statement import Statement

_HIDDEN_HEADER = "x-redrive-"
_EVENT_HEADER = "x-redrive-event"

T = TypeVar("T")


class Settling(Protocol):
    """What a delivery in an `async def` handler asks of its worker.

    `transaction` and `complete` end the delivery as done, or raise `Lost` and change nothing. `ask` runs a
    statement on the worker's own database, beside all transactions. `blocking` is the same delivery for a
    function in a thread, and the one that counts from then on.
    """

    async def extend(self, seconds: float) -> None: ...
    def transaction(self) -> AbstractAsyncContextManager[AsyncConnection[TupleRow]]: ...
    async def complete(self, connection: object) -> None: ...
    async def ask(self, statement: Statement[T]) -> T: ...
    def blocking(self) -> SyncJob: ...


class BlockingSettling(Protocol):
    """The same for a delivery in a `def` handler; called on the handler's thread."""

    def extend(self, seconds: float) -> None: ...
    def transaction(self) -> AbstractContextManager[Connection[TupleRow]]: ...
    def complete(self, connection: object) -> None: ...


class Cancelled:
    """True as soon as the handler should stop: timeout, loss of the message, or drain.

    An `async def` handler is also cancelled; a `def` handler has to look: ``if job.cancelled: ...``, or wait
    with ``job.cancelled.wait(seconds)`` where it would sleep.
    """

    __slots__ = ("_event", "_set")
    _making = threading.Lock()

    def __init__(self) -> None:
        self._set = False
        self._event: threading.Event | None = None

    def __bool__(self) -> bool:
        return self._set

    def __repr__(self) -> str:
        return f"Cancelled({self._set})"

    def set(self) -> None:
        """Called by the worker, from any thread."""
        with self._making:
            self._set = True
            if self._event is not None:
                self._event.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until cancelled, at most `timeout` seconds; whether it is."""
        # Made by the first who waits: most jobs never do, and an event costs as much as the rest of a Job.
        with self._making:
            if self._set:
                return True
            if self._event is None:
                self._event = threading.Event()
        return self._event.wait(timeout)


class _Delivered:
    """What is known of one delivery.

    `attempt` counts from 1 to `max_attempts`. `completed`: this handler has settled its message itself.
    `committed`: certainly so (`transaction`); after `complete` alone the caller's own transaction decides.
    """

    def __init__(
        self,
        *,
        queue: str,
        msg_id: int,
        read_ct: int,
        attempt: int,
        max_attempts: int,
        key: str | None,
        headers: str | None,
        enqueued_at: datetime,
    ) -> None:
        """`headers` is their JSON text."""
        self.queue = queue
        self.msg_id = msg_id
        self.read_ct = read_ct
        self.attempt = attempt
        self.max_attempts = max_attempts
        self.key = key
        self.enqueued_at = enqueued_at
        self.cancelled = Cancelled()
        self.completed = False
        self.committed = False
        self._headers = headers

    def __repr__(self) -> str:
        tried = f"attempt {self.attempt} of {self.max_attempts}"
        return f"<{type(self).__name__} {self.queue} {self.msg_id}, {tried}>"

    @property
    def headers(self) -> dict[str, Any]:
        """The headers the sender gave; redrive's own are left out, and what is no object counts as none."""
        return {n: value for n, value in self._stored().items() if not n.startswith(_HIDDEN_HEADER)}

    @property
    def event(self) -> str | None:
        """The id of the webhook event this message carries (`Event.id`); None for any other message."""
        if self._headers is None or _EVENT_HEADER not in self._headers:
            return None
        found = self._stored().get(_EVENT_HEADER)
        return found if isinstance(found, str) else None

    def _stored(self) -> dict[str, Any]:
        stored: object = json.loads(self._headers) if self._headers else None
        # pgmq.send takes any JSON for headers.
        return cast("dict[str, Any]", stored) if isinstance(stored, dict) else {}

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        """Logger ``redrive.job.<queue>``, with queue, msg_id, attempt and, as webhook, `event`."""
        facts: dict[str, Any] = {"queue": self.queue, "msg_id": self.msg_id, "attempt": self.attempt}
        if (event := self.event) is not None:
            facts["webhook"] = event
        return _FactLogger(logging.getLogger(f"redrive.job.{self.queue}"), facts)

    def _check_open(self) -> None:
        if self.completed:
            raise Lost(
                f"message {self.msg_id} of queue {self.queue} was completed by this handler before; "
                "a delivery takes one transaction() or complete()"
            )


class Job(_Delivered):
    """The delivery an `async def` handler works on."""

    def __init__(self, settling: Settling, **facts: Any) -> None:
        super().__init__(**facts)
        self._settling = settling

    async def extend(self, seconds: float) -> None:
        """Keep the message for `seconds` from now; the heartbeat never shortens this. Raises `Lost`."""
        await self._settling.extend(check_delay(seconds, "extend(seconds)"))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection[TupleRow]]:
        """A psycopg connection in a transaction that commits your writes and this job's completion together.

        An exception rolls back both. Raises `Lost` at the end, everything rolled back, when the message is no
        longer this delivery's, and `InvalidArgument` when the block has itself ended the transaction by SQL.
        Afterwards the delivery is over: a later exception, or an outcome returned, is only logged.
        """
        self._check_open()
        reached = False
        async with self._settling.transaction() as connection:
            yield connection
            reached = True
        self.completed = self.committed = reached

    async def complete(self, connection: object) -> None:
        """Complete this job inside your own open transaction on `connection`, best as its last statement.

        `connection` may be any that `send` takes. Raises `InvalidArgument` unless it is in a transaction,
        read committed and in the worker's own database, `Lost` when the message is no longer ours.
        """
        self._check_open()
        await self._settling.complete(connection)
        self.completed = True


class SyncJob(_Delivered):
    """The delivery a `def` handler works on: `Job` without await."""

    def __init__(self, settling: BlockingSettling, **facts: Any) -> None:
        super().__init__(**facts)
        self._settling = settling

    def extend(self, seconds: float) -> None:
        """As `Job.extend`."""
        self._settling.extend(check_delay(seconds, "extend(seconds)"))

    @contextmanager
    def transaction(self) -> Generator[Connection[TupleRow]]:
        """As `Job.transaction`, with a blocking psycopg connection."""
        self._check_open()
        reached = False
        with self._settling.transaction() as connection:
            yield connection
            reached = True
        self.completed = self.committed = reached

    def complete(self, connection: object) -> None:
        """As `Job.complete`, with a blocking connection."""
        self._check_open()
        self._settling.complete(connection)
        self.completed = True


# For redrive's own parts: not for handlers, so no names of a Job.


async def ask(job: Job, statement: Statement[T]) -> T:
    """Run one statement on the worker's own database, beside all transactions of jobs."""
    return await job._settling.ask(statement)  # pyright: ignore[reportPrivateUsage]


def blocking(job: Job) -> SyncJob:
    """The same delivery for a function in a thread, and the one that counts from now on."""
    return job._settling.blocking()  # pyright: ignore[reportPrivateUsage]


class _FactLogger(logging.LoggerAdapter[logging.Logger]):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        # The stock adapter throws away the caller's own `extra`.
        kwargs["extra"] = {**(kwargs.get("extra") or {}), **(self.extra or {})}
        return msg, kwargs
