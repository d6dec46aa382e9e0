"""``redrive alerts``: what it shows, what its exit code says, and alerts that really leave."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from redrive.store import grants
from redrive.testing.clock import Clock
from tests.support.cli import Ran, fine, run
from tests.support.command import Command
from tests.support.roles import Roles
from tests.support.sink_server import Posted, SinkServer
from tests.support.working import WorkerProcess, make_queue, send

Db = psycopg.Connection[Any]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver() -> Iterator[SinkServer]:
    with SinkServer() as started:
        yield started


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    for name in list(os.environ):
        if name.startswith("REDRIVE_") and not name.startswith("REDRIVE_TEST") and name != "REDRIVE_PG_BIN":
            monkeypatch.delenv(name)
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)


@pytest.fixture
def sink(receiver: SinkServer, monkeypatch: pytest.MonkeyPatch) -> SinkServer:
    """A sink called ops."""
    monkeypatch.setenv("REDRIVE_ALERTS_OPS", receiver.url)
    monkeypatch.setenv("REDRIVE_ALERTS_OPS_SECRET", SECRET)
    return receiver


def alerts(*arguments: str) -> Ran:
    ran = run("alerts", *arguments)
    assert "t0p5ecret" not in ran.out + ran.err and SECRET not in ran.out + ran.err
    assert "Traceback" not in ran.err
    return ran


def bury(db: Db, queue: str = "mail") -> None:
    """A dead letter."""
    make_queue(db, queue, max_attempts=1)
    send(db, queue, {})
    db.execute(
        "select redrive.settle(%s, array_agg(c.msg_id), array_agg(c.read_ct), array_agg('reject'::text))"
        " from redrive.claim(%s, 30, 100, 'test') c",
        (queue, queue),
    )


def revive(db: Db, queue: str = "mail") -> None:
    db.execute(f"select redrive.discard('{queue}', array(select msg_id from pgmq.q_{queue}_dlq))".encode())


class TestList:
    def test_says_when_nobody_has_ever_checked_and_where_alerts_would_go(self) -> None:
        ran = alerts("list")
        assert ran.code == 0
        assert ran.out.startswith("nothing fires\n") and "no sink is configured" in ran.out
        assert "nobody has ever checked: run a worker" in ran.out
        assert alerts("list", "--check").code == 1

    def test_shows_what_fires_with_the_command_to_look_further(self, db: Db) -> None:
        bury(db)
        assert alerts("check").code == 1
        ran = alerts("list")
        assert ran.code == 0
        [line] = [line for line in ran.out.splitlines() if "dead_letters" in line]
        assert "firing" in line and "mail" in line and "redrive dlq list mail" in line
        assert "checked 0s ago" in ran.out
        assert alerts("list", "--check").code == 1

        revive(db)
        assert alerts("check").code == 0
        assert "dead_letters" not in alerts("list").out and "dead_letters" in alerts("list", "--all").out
        assert alerts("list", "--check").code == 0

    def test_says_for_how_long_nobody_has_checked(self, database_url: str) -> None:
        alerts("check")
        Clock(database_url).advance(300)
        ran = alerts("list", "--check")
        assert ran.code == 1 and "nobody has checked for 5m" in ran.out

    def test_json_has_all_of_it(self, db: Db) -> None:
        bury(db)
        alerts("check")
        found = json.loads(alerts("list", "--json").out)
        assert [(each["rule"], each["subject"], each["state"]) for each in found["alerts"]] == [
            ("dead_letters", "mail", "firing")
        ]
        assert found["sinks"] == [] and found["failing"] == [] and found["checked"]["firing"] == 1


class TestCheck:
    def test_delivers_what_it_finds_once_and_exits_1_until_it_is_over(self, db: Db, sink: SinkServer) -> None:
        assert alerts("check").out == "nothing fires\n"
        bury(db)
        for _ in range(5):
            ran = alerts("check")
            assert ran.code == 1 and "redrive dlq list mail" in ran.out
        assert [each["event"] for each in sink.alerts()] == ["firing"]
        revive(db)
        assert alerts("check").code == 0
        assert [each["event"] for each in sink.alerts()] == ["firing", "resolved"]
        assert json.loads(alerts("check", "--json").out)["alerts"] == []

    def test_a_message_delayed_by_an_hour_is_no_alert(self, db: Db) -> None:
        make_queue(db, "mail")
        send(db, "mail", {}, delay=3600)
        assert alerts("check").code == 0

    @pytest.mark.parametrize("trouble", ["500", "hangs", "does not resolve", "refuses"])
    def test_a_sink_in_trouble_is_seen_in_the_list_and_in_exit_codes(
        self, trouble: str, db: Db, sink: SinkServer, monkeypatch: pytest.MonkeyPatch, database_url: str
    ) -> None:
        said = "answered 500 Internal Server Error"
        sink.status = 500
        if trouble == "hangs":
            monkeypatch.setattr("redrive.watch.sinks.configured.TIMEOUT", 0.2)
            monkeypatch.setattr(
                "redrive.watch.sinks.configured.configured_sinks.__kwdefaults__", {"timeout": 0.2}
            )
            sink.hang, said = 30, "no answer within 0.2 s"
        elif trouble == "does not resolve":
            monkeypatch.setenv("REDRIVE_ALERTS_OPS", "https://t0p5ecret.invalid/hook")
            said = "its host name does not resolve"
        elif trouble == "refuses":
            monkeypatch.setenv("REDRIVE_ALERTS_OPS", "http://127.0.0.1:1/t0p5ecret")
            said = "nobody listens there (connection refused)"
        bury(db)
        ran = alerts("check")
        assert ran.code == 1 and f"not delivered to ops: dead_letters of mail firing: {said}" in ran.out
        revive(db)
        # Nothing fires any more, but that it did has not left.
        ran = alerts("check")
        assert ran.code == 1 and ran.out.startswith("nothing fires\n") and said in ran.out
        ran = alerts("list", "--check")
        assert ran.code == 1 and said in ran.out
        found = json.loads(alerts("list", "--json").out)
        assert found["failing"][0]["error"] == said
        assert found["sinks"][0]["failures"] == 1 and found["checked"]["delivery_failures"] == 1

        Clock(database_url).advance(400)
        ran = alerts("check")
        assert ran.code == 1 and "alerts_undelivered" in ran.out


def test_a_name_server_that_does_not_answer_holds_up_no_answer(
    db: Db, sink: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redrive.watch.sinks.configured.configured_sinks.__kwdefaults__", {"timeout": 0.2})
    monkeypatch.setenv("REDRIVE_ALERTS_OPS", "http://t0p5ecret.example.com/hook")
    ask = socket.getaddrinfo
    silent = threading.Event()

    def resolve(host: Any, *more: Any, **named: Any) -> Any:
        if "t0p5ecret" in str(host):
            silent.wait(20)
        return ask(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    bury(db)
    try:
        for command in ("check", "test"):
            began = time.monotonic()
            ran = alerts(command)
            assert ran.code == 1 and "no answer within 0.2 s" in ran.out
            assert time.monotonic() - began < 5
        # The interpreter waits for what is no daemon.
        assert not [
            each for each in threading.enumerate() if not each.daemon and each.name.startswith("asyncio")
        ]
    finally:
        silent.set()


@pytest.mark.parametrize("part", ["work", "operate"])
def test_a_role_that_may_check_is_answered(part: str, db: Db, sink: SinkServer, roles: Roles) -> None:
    role = roles.create(part, "login")
    grants.grant(db, role, part)
    bury(db)
    ran = alerts("check", "--database", roles.url(db.info, role))
    assert ran.code == 1 and "dead_letters" in ran.out, ran.err
    assert [each["rule"] for each in sink.alerts()] == ["dead_letters"]


class TestTest:
    def test_sends_a_real_one_and_says_that_it_arrived(self, sink: SinkServer) -> None:
        ran = alerts("test")
        assert ran.code == 0 and ran.out.splitlines()[1].split() == ["ops", "webhook", "delivered"]
        [alert] = sink.alerts()
        assert (alert["event"], alert["rule"]) == ("test", "test") and alert["database"] in sink.posted[
            0
        ].json["text"]
        assert json.loads(alerts("test", "OPS", "--json").out)[0]["state"] == "delivered"

    def test_says_why_not(self, sink: SinkServer) -> None:
        sink.status = 403
        ran = alerts("test")
        assert ran.code == 1 and "not delivered: answered 403 Forbidden" in ran.out

    def test_without_a_sink_says_what_to_set(self) -> None:
        ran = alerts("test")
        assert ran.code == 2 and "set REDRIVE_ALERTS_<NAME>" in ran.err and len(ran.err.splitlines()) == 1

    def test_a_sink_that_is_unknown_is_refused_with_those_there_are(self, sink: SinkServer) -> None:
        ran = alerts("test", "slak")
        assert ran.code == 2 and "sink slak is unknown; there are ops" in ran.err
        assert "set REDRIVE_ALERTS_SLAK to make it one" in ran.err and sink.posted == []


class TestSilence:
    def test_keeps_an_alert_from_the_sinks_and_from_nothing_else(
        self, db: Db, sink: SinkServer, database_url: str
    ) -> None:
        alerts("check")
        ran = alerts("silence", "dead_letters", "--queue", "mail", "--for", "2h", "--reason", "we know")
        assert ran.code == 0 and "nobody is told of dead_letters of mail for 2h 0m" in ran.out
        bury(db)
        assert alerts("check").code == 1
        assert sink.posted == []
        assert "silent for 1h 59m (we know)" in alerts("list").out
        [line] = alerts("silences").out.splitlines()[1:]
        assert "dead_letters" in line and "mail" in line and "we know" in line
        assert json.loads(alerts("silences", "--json").out)[0]["rule"] == "dead_letters"

        Clock(database_url).advance(7201)
        assert alerts("check").code == 1
        assert [each["event"] for each in sink.alerts()] == ["firing"]
        assert alerts("silences").out == "nothing is silenced\n"

    def test_can_be_ended_before_its_time(self) -> None:
        id = fine("alerts", "silence", "--all").out.split()[1].rstrip(":")
        assert alerts("unsilence", id).out == "1 silence ended\n"
        assert alerts("unsilence", id).code == 1
        fine("alerts", "silence", "parked")
        assert alerts("unsilence", "--rule", "parked").code == 0
        assert alerts("unsilence", "--all").code == 1

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["silence"], "name a rule"),
            (["silence", "parked", "--all"], "name a rule"),
            (["silence", "no_such"], "no_such"),
            (["silence", "parked", "--for", "soon"], "--for is 'soon'; it must be how long"),
            (["silence", "parked", "--for", "0"], "--for is '0'; it must be at least 1s, and at most a year"),
            (
                ["silence", "parked", "--for", "500d"],
                "--for is '500d'; it must be at least 1s, and at most a",
            ),
            (["unsilence"], "give the id of a silence"),
            (["unsilence", "1", "--all"], "give the id of a silence"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_in_a_sentence(self, arguments: list[str], said: str) -> None:
        ran = alerts(*arguments)
        assert ran.code == 2 and said in ran.err and len(ran.err.splitlines()) == 1


class TestRules:
    def test_are_listed_changed_and_taken_back(self, db: Db) -> None:
        assert "dead_letters" in alerts("rules").out
        made = json.loads(
            fine("alerts", "rule", "set", "dead_letters", "--threshold", "5", "--for", "2m", "--json").out
        )
        assert (made["threshold"], made["for_sec"], made["enabled"]) == (5, 120, True)
        bury(db)
        assert alerts("check").code == 0
        assert "changed" in next(line for line in alerts("rules").out.splitlines() if "dead_letters" in line)
        assert "as redrive brings it" in fine("alerts", "rule", "reset", "dead_letters").out
        assert "was not changed before" in fine("alerts", "rule", "reset", "dead_letters").out
        assert alerts("check").code == 1
        fine("alerts", "rule", "set", "dead_letters", "--disable")
        assert alerts("check").code == 0

    def test_may_be_ones_own(self, db: Db) -> None:
        make_queue(db, "mail")
        for _ in range(3):
            send(db, "mail", {}, delay=100)
        fine(
            *(
                "alerts",
                "rule",
                "set",
                "too_many",
                "--gauge",
                "delayed",
                "--operator",
                ">=",
                "--threshold",
                "3",
            ),
            *("--clear", "1", "--severity", "info", "--queue", "ma*", "--remind", "never"),
        )
        assert "too_many" in alerts("check").out
        [rule] = [each for each in json.loads(alerts("rules", "--json").out) if each["name"] == "too_many"]
        assert (rule["builtin"], rule["remind_sec"], rule["clear_at"]) == (False, None, 1)
        assert fine("alerts", "rule", "drop", "too_many").out == "rule too_many is gone\n"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["set", "parked"], "nothing is to be changed"),
            (["set", "mine", "--threshold", "1"], "needs at least gauge and threshold"),
            (["set", "mine", "--threshold", "1", "--gauge", "no_such"], "gauge"),
            (["set", "parked", "--severity", "loud"], "severity"),
            (["set", "parked", "--for", "x"], "--for is 'x'"),
            (["set", "parked", "--remind", "0"], "--remind is '0'; it must be at least 1s"),
            (["set", "parked", "--threshold", "nan"], "--threshold is nan; it must be a number"),
            (["set", "parked", "--clear=-inf"], "--clear is -inf; it must be a number"),
            (["set", "Parked!", "--disable"], "rule name"),
            (["reset", "no_such"], "no_such"),
            (["drop", "parked"], "turn it off instead: redrive alerts rule set parked --disable"),
        ],
    )
    def test_what_cannot_be_right_is_refused_in_a_sentence(self, arguments: list[str], said: str) -> None:
        ran = alerts("rule", *arguments)
        assert ran.code == 2 and said in ran.err and len(ran.err.splitlines()) == 1


class TestWatch:
    def test_sees_that_the_last_worker_is_dead_and_that_one_is_back(
        self, database_url: str, db: Db, sink: SinkServer, tmp_path: Path, receiver: SinkServer
    ) -> None:
        clock = Clock(database_url)
        db.execute("create table if not exists effects (name text)")
        fine("alerts", "rule", "set", "no_worker", "--for", "0")
        environment = {name: os.environ[name] for name in os.environ if name.startswith("REDRIVE_ALERTS")}
        environment |= {"REDRIVE_DATABASE_URL": database_url}
        with Command("alerts", "watch", "--every", "1", folder=tmp_path, environment=environment) as watch:
            watch.wait_for("watching: a check every 1 s, alerts to ops")
            with WorkerProcess(database_url, tmp_path / "journal") as worker:
                worker.await_line("worker_started")
                for pid in (worker.pid, *worker.pids()):
                    os.kill(pid, signal.SIGKILL)
                worker.wait()
            send(db, "work", {})
            clock.advance(61)
            sink.wait_for(lambda posted: bool(of(posted, "no_worker")))
            for _ in range(20):
                clock.advance(61)
                db.execute("select redrive.check_queue_health()")
            with WorkerProcess(database_url, tmp_path / "journal"):
                sink.wait_for(lambda posted: len(of(posted, "no_worker")) == 2)
            assert [each["event"] for each in of(sink.posted, "no_worker")] == ["firing", "resolved"]
            assert watch.end(signal.SIGTERM) == 0
        # Its end may have been seen by the new worker's own check.
        assert "event=alert_firing" in watch.said
        assert "t0p5ecret" not in watch.said and SECRET not in watch.said

    def test_beats_and_stops_with_a_signal_within_seconds(
        self, database_url: str, tmp_path: Path, receiver: SinkServer
    ) -> None:
        environment = {"REDRIVE_DATABASE_URL": database_url, "REDRIVE_HEARTBEAT_URL": receiver.url}
        with Command("alerts", "watch", "--every", "1", folder=tmp_path, environment=environment) as watch:
            receiver.wait_for(lambda posted: len(posted) >= 2)
            assert watch.end(signal.SIGINT, within=5) == 0
        assert "event=no_alert_sink" in watch.said and "t0p5ecret" not in watch.said

    def test_refuses_what_cannot_work(self, empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "--every is 0; it must be from 1 to 3600" in alerts("watch", "--every", "0").err
        ran = alerts("watch", "--database", empty_database_url)
        assert ran.code == 2 and "redrive migrate" in ran.err
        ran = alerts("watch", "--database", "postgresql://nobody@127.0.0.1:1/none")
        assert ran.code == 3 and "out of reach" in ran.err
        monkeypatch.setenv("REDRIVE_ALERTS_OPS", "https://h/t0p5ecret")
        ran = alerts("watch")
        assert ran.code == 2 and "REDRIVE_ALERTS_OPS_SECRET" in ran.err


def test_a_worker_with_a_sink_that_cannot_be_does_not_start(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_ALERTS_OPS", "t0p5ecret://h")
    with WorkerProcess(database_url, tmp_path / "journal") as worker:
        assert worker.wait() == 2
    assert "REDRIVE_ALERTS_OPS is no URL that apprise understands" in worker.log()
    assert "t0p5ecret" not in worker.log()


def test_a_worker_delivers_and_says_once_when_it_has_no_sink(
    database_url: str, db: Db, tmp_path: Path, sink: SinkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_CHECK_EVERY", "1")
    bury(db)
    with WorkerProcess(database_url, tmp_path / "journal") as worker:
        worker.await_line("alert_delivered", sink="ops")
        assert worker.await_line("alert_firing")["rule"] == "dead_letters"
        worker.signal(signal.SIGTERM)
        assert worker.wait(10) == 0
    assert [each["event"] for each in sink.alerts()] == ["firing"]
    assert "t0p5ecret" not in worker.log() and worker.events("no_alert_sink") == []
    monkeypatch.delenv("REDRIVE_ALERTS_OPS")
    monkeypatch.delenv("REDRIVE_ALERTS_OPS_SECRET")
    with WorkerProcess(database_url, tmp_path / "journal") as worker:
        worker.await_line("no_alert_sink")


def of(posted: list[Posted], rule: str) -> list[dict[str, Any]]:
    return [alert for each in posted for alert in each.json["alerts"] if alert["rule"] == rule]


def test_the_list_of_sinks_says_when_the_last_process_with_one_was_seen(
    db: Db, sink: SinkServer, database_url: str
) -> None:
    alerts("check")
    Clock(database_url).advance(600)
    line = next(line for line in alerts("list").out.splitlines() if line.startswith("ops"))
    assert "10m ago" in line
