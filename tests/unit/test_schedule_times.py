"""When a schedule is due: cron texts over the changes of the clock, intervals, and what can never be due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice, pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from redrive.errors import ConfigError
from redrive.store.schedules import Due
from redrive.watch.scheduler import Plan
from redrive.watch.times import Times

BERLIN = ZoneInfo("Europe/Berlin")
# 2026: the clock goes from 02:00 to 03:00 on 29 March, from 03:00 back to 02:00 on 25 October.
SPRING = datetime(2026, 3, 28, 12, 0, tzinfo=BERLIN)
AUTUMN = datetime(2026, 10, 24, 12, 0, tzinfo=BERLIN)


def ticks(when: object, start: datetime, count: int, tz: str = "Europe/Berlin") -> list[str]:
    """Local times with their offset, in the order of the ticks."""
    found = islice(Times.of(when, tz).after(start), count)
    return [each.astimezone(ZoneInfo(tz)).strftime("%d %H:%M%z") for each in found]


def test_a_time_in_the_hour_that_is_left_out_is_due_when_that_hour_would_have_begun() -> None:
    assert ticks("30 2 * * *", SPRING, 3) == ["29 03:00+0200", "30 02:30+0200", "31 02:30+0200"]


def test_a_time_in_the_hour_that_comes_twice_is_due_once_in_the_first() -> None:
    assert ticks("30 2 * * *", AUTUMN, 3) == ["25 02:30+0200", "26 02:30+0100", "27 02:30+0100"]


def test_a_time_in_the_hour_that_comes_twice_is_not_due_again_for_who_begins_between() -> None:
    between = datetime(2026, 10, 25, 2, 15, fold=1, tzinfo=BERLIN)
    assert ticks("30 2 * * *", between, 1) == ["26 02:30+0100"]


def test_every_quarter_goes_on_as_time_does() -> None:
    spring = datetime(2026, 3, 29, 1, 40, tzinfo=BERLIN)
    assert ticks("*/15 * * * *", spring, 3) == ["29 01:45+0100", "29 03:00+0200", "29 03:15+0200"]
    autumn = datetime(2026, 10, 25, 2, 40, tzinfo=BERLIN)
    assert ticks("*/15 * * * *", autumn, 3) == ["25 02:45+0200", "25 02:00+0100", "25 02:15+0100"]


def test_an_interval_knows_no_clock_changes() -> None:
    found = list(islice(Times.of(3600, "Europe/Berlin").after(AUTUMN), 24))
    assert {b - a for a, b in pairwise(found)} == {timedelta(hours=1)}
    assert found[0] == AUTUMN + timedelta(hours=1)


@pytest.mark.parametrize("when", [1, 7, 90, 1.5, timedelta(minutes=3), 86400])
def test_an_intervals_ticks_are_the_same_whenever_one_begins(when: Any) -> None:
    times = Times.of(when, "UTC")
    start = datetime(2026, 5, 5, 5, 5, 5, 123456, tzinfo=UTC)
    found = list(islice(times.after(start), 10))
    assert times.first_after(found[3]) == found[4]
    assert times.first_after(found[3] - timedelta(microseconds=1)) == found[3]
    assert found[0] > start and times.every is not None
    assert (found[0] - datetime(1970, 1, 1, tzinfo=UTC)) % timedelta(seconds=float(times.every)) == timedelta(
        0
    )


@pytest.mark.parametrize("when", ["30 2 * * *", "*/15 * * * *", "0 */5 * * 1-5", "30 2,3 * * *", "0 0 1 * *"])
def test_a_cron_texts_ticks_are_the_same_whenever_one_begins(when: str) -> None:
    times = Times.of(when, "Europe/Berlin")
    for start in (SPRING, AUTUMN):
        whole = times.due(start.astimezone(UTC), (start + timedelta(days=40)).astimezone(UTC), 10_000)
        for begin in range(0, 60 * 36, 7):
            moment = (start.astimezone(UTC) + timedelta(minutes=begin, seconds=3)).astimezone(UTC)
            assert times.first_after(moment) == next(each for each in whole if each > moment)


@pytest.mark.parametrize("when", ["30 */1 * * *", "5 */2 * * *", "*/20 * * * *", "30 1,2 * * *"])
def test_half_an_hour_of_lord_howe_is_the_same_whenever_one_begins(when: str) -> None:
    times = Times.of(when, "Australia/Lord_Howe")
    for night in (datetime(2026, 4, 4, 10, tzinfo=UTC), datetime(2026, 10, 3, 10, tzinfo=UTC)):
        whole = times.due(night, night + timedelta(hours=40), 1000)
        for minutes in range(0, 60 * 14, 7):
            moment = night + timedelta(minutes=minutes)
            assert times.first_after(moment) == next(each for each in whole if each > moment)


def test_short_forms_are_what_they_stand_for() -> None:
    assert Times.of("@hourly", "UTC").cron == "0 * * * *"
    assert Times.of("@Daily", "UTC").cron == "0 0 * * *"


@pytest.mark.parametrize(
    ("when", "sentence"),
    [
        ("0 3 * * * *", r"has 6 fields; it has five: minute, .*for seconds give a number"),
        ("0 3 * *", "has 4 fields"),
        ("", "has 0 fields"),
        ("@reboot", "names no time; write five fields"),
        ("61 * * * *", "cannot be read: bad minute"),
        ("0 0 30 2 *", "cannot be read: bad day-of-month"),
        ("a b c d e", "cannot be read"),
        (0, "must be a finite number >= 1"),
        (0.5, "must be a finite number >= 1"),
        (-5, "must be a finite number >= 1"),
        (True, "must be a number of seconds"),
        (None, "a schedule is a cron text or a number of seconds"),
        (float("nan"), "must be a finite number"),
        (1e12, "the longest is a hundred years"),
        (timedelta(0), "must be a finite number >= 1"),
    ],
)
def test_what_can_never_be_due_is_refused(when: object, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        Times.of(when, "UTC")


@pytest.mark.parametrize(
    "tz", ["Europe/Berlim", "", "../etc/passwd", "/etc/localtime", None, 5, "localtime", "right/UTC"]
)
def test_an_unknown_zone_is_refused(tz: object) -> None:
    with pytest.raises(ConfigError, match="time zone"):
        Times.of("0 3 * * *", tz)


def test_a_machine_without_zones_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redrive.watch.times.available_timezones", set)
    with pytest.raises(ConfigError, match="no time zones at all: install tzdata"):
        Times.of("0 3 * * *", "Europe/Nowhere")


def test_the_newest_of_a_year_of_minutes_is_found_at_once() -> None:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    times = Times.of("* * * * *", "UTC")
    assert times.newest(now - timedelta(days=400), now, 3) == [
        now - timedelta(minutes=2),
        now - timedelta(minutes=1),
        now,
    ]
    assert times.newest(now - timedelta(minutes=1), now, 3) == [now - timedelta(minutes=1), now]
    rare = Times.of("0 0 29 2 *", "UTC")
    assert rare.newest(datetime(2000, 1, 1, tzinfo=UTC), now, 1) == [datetime(2024, 2, 29, tzinfo=UTC)]


# --- what is missed ---

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def plan(missed: str, late: float, *, every: float = 60) -> tuple[list[float], list[float], float]:
    """Sent and missed ticks and the next one, in seconds from noon, where the first was due at noon."""
    now = NOON + timedelta(seconds=late)
    due = Due("x", 1, None, Decimal(str(every)), "UTC", missed, "allow", NOON, NOON, False, now)
    made = Plan(due)

    def since(moment: datetime) -> float:
        return (moment - NOON).total_seconds()

    return [since(each) for each in made.ticks], [since(each) for each in made.missed], since(made.next_at)


@pytest.mark.parametrize("missed", ["skip", "one", "all"])
def test_in_time_a_tick_is_sent_whatever_the_policy(missed: str) -> None:
    assert plan(missed, 0.2) == ([0], [], 60)
    assert plan(missed, -0.2) == ([], [], 0)


def test_a_scheduler_that_was_down_over_five_ticks() -> None:
    assert plan("skip", 4 * 60 + 40) == ([], [0, 60, 120, 180, 240], 300)
    assert plan("one", 4 * 60 + 40) == ([240], [0, 60, 120, 180], 300)
    assert plan("all", 4 * 60 + 40) == ([0, 60, 120, 180, 240], [], 300)


def test_a_tick_is_missed_after_half_of_the_gap_or_a_minute() -> None:
    assert plan("skip", 30) == ([0], [], 60)
    assert plan("skip", 31) == ([], [0], 60)
    assert plan("skip", 60, every=3600) == ([0], [], 3600)
    assert plan("skip", 61, every=3600) == ([], [0], 3600)


def test_all_are_made_up_a_thousand_a_call_and_the_rest_with_the_next() -> None:
    sent, missed, following = plan("all", 5000, every=1)
    assert (len(sent), sent[0], sent[-1], missed, following) == (1000, 0, 999, [], 1000)


def test_of_very_many_missed_ticks_the_newest_are_noted() -> None:
    sent, missed, following = plan("one", 10_000_000, every=1)
    assert (sent, len(missed), following) == ([10_000_000], 100, 10_000_001)


def test_missed_ticks_of_a_cron_text_are_found_however_long_ago() -> None:
    due = Due("x", 1, "0 * * * *", None, "UTC", "one", "allow", NOON, NOON, False, NOON + timedelta(hours=60))
    made = Plan(due)
    assert made.ticks == [due.now] and len(made.missed) == 60
    assert len(Plan(due._replace(now=NOON + timedelta(days=300))).missed) == 100
    skipped = Plan(due._replace(missed="skip", now=NOON + timedelta(hours=100, minutes=30)))
    assert (skipped.ticks, len(skipped.missed)) == ([], 100)


@pytest.mark.parametrize("missed", ["one", "all"])
def test_what_stands_as_next_is_a_tick_whatever_the_times_say(missed: str) -> None:
    due = Due("x", 1, None, Decimal(600), "UTC", missed, "allow", NOON, NOON, False, NOON)
    made = Plan(due._replace(next_at=NOON + timedelta(seconds=7), now=NOON + timedelta(seconds=9)))
    assert (made.ticks, made.missed) == ([NOON + timedelta(seconds=7)], [])
    assert made.next_at == NOON + timedelta(seconds=600)
