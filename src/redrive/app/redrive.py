"""Redrive: the app. Its jobs are declared here, and messages are sent from here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar, Unpack, cast, overload

from redrive.app.handle import JobHandle
from redrive.app.outbox import Outbox, SendManyOptions, SendOptions
from redrive.app.sync import SyncRedrive
from redrive.errors import ConfigError, InvalidArgument
from redrive.job import Job, JobDefinition, SyncJob
from redrive.payload import MAX_PAYLOAD
from redrive.policy import Backoff, QueuePolicy, check_count
from redrive.store import messages
from redrive.store.messages import Sent

P = TypeVar("P")
A = ParamSpec("A")
R = TypeVar("R")


class Policy(TypedDict, total=False):
    """What `Redrive.job` takes of a queue's policy, in seconds and numbers; see `QueuePolicy`.

    ``timeout=None`` is no timeout, ``key_field=None`` no key in the payload, ``concurrency=None`` no cap.
    """

    max_attempts: int
    visibility_timeout: float
    timeout: float | None
    backoff: Backoff
    concurrency: int | None
    single_flight: bool
    key_field: str | None
    key_retention: float
    archive: bool
    notify: bool


class Redrive:
    """An app: which handler works which queue, and a way to send.

    `database_url` None: REDRIVE_DATABASE_URL, else DATABASE_URL, else ./.redrive if `redrive dev` made it,
    looked up when first needed. `decimals`: fractions in payloads are read as `Decimal`. `max_payload`: bytes
    of JSON a message may have.

        app = Redrive()

        @app.job("email_jobs", max_attempts=5, timeout=300)
        async def send_email(email: Email, job: Job) -> None: ...

        await send_email.send(Email(template="welcome", user_id=user.id), key=f"email:welcome:{user.id}")
    """

    def __init__(
        self, database_url: str | None = None, *, decimals: bool = False, max_payload: int = MAX_PAYLOAD
    ) -> None:
        check_count(max_payload, "max_payload")
        self.database_url = database_url
        self._outbox = Outbox(lambda: self.database_url, max_payload)
        self._decimals = decimals
        self._jobs: dict[str, JobDefinition] = {}
        self.sync = SyncRedrive(self._outbox)

    @property
    def jobs(self) -> Mapping[str, JobDefinition]:
        """The declared jobs by queue."""
        return MappingProxyType(self._jobs)

    def job(self, queue: str, **policy: Unpack[Policy]) -> Register:
        """Declare the handler of `queue`: ``@app.job("email_jobs", max_attempts=5)``.

        What is given of the policy is declared, and a worker's start writes it to the database; what is left
        out keeps its default. Raises `ConfigError` when the queue has a job already, naming both functions,
        and for an unknown field or impossible value of the policy; `InvalidArgument` for the queue's name.
        """
        messages.check_sendable(queue)
        declared = _policy(queue, policy)

        def register(handler: Callable[..., Any]) -> JobHandle[Any, ..., Any]:
            definition = JobDefinition.of(queue, handler, declared, decimals=self._decimals)
            if first := self._jobs.get(queue):
                raise ConfigError(
                    f"queue {queue!r} has the job {first.name}; {definition.name} cannot be a second one; "
                    "use another queue, or one handler whose payload is a union"
                )
            self._jobs[queue] = definition
            return JobHandle(self._outbox, definition)

        return cast("Register", register)

    async def send(self, queue: str, payload: object, **options: Unpack[SendOptions]) -> Sent:
        """Send one message of plain JSON to `queue`.

        key         its idempotency key
        delay       seconds from now, or an aware datetime; 0
        headers     a dict of JSON that travels beside the payload
        unique      when the key is queued, running or done, that message is the answer and nothing is sent
        connection  join the open transaction of a psycopg, asyncpg, SQLAlchemy or Django connection; without
                    it the message is committed on return

        Raises `PayloadError` and `InvalidArgument` before anything is sent, `QueueMissing`, `Unavailable`.
        """
        connection = options.pop("connection", None)
        return await self._outbox.run(self._outbox.one(queue, payload, **options), connection)

    async def send_many(
        self, queue: str, payloads: Iterable[object], **options: Unpack[SendManyOptions]
    ) -> list[Sent]:
        """Send many messages, all or none; what became of each, in order.

        Options as of `send`, but `keys` in place of `key`, with one entry a message, None for none. A
        `PayloadError` names the message by its `index`.
        """
        connection = options.pop("connection", None)
        return await self._outbox.run_all(self._outbox.many(queue, payloads, **options), connection)

    async def cancel(
        self,
        queue: str,
        ids: Iterable[int] | None = None,
        *,
        key: str | None = None,
        connection: object = None,
    ) -> list[int]:
        """Archive messages that are not running as cancelled, free their keys; the ids of those it found."""
        return await self._outbox.run(messages.cancel(queue, ids, key=key), connection)

    async def reschedule(
        self, queue: str, ids: Iterable[int], delay: float, *, connection: object = None
    ) -> list[int]:
        """Make messages that are not running due in `delay` seconds; the ids of those it found."""
        return await self._outbox.run(messages.reschedule(queue, ids, delay), connection)

    async def close(self) -> None:
        """Close the connections of this event loop and of `sync`; closing twice is fine."""
        await self._outbox.close()


class Register(Protocol):
    """Turns a handler into a `JobHandle` that knows the payload's type."""

    @overload
    def __call__(self, handler: Callable[[], R], /) -> JobHandle[None, [], R]: ...
    @overload
    def __call__(self, handler: Callable[[Job], R], /) -> JobHandle[None, [Job], R]: ...
    @overload
    def __call__(self, handler: Callable[[SyncJob], R], /) -> JobHandle[None, [SyncJob], R]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[P, A], R], /) -> JobHandle[P, Concatenate[P, A], R]: ...


def _policy(queue: str, given: Policy) -> QueuePolicy:
    values: dict[str, Any] = {**given}
    if unknown := sorted(values.keys() - Policy.__annotations__.keys()):
        known = ", ".join(sorted(Policy.__annotations__))
        raise ConfigError(f"job of queue {queue!r}: there is no policy {unknown[0]!r}; there are: {known}")
    # QueuePolicy's None is "not declared".
    if values.get("timeout", 0) is None:
        values["timeout"] = math.inf
    if values.get("key_field", "") is None:
        values["key_field"] = ""
    try:
        return QueuePolicy(**values)
    except InvalidArgument as error:
        raise ConfigError(f"job of queue {queue!r}: {error}") from error
