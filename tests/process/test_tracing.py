"""OpenTelemetry's spans, as a collector of them sees them; and nothing of it where nobody collects."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from redrive import Backoff, Job, PayloadError, Redrive, Reject
from redrive.job import tracing
from tests.support.databases import Databases
from tests.support.working import fetch, make_queue, send, until, working

Db = psycopg.Connection[Any]

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Spans:
    """What was collected."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("redrive")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def only(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Generator[Spans]:
    found = Spans()
    monkeypatch.setattr(tracing, "tracer", lambda: found.tracer)
    yield found
    found.provider.shutdown()


def app_of(url: str) -> Redrive:
    app = Redrive(database_url=url)

    @app.job("mail", max_attempts=2, backoff=Backoff(base=0.01, factor=1, jitter=0))
    async def mail(payload: dict[str, Any], job: Job) -> None:
        with trace.get_tracer("app").start_as_current_span("inside"):
            pass
        if payload.get("fail"):
            raise ValueError(f"cannot send to {payload['fail']}")
        if payload.get("reject"):
            raise Reject("no")

    @app.job("blocking")
    def blocking(payload: Any) -> None:
        assert trace.get_current_span().get_span_context().is_valid

    return app


def headers(db: Db, message: int, table: str = "a_mail") -> dict[str, Any]:
    [(found,)] = fetch(db, f"select headers from pgmq.{table} where msg_id = %s", message)
    return found or {}


def link_of(span: ReadableSpan) -> tuple[int, int]:
    [link] = span.links
    return link.context.trace_id, link.context.span_id


def context_of(span: ReadableSpan) -> tuple[int, int]:
    assert span.context is not None
    return span.context.trace_id, span.context.span_id


async def test_a_job_is_linked_to_its_sender(db: Db, database_url: str, spans: Spans) -> None:
    app = app_of(database_url)
    async with working(app, database_url):
        one = await app.send("mail", {"to": "secret@example.com"}, headers={"tenant": "a"})
        await until(lambda: len(spans.named("process mail")) == 1)
        await until(lambda: fetch(db, "select 1 from pgmq.a_mail") != [])
    producer, consumer = spans.only("send mail"), spans.only("process mail")
    assert (producer.kind, consumer.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert link_of(consumer) == context_of(producer)
    assert consumer.parent is None
    assert context_of(consumer)[0] != context_of(producer)[0]
    assert dict(producer.attributes or {}) == {
        "messaging.system": "pgmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(one.id),
    }
    assert dict(consumer.attributes or {}) == {
        "messaging.system": "pgmq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": str(one.id),
        "redrive.attempt": 1,
        "redrive.generation": 0,
        "redrive.outcome": "done",
    }
    receive = spans.only("receive mail")
    assert receive.kind == SpanKind.CLIENT
    assert "messaging.batch.message_count" not in (receive.attributes or {})
    assert spans.named("settle mail") == []
    assert headers(db, one.id)["tenant"] == "a"
    await app.close()


async def test_a_batch_shares_one_span_and_a_thread_has_its_own(
    db: Db, database_url: str, spans: Spans
) -> None:
    app = app_of(database_url)
    async with working(app, database_url, queues=("blocking",)):
        await app.send_many("blocking", [1, 2, 3])
        await asyncio.to_thread(app.sync.send, "blocking", 4)
        await until(lambda: len(spans.named("process blocking")) == 4)
        await until(lambda: len(fetch(db, "select 1 from pgmq.a_blocking where outcome = 'done'")) == 4)
    first, second = spans.named("send blocking")
    assert (first.attributes or {})["messaging.batch.message_count"] == 3
    links = [link_of(span) for span in spans.named("process blocking")]
    assert sorted(links) == sorted([context_of(first)] * 3 + [context_of(second)])
    await app.close()


async def test_a_failure_is_told_by_its_class_and_the_trace_survives_death_and_redrive(
    db: Db, database_url: str, spans: Spans
) -> None:
    app = app_of(database_url)
    async with working(app, database_url, queues=("mail",)):
        await app.send("mail", {"fail": "secret@example.com"})
        await until(lambda: fetch(db, "select 1 from pgmq.q_mail_dlq") != [])
        db.execute("select redrive.redrive('mail', p_patch => '{\"fail\": null}')")
        await until(lambda: len(spans.named("process mail")) == 3)
    producer = spans.only("send mail")
    processed = spans.named("process mail")
    assert [link_of(span) for span in processed] == [context_of(producer)] * 3
    found = [dict(span.attributes or {}) for span in processed]
    assert [each["redrive.attempt"] for each in found] == [1, 2, 1]
    assert [each["redrive.generation"] for each in found] == [0, 0, 1]
    assert [each["redrive.outcome"] for each in found] == ["retry", "retry", "done"]
    assert [each.get("error.type") for each in found] == ["ValueError", "ValueError", None]
    assert [span.status.status_code for span in processed] == [
        StatusCode.ERROR,
        StatusCode.ERROR,
        StatusCode.UNSET,
    ]
    assert len(spans.named("settle mail")) == 2
    assert "secret@example.com" not in "".join(s.to_json() for s in spans.exporter.get_finished_spans())
    await app.close()


async def test_a_send_that_fails_says_so(db: Db, database_url: str, spans: Spans) -> None:
    app = app_of(database_url)
    with pytest.raises(PayloadError):
        await app.send("mail", {"x": object()})
    span = spans.only("send mail")
    assert (span.status.status_code, (span.attributes or {})["error.type"]) == (
        StatusCode.ERROR,
        "PayloadError",
    )
    assert span.events == ()
    await app.close()


async def test_a_traceparent_of_the_callers_own_wins(db: Db, database_url: str, spans: Spans) -> None:
    make_queue(db, "mail")
    app = app_of(database_url)
    sent = await app.send("mail", {}, headers={"Traceparent": TRACEPARENT})
    assert headers(db, sent.id, "q_mail") == {"Traceparent": TRACEPARENT}
    sent = await app.send("mail", {}, headers={"tracestate": "a=b"})
    assert set(headers(db, sent.id, "q_mail")) == {"traceparent", "tracestate"}
    await app.close()


@pytest.mark.parametrize("name", ["traceparent", "TRACEPARENT"])
@pytest.mark.parametrize("number", ["1" * 5000, str(2**63), "1e400", "true", '"x"'])
def test_a_foreign_generation_is_0_and_a_traceparent_is_read_in_any_case(
    spans: Spans, name: str, number: str
) -> None:
    stored = f'{{"x-redrive-generation": {number}, "{name}": "{TRACEPARENT}"}}'
    span = tracing.Processing(spans.tracer, "mail", 1, 1, stored)
    span.leave()
    span.end("done", None)
    found = spans.only("process mail")
    assert (found.attributes or {})["redrive.generation"] == 0
    assert f"{link_of(found)[0]:032x}" == TRACEPARENT.split("-")[1]


@pytest.mark.parametrize(
    "stored",
    [
        None,
        "null",
        "[]",
        '"text"',
        "7",
        '{"traceparent": 7}',
        '{"traceparent": "nonsense"}',
        '{"tracestate": []}',
    ],
)
def test_foreign_headers_make_no_link_and_no_error(spans: Spans, stored: str | None) -> None:
    span = tracing.Processing(spans.tracer, "mail", 1, 1, stored)
    span.leave()
    span.end("done", None)
    assert spans.only("process mail").links == ()


async def test_an_untraced_send_has_no_headers_of_a_trace(db: Db, database_url: str) -> None:
    make_queue(db, "mail")
    app = app_of(database_url)
    sent = await app.send("mail", {})
    assert headers(db, sent.id, "q_mail") == {}
    await app.close()


async def test_a_queue_without_headers_takes_a_traced_message(databases: Databases, spans: Spans) -> None:
    url = databases.migrated("1.4.4")
    try:
        with psycopg.connect(url, autocommit=True) as db:
            make_queue(db, "mail")
            app = app_of(url)
            sent = await app.send("mail", {})
            await app.send_many("mail", [{}, {}])
            assert fetch(db, "select count(*) from pgmq.q_mail") == [(3,)]
            with pytest.raises(Exception, match="made by a pgmq without headers"):
                await app.send("mail", {}, headers={"tenant": "a"})
            await app.close()
            assert sent.id == 1
    finally:
        databases.drop(url)


def test_nothing_is_imported_until_an_app_sets_a_provider() -> None:
    script = """
import sys
import redrive, redrive.web, redrive.worker.worker
from redrive.job import tracing
assert tracing.tracer() is None
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
from opentelemetry import trace
assert tracing.tracer() is None
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
assert tracing.tracer() is not None
"""
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


async def test_an_isolated_delivery_is_traced_in_its_own_process(
    db: Db, database_url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected = tmp_path / "spans"
    (tmp_path / "traced.py").write_text(f"""
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from redrive import Redrive
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(out=open({str(collected)!r}, "a"))))
trace.set_tracer_provider(provider)
app = Redrive()

@app.job("blocking")
def blocking(payload) -> None: ...
""")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    make_queue(db, "blocking")
    message = send(db, "blocking", {})
    db.execute(
        "update pgmq.q_blocking set read_ct = 2, headers = jsonb_build_object('x-redrive-isolated', true,"
        " 'traceparent', %s::text)",
        (TRACEPARENT,),
    )
    app = app_of(database_url)
    async with working(app, database_url, app_spec="traced:app", queues=("blocking",)):
        await until(lambda: fetch(db, "select outcome from pgmq.a_blocking") == [("done",)])
    said = collected.read_text()
    assert '"name": "process blocking"' in said
    assert TRACEPARENT.split("-")[1] in said
    assert f'"messaging.message.id": "{message}"' in said
