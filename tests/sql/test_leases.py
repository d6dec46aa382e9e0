"""Leases: one holder a name by the database's clock, and a token that tells the holders apart."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from tests.support.contract import Connection, Contract
from tests.support.layouts import newest_only

REFUSED = psycopg.errors.InvalidParameterValue
pytestmark = newest_only


def acquire(sql: Contract, seconds: float = 60, name: str = "nightly") -> int | None:
    return sql.value("select redrive.acquire_lease(%s, %s::numeric)", name, seconds)


def renew(sql: Contract, token: int | None, seconds: float = 60, name: str = "nightly") -> bool:
    return sql.value("select redrive.renew_lease(%s, %s, %s::numeric)", name, token, seconds)


def release(sql: Contract, token: int | None, name: str = "nightly") -> bool:
    return sql.value("select redrive.release_lease(%s, %s)", name, token)


def mine(sql: Contract, token: int | None, name: str = "nightly") -> bool:
    return sql.value("select redrive.lease_is_mine(%s, %s)", name, token)


def test_a_held_lease_is_nobody_elses_until_it_ends(sql: Contract) -> None:
    token = acquire(sql, 60)
    assert token is not None
    assert mine(sql, token)
    sql.clock.move(59.9)
    assert acquire(sql) is None
    sql.clock.move(0.1)
    assert not mine(sql, token)
    assert acquire(sql) not in (None, token)


def test_of_fifty_at_once_one_holds_it(sql: Contract) -> None:
    def take(session: Connection, place: int) -> int | None:
        return session.execute("select redrive.acquire_lease('nightly', 60)").fetchall()[0][0]

    for seconds in (0, 61):
        sql.clock.move(seconds)
        tokens = [token for token in sql.at_once(50, take) if token is not None]
        assert len(tokens) == 1
        assert mine(sql, tokens[0])


def test_tokens_are_never_used_again_and_grow(sql: Contract) -> None:
    tokens: list[int | None] = []
    for n in range(6):
        tokens.append(acquire(sql))
        if n % 2:
            assert release(sql, tokens[-1])
        else:
            sql.clock.move(61)
    sql("delete from redrive.lease")
    tokens.append(acquire(sql))
    assert tokens == sorted({t for t in tokens if t is not None})


def test_a_renewal_keeps_it_and_never_shortens_it(sql: Contract) -> None:
    token = acquire(sql, 60)
    now = sql.clock.move(50)
    assert renew(sql, token, 60)
    until = "select lease_until from redrive.lease"
    assert sql.value(until) == now + timedelta(seconds=60)
    assert renew(sql, token, 1)
    assert sql.value(until) == now + timedelta(seconds=60)


def test_the_token_of_a_past_holder_renews_and_releases_nothing(sql: Contract) -> None:
    old = acquire(sql, 10)
    sql.clock.move(11)
    assert renew(sql, old) is False, "over is over, even while nobody else has it"
    new = acquire(sql)
    assert [renew(sql, old), release(sql, old), mine(sql, old)] == [False] * 3
    assert mine(sql, new)
    assert release(sql, new) is True
    assert release(sql, new) is False
    assert acquire(sql) is not None


def test_no_token_is_no_right(sql: Contract) -> None:
    acquire(sql)
    assert not renew(sql, None)
    assert not release(sql, None)
    assert not mine(sql, None)


def test_names_are_apart(sql: Contract) -> None:
    a, b = acquire(sql, name="a"), acquire(sql, name="b")
    assert a is not None
    assert b is not None
    assert not mine(sql, a, name="b")
    assert not release(sql, a, name="b")


def test_a_lease_of_an_open_transaction_counts_from_now_not_from_its_start(sql: Contract) -> None:
    other = sql.connect()
    other.execute("begin")
    other.execute("select 1")
    sql.clock.run()
    [(started,)] = other.execute("select now()").fetchall()
    [(token,)] = other.execute("select redrive.acquire_lease('nightly', 60)").fetchall()
    other.execute("commit")
    assert sql.value("select lease_until > %s + interval '60 seconds' from redrive.lease", started)
    assert mine(sql, token)


def test_the_articles_lease_is_true_for_one_until_it_is_over(sql: Contract) -> None:
    call = "select redrive.claim_worker_lease('worker')"
    assert [sql.value(call) for _ in range(3)] == [True, None, None]
    sql.clock.move(54)
    assert sql.value(call) is None
    sql.clock.move(2)
    assert sql.value(call) is True
    assert sql.value("select redrive.claim_worker_lease('another', 10)") is True


def test_a_lease_taken_by_name_and_one_taken_by_token_are_the_same_table(sql: Contract) -> None:
    assert sql.value("select redrive.claim_worker_lease('worker', 60)")
    assert acquire(sql, name="worker") is None
    assert [(r.name, r.held) for r in sql("select * from redrive.leases()")] == [("worker", True)]


def test_an_operator_sees_leases_and_takes_them_away(sql: Contract) -> None:
    token = acquire(sql, 10)
    [row] = sql("select * from redrive.leases()")
    assert (row.name, row.token, row.held) == ("nightly", token, True)
    sql.clock.move(11)
    assert [r.held for r in sql("select * from redrive.leases()")] == [False]
    assert sql.value("select redrive.free_lease('nightly')") is True
    assert sql.value("select redrive.free_lease('nightly')") is False
    assert sql("select * from redrive.leases()") == []


@pytest.mark.parametrize("seconds", ["0", "-1", "null", "'NaN'", "'Infinity'"])
def test_a_time_that_is_none_is_refused(sql: Contract, seconds: str) -> None:
    token = acquire(sql)
    for call in (f"acquire_lease('other', {seconds})", f"renew_lease('nightly', {token}, {seconds})"):
        with pytest.raises(REFUSED, match="lease seconds is"):
            sql(f"select redrive.{call}")
    if seconds in ("0", "-1", "null"):
        with pytest.raises(REFUSED, match="lease seconds is"):
            sql(f"select redrive.claim_worker_lease('other', {seconds})")


@pytest.mark.parametrize("name", ["null", "''", "repeat('n', 256)"])
def test_a_name_that_is_none_is_refused(sql: Contract, name: str) -> None:
    for call in (f"acquire_lease({name}, 60)", f"claim_worker_lease({name})"):
        with pytest.raises(REFUSED, match="a lease name is 1 to 255 characters"):
            sql(f"select redrive.{call}")
