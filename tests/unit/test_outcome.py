"""The decision table: what a delivery ends in, from how its handler ended."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.job import Ignored, Malformed, Reject, Retry, Snooze
from redrive.worker.outcome import (
    MESSAGE_LIMIT,
    TRACEBACK_LIMIT,
    Decision,
    Ending,
    clean,
    decide,
    failure,
    given_up,
    message_of,
    traceback_of,
)

REASONS = ("timeout", "drain", "lost")


def raised(error: BaseException) -> BaseException:
    """The error with a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


class TestAHandlerThatWasNotCalledOff:
    def test_is_done_when_it_returns_none(self) -> None:
        assert decide(Ending()).outcome == "done"

    @pytest.mark.parametrize("answer", [Retry(), Retry(5), Retry(0, "later")])
    def test_is_retried_as_it_asks(self, answer: Retry) -> None:
        for ending in (Ending(value=answer), Ending(error=answer)):
            decision = decide(ending)
            assert (decision.outcome, decision.delay) == ("retry", answer.after)
            assert decision.error == str(answer)

    def test_is_snoozed_as_it_asks(self) -> None:
        for ending in (Ending(value=Snooze(7)), Ending(error=Snooze(7))):
            assert decide(ending) == Decision("snooze", 7.0)

    def test_is_rejected_as_it_asks(self) -> None:
        for ending in (Ending(value=Reject("no such user")), Ending(error=Reject("no such user"))):
            decision = decide(ending)
            assert (decision.outcome, decision.error) == ("reject", "no such user")

    def test_is_malformed_when_the_payload_does_not_fit(self) -> None:
        decision = decide(Ending(error=Malformed("$.user_id: not a UUID")))
        assert (decision.outcome, decision.error) == ("malformed", "$.user_id: not a UUID")

    def test_is_a_failed_attempt_when_it_raises(self) -> None:
        decision = decide(Ending(error=raised(KeyError("template"))))
        assert (decision.outcome, decision.delay) == ("retry", None)
        assert (decision.error_type, decision.error) == ("KeyError", "'template'")
        assert "raise error" in (decision.traceback or "")

    @pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
    def test_is_a_failed_attempt_also_when_what_it_raises_is_no_exception(self, error: BaseException) -> None:
        assert decide(Ending(error=error)).outcome == "retry"

    @pytest.mark.parametrize("value", [True, False, 0, "ok", [], Retry, object()])
    def test_is_a_failed_attempt_when_it_returns_something_else(self, value: object) -> None:
        decision = decide(Ending(value=value))
        assert (decision.outcome, decision.error_type) == ("retry", "UnknownOutcome")
        assert "return one of these" in (decision.error or "")

    def test_does_not_show_the_value_it_returned(self) -> None:
        assert "s3cret" not in str(decide(Ending(value="s3cret")))

    @pytest.mark.parametrize("called_off", [None, "timeout", "drain"])
    def test_leaves_an_event_that_nobody_takes_as_ignored(self, called_off: Any) -> None:
        for said in (Ending(value=Ignored()), Ending(error=Ignored())):
            assert decide(replace(said, called_off=called_off)) == Decision("ignored")


class TestAHandlerThatWasCalledOff:
    @pytest.mark.parametrize("why", REASONS)
    def test_is_done_when_it_ended_well_without_being_told(self, why: str) -> None:
        assert decide(Ending(called_off=why, told=False)).outcome == "done"  # pyright: ignore[reportArgumentType]

    def test_is_a_failed_attempt_after_its_timeout(self) -> None:
        for error in (None, asyncio.CancelledError(), ValueError("x")):
            decision = decide(Ending(error=error, called_off="timeout", told=True, timeout=300))
            assert (decision.outcome, decision.error_type) == ("retry", "Timeout")
            assert "timeout of 300 s" in (decision.error or "")

    def test_is_given_back_by_a_drain(self) -> None:
        for error in (None, asyncio.CancelledError(), ValueError("x")):
            assert decide(Ending(error=error, called_off="drain", told=True)).outcome == "release"

    def test_failed_all_the_same_when_it_raised_without_being_told(self) -> None:
        ending = Ending(error=ValueError("x"), called_off="drain", told=False)
        assert decide(ending).outcome == "retry"

    @pytest.mark.parametrize("why", ["timeout", "drain"])
    @pytest.mark.parametrize(("answer", "outcome"), [(Retry(5), "retry"), (Reject("x"), "reject")])
    def test_may_still_say_what_it_wants(self, why: str, answer: Exception, outcome: str) -> None:
        for said in ({"value": answer}, {"error": answer}):
            decision = decide(Ending(**said, called_off=why, told=True))  # pyright: ignore[reportArgumentType]
            assert (decision.outcome, decision.error_type) == (outcome, type(answer).__name__)

    def test_may_snooze_in_a_drain(self) -> None:
        assert decide(Ending(value=Snooze(5), called_off="drain", told=True)).outcome == "snooze"

    @pytest.mark.parametrize("told", [True, False])
    def test_cannot_snooze_its_way_out_of_a_timeout(self, told: bool) -> None:
        for said in ({"value": Snooze(5)}, {"error": Snooze(5)}):
            decision = decide(Ending(**said, called_off="timeout", told=told, timeout=300))  # pyright: ignore[reportArgumentType]
            assert (decision.outcome, decision.delay, decision.error_type) == ("retry", None, "Timeout")
            assert "timeout of 300 s" in (decision.error or "") and "Snooze" in (decision.error or "")

    @pytest.mark.parametrize(
        "error", [None, ValueError("x"), Retry(), Snooze(1), Reject("x"), Ignored(), Malformed("x")]
    )
    def test_says_nothing_when_the_message_was_lost(self, error: BaseException | None) -> None:
        assert decide(Ending(error=error, called_off="lost", told=True)).outcome == "nothing"

    def test_that_never_stops_is_reported_by_why_it_should_have(self) -> None:
        assert given_up("timeout", 5).outcome == "retry"
        assert given_up("drain", 5).outcome == "release"
        assert given_up("lost", 5).outcome == "nothing"


endings = st.builds(
    Ending,
    value=st.sampled_from([None, 1, Retry(), Snooze(1), Reject("x"), Ignored()]),
    error=st.sampled_from([None, ValueError("x"), asyncio.CancelledError(), Retry(2), Malformed("m")]),
    called_off=st.sampled_from([None, *REASONS]),
    told=st.booleans(),
    committed=st.booleans(),
    timeout=st.sampled_from([None, 5.0]),
)


class TestWhateverHappens:
    @given(endings)
    def test_there_is_nothing_to_report_once_its_own_transaction_has(self, ending: Ending) -> None:
        if ending.committed:
            assert decide(ending).outcome == "nothing"

    @given(endings)
    def test_only_a_plain_return_is_done(self, ending: Ending) -> None:
        if decide(ending).outcome == "done":
            assert ending.error is None and ending.value is None and not ending.told

    @given(endings)
    def test_every_failure_says_what_it_was(self, ending: Ending) -> None:
        decision = decide(ending)
        if decision.outcome in ("retry", "reject", "malformed"):
            assert decision.error_type and decision.error

    @given(endings)
    def test_nothing_is_given_back_but_by_a_drain(self, ending: Ending) -> None:
        if decide(ending).outcome == "release":
            assert ending.called_off == "drain"


class TestWhatIsKeptOfAnError:
    @given(st.text(max_size=300).map(lambda text: text * 20), st.integers(2, 500))
    def test_can_be_stored_and_is_bounded(self, text: str, limit: int) -> None:
        for keep in ("start", "end"):
            kept = clean(text, limit, keep=keep)  # pyright: ignore[reportArgumentType]
            assert len(kept) <= limit
            assert "\x00" not in kept
            kept.encode()

    def test_is_the_start_of_the_message_and_the_end_of_the_traceback(self) -> None:
        error = raised(ValueError("a" * 5_000 + "z"))
        assert message_of(error).startswith("aaa") and len(message_of(error)) == MESSAGE_LIMIT
        long = raised(ValueError("b" * 20_000 + "z"))
        assert traceback_of(long).rstrip().endswith("z") and len(traceback_of(long)) == TRACEBACK_LIMIT

    def test_survives_an_error_that_cannot_be_written(self) -> None:
        class Mute(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no words")

        decision = failure(raised(Mute()))
        assert "RuntimeError" in (decision.error or "")
        assert decision.traceback

    def test_names_the_type_with_its_module(self) -> None:
        import decimal

        assert failure(raised(decimal.InvalidOperation())).error_type == "decimal.InvalidOperation"

    @pytest.mark.parametrize("text", ["a\x00b", "lone \ud800 surrogate"])
    def test_is_free_of_what_postgres_refuses(self, text: str) -> None:
        decision = failure(raised(ValueError(text)))
        for kept in (decision.error or "", decision.traceback or ""):
            assert "\x00" not in kept
            kept.encode()
