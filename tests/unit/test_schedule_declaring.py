"""What may be put on a schedule, and what is refused where it is declared."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pydantic import BaseModel

from redrive import ConfigError, Job, Redrive, Reject, SyncJob, Tick
from redrive.watch.schedule import UnknownSchedule
from redrive.watch.scheduler import declaration


class Report(BaseModel):
    of: str
    pages: int = 1


@pytest.fixture
def app() -> Redrive:
    return Redrive("postgresql://nowhere/none")


def test_a_function_is_declared_and_stays_what_it_was(app: Redrive) -> None:
    @app.schedule("0 3 * * *", tz="Europe/Berlin", missed="all", overlap="skip")
    async def tidy(tick: Tick) -> None: ...

    made = app.schedules["tidy"]
    assert (made.name, made.queue, made.payload, made.missed, made.overlap) == (
        *("tidy", "schedules", None, "all", "skip"),
    )
    assert (made.times.cron, made.times.every, made.times.tz) == ("0 3 * * *", None, "Europe/Berlin")
    assert list(app.jobs) == ["schedules"]
    assert tidy.__name__ == "tidy" and "test_schedule_declaring" in made.place


def test_several_share_a_queue_and_its_policy(app: Redrive) -> None:
    app.schedule(60, name="a", queue="often", max_attempts=2)(lambda: None)
    app.schedule(timedelta(hours=1), name="b", queue="often", timeout=5)(lambda: None)
    policy = app.jobs["often"].policy
    assert (policy.max_attempts, policy.timeout) == (2, 5)
    with pytest.raises(
        ConfigError, match=r"schedule c: queue often has timeout 5.* from schedule a, schedule b"
    ):
        app.schedule(60, name="c", queue="often", timeout=6)(lambda: None)


def test_a_job_is_sent_its_payload(app: Redrive) -> None:
    @app.schedule(60, payload={"of": "sales"})
    @app.job("reports")
    async def make(report: Report) -> None: ...

    made = app.schedules["make"]
    assert (made.queue, made.payload) == ("reports", '{"of":"sales","pages":1}')
    assert list(app.jobs) == ["reports"] and make.queue == "reports"
    assert declaration(made).as_json() == (
        '{"name": "make", "queue": "reports", "cron": null, "every_sec": 60.0, "tz": "UTC", "missed": "one",'
        ' "overlap": "allow", "payload": {"of":"sales","pages":1}}'
    )


def test_a_job_may_have_several_schedules(app: Redrive) -> None:
    @app.job("reports")
    async def make(report: Report) -> None: ...

    app.schedule(60, name="sales", payload=Report(of="sales"))(make)
    app.schedule(90, name="costs", payload=Report(of="costs"))(make)
    assert list(app.schedules) == ["sales", "costs"]


def test_what_cannot_work_is_refused_where_it_stands(app: Redrive) -> None:
    @app.job("reports")
    async def make(report: Report) -> None: ...

    def twice() -> None: ...

    app.schedule(60)(twice)
    app.inbox("shop", provider="stripe", queue="shop", secret="whsec_" + "x" * 32)
    refused: list[tuple[dict[str, Any], Any, str]] = [
        ({"when": "0 3 * * * *", "name": "x"}, lambda: None, "schedule 'x': cron text"),
        ({"when": 60, "name": "x", "tz": "Mars"}, lambda: None, "schedule 'x': tz 'Mars'"),
        (
            {"when": 60, "name": "x", "missed": "some"},
            lambda: None,
            "missed is 'some'; it must be skip, one or all",
        ),
        ({"when": 60, "name": "x", "overlap": "no"}, lambda: None, "must be allow, skip or queue"),
        ({"when": 60, "name": ""}, lambda: None, "name is 1 to 100 printable characters"),
        ({"when": 60, "name": "redrive.x"}, lambda: None, "are redrive's own"),
        ({"when": 60}, twice, "schedule 'twice' is declared for .*twice.*give one of them a name"),
        ({"when": 60, "name": "x", "payload": {}}, lambda: None, "a payload is for a job"),
        ({"when": 60, "name": "x", "retries": 5}, lambda: None, "there is no policy 'retries'"),
        ({"when": 60, "name": "x", "queue": "Nö"}, lambda: None, "schedule 'x': queue name 'Nö' is refused"),
        ({"when": 60, "name": "x", "queue": "reports"}, lambda: None, "put the schedule above that job"),
        ({"when": 60, "name": "x", "queue": "shop"}, lambda: None, "takes the webhooks of inbox shop"),
        ({"when": 60, "name": "x", "payload": {"pages": 1}}, make, "does not fit the job .*make.*of"),
        ({"when": 60, "name": "x", "payload": {"of": "y"}, "queue": "other"}, make, "leave out queue"),
        ({"when": 60, "name": "x", "payload": {"of": "y"}, "timeout": 5}, make, "say it in @app.job"),
        ({"when": 60, "name": "x"}, lambda a, b, c: None, "a function on a schedule takes"),
        ({"when": 60, "name": "x"}, "text", "is no function"),
    ]
    for options, target, sentence in refused:
        with pytest.raises(ConfigError, match=sentence):
            app.schedule(options.pop("when"), **options)(target)
    assert list(app.schedules) == ["twice"]


def test_without_a_time_it_is_refused_at_once(app: Redrive) -> None:
    with pytest.raises(ConfigError, match=r"tidy.*: say when: @app.schedule\("):

        @app.schedule  # type: ignore[arg-type]
        def tidy() -> None: ...


def test_a_job_without_a_payload_is_sent_null(app: Redrive) -> None:
    @app.schedule(60)
    @app.job("reports")
    async def make(job: Job) -> None: ...

    assert declaration(app.schedules["make"]).as_json().endswith('"overlap": "allow", "payload": null}')


def test_a_payload_type_is_no_tick(app: Redrive) -> None:
    def wrong(report: Report) -> None: ...

    with pytest.raises(ConfigError, match="the tick annotated as Tick"):
        app.schedule(60)(wrong)


def test_a_queue_of_ticks_takes_neither_jobs_nor_inboxes(app: Redrive) -> None:
    app.schedule(60, name="tidy")(lambda: None)
    with pytest.raises(ConfigError, match="takes the ticks of schedule tidy"):
        app.job("schedules")(lambda: None)
    with pytest.raises(ConfigError, match="takes the ticks of schedule tidy"):
        app.inbox("shop", provider="stripe", queue="schedules", secret="whsec_" + "x" * 32)


async def test_each_message_runs_its_function_with_the_local_time_of_its_tick(app: Redrive) -> None:
    seen: list[Any] = []

    @app.schedule("0 3 * * *", tz="Europe/Berlin")
    async def nightly(tick: Tick, job: Job) -> None:
        seen.append((tick.schedule, tick.at.isoformat(), job))

    @app.schedule(60)
    async def bare() -> None:
        seen.append("bare")

    @app.schedule(60)
    def threaded(tick: Tick, job: SyncJob) -> None:
        seen.append((tick.at.isoformat(), job))

    here = SimpleNamespace(cancelled=SimpleNamespace(set=lambda: None))
    job = cast("Job", SimpleNamespace(_settling=SimpleNamespace(blocking=lambda: here)))
    dispatch = app.jobs["schedules"].handler
    for name in ("nightly", "bare", "threaded"):
        assert await dispatch({"schedule": name, "tick": "2026-03-28T02:00:00Z"}, job) is None
    assert seen == [
        ("nightly", "2026-03-28T03:00:00+01:00", job),
        "bare",
        ("2026-03-28T02:00:00+00:00", here),
    ]
    assert datetime.fromisoformat(seen[0][1]).utcoffset() == timedelta(hours=1)


async def test_an_unknown_schedule_fails_and_what_is_no_tick_is_rejected(app: Redrive) -> None:
    app.schedule(60, name="tidy")(lambda: None)
    dispatch = app.jobs["schedules"].handler
    job = cast("Job", None)
    with pytest.raises(
        UnknownSchedule, match="schedule 'gone', which this app does not declare on queue schedules"
    ):
        await dispatch({"schedule": "gone", "tick": "2026-03-28T02:00:00Z"}, job)
    for wrong in (
        {},
        None,
        {"schedule": "tidy"},
        {"schedule": "tidy", "tick": "noon"},
        {"schedule": 1, "tick": "x"},
    ):
        with pytest.raises(Reject, match="something else sent this one"):
            await dispatch(wrong, job)
