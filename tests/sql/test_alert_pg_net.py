"""Alerts without Python: where pg_net and Vault are, the database itself tells the webhook it finds there.

On stand-ins that record the requests and send nothing.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

import psycopg
import pytest

from tests.sql.conftest import SUPABASE, SUPABASE_ROLES
from tests.sql.test_alerts import check, delayed, only, told
from tests.support import contract
from tests.support.contract import Contract
from tests.support.databases import Databases
from tests.support.layouts import NEWEST

_SLACK = "https://hooks.slack.com/services/T0/B0/secretpart"
_DISCORD = "https://discord.com/api/webhooks/1/secretpart"


@pytest.fixture(scope="module")
def place(databases: Databases) -> Generator[Contract]:
    url = databases.migrated(NEWEST)
    contract.prepare(url)
    made = Contract(url)
    # What begins with a backslash is psql's own.
    made("\n".join(line for line in SUPABASE.read_text().splitlines() if not line.startswith("\\")))
    yield made
    made.close()
    databases.drop(url)
    databases.drop_roles(*SUPABASE_ROLES)


@pytest.fixture
def sql(place: Contract) -> Generator[Contract]:
    """An alert of queue jobs is about to fire, and Vault has the URL of Slack."""
    only(place, "backlog", gauge="delayed", threshold=0, remind_sec=None)
    place.create()
    place.clock.stop()
    secret(place, _SLACK)
    delayed(place, 1)
    yield place
    place("delete from vault.secrets")
    place("delete from net.http_request_queue")
    place("delete from net._http_response")
    place.reset()


def secret(sql: Contract, url: str) -> None:
    sql("delete from vault.secrets")
    sql("select vault.create_secret(%s, 'alerts_webhook')", url)


def requests(sql: Contract) -> list[Any]:
    rows = sql(
        "select id, url, convert_from(body, 'UTF8')::jsonb as body from net.http_request_queue order by id"
    )
    return list(rows)


def respond(sql: Contract, status: int | None, **more: Any) -> None:
    """What the callee answered to the only request."""
    [request] = requests(sql)
    named = "".join(f", {name} => %s" for name in more)
    sql(f"select standin.respond(%s, %s{named})", request.id, status, *more.values())


def delivery(sql: Contract) -> Any:
    [row] = sql("select * from redrive.alert_deliveries() order by id limit 1")
    return row


def test_slack_is_told_what_fires_and_that_it_is_over(sql: Contract) -> None:
    sql(
        "select redrive.set_rule('backlog', %s)",
        json.dumps({"summary": "{value} & <!channel> wait", "command": "redrive status"}),
    )
    check(sql)
    [request] = requests(sql)
    assert request.url == _SLACK
    database = sql.value("select current_database()")
    assert request.body == {
        "text": "FIRING backlog jobs: 1 &amp; &lt;!channel&gt; wait\n"
        f"Look further: redrive status\nDatabase {database}."
    }
    respond(sql, 200, content="ok")
    delayed(sql, 0)
    check(sql, 60)
    [request] = requests(sql)
    assert request.body["text"].startswith("RESOLVED backlog jobs: ")
    respond(sql, 200)
    check(sql, 60)
    assert (requests(sql), told(sql, "pg_net")) == ([], ["firing", "resolved"])
    [sink] = sql("select * from redrive.alert_sinks()")
    assert (sink.sink, sink.kind, sink.delivered, sink.failures, sink.open) == ("pg_net", "pg_net", 2, 0, 0)


def test_discord_is_told_in_its_own_words_and_pings_nobody(sql: Contract) -> None:
    secret(sql, _DISCORD)
    sql("select redrive.set_rule('backlog', %s)", json.dumps({"summary": "@everyone " + "x" * 480}))
    check(sql)
    [request] = requests(sql)
    assert request.body["allowed_mentions"] == {"parse": []}
    assert request.body["content"].startswith("FIRING backlog jobs: @everyone xxx")
    assert len(request.body["content"]) <= 1900


def test_while_it_is_open_it_is_not_sent_again(sql: Contract) -> None:
    for _ in range(3):
        check(sql, 20)
    assert len(requests(sql)) == 1


@pytest.mark.parametrize(
    ("status", "more", "said"),
    [
        (500, {}, "answered 500"),
        (404, {"content": "no_service"}, "answered 404"),
        (
            None,
            {"error_msg": f"Couldn't resolve host name of {_SLACK}"},
            "Couldn't resolve host name of <url>",
        ),
        (None, {"timed_out": True, "error_msg": "Timeout of 5000 ms reached"}, "timed out"),
    ],
)
def test_what_failed_is_sent_again_and_seen(
    sql: Contract, status: int | None, more: dict[str, Any], said: str
) -> None:
    sql("select redrive.reset_rule('alerts_undelivered')")
    check(sql)
    for tries in range(1, 4):
        respond(sql, status, **more)
        check(sql, 60)
        row = delivery(sql)
        assert (row.state, row.attempts, row.error) == ("failing", tries, said)
        check(sql, 60)
    [alert] = sql("select * from redrive.alerts() where rule = 'alerts_undelivered'")
    assert (alert.subject, alert.state) == ("pg_net", "firing")
    assert said in alert.summary
    respond(sql, 204)
    check(sql, 60)
    assert delivery(sql).state == "delivered"


def test_a_worker_of_pg_net_that_does_not_run_is_seen(sql: Contract) -> None:
    check(sql)
    check(sql, 121)
    assert delivery(sql).error == "pg_net did not answer: is its worker running?"


def test_a_url_that_is_none_is_seen_and_not_told(sql: Contract) -> None:
    secret(sql, "hooks.slack.com/services/secretpart")
    check(sql)
    row = delivery(sql)
    assert row.state == "failing"
    assert row.error.startswith("pg_net refused it: invalid URL")
    assert "secretpart" not in row.error


def test_without_the_secret_there_is_no_such_sink(sql: Contract) -> None:
    sql("delete from vault.secrets")
    assert check(sql) == [("backlog", "jobs", "firing")]
    assert (sql("select * from redrive.alert_sinks()"), requests(sql)) == ([], [])


def test_a_vault_that_may_not_be_read_breaks_nothing_and_is_seen(sql: Contract) -> None:
    with sql.connection.transaction(force_rollback=True):
        sql("drop view vault.decrypted_secrets")
        sql(
            "create view vault.decrypted_secrets as "
            "select (1 / 0)::text as decrypted_secret, 'alerts_webhook' as name"
        )
        assert check(sql) == [("backlog", "jobs", "firing")]
        [problem] = sql.value("select problems from redrive.watch_state()")
        assert (problem["gauge"], problem["problem"]) == ("pg_net", "division by zero")


def test_a_silence_holds_it_back(sql: Contract) -> None:
    sql("select redrive.silence_alert()")
    check(sql)
    assert requests(sql) == []


def test_a_caller_that_rolls_back_sends_nothing(sql: Contract) -> None:
    with sql.connection.transaction(force_rollback=True):
        check(sql)
    assert requests(sql) == []


def test_a_test_reaches_it_at_the_next_evaluation(sql: Contract) -> None:
    delayed(sql, 0)
    check(sql)
    sql("select redrive.test_alert('pg_net')")
    check(sql)
    [request] = requests(sql)
    assert request.body["text"].startswith("TEST test: This is a test: alerts of database ")


def test_a_worker_role_evaluates_without_a_right_on_anything(sql: Contract, databases: Databases) -> None:
    with psycopg.connect(sql.url, autocommit=True) as theirs:
        theirs.execute("create role alert_checker_h nologin")
        try:
            theirs.execute("grant usage on schema redrive to alert_checker_h")
            theirs.execute("grant execute on function redrive.check_queue_health(numeric) to alert_checker_h")
            theirs.execute("set role alert_checker_h")
            assert len(theirs.execute("select * from redrive.check_queue_health()").fetchall()) == 1
            theirs.execute("reset role")
        finally:
            theirs.execute("drop owned by alert_checker_h")
            theirs.execute("drop role alert_checker_h")
    assert len(requests(sql)) == 1
