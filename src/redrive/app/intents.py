"""Rpcs: what an app lets PostgREST's clients enqueue, each as a function with parameters of its own.

What is declared here is checked as far as the payload's fields are known by name. What becomes of them in
SQL, and what SQL cannot check, is found out where the functions are generated (`redrive.supabase.intents`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter
from types import MappingProxyType, UnionType
from typing import Any, Union, cast, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel, RootModel

from redrive.app.handle import JobHandle
from redrive.errors import ConfigError
from redrive.job import JobDefinition, place_of

# The one word of a key's template that is no field: the day in UTC.
DATE = "date"
# What `redrive supabase init --api-schema` makes for service_role, beside which no rpc may stand.
WRAPPERS = frozenset(
    {
        "abandon_job", "acquire_lease", "backoff", "begin_job", "check_queue_health", "claim_job",
        "claim_worker_lease", "extend", "finish_job", "lease_is_mine", "queue_archive", "read_with_dlq",
        "receive_event", "release", "release_lease", "renew_lease", "settle",
    }
)  # fmt: skip

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_ROLE = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_NO_ROLES = ("public", "none", "current_user", "current_role", "session_user")
_SERVICE = "service_role"
# Under msg:ID the Edge worker keeps the work of a message without a key.
_WORKERS = "msg:"


@dataclass(frozen=True, slots=True, eq=False)
class Rpc:
    """One function for PostgREST's clients, which sends a message to the queue of `job`.

    name       the function's name
    role       who alone may execute it
    key        the template of the message's key; None: it has none
    requester  the payload's field that is the caller; None: there is no user, every field is a parameter
    """

    name: str
    role: str
    key: str | None
    requester: str | None
    job: JobDefinition
    max_payload: int

    @property
    def model(self) -> type[BaseModel]:
        """The payload's type."""
        return self.job.payload_type

    def __str__(self) -> str:
        return f"rpc {self.name!r} of {self.job.name}"

    @property
    def key_parts(self) -> list[tuple[str, str | None]]:
        """The template as (text, field or date after it); the last may have none."""
        return [(text, name) for text, name, _, _ in Formatter().parse(self.key or "")]

    @property
    def beginning(self) -> str:
        """What every key begins with: the template up to its first field."""
        return self.key_parts[0][0] if self.key else ""


class Rpcs:
    """What an app declared. `max_payload` as of `Redrive`."""

    def __init__(self, *, max_payload: int) -> None:
        self._max_payload = max_payload
        self._rpcs: dict[str, Rpc] = {}

    @property
    def declared(self) -> Mapping[str, Rpc]:
        """By name."""
        return MappingProxyType(self._rpcs)

    def add(
        self,
        target: Any,
        name: str,
        *,
        role: str,
        key: str | None,
        requester: str | None,
        jobs: Mapping[str, JobDefinition],
    ) -> Rpc:
        """Declare one above a job of `jobs`, of a name that `check_name` took. Raises `ConfigError`."""
        if not isinstance(target, JobHandle):
            raise ConfigError(
                f"rpc {name!r}: {place_of(target)} is no job; put @app.rpc above its @app.job(...)"
            )
        job = cast("JobHandle[Any, ..., Any]", target).definition
        if jobs.get(job.queue) is not job:
            raise ConfigError(
                f"rpc {name!r}: {job.name} is a job of another app; declare the rpc on that one"
            )
        made = Rpc(name, role, key, requester, job, self._max_payload)
        if first := self._rpcs.get(name):
            raise ConfigError(
                f"rpc {name!r} sends to {first.job.name}; {job.name} cannot have a second one of that name: "
                "give one of them another"
            )
        _check_model(made)
        _check_role(made)
        _check_key(made)
        for other in self._rpcs.values():
            _check_apart(made, other)
        self._rpcs[name] = made
        return made


def check_name(name: object) -> None:
    """Raises `ConfigError` for what is no name of such a function."""
    if not isinstance(name, str):
        raise ConfigError(
            f'rpc {name!r:.60}: say the function\'s name: @app.rpc("enqueue_email") above @app.job(...)'
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"rpc {name!r}: a name begins with a lower-case letter and goes on with such letters, digits and "
            "_, 63 in all"
        )
    if name in WRAPPERS:
        raise ConfigError(
            f"rpc {name!r}: that is the name of a function that redrive makes for workers; choose another"
        )


def _check_model(rpc: Rpc) -> None:
    model: Any = rpc.job.payload_type
    if not isinstance(model, type) or not issubclass(model, BaseModel) or issubclass(model, RootModel):
        raise ConfigError(
            f"{rpc}: its payload is no pydantic model; annotate the handler's first parameter with a "
            "BaseModel, whose fields become the function's parameters"
        )


def _check_role(rpc: Rpc) -> None:
    if not _ROLE.fullmatch(rpc.role) or rpc.role.startswith("pg_") or rpc.role in _NO_ROLES:
        raise ConfigError(f"{rpc}: {rpc.role!r} is no role that can be granted; name one, as authenticated")
    if rpc.role == "anon":
        raise ConfigError(
            f"{rpc}: anon has no user to be stamped; grant it to authenticated, which users that signed in "
            "anonymously are as well"
        )
    if rpc.role == _SERVICE and rpc.requester is not None:
        raise ConfigError(
            f"{rpc}: {_SERVICE} has no user that could be {rpc.requester}; say requester=None, and every "
            "field is a parameter"
        )
    if rpc.role == _SERVICE:
        return
    if rpc.requester is None:
        raise ConfigError(
            f"{rpc}: only {_SERVICE} calls without a user; name the field of {rpc.model.__name__} that is "
            "the caller, as requester='user_id'"
        )
    found = rpc.model.model_fields.get(rpc.requester)
    if found is None:
        raise ConfigError(
            f"{rpc}: {rpc.model.__name__} has no field {rpc.requester!r} for the caller; add it as UUID, or "
            f"name another: there are {', '.join(rpc.model.model_fields) or 'none'}"
        )
    if not _is_user(found.annotation):
        raise ConfigError(f"{rpc}: its field {rpc.requester} takes the caller's id; make it a UUID or str")


def _is_user(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return {*get_args(annotation)} - {type(None)} in ({UUID}, {str})
    return annotation in (UUID, str)


def _check_key(rpc: Rpc) -> None:
    if rpc.key is None:
        return
    there_are = ", ".join(f"{{{name}}}" for name in [*rpc.model.model_fields, DATE])
    try:
        parts = list(Formatter().parse(rpc.key))
    except ValueError as error:
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} is no template: {error}; there are {there_are}"
        ) from None
    if not rpc.key:
        raise ConfigError(f"{rpc}: its key is empty; leave key out, or begin it with a word")
    for _, name, spec, conversion in parts:
        if name is None:
            continue
        if spec or conversion:
            raise ConfigError(f"{rpc}: its key {rpc.key!r} formats {name}; write {{{name}}} alone")
        if name not in rpc.model.model_fields and name != DATE:
            raise ConfigError(f"{rpc}: its key {rpc.key!r} names {{{name}}}; there are {there_are}")
        if name == DATE and DATE in rpc.model.model_fields:
            raise ConfigError(
                f"{rpc}: {{{DATE}}} of its key would be the day in UTC and a field as well; rename the field"
            )
    if _overlap(rpc.beginning, _WORKERS):
        begins = f"begins with {rpc.beginning!r}" if rpc.beginning else "begins with a field"
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} {begins}, and keys of {_WORKERS} are redrive's own; begin it with "
            "a word and a colon, such as email:"
        )
    if rpc.requester is not None and all(name != rpc.requester for _, name in rpc.key_parts):
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} lacks {{{rpc.requester}}}: a user could take the key of another's "
            "message, which then is never sent; write it into the key"
        )


def _check_apart(rpc: Rpc, other: Rpc) -> None:
    """Of one queue, where a key is one message's, whoever sent it."""
    if not rpc.key or not other.key or rpc.job.queue != other.job.queue:
        return
    alike = rpc.key == other.key and (
        rpc.requester == other.requester or None in (rpc.requester, other.requester)
    )
    if not alike and _overlap(rpc.beginning, other.beginning):
        raise ConfigError(
            f"{rpc}: its key {rpc.key!r} could be one that rpc {other.name!r} makes of {other.key!r}, for "
            "the same queue; begin the two with words of their own, or give both one template and requester"
        )


def _overlap(first: str, second: str) -> bool:
    return first.startswith(second) or second.startswith(first)
