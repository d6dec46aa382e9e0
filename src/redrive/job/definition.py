"""JobDefinition: a queue, its handler, and how payloads become the handler's argument."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from redrive import payload as payloads
from redrive.dumping import dumped
from redrive.errors import ConfigError, PayloadError, RedriveError
from redrive.job.given import Job, SyncJob
from redrive.policy import QueuePolicy

# JSON's own containers: read with exact numbers, written as strictly as a payload without a type.
_PLAIN_TYPES = (
    dict,
    list,
    dict[str, Any],
    dict[str, object],
    Mapping[str, Any],
    Mapping[str, object],
    list[Any],
)
_NO_TYPE = (inspect.Parameter.empty, Any, object)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_RULE = "a handler takes (payload), (payload, job), (job) or nothing"
_MOST_PROBLEMS = 20


class Malformed(RedriveError):
    """A payload that does not fit the handler's type."""


@dataclass(frozen=True, slots=True, eq=False)
class JobDefinition:
    """A queue and the handler of its messages."""

    queue: str
    handler: Callable[..., Any]
    policy: QueuePolicy
    is_async: bool
    wants_payload: bool
    wants_job: bool
    payload_type: Any = Any
    decimals: bool = False
    check: Callable[[], None] | None = None
    """What a worker asks before it works the queue; raises `ConfigError` for what the handler would lack."""
    _adapter: TypeAdapter[Any] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        queue: str,
        handler: Callable[..., Any],
        policy: QueuePolicy,
        *,
        decimals: bool = False,
        check: Callable[[], None] | None = None,
    ) -> JobDefinition:
        """Read the handler's signature. Raises `ConfigError` naming the function."""
        payload, job = parameters_of(handler)
        return cls(
            queue=queue,
            handler=handler,
            policy=policy,
            is_async=inspect.iscoroutinefunction(handler),
            wants_payload=payload is not None,
            wants_job=job is not None,
            payload_type=Any if payload is None else payload.annotation,
            decimals=decimals,
            check=check,
            _adapter=None if payload is None else _adapter(handler, payload.annotation),
        )

    @property
    def name(self) -> str:
        """The handler's module and name, and where it stands."""
        return place_of(self.handler)

    def arguments(self, payload: object, job: Job | SyncJob | None) -> tuple[object, ...]:
        """What to call the handler with."""
        return ((payload,) if self.wants_payload else ()) + ((job,) if self.wants_job else ())

    def decode(self, text: str) -> object:
        """The handler's argument from a message's JSON text. Raises `Malformed` with what does not fit."""
        try:
            return self._validated(text)
        except ValidationError as error:
            raise Malformed(_misfit(self.payload_type, error)) from error
        except PayloadError as error:
            raise Malformed(str(error)) from error

    def plain(self, value: object, index: int | None = None) -> object:
        """`value`, checked against the declared type, as plain JSON values. Raises `PayloadError`."""
        if self._adapter is None:
            return value
        try:
            valid = self._adapter.validate_python(value, by_alias=True, by_name=True)
        except ValidationError as error:
            raise payloads.refusal(error, index) from error
        return valid if self._is_plain else self._dumped(self._adapter, valid, index)

    def _dumped(self, adapter: TypeAdapter[Any], valid: object, index: int | None) -> object:
        """By aliases where these read back, as what others read; else by the fields' names."""
        refused: ValidationError | None = None
        lossy: list[object] = []
        for by_alias in (True, False):

            def write(value: object, by_alias: bool = by_alias) -> Any:
                # Computed fields are not the handler's to take.
                return adapter.dump_python(value, mode="json", by_alias=by_alias, round_trip=True)

            found = dumped(valid, partial(write, valid), index=index)
            try:
                again = self._validated(payloads.encode(found, limit=sys.maxsize, index=index))
            except ValidationError as error:
                refused = refused or error
                continue
            # An alias the type does not read may be ignored without a word, and the value with it.
            if write(again) == found:
                return found
            lossy.append(found)
        if lossy:
            return lossy[0]
        assert refused is not None
        path, problem = payloads.problems(refused)[0]
        raise PayloadError(
            path,
            f"does not fit its own type {_type_name(self.payload_type)} once written: {problem}",
            index=index,
        ) from refused

    @property
    def _is_plain(self) -> bool:
        return self.payload_type in _PLAIN_TYPES

    def _validated(self, text: str) -> object:
        if self._adapter is None:
            return payloads.decode(text, decimals=self.decimals)
        if not self.decimals and not self._is_plain:
            # In JSON mode a strict model takes what JSON has no type for, such as UUIDs.
            try:
                return self._adapter.validate_json(text, by_alias=True, by_name=True)
            except ValidationError as error:
                # Postgres' JSON is sound: pydantic's reader only refuses integers of thousands of digits.
                if error.errors(include_url=False)[0]["type"] != "json_invalid":
                    raise
        value = payloads.decode(text, decimals=self.decimals)
        return self._adapter.validate_python(value, by_alias=True, by_name=True)


def parameters_of(
    handler: Callable[..., Any], rule: str = _RULE
) -> tuple[inspect.Parameter | None, inspect.Parameter | None]:
    """The parameters for the payload and for the job. Raises `ConfigError` with the `rule`."""
    if not callable(handler) or inspect.isclass(handler):
        raise ConfigError(f"{handler!r:.80} is no function; a handler is a `def` or an `async def`")
    name = place_of(handler)
    if not _is_awaited(handler):
        raise ConfigError(f"{name} is an object whose call is async; wrap it in an `async def`")
    try:
        signature = inspect.signature(handler, eval_str=True)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{name} has no signature to be read ({error}); wrap it in a function") from error
    except NameError as error:
        raise ConfigError(
            f"{name}: the type {error.name!r} in its signature cannot be found; define it at module level"
        ) from error
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise ConfigError(f"{name} is a generator; a handler returns, it does not yield")
    # A keyword-only parameter with a default is the function's own affair.
    wanted = [p for p in signature.parameters.values() if p.kind in _POSITIONAL or p.default is p.empty]
    if any(p.kind not in _POSITIONAL for p in wanted) or len(wanted) > 2:
        raise ConfigError(f"{name}{signature}: {rule}")
    job = wanted[-1] if wanted and _is_job(wanted[-1]) else None
    rest = [p for p in wanted if p is not job]
    if len(rest) > 1 or any(_is_job(p) for p in rest):
        raise ConfigError(f"{name}{signature}: {rule}, in this order, the job annotated as Job")
    if job is not None and SyncJob in _alternatives(job) and inspect.iscoroutinefunction(handler):
        raise ConfigError(f"{name}: an `async def` handler is given a Job, not a SyncJob; annotate it so")
    return (rest[0] if rest else None), job


def _is_awaited(handler: Callable[..., Any]) -> bool:
    """False where nobody would await it: it would end as done without having run."""
    call = getattr(handler, "__call__", None)  # noqa: B004 - what it is, not whether
    return inspect.iscoroutinefunction(handler) or not inspect.iscoroutinefunction(call)


def _is_job(parameter: inspect.Parameter) -> bool:
    if parameter.annotation is parameter.empty:
        return parameter.name == "job"
    return any(each in (Job, SyncJob) for each in _alternatives(parameter))


def _alternatives(parameter: inspect.Parameter) -> tuple[Any, ...]:
    return get_args(parameter.annotation) or (parameter.annotation,)


def _adapter(handler: Callable[..., Any], annotation: Any) -> TypeAdapter[Any] | None:
    if annotation in _NO_TYPE:
        return None
    try:
        return TypeAdapter(annotation)
    except PydanticUserError as error:
        shown = _type_name(annotation)
        raise ConfigError(
            f"{place_of(handler)}: pydantic cannot read the type {shown}: {error.message}"
        ) from error


def _misfit(payload_type: Any, error: ValidationError) -> str:
    found = [f"{path}: {problem}" for path, problem in payloads.problems(error)]
    if (more := len(found) - _MOST_PROBLEMS) > 0:
        found[_MOST_PROBLEMS:] = [f"and {more} more"]
    return "\n".join([f"the payload does not fit {_type_name(payload_type)}", *found])


def _type_name(annotation: Any) -> str:
    return cast("str", getattr(annotation, "__name__", None) or str(annotation))


def place_of(handler: Callable[..., Any]) -> str:
    """A function's module and name, and where it stands."""
    inner = inspect.unwrap(handler) if callable(handler) else handler
    module = getattr(inner, "__module__", type(inner).__module__)
    name = f"{module}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"
    code = getattr(inner, "__code__", None)
    return f"{name} (line {code.co_firstlineno})" if code else name
