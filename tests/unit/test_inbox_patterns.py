"""Which handler gets an event: the pattern that fits and says most."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from redrive import ConfigError, Event, Job, Redrive, SyncJob
from redrive.inbox.handlers import Handlers
from redrive.inbox.patterns import Pattern

TEXT = st.text("ab.*", min_size=1, max_size=8)
NAME = st.text("ab.", max_size=8)


def event(type: str, action: str | None = None, source: str = "github") -> Event:
    return Event(id=None, source=source, event_id="1", type=type, action=action)


def chosen(*patterns: str, of: Event) -> str | None:
    handlers = Handlers()
    for pattern in patterns:
        handlers.add("github", pattern, lambda event: None)
    found = handlers.find(of)
    return None if found is None else found.pattern.text


class TestFitting:
    @given(TEXT, NAME)
    def test_a_star_is_any_text_and_all_else_is_itself(self, pattern: str, name: str) -> None:
        expected = re.fullmatch("".join("[^/]*" if c == "*" else re.escape(c) for c in pattern), name)
        assert Pattern(pattern).fits(name) is bool(expected)

    def test_a_star_is_dots_and_nothing_too(self) -> None:
        assert Pattern("video.*").fits("video.media.track.created")
        assert Pattern("video.*").fits("video.")
        assert not Pattern("video.*").fits("video")
        assert not Pattern("video.*").fits("a.video.x")

    def test_what_means_something_elsewhere_means_nothing_here(self) -> None:
        assert not Pattern("a.c").fits("abc")
        assert Pattern("a[b]?+(c)").fits("a[b]?+(c)")
        assert Pattern("*").fits("several\nlines")

    def test_many_stars_cost_no_more_than_one_each(self) -> None:
        assert not Pattern("*" * 200 + "b").fits("a" * 255)


class TestChoosing:
    def test_the_name_without_a_star_wins_then_the_longer_one(self) -> None:
        every = ("*", "pull_*", "pull_request*", "pull_request.*", "pull_request", "pull_request.opened")
        opened = event("pull_request", "opened")
        for n in range(len(every), 1, -1):
            assert chosen(*every[:n], of=opened) == every[n - 1]
        assert chosen(*reversed(every), of=opened) == "pull_request.opened"

    def test_the_type_alone_is_enough(self) -> None:
        assert chosen("pull_request", of=event("pull_request", "closed")) == "pull_request"
        assert chosen("pull_request.opened", of=event("pull_request", "closed")) is None
        assert chosen("pull_request.closed", of=event("pull_request")) is None

    def test_of_equals_the_later_star_wins_then_the_first_declared(self) -> None:
        assert chosen("*ab", "a*b", "ab*", of=event("ab")) == "ab*"
        assert chosen("a*b*", "a*b**", of=event("ab")) == "a*b*"

    def test_other_sources_are_other_sources(self) -> None:
        assert chosen("*", of=event("push", source="gitlab")) is None

    @given(st.lists(TEXT, min_size=1, unique=True), NAME)
    def test_one_that_fits_is_found_in_whichever_order_they_are_declared(
        self, patterns: list[str], name: str
    ) -> None:
        assume(name)
        found = chosen(*patterns, of=event(name))
        assert (found is not None) == any(Pattern(each).fits(name) for each in patterns)
        assert found is None or found in patterns


class TestDeclaring:
    def test_a_pattern_that_is_taken_is_refused_naming_both(self) -> None:
        app = Redrive()

        @app.on("github", "push")
        async def first(event: Event) -> None: ...

        with pytest.raises(ConfigError, match=r"'push' of github has the handler .*first.*second") as refused:

            @app.on("github", "push")
            def second(event: Event, job: SyncJob) -> None: ...

        assert "line" in str(refused.value)

    def test_a_handler_stays_the_function_it_is(self) -> None:
        app = Redrive()

        @app.on("github", "push")
        def handler(event: Event) -> str:
            return event.type

        assert handler(event("push")) == "push"

    @pytest.mark.parametrize("pattern", ["", None, 5])
    def test_a_pattern_is_text(self, pattern: object) -> None:
        with pytest.raises(ConfigError, match="must be text such as"):
            Redrive().on("github", pattern)(lambda event: None)  # type: ignore[arg-type]

    def test_a_handler_takes_an_event_and_perhaps_its_job(self) -> None:
        app = Redrive()

        async def nothing() -> None: ...
        async def only_job(job: Job) -> None: ...
        async def three(event: Event, job: Job, more: int) -> None: ...
        async def swapped(job: Job, event: Event) -> None: ...
        async def sync_job(event: Event, job: SyncJob) -> None: ...
        async def generator(event: Event):  # type: ignore[no-untyped-def]
            yield event

        for n, wrong in enumerate((nothing, only_job, three, swapped, sync_job, generator)):
            with pytest.raises(ConfigError, match=wrong.__name__):
                app.on("github", f"t{n}")(wrong)
