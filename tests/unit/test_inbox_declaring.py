"""What an app may say of its inboxes, and what it is told when that cannot be right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from redrive import Backoff, ConfigError, Event, Redrive
from redrive.policy import QueuePolicy

GITHUB: dict[str, Any] = {"provider": "github", "queue": "hooks", "secret": "x"}


class Api:
    """An API that knows nothing, with a policy."""

    def __init__(self, **policy: Any) -> None:
        self.policy: Mapping[str, Any] = policy


def declare(app: Redrive, source: Any = "github", **given: Any) -> None:
    values: dict[str, Any] = {**GITHUB, **given}
    app.inbox(source, **values)


def refused(app: Redrive, source: Any = "github", **given: Any) -> str:
    with pytest.raises(ConfigError) as error:
        declare(app, source, **given)
    return str(error.value)


def policy_of(app: Redrive, queue: str = "hooks") -> QueuePolicy:
    return app.jobs[queue].policy


class TestAnInbox:
    def test_is_known_by_its_source_and_gives_its_queue_a_job(self) -> None:
        app = Redrive()
        declare(app, "github", max_attempts=7, backoff=Backoff(base=1))
        assert app.inboxes["github"].provider.name == "github"
        assert app.inboxes["github"].limit == 25 * 1024 * 1024
        assert list(app.jobs) == ["hooks"]
        assert (policy_of(app).max_attempts, policy_of(app).backoff) == (7, Backoff(base=1))
        assert app.jobs["hooks"].is_async and app.jobs["hooks"].wants_job

    @pytest.mark.parametrize("source", ["", "GitHub", "a/b", "1st", "a b", "x" * 64, None, "a.b"])
    def test_has_a_source_that_fits_a_url(self, source: Any) -> None:
        assert "part of a URL" in refused(Redrive(), source)

    def test_has_a_provider_there_is(self) -> None:
        said = refused(Redrive(), provider="gitlab")
        assert "no provider 'gitlab'" in said and "standard-webhooks" in said

    @pytest.mark.parametrize(
        ("given", "what"),
        [
            ({"queue": "x y"}, "queue name"),
            ({"limit": 0}, "limit is 0"),
            ({"tolerance": -1}, "tolerance is -1"),
            ({"config": {"nonsense": 1}}, "nonsense"),
            ({"provider": "generic"}, "signature_header"),
            ({"max_attempts": 0}, "max_attempts is 0"),
            ({"colour": "red"}, "no policy 'colour'"),
        ],
    )
    def test_says_what_is_wrong_and_of_which_inbox(self, given: dict[str, Any], what: str) -> None:
        said = refused(Redrive(), **given)
        assert what in said and "github" in said

    def test_is_declared_once(self) -> None:
        app = Redrive()
        declare(app)
        assert "declared twice" in refused(app, queue="other")

    def test_does_not_show_its_secret(self) -> None:
        app = Redrive()
        declare(app, "github", secret="hunter2")
        assert "hunter2" not in repr(app.inboxes["github"]) + repr(dict(app.inboxes))


class TestItsQueue:
    def test_may_be_shared_by_inboxes_and_not_with_a_job(self) -> None:
        app = Redrive()

        @app.job("mail")
        async def send_mail() -> None: ...

        declare(app)
        declare(app, "stripe", provider="stripe")
        assert set(app.jobs) == {"mail", "hooks"}
        assert "send_mail" in refused(app, "linear", queue="mail")
        with pytest.raises(ConfigError, match=r"inbox github, stripe; .*second"):

            @app.job("hooks")
            async def second() -> None: ...

    def test_has_the_policy_that_its_inboxes_have_said(self) -> None:
        app = Redrive()
        declare(app, "github", max_attempts=7)
        declare(app, "stripe", timeout=30, max_attempts=7)
        assert (policy_of(app).max_attempts, policy_of(app).timeout) == (7, 30)
        said = refused(app, "linear", max_attempts=8)
        assert "max_attempts 7 from inbox github, stripe" in said and "8" in said

    def test_takes_from_an_api_what_nobody_has_said(self) -> None:
        app = Redrive()
        declare(app, "fastpix", api=Api(max_attempts=7, concurrency=10), max_attempts=3)
        declare(app, "github", api=Api(max_attempts=9, concurrency=2))
        assert (policy_of(app).max_attempts, policy_of(app).concurrency) == (3, 10)


class TestHandlers:
    def test_of_a_source_without_an_inbox_are_found_out_when_the_app_is_used(self) -> None:
        app = Redrive()

        @app.on("gihub", "push")
        async def pushed(event: Event) -> None: ...

        declare(app)
        for use in (lambda: app.jobs, lambda: app.inboxes):
            with pytest.raises(ConfigError, match=r"pushed .*handles events of 'gihub'.* are: github"):
                use()

    def test_may_be_declared_before_their_inbox_and_after_it_was_used(self) -> None:
        app = Redrive()

        @app.on("github", "push")
        async def pushed(event: Event) -> None: ...

        declare(app)
        job = app.jobs["hooks"]

        @app.on("github", "*")
        async def otherwise(event: Event) -> None: ...

        assert app.jobs["hooks"] is job


class TestAnEvent:
    def test_of_a_message_sent_by_hand_is_known_by_its_payload(self) -> None:
        app = Redrive()
        declare(app, "linear", provider="linear")
        event = app.inboxes["linear"].event_of({"type": "Issue", "action": "create", "data": {"id": "7"}})
        assert (event.id, event.name, event.resource) == (None, "Issue.create", "7")
        assert event.event_id.startswith("sha256:") and b'"Issue"' in event.raw

    def test_has_its_body_unpacked(self) -> None:
        import gzip

        packed = gzip.compress(b"hello")
        assert Event("1", "s", "e", "t", raw=packed, headers={"content-encoding": "gzip"}).body == b"hello"
        assert Event("1", "s", "e", "t", raw=packed, headers={"content-encoding": "br"}).body == packed
        assert Event("1", "s", "e", "t", raw=b"hello").body == b"hello"

    def test_does_not_show_what_it_holds(self) -> None:
        shown = repr(Event("1", "s", "e", "t", raw=b"hunter2", payload={"a": "hunter2"}))
        assert "hunter2" not in shown
