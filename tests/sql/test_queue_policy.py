"""What a queue's policy says: override over declared over default, and nothing that can never be right."""

from __future__ import annotations

import json

import psycopg
import pytest

from tests.support.contract import Contract
from tests.support.layouts import newest_only

pytestmark = newest_only

DEFAULTS = {
    "max_attempts": 5,
    "visibility_timeout": 60,
    "timeout": 3600,
    "backoff": {"base": 30, "factor": 2, "cap": 3600, "jitter": 0.2},
    "concurrency": None,
    "single_flight": False,
    "key_field": "idempotency_key",
    "key_retention": 2592000,
    "archive": True,
    "archive_retention": 2592000,
    "archive_max_rows": None,
    "archive_max_bytes": None,
    "notify": True,
    "paused": False,
}


def policy(sql: Contract) -> dict[str, object]:
    return sql.value("select redrive.queue_policy('jobs')")


def create(sql: Contract, policy: dict[str, object]) -> None:
    sql("select redrive.create_queue('jobs', %s)", json.dumps(policy))


def override(sql: Contract, *reset: str, **fields: object) -> dict[str, object]:
    return sql.value("select redrive.set_policy('jobs', %s, %s::text[])", json.dumps(fields), list(reset))


def test_a_queue_nobody_said_anything_about_has_the_defaults(sql: Contract) -> None:
    sql.create()
    assert policy(sql) == DEFAULTS


def test_an_override_wins_over_what_is_declared_until_it_is_reset(sql: Contract) -> None:
    sql.create(max_attempts=3, timeout=None)
    assert override(sql, max_attempts=9)["max_attempts"] == 9
    assert policy(sql) == DEFAULTS | {"max_attempts": 9, "timeout": None}
    assert sql.value("select max_attempts from redrive.queue") == 9

    assert override(sql, "max_attempts")["max_attempts"] == 3
    assert sql("select max_attempts, timeout from redrive.queue") == [(3, None)]


def test_backoff_is_merged_field_by_field(sql: Contract) -> None:
    sql.create(backoff={"base": 1, "cap": 10})
    override(sql, backoff={"cap": 20})
    assert policy(sql)["backoff"] == {"base": 1, "factor": 2, "cap": 20, "jitter": 0.2}
    assert sql(
        "select backoff_base, backoff_factor, backoff_cap, backoff_jitter::float from redrive.queue"
    ) == [(1, 2, 20, 0.2)]


def test_a_worker_declares_and_is_told_what_an_override_hides(sql: Contract) -> None:
    sql.create(max_attempts=3)
    override(sql, max_attempts=9, timeout=5)

    hidden = sql(
        "select * from redrive.declare_queue('jobs', %s)", json.dumps({"max_attempts": 4, "timeout": 5})
    )
    assert hidden == [("max_attempts", 4, 9)]
    assert sql.value("select declared from redrive.queue") == {"max_attempts": 4, "timeout": 5}
    assert policy(sql)["max_attempts"] == 9


def test_what_code_no_longer_declares_goes_back_to_the_default(sql: Contract) -> None:
    sql.create(max_attempts=3, archive=False)
    assert sql("select * from redrive.declare_queue('jobs', '{\"max_attempts\": 3}')") == []
    assert policy(sql) == DEFAULTS | {"max_attempts": 3}


def test_an_operator_sees_each_field_and_where_it_comes_from(sql: Contract) -> None:
    sql.create(timeout=None, max_attempts=2)
    override(sql, max_attempts=7)
    fields = {
        f.field: (f.effective, f.declared, f.override)
        for f in sql("select * from redrive.policy_fields('jobs')")
    }
    assert fields["max_attempts"] == (7, 2, 7)
    assert fields["archive"] == (True, None, None)
    assert set(fields) == set(DEFAULTS)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", -1),
        ("max_attempts", 1.5),
        ("max_attempts", None),
        ("max_attempts", "5"),
        ("max_attempts", 10**10),
        ("visibility_timeout", 0),
        ("visibility_timeout", 0.5),
        ("visibility_timeout", None),
        ("timeout", 0),
        ("timeout", -1),
        ("concurrency", 0),
        ("concurrency", 2.5),
        ("key_retention", 0),
        ("key_retention", None),
        ("key_field", 5),
        ("single_flight", "yes"),
        ("archive", None),
        ("archive_retention", 0),
        ("archive_max_rows", 0),
        ("archive_max_rows", 1.5),
        ("archive_max_bytes", "1 GB"),
        ("paused", 1),
        ("notify", "true"),
        ("backoff", 30),
        ("backoff", None),
    ],
)
def test_a_value_that_can_never_be_right_is_refused_by_its_field(
    sql: Contract, field: str, value: object
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"policy field {field}"):
        create(sql, {field: value})
    sql.create()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"policy field {field}"):
        override(sql, **{field: value})
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=f"policy field {field}"):
        sql("select redrive.declare_queue('jobs', %s)", json.dumps({field: value}))
    assert policy(sql) == DEFAULTS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base", -1),
        ("factor", 0.5),
        ("cap", -1),
        ("jitter", 1.1),
        ("jitter", -0.1),
        ("base", "30"),
        ("basis", 3),
    ],
)
def test_a_wrong_backoff_is_refused_by_its_field(sql: Contract, field: str, value: object) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match=rf"policy field backoff\.{field}"):
        sql.create(backoff={field: value})


def test_an_unknown_field_is_refused_and_the_known_ones_are_named(sql: Contract) -> None:
    with pytest.raises(
        psycopg.errors.InvalidParameterValue,
        match="policy field retries is unknown; the fields are max_attempts",
    ):
        sql.create(retries=3)
    sql.create()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="policy field retries is unknown"):
        override(sql, "retries")


@pytest.mark.parametrize("wrong", ["[]", "5", "null"])
def test_a_policy_that_is_no_object_is_refused(sql: Contract, wrong: str) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="policy must be a JSON object"):
        sql("select redrive.create_queue('jobs', %s)", wrong)


def test_a_whole_number_may_be_written_with_a_fraction_of_zero(sql: Contract) -> None:
    sql("select redrive.create_queue('jobs', '{\"max_attempts\": 3.0, \"concurrency\": 2.0}')")
    assert sql("select max_attempts, concurrency from redrive.queue") == [(3, 2)]


def test_a_policy_of_a_missing_queue_is_an_error_of_its_own(sql: Contract) -> None:
    for call in (
        "queue_policy('no')",
        "set_policy('no')",
        "declare_queue('no', '{}')",
        "pause_queue('no')",
        "resume_queue('no')",
    ):
        with pytest.raises(psycopg.Error, match="queue no does not exist") as caught:
            sql(f"select redrive.{call}")
        assert caught.value.sqlstate == "RD001", call
