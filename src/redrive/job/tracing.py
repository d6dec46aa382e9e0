"""Tracing: OpenTelemetry's spans round send, claim, handler and settle, where the app has set it up.

    send <queue>      PRODUCER   its context travels in the message's headers (W3C traceparent, tracestate)
    receive <queue>   CLIENT     a claim that brought messages
    process <queue>   CONSUMER   a handler; the root of a trace of its own, with a link to the sender's span
    settle <queue>    CLIENT     a batch of reports with a failure in it

Guarantees  where no tracer provider is set, nothing is done, and OpenTelemetry is not even imported;
            no payload, key or error text is in a span: an error is its class;
            whatever stands in a foreign message's headers, its job runs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Iterable, Mapping, MutableMapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer

_CARRIED = ("traceparent", "tracestate")
_TOO_LARGE = 2**63
_API = "opentelemetry.trace"


def tracer() -> Tracer | None:
    """Where spans begin; None where nobody collects them."""
    # An app that sets a provider has imported the API; nobody else pays for it.
    api = cast("Any", sys.modules.get(_API))
    if api is None:
        return None
    provider = api.get_tracer_provider()
    if isinstance(provider, (api.ProxyTracerProvider, api.NoOpTracerProvider)):
        return None
    return provider.get_tracer("redrive")


def now() -> int:
    """The moment a span may begin with."""
    return time.time_ns()


class Sending:
    """What the send under way is told of; without a tracer it does nothing."""

    __slots__ = ("_span",)

    def __init__(self, span: Span | None = None) -> None:
        self._span = span

    def sent(self, ids: Iterable[int]) -> None:
        """These messages were sent, or were there already."""
        if self._span is None:
            return
        found = list(ids)
        if len(found) == 1:
            self._span.set_attribute("messaging.message.id", str(found[0]))
        else:
            self._span.set_attribute("messaging.batch.message_count", len(found))


_UNTRACED = Sending()


@contextmanager
def sending(queue: str, options: MutableMapping[str, Any]) -> Generator[Sending]:
    """A span round a send; its context joins `options["headers"]`, unless they have a traceparent."""
    here = tracer()
    if here is None:
        yield _UNTRACED
        return
    from opentelemetry.trace import SpanKind

    attributes = _attributes(queue, "send")
    # The error is told by its class: its text may be of a payload.
    with here.start_as_current_span(
        f"send {queue}",
        kind=SpanKind.PRODUCER,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        _inject(options)
        try:
            yield Sending(span)
        except BaseException as error:
            _failed(span, type(error).__qualname__)
            raise


class Processing:
    """A handler's span: begun and left on its own task or thread, ended wherever its end is known."""

    __slots__ = ("_span", "_token")

    def __init__(self, here: Tracer, queue: str, msg_id: int, attempt: int, headers: str | None) -> None:
        """`headers` is their JSON text."""
        from opentelemetry import context
        from opentelemetry.trace import SpanKind, set_span_in_context

        stored = _stored(headers)
        generation = stored.get("x-redrive-generation")
        attributes = _attributes(queue, "process") | {
            "messaging.message.id": str(msg_id),
            "redrive.attempt": attempt,
            "redrive.generation": generation if type(generation) is int else 0,
        }
        self._span = here.start_span(
            f"process {queue}",
            context=context.Context(),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            links=_links(stored),
        )
        self._token = context.attach(set_span_in_context(self._span))

    def leave(self) -> None:
        """The handler has returned; called where it was begun."""
        from opentelemetry import context

        context.detach(self._token)

    def end(self, outcome: str, error_type: str | None) -> None:
        """What it ended in."""
        self._span.set_attribute("redrive.outcome", outcome)
        if error_type is not None:
            _failed(self._span, error_type)
        self._span.end()


def received(here: Tracer, queue: str, count: int, began: int) -> None:
    """A claim that began at `began` brought `count` messages."""
    _past(here, f"receive {queue}", _attributes(queue, "receive") | _counted(count), began)


def settled(here: Tracer, queue: str, count: int, began: int) -> None:
    """A batch of `count` reports, with a failure in it, was settled."""
    _past(here, f"settle {queue}", _attributes(queue, "settle") | _counted(count), began)


def _past(here: Tracer, name: str, attributes: Mapping[str, Any], began: int) -> None:
    from opentelemetry import context
    from opentelemetry.trace import SpanKind

    here.start_span(
        name, context=context.Context(), kind=SpanKind.CLIENT, attributes=attributes, start_time=began
    ).end()


def _attributes(queue: str, operation: str) -> dict[str, Any]:
    return {
        "messaging.system": "pgmq",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": queue,
    }


def _counted(count: int) -> dict[str, int]:
    # By the conventions a single message is no batch.
    return {"messaging.batch.message_count": count} if count > 1 else {}


def _failed(span: Span, error_type: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("error.type", error_type)
    span.set_status(Status(StatusCode.ERROR, error_type))


def _inject(options: MutableMapping[str, Any]) -> None:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    given = options.get("headers")
    if given is not None and not isinstance(given, Mapping):
        return  # refused, in its turn
    headers = cast("Mapping[Any, Any]", given or {})
    if any(isinstance(name, str) and name.lower() == "traceparent" for name in headers):
        return
    carrier: dict[str, str] = {}
    # Does nothing where the span's context is not valid.
    TraceContextTextMapPropagator().inject(carrier)
    if carrier:
        options["headers"] = {**headers, **carrier}


def _links(stored: Mapping[str, Any]) -> list[Link]:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    # Whatever case they are written in; as we write them before any other.
    for name in sorted(stored):
        if name.lower() in _CARRIED and isinstance(stored[name], str):
            carrier[name.lower()] = stored[name]
    if "traceparent" not in carrier:
        return []
    found: Context = TraceContextTextMapPropagator().extract(carrier, context.Context())
    sender: trace.SpanContext = trace.get_current_span(found).get_span_context()
    return [trace.Link(sender)] if sender.is_valid else []


def _stored(headers: str | None) -> dict[str, Any]:
    # pgmq.send takes any JSON for headers.
    try:
        stored: object = json.loads(headers, parse_int=_in_64_bits) if headers else None
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", stored) if isinstance(stored, dict) else {}


def _in_64_bits(digits: str) -> int | None:
    """What a span may be given: a number that is larger is none."""
    number = int(digits) if len(digits) <= 20 else _TOO_LARGE
    return number if -_TOO_LARGE <= number < _TOO_LARGE else None
