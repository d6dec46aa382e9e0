"""Redrive: the app. Its jobs are declared here, and messages are sent from here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from redrive.app.handle import JobHandle
from redrive.app.inboxes import Inboxes
from redrive.app.intents import Rpc, Rpcs, check_name
from redrive.app.outbox import Outbox, SendManyOptions, SendOptions
from redrive.app.policies import Policy, policy_of
from redrive.app.schedules import QUEUE, Schedules
from redrive.app.sync import SyncRedrive
from redrive.errors import ConfigError
from redrive.inbox.inbox import LIMIT, Inbox
from redrive.inbox.reconcile import sweeping
from redrive.job import Job, JobDefinition, SyncJob, place_of
from redrive.payload import MAX_PAYLOAD
from redrive.policy import check_count
from redrive.store import messages
from redrive.store.database import Database
from redrive.store.messages import Sent

if TYPE_CHECKING:
    from datetime import timedelta

    from redrive.inbox.secrets import Given
    from redrive.inbox.source import Api
    from redrive.watch.schedule import Schedule

P = TypeVar("P")
A = ParamSpec("A")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])


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
        self._inboxes = Inboxes(decimals=decimals)
        self._schedules = Schedules(decimals=decimals, max_payload=max_payload)
        self._rpcs = Rpcs(max_payload=max_payload)
        self.sync = SyncRedrive(self._outbox)

    @property
    def jobs(self) -> Mapping[str, JobDefinition]:
        """The declared jobs by queue, those of the inboxes and of functions on schedules among them.

        Raises `ConfigError` for a handler of events whose source is no inbox.
        """
        return MappingProxyType({**self._jobs, **self._inboxes.jobs, **self._schedules.jobs})

    @property
    def inboxes(self) -> Mapping[str, Inbox]:
        """The declared inboxes by source. Raises `ConfigError` as `jobs`."""
        return self._inboxes.checked

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The declared schedules by name."""
        return self._schedules.declared

    @property
    def rpcs(self) -> Mapping[str, Rpc]:
        """The declared functions for PostgREST's clients by name."""
        return self._rpcs.declared

    @property
    def database(self) -> Database:
        """For redrive's own parts: where this app's calls go. Raises `ConfigError` when none is named."""
        return self._outbox.database

    def job(self, queue: str, **policy: Unpack[Policy]) -> Register:
        """Declare the handler of `queue`: ``@app.job("email_jobs", max_attempts=5)``.

        What is given of the policy is declared, and a worker's start writes it to the database; what is left
        out keeps its default. Raises `ConfigError` when the queue has a job already, naming both functions,
        and for an unknown field or impossible value of the policy; `InvalidArgument` for the queue's name.
        """
        messages.check_sendable(queue)
        declared = policy_of(f"job of queue {queue!r}", policy)

        def register(handler: Callable[..., Any]) -> JobHandle[Any, ..., Any]:
            definition = JobDefinition.of(queue, handler, declared, decimals=self._decimals)
            if sources := self._inboxes.of_queue(queue):
                raise ConfigError(
                    f"queue {queue!r} takes the webhooks of inbox {', '.join(sources)}; {definition.name} "
                    "cannot be its job: use another queue, or handle the events with @app.on(...)"
                )
            if ticks := self._schedules.of_queue(queue):
                raise ConfigError(
                    f"queue {queue!r} takes the ticks of schedule {', '.join(ticks)}; {definition.name} "
                    "cannot be its job: use another queue"
                )
            if first := self._jobs.get(queue):
                raise ConfigError(
                    f"queue {queue!r} has the job {first.name}; {definition.name} cannot be a second one; "
                    "use another queue, or one handler whose payload is a union"
                )
            self._jobs[queue] = definition
            return JobHandle(self._outbox, definition)

        return cast("Register", register)

    def inbox(
        self,
        source: str,
        *,
        provider: str,
        queue: str,
        secret: Given = None,
        limit: int = LIMIT,
        tolerance: float | None = None,
        config: Mapping[str, Any] | None = None,
        url: str | None = None,
        api: Api | None = None,
        reconcile: str | float | timedelta | None = None,
        **policy: Unpack[Policy],
    ) -> None:
        """Receive the webhooks of `source`, at ``POST /webhooks/{source}`` of `redrive.web.asgi(app)`.

        provider   who sends them, and so how they are signed and what they mean: stripe, github, generic, ...
        queue      where their jobs go; several inboxes may share one, but not with a job
        secret     text, a `Secret` with an end, a function that answers either, or several of them, newest
                   first; None: the variable <SOURCE>_WEBHOOK_SECRET
        limit      bytes a body may have, also unpacked; 25 MB, at most 256,000,000
        tolerance  seconds a signature may be old, or ahead; None: what the provider's scheme says
        config     how a generic provider signs
        url        where the sender posts to, for twilio alone, which signs that; None: as seen here
        api        where the truth is: events that no handler takes are fetched from there again
        reconcile  when the last 24 hours are compared with the API: as of `schedule`, whose queue it is in

        The queue's policy as of `job`. Secrets are looked up when the receiver starts. Raises `ConfigError`.
        """
        declared = Inbox.of(
            source,
            provider=provider,
            queue=queue,
            secret=secret,
            limit=limit,
            tolerance=tolerance,
            config=config,
            url=url,
            api=api,
        )
        if job := self._jobs.get(queue):
            raise ConfigError(
                f"queue {queue!r} has the job {job.name}; inbox {source!r} cannot send into it: use another"
            )
        if ticks := self._schedules.of_queue(queue):
            raise ConfigError(
                f"queue {queue!r} takes the ticks of schedule {', '.join(ticks)}; inbox {source!r} cannot "
                "send into it: use another"
            )
        self._inboxes.add(declared, policy_of(f"inbox {source!r}", policy))
        if reconcile is not None:
            self._check_free(QUEUE, f"reconcile of inbox {source!r}")
            sweep = sweeping(declared, lambda: self.database)
            self._schedules.add_own(f"reconcile-{source}", reconcile, sweep)

    def on(self, source: str, pattern: str) -> Callable[[F], F]:
        """Handle events of `source` whose type fits `pattern`: ``@app.on("fastpix", "video.media.*")``.

        ``*`` stands for any text; the pattern is held against ``type.action``, where the provider has
        actions, and against the type alone. The most specific handler gets the event: one without ``*``
        first, then the one with more characters; an event without any ends as ignored. The handler takes
        (event) or (event, job), as `async def` or `def`, and ends as a job's does. Raises `ConfigError` for a
        pattern that is taken, naming both functions.
        """

        def register(function: F) -> F:
            self._inboxes.on(source, pattern, function)
            return function

        return register

    def schedule(
        self,
        when: str | float | timedelta,
        *,
        tz: str = "UTC",
        missed: str = "one",
        overlap: str = "allow",
        name: str | None = None,
        queue: str | None = None,
        payload: object = None,
        **policy: Unpack[Policy],
    ) -> Callable[[F], F]:
        """Run a function, or send to a job, at times: ``@app.schedule("0 3 * * *", tz="Europe/Berlin")``.

        when     a cron text of five fields, or a number of seconds, at least 1
        tz       the time zone that the cron text speaks of
        missed   what becomes of ticks that nobody fired in time: skip, one (all of them are one job), all
        overlap  when the message of the tick before is still in its queue: allow, skip the tick, or queue it
        name     None: the function's name; it is the schedule's in the database
        queue    where a function's messages go; several may share one, but not with a job; "schedules"
        payload  what a job is sent

        A function takes (tick), (tick, job), (job) or nothing, as `async def` or `def`, and ends as a job's
        does; the policy is that of its queue. Above an ``@app.job(...)`` the job is sent `payload`. Workers
        fire the schedules of their app, each tick once. Raises `ConfigError`.
        """
        if callable(when):
            raise ConfigError(f'{place_of(when)}: say when: @app.schedule("0 3 * * *"), or @app.schedule(60)')
        declared = policy_of(f"schedule {name!r}" if name else "schedule", policy)

        def register(target: F) -> F:
            if not isinstance(cast("object", target), JobHandle):
                self._check_free(QUEUE if queue is None else queue, place_of(target))
            self._schedules.add(
                target,
                when,
                name=name,
                queue=queue,
                payload=payload,
                policy=declared,
                tz=tz,
                missed=missed,
                overlap=overlap,
            )
            return target

        return register

    def rpc(
        self,
        name: str,
        *,
        role: str = "authenticated",
        key: str | None = None,
        requester: str | None = "user_id",
    ) -> Callable[[F], F]:
        """Let PostgREST's clients send to a job by a function: ``@app.rpc("enqueue_email")``.

        Put it above the ``@app.job(...)`` of a handler whose payload is a pydantic model. `redrive supabase
        init` writes the function: ``public.enqueue_email(p_template text, ...) returns bigint``, a parameter
        a field, checked in SQL as pydantic would; it answers the message's id.

        role       who alone may execute it
        key        the message's key, as "email:{template}:{user_id}:{date}": a word first, then fields, of
                   which one is the requester, and the day in UTC; a call whose key is queued, running or
                   done sends nothing and answers that message's id
        requester  the field that is the caller's id, from the token, and so no parameter; None only for
                   service_role, which has no user

        A job may have several, of different names. Raises `ConfigError`.
        """

        check_name(name)

        def register(target: F) -> F:
            self._rpcs.add(target, name, role=role, key=key, requester=requester, jobs=self._jobs)
            return target

        return register

    def _check_free(self, queue: str, place: str) -> None:
        if job := self._jobs.get(queue):
            raise ConfigError(
                f"queue {queue!r} has the job {job.name}; {place} cannot be on a schedule there: use another "
                "queue, or put the schedule above that job"
            )
        if sources := self._inboxes.of_queue(queue):
            raise ConfigError(
                f"queue {queue!r} takes the webhooks of inbox {', '.join(sources)}; {place} cannot be on a "
                "schedule there: use another queue"
            )

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
        return await self._outbox.send(queue, payload, **options)

    async def send_many(
        self, queue: str, payloads: Iterable[object], **options: Unpack[SendManyOptions]
    ) -> list[Sent]:
        """Send many messages, all or none; what became of each, in order.

        Options as of `send`, but `keys` in place of `key`, with one entry a message, None for none. A
        `PayloadError` names the message by its `index`.
        """
        return await self._outbox.send_many(queue, payloads, **options)

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
        """Close the connections of this event loop, also to APIs, and of `sync`; closing twice is fine."""
        await self._inboxes.close()
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
