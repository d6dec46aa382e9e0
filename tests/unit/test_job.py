"""Handlers: which signatures are taken, and what a delivery offers its handler."""

from __future__ import annotations

import functools
import json
import logging
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import psycopg
import pytest
from pydantic import BaseModel, ConfigDict, Field

from redrive.errors import ConfigError, InvalidArgument, Lost, PayloadError
from redrive.job import Job, JobDefinition, Malformed, SyncJob
from redrive.policy import QueuePolicy
from redrive.store.statement import Statement

USER = UUID("8f3c2a10-4b6d-4e21-9c58-2f7a1d0e6b33")


class Email(BaseModel):
    template: Literal["welcome", "weekly_digest"]
    user_id: UUID


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    user_id: UUID
    at: datetime


class Aliased(BaseModel):
    user: int = Field(alias="userId")


class Price(BaseModel):
    amount: Decimal


class Loose(BaseModel):
    anything: Any


@dataclass
class Point:
    x: int


def define(handler: Any, *, decimals: bool = False) -> JobDefinition:
    return JobDefinition.of("q", handler, QueuePolicy(), decimals=decimals)


# --- signatures that are taken ---


async def payload_and_job(email: Email, job: Job) -> None: ...
async def only_payload(email: Email) -> None: ...
async def only_job(job: Job) -> None: ...
async def nothing() -> None: ...
def in_a_thread(email: Email, job: SyncJob) -> None: ...
def plain_job_in_a_thread(email: Email, job: Job) -> None: ...
def untyped(payload, job): ...
def untyped_job(job): ...
def optional_job(payload: dict[str, Any], job: Job | None) -> None: ...
def with_own_default(payload: dict[str, Any], *, client: str = "smtp") -> None: ...
def job_is_the_payload(job: Email) -> None: ...


@functools.wraps(in_a_thread)
def wrapped(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("handler", "is_async", "wants_payload", "wants_job"),
    [
        (payload_and_job, True, True, True),
        (only_payload, True, True, False),
        (only_job, True, False, True),
        (nothing, True, False, False),
        (in_a_thread, False, True, True),
        (plain_job_in_a_thread, False, True, True),
        (untyped, False, True, True),
        (untyped_job, False, False, True),
        (optional_job, False, True, True),
        (with_own_default, False, True, False),
        (job_is_the_payload, False, True, False),
        (wrapped, False, True, True),
    ],
)
def test_a_handler_gets_what_its_signature_asks_for(
    handler: Any, is_async: bool, wants_payload: bool, wants_job: bool
) -> None:
    known = define(handler)
    assert (known.is_async, known.wants_payload, known.wants_job) == (is_async, wants_payload, wants_job)
    job: Any = object()
    assert known.arguments("p", job) == ("p",) * wants_payload + (job,) * wants_job


# --- signatures that are refused ---


def three(a: Email, b: int, job: Job) -> None: ...
def two_payloads(a: Email, b: Email) -> None: ...
def wrong_order(job: Job, email: Email) -> None: ...
def two_jobs(a: Job, b: Job) -> None: ...
def variable(*args: Any) -> None: ...
def keywords(**kwargs: Any) -> None: ...
def keyword_only(*, email: Email) -> None: ...
async def sync_job_in_async(email: Email, job: SyncJob) -> None: ...
def unknown_type(email: Nowhere) -> None: ...  # type: ignore  # noqa: F821
def unreadable_type(email: threading.Thread) -> None: ...


def generator(email: Email) -> Any:
    yield email


async def async_generator(email: Email) -> Any:
    yield email


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        (three, r"a handler takes \(payload\), \(payload, job\), \(job\) or nothing"),
        (two_payloads, "in this order"),
        (wrong_order, "in this order"),
        (two_jobs, "in this order"),
        (variable, "a handler takes"),
        (keywords, "a handler takes"),
        (keyword_only, "a handler takes"),
        (sync_job_in_async, "is given a Job, not a SyncJob"),
        (unknown_type, "'Nowhere' in its signature cannot be found"),
        (unreadable_type, "pydantic cannot read the type Thread"),
        (generator, "is a generator"),
        (async_generator, "is a generator"),
    ],
)
def test_a_signature_that_cannot_work_is_refused_naming_the_function(handler: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"\.{handler.__name__} \(line \d+\).*{problem}"):
        define(handler)


# --- payloads ---


def takes(kind: Any) -> Any:
    def handler(payload) -> None: ...

    handler.__annotations__ = {"payload": kind}
    return handler


class TestReading:
    def test_a_payload_becomes_the_declared_type(self) -> None:
        text = f'{{"template": "welcome", "user_id": "{USER}"}}'
        assert define(only_payload).decode(text) == Email(template="welcome", user_id=USER)
        assert define(takes(Point)).decode('{"x": 1}') == Point(1)
        assert define(takes(Email | Point)).decode('{"x": 1}') == Point(1)

    def test_without_a_type_it_is_plain_json(self) -> None:
        assert define(untyped).decode('{"a": [1, 2.5, null]}') == {"a": [1, 2.5, None]}
        assert define(takes(dict[str, Any])).decode('{"a": 1}') == {"a": 1}

    @pytest.mark.parametrize("kind", [Any, dict, Loose, dict[str, int]])
    def test_integers_of_any_size_arrive_exactly(self, kind: Any) -> None:
        for value in (2**70, 10**5000 + 7):
            text = f'{{"anything": {Decimal(value)}}}'
            found: Any = define(takes(kind)).decode(text)
            assert (found.anything if kind is Loose else found["anything"]) == value

    def test_fractions_are_floats_or_decimals(self) -> None:
        text = '{"amount": 0.10000000000000000001}'
        exact = Decimal("0.10000000000000000001")
        assert define(takes(dict)).decode(text) == {"amount": 0.1}
        assert define(takes(dict), decimals=True).decode(text) == {"amount": exact}
        assert define(takes(Price), decimals=True).decode(text) == Price(amount=exact)

    def test_a_strict_model_takes_what_json_has_no_type_for(self) -> None:
        found = define(takes(Strict)).decode(f'{{"user_id": "{USER}", "at": "2026-07-07T00:00:00Z"}}')
        assert found == Strict(user_id=USER, at=datetime(2026, 7, 7, tzinfo=UTC))

    def test_what_does_not_fit_is_malformed_and_says_where_without_the_value(self) -> None:
        with pytest.raises(Malformed) as caught:
            define(only_payload).decode('{"template": "secret-value"}')
        lines = str(caught.value).splitlines()
        assert lines[0] == "the payload does not fit Email"
        assert lines[1].startswith("$.template: Input should be 'welcome'")
        assert lines[2] == "$.user_id: Field required"
        assert "secret-value" not in str(caught.value)

    @pytest.mark.parametrize("text", ["", "[" * 3000 + "]" * 3000, "null", "[1]", '"text"'])
    def test_whatever_the_queue_holds_is_read_or_malformed(self, text: str) -> None:
        with pytest.raises(Malformed):
            define(takes(dict)).decode(text)


class TestWriting:
    def test_a_typed_payload_is_written_by_its_type_and_comes_back_equal(self) -> None:
        for kind, value in [(Email, Email(template="welcome", user_id=USER)), (Point, Point(3))]:
            job = define(takes(kind))
            plain: Any = job.plain(value)
            assert isinstance(plain, dict)
            assert job.decode(json.dumps(plain)) == value

    def test_a_field_with_an_alias_comes_back(self) -> None:
        job = define(takes(Aliased))
        assert job.plain(Aliased(userId=3)) == {"userId": 3}
        assert job.plain({"user": 3}) == {"userId": 3}
        assert job.decode('{"userId": 3}') == job.decode('{"user": 3}') == Aliased(userId=3)

    def test_one_that_does_not_fit_is_refused_by_path_and_index(self) -> None:
        with pytest.raises(PayloadError, match=r"message 7: \$\.template: Input should be .* \(and 1 more\)"):
            define(only_payload).plain({"template": "bogus"}, 7)


# --- the delivery ---


class Port:
    """Settles nothing, remembers what it was asked."""

    def __init__(self, lost: bool = False) -> None:
        self.asked: list[object] = []
        self._lost = lost

    async def extend(self, seconds: float) -> None:
        self.asked.append(seconds)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Any]:
        try:
            yield "connection"
        except psycopg.Rollback:
            return
        if self._lost:
            raise Lost("gone")

    async def complete(self, connection: object) -> None:
        self.asked.append(connection)

    async def ask(self, statement: Statement[Any]) -> Any:
        raise AssertionError("only redrive's own parts ask")

    def blocking(self) -> SyncJob:
        return SyncJob(BlockingPort(), **FACTS)


class BlockingPort:
    def __init__(self) -> None:
        self.asked: list[object] = []

    def extend(self, seconds: float) -> None:
        self.asked.append(seconds)

    @contextmanager
    def transaction(self) -> Generator[Any]:
        yield "connection"

    def complete(self, connection: object) -> None:
        self.asked.append(connection)


FACTS: dict[str, Any] = {
    "queue": "email_jobs",
    "msg_id": 7,
    "read_ct": 3,
    "attempt": 2,
    "max_attempts": 5,
    "key": "k",
    "headers": '{"trace": "abc", "x-redrive-key": "k"}',
    "enqueued_at": datetime(2026, 7, 7, tzinfo=UTC),
}


class TestJob:
    def test_it_shows_the_senders_headers_only(self) -> None:
        assert Job(Port(), **FACTS).headers == {"trace": "abc"}
        assert Job(Port(), **{**FACTS, "headers": None}).headers == {}

    @pytest.mark.parametrize("headers", ["[]", '"s"', "5", "null", "true", '["x-redrive-key"]'])
    def test_headers_that_are_no_object_count_as_none(self, headers: str) -> None:
        assert Job(Port(), **{**FACTS, "headers": headers}).headers == {}

    @pytest.mark.parametrize(
        ("headers", "event"),
        [
            (None, None),
            ('{"x-redrive-event": "8f3c"}', "8f3c"),
            ('{"x-redrive-event": 5}', None),
            ('["x-redrive-event"]', None),
            ('{"trace": "x-redrive-event"}', None),
        ],
    )
    def test_it_knows_the_event_it_carries(self, headers: str | None, event: str | None) -> None:
        assert Job(Port(), **{**FACTS, "headers": headers}).event == event

    def test_its_logger_names_the_delivery_and_keeps_the_callers_extra(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.INFO):
            Job(Port(), **FACTS).logger.info("sent", extra={"template": "welcome"})
        (record,) = caplog.records
        assert (record.name, record.queue, record.msg_id, record.attempt, record.template) == (  # type: ignore
            "redrive.job.email_jobs",
            "email_jobs",
            7,
            2,
            "welcome",
        )

    def test_cancelled_is_false_until_it_is_set_and_wakes_who_waits(self) -> None:
        job = SyncJob(BlockingPort(), **FACTS)
        assert not job.cancelled
        assert not job.cancelled.wait(0)
        seen: list[bool] = []
        waiting = threading.Thread(target=lambda: seen.append(job.cancelled.wait(30)))
        waiting.start()
        job.cancelled.set()
        waiting.join()
        assert seen == [True]
        assert job.cancelled
        assert job.cancelled.wait(0)

    async def test_after_a_transaction_the_delivery_is_over(self) -> None:
        job = Job(Port(), **FACTS)
        async with job.transaction() as connection:
            assert connection == "connection"
            assert not job.completed
        assert job.completed
        assert job.committed
        with pytest.raises(Lost, match="was completed by this handler before"):
            async with job.transaction():
                pass
        with pytest.raises(Lost, match="was completed by this handler before"):
            await job.complete("connection")

    @pytest.mark.parametrize("error", [RuntimeError, psycopg.Rollback])
    async def test_a_transaction_that_was_rolled_back_completes_nothing(self, error: type[Exception]) -> None:
        job = Job(Port(), **FACTS)
        try:
            async with job.transaction():
                raise error
        except RuntimeError:
            pass
        assert not job.completed
        assert not job.committed

    async def test_a_transaction_that_lost_its_message_completes_nothing(self) -> None:
        job = Job(Port(lost=True), **FACTS)
        with pytest.raises(Lost, match="gone"):
            async with job.transaction():
                pass
        assert not job.completed

    async def test_complete_leaves_the_commit_to_the_caller(self) -> None:
        port = Port()
        job = Job(port, **FACTS)
        await job.complete("mine")
        assert port.asked == ["mine"]
        assert job.completed
        assert not job.committed

    async def test_extend_refuses_what_is_no_duration(self) -> None:
        port = Port()
        await Job(port, **FACTS).extend(120)
        for bad in (-1, float("nan"), "1"):
            with pytest.raises(InvalidArgument, match="extend"):
                await Job(port, **FACTS).extend(bad)  # type: ignore
        assert port.asked == [120]

    def test_a_def_handler_has_the_same_without_await(self) -> None:
        port = BlockingPort()
        job = SyncJob(port, **FACTS)
        job.extend(5)
        with job.transaction() as connection:
            assert connection == "connection"
        assert job.committed
        other = SyncJob(port, **FACTS)
        other.complete("mine")
        assert port.asked == [5, "mine"]
        assert (other.completed, other.committed) == (True, False)

    def test_both_kinds_of_job_offer_the_same_names(self) -> None:
        def shown(kind: type) -> set[str]:
            return {name for name in dir(kind) if not name.startswith("_")}

        assert shown(Job) == shown(SyncJob)
