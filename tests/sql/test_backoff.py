"""backoff: least(cap, base * factor^(n - 1)), less up to `jitter` of itself, and never an error."""

from __future__ import annotations

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.contract import Contract
from tests.support.layouts import newest_only

pytestmark = newest_only


def backoff(sql: Contract, attempt: int, base: float, factor: float, cap: float, jitter: float = 0) -> float:
    call = "select redrive.backoff(%s, %s::numeric, %s::numeric, %s::numeric, %s::numeric)::float"
    return sql.value(call, attempt, base, factor, cap, jitter)


def test_the_first_delay_is_the_base_and_each_one_grows_by_the_factor_up_to_the_cap(sql: Contract) -> None:
    delays = [backoff(sql, n, 30, 2, 3600) for n in range(1, 11)]
    assert delays == [30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_it_never_raises_from_the_first_to_the_millionth_attempt(sql: Contract) -> None:
    counts = sql(
        "select count(*), min(d), max(d) from generate_series(1, 1000000, 97) n, "
        "redrive.backoff(n, 30, 2, 3600, 0) d"
    )
    assert counts == [(10310, 30, 3600)]


@pytest.mark.parametrize("attempt", [26, 27, 31, 1023, 1024, 1025, 10**6, 2**31 - 1])
@pytest.mark.parametrize("factor", [1, 1.0001, 2, 1000, 1e9])
def test_the_attempts_where_naive_arithmetic_overflows_are_capped(
    sql: Contract, attempt: int, factor: float
) -> None:
    expected = min(3600.0, 30 * math.exp(min(700, (attempt - 1) * math.log(factor))))
    assert backoff(sql, attempt, 30, factor, 3600) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("attempt", [0, -1, -(2**31)])
def test_an_attempt_below_one_counts_as_the_first(sql: Contract, attempt: int) -> None:
    assert backoff(sql, attempt, 30, 2, 3600) == 30


def test_a_base_above_the_cap_is_the_cap(sql: Contract) -> None:
    assert backoff(sql, 1, 100, 2, 10) == 10


def test_nothing_to_wait_is_nothing(sql: Contract) -> None:
    assert backoff(sql, 5, 0, 2, 3600) == 0
    assert backoff(sql, 5, 30, 2, 0) == 0


@pytest.mark.parametrize("attempt", [1, 3, 50])
def test_jitter_takes_off_up_to_its_share_at_the_cap_too(sql: Contract, attempt: int) -> None:
    full = backoff(sql, attempt, 30, 2, 3600)
    [(least, most, different)] = sql(
        "select min(d)::float, max(d)::float, count(distinct d) from (select redrive.backoff("
        "%s, 30, 2, 3600, 0.2) as d from generate_series(1, 1000)) delays",
        attempt,
    )
    assert 0.8 * full <= least < 0.83 * full
    assert 0.97 * full < most <= full
    assert different > 900


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    attempt=st.integers(-(2**31), 2**31 - 1),
    base=st.floats(0, 1e9),
    factor=st.floats(1, 1e9),
    cap=st.floats(0, 1e9),
    jitter=st.floats(0, 1),
)
def test_whatever_a_policy_may_say_the_delay_lies_between_nothing_and_the_cap(
    sql: Contract, attempt: int, base: float, factor: float, cap: float, jitter: float
) -> None:
    delay = backoff(sql, attempt, base, factor, cap, jitter)
    assert -1e-6 <= delay <= cap + 1e-6
    if jitter == 0 and attempt <= 1:
        assert delay == pytest.approx(min(base, cap), abs=1e-6)
