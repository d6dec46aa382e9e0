"""What an app may say of its inboxes, and what it is told when that cannot be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from redrive import Backoff, ConfigError, Event, Redrive
from redrive.inbox.source import Signal
from redrive.policy import QueuePolicy

GITHUB: dict[str, Any] = {"provider": "github", "queue": "hooks", "secret": "x"}


class Api:
    """An API that knows nothing, with a policy."""

    def __init__(self, **policy: Any) -> None:
        self.policy: Mapping[str, Any] = policy

    def resources(self, event: Signal) -> Sequence[str]:
        return []

    def schema(self, source: str) -> str:
        return ""

    async def close(self) -> None: ...


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
            ({"provider": []}, "no provider []"),
            ({"limit": 256_000_001}, "limit is 256,000,001 bytes; it must be at most 256,000,000"),
            ({"tolerance": "5", "provider": "stripe"}, "tolerance must be a number of seconds"),
            ({"config": "x"}, "config must be a dict of settings and their values, not str"),
            ({"config": 5}, "config must be a dict"),
            ({"api": object()}, "api, a object, has no resources, schema, close; give"),
            ({"api": Api(colour="red")}, "'colour'"),
            ({"api": Api(max_attempts=0)}, "the policy of api, a Api, is refused: max_attempts is 0"),
            ({"api": Api}, "api is the class Api; make an object of it: Api(...)"),
            ({"url": "https://shop.example/x"}, "github does not sign where it posts to; remove it"),
        ],
    )
    def test_says_what_is_wrong_and_of_which_inbox(self, given: dict[str, Any], what: str) -> None:
        said = refused(Redrive(), **given)
        assert what in said and "github" in said

    @pytest.mark.parametrize(
        "url",
        [
            *(5, b"https://shop.example", "", "shop.example/x", "/x", "https://", "https:///x", "http://[/x"),
            *("ftp://shop.example/x", "http://a:99999/x", "http://a b/x", "https://a/x\n", "https://a/x#y"),
        ],
    )
    def test_of_twilio_has_the_url_that_twilio_posts_to(self, url: Any) -> None:
        said = refused(Redrive(), "sms", provider="twilio", url=url)
        assert f"inbox sms: url {url!r} is not http(s):// with a host" in said

    def test_does_not_show_the_password_of_a_url(self) -> None:
        assert "hunter2" not in refused(Redrive(), provider="twilio", url="ftp://me:hunter2@shop.example/x")

    def test_keeps_its_url_whatever_host_a_request_names(self) -> None:
        app = Redrive()
        declare(app, "sms", provider="twilio", url="https://me:pass@shop.example:8443/x")
        public = app.inboxes["sms"].public
        assert public("http://[/webhooks/sms") == "https://me:pass@shop.example:8443/x"
        assert public("http://[/webhooks/sms?a=1&b") == "https://me:pass@shop.example:8443/x?a=1&b"

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

    @pytest.mark.parametrize("what", [5, None, "push", object(), Api, {}])
    def test_are_functions(self, what: Any) -> None:
        app = Redrive()
        declare(app)
        with pytest.raises(ConfigError, match="is no function; a handler is a"):
            app.on("github", "push")(what)
        with pytest.raises(ConfigError, match="is no function; a handler is a"):
            app.job("mail")(what)

    def test_are_not_taken_where_nobody_would_await_them(self) -> None:
        class Pushed:
            async def __call__(self, event: Event) -> None: ...

        app = Redrive()
        declare(app)
        with pytest.raises(ConfigError, match="Pushed is an object whose call is async"):
            app.on("github", "push")(Pushed())

    @pytest.mark.parametrize("source", [None, 5, [], ""])
    def test_name_their_source_as_text(self, source: Any) -> None:
        def pushed(event: Event) -> None: ...

        with pytest.raises(ConfigError, match=r"pushed .*the source must be text"):
            Redrive().on(source, "push")(pushed)


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
