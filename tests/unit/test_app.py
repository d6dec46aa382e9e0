# pyright: reportUnnecessaryTypeIgnoreComment=error
"""Declaring jobs, and finding the app that declares them."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar, assert_type, cast

import pytest
from pydantic import BaseModel

from redrive import Backoff, ConfigError, InvalidArgument, Job, JobHandle, Redrive, SyncJob
from redrive.app import load_app

P = TypeVar("P")


class Email(BaseModel):
    template: str


async def send_email(email: Email, job: Job) -> None:
    """Send one email."""


def other(payload: dict[str, Any]) -> int:
    return payload["n"] + 1


class TestDeclaring:
    def test_a_job_is_still_the_function(self) -> None:
        handle = Redrive().job("q")(other)
        assert handle({"n": 1}) == 2
        assert getattr(handle, "__name__", None) == "other"
        assert Redrive().job("q")(send_email).__doc__ == "Send one email."

    def test_the_app_knows_its_jobs_by_queue(self) -> None:
        app = Redrive(decimals=True)
        handle = app.job("email_jobs", max_attempts=3)(send_email)
        assert dict(app.jobs) == {"email_jobs": handle.definition}
        assert handle.definition.decimals
        assert handle.queue == "email_jobs"

    def test_only_what_is_given_is_declared_and_none_means_none(self) -> None:
        app = Redrive()
        given = app.job("a", timeout=None, key_field=None, concurrency=None, backoff=Backoff(base=1))(other)
        assert given.definition.policy.declared() == {
            "timeout": None,
            "key_field": None,
            "backoff": {"base": 1, "factor": 2, "cap": 3600, "jitter": 0.2},
        }
        assert app.job("b")(other).definition.policy.declared() == {}

    def test_a_second_job_for_a_queue_is_refused_naming_both(self) -> None:
        app = Redrive()
        app.job("email_jobs")(send_email)
        with pytest.raises(ConfigError, match=r"has the job .*send_email \(line \d+\); .*other \(line \d+\)"):
            app.job("email_jobs")(other)

    @pytest.mark.parametrize(
        ("policy", "problem"),
        [
            ({"max_attempt": 3}, "there is no policy 'max_attempt'; there are: archive, archive_max_bytes"),
            ({"max_attempts": 0}, "max_attempts is 0; it must be a whole number >= 1"),
            ({"visibility_timeout": -5}, "visibility_timeout is -5"),
        ],
    )
    def test_a_policy_that_cannot_be_right_is_refused_naming_the_queue(
        self, policy: Any, problem: str
    ) -> None:
        with pytest.raises(ConfigError, match=f"job of queue 'email_jobs': {problem}"):
            Redrive().job("email_jobs", **policy)

    @pytest.mark.parametrize("name", ["", "a b", "jobs_dlq", "1st", "a" * 44, 'a"b', None])
    def test_a_name_that_no_queue_has_is_refused(self, name: Any) -> None:
        with pytest.raises(InvalidArgument, match=r"queue name .* is refused; the rule is"):
            Redrive().job(name)

    @pytest.mark.parametrize("limit", [0, -1, "1", 1.5])
    def test_a_payload_limit_is_a_number_of_bytes(self, limit: Any) -> None:
        with pytest.raises(InvalidArgument, match="max_payload"):
            Redrive(max_payload=limit)


def payload_of(handle: JobHandle[P, ..., Any]) -> P:
    """The payload's type, for the type checker; nothing at run time."""
    return cast("P", handle.queue)


def test_the_types_of_handles_follow_the_signature() -> None:
    """What pyright makes of each kind of handler; at run time this only has to import."""
    app = Redrive()

    @app.job("a")
    async def both(email: Email, job: Job) -> None: ...

    @app.job("b")
    def payload_only(email: Email) -> None: ...

    @app.job("c")
    def job_only(job: SyncJob) -> None: ...

    @app.job("d")
    async def neither() -> None: ...

    assert_type(payload_of(both), Email)
    assert_type(payload_of(payload_only), Email)
    assert_type(payload_of(job_only), None)
    assert_type(payload_of(neither), None)

    async def sending() -> None:
        await both.send(Email(template="welcome"), key="k", delay=30)
        await payload_only.send_many([Email(template="welcome")], keys=["k"])
        await job_only.send(None)
        await neither.send(None)
        await both.send({"template": "welcome"})  # pyright: ignore[reportArgumentType]
        await both.send(Email(template="w"), dely=3)  # pyright: ignore[reportCallIssue]

    assert sending


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    """A working directory whose modules are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


class TestLoading:
    def test_an_app_is_found_in_the_working_directory(self, project: Path) -> None:
        (project / "shop_jobs.py").write_text("import redrive\napp = redrive.Redrive('postgresql://h/d')\n")
        assert load_app("shop_jobs:app").database_url == "postgresql://h/d"

    def test_an_app_is_found_in_a_package_and_in_an_object(self, project: Path) -> None:
        (project / "shop_package").mkdir()
        (project / "shop_package" / "jobs.py").write_text(
            "import redrive\nclass Shop:\n    app = redrive.Redrive()\nshop = Shop()\n"
        )
        assert isinstance(load_app("shop_package.jobs:shop.app"), Redrive)

    @pytest.mark.parametrize(
        ("name", "problem"),
        [
            ("shop_broken", "is no app name; name it as module:attribute"),
            (":app", "is no app name"),
            ("shop_broken:", "is no app name"),
            ("nowhere_shop:app", "there is no module 'nowhere_shop' here"),
            ("nowhere_shop.jobs:app", "there is no module 'nowhere_shop' here"),
            ("shop_ok.jobs:app", "there is no module 'shop_ok.jobs' here"),
            ("./shop/jobs.py:app", "names a file; name the module: shop.jobs:app"),
            ("shop_ok:nothing", r"module shop_ok \(.*shop_ok.py\) has no 'nothing'"),
            ("shop_ok:number", "is a builtins.int, not a Redrive"),
            ("shop_ok:handler", "is a redrive.app.handle.JobHandle, not a Redrive"),
            ("shop_raises:app", "importing shop_raises failed with ZeroDivisionError: division by zero"),
            ("shop_syntax:app", "importing shop_syntax failed with SyntaxError"),
            ("shop_imports:app", "shop_imports imports 'no_such_library', which is not installed"),
            ("shop_twice:app", r"queue 'q' has the job shop_twice.one \(line 4\); shop_twice.two \(line 6\)"),
        ],
    )
    def test_an_app_that_cannot_be_had_is_refused_in_a_sentence(
        self, project: Path, name: str, problem: str
    ) -> None:
        (project / "shop_ok.py").write_text(
            "import redrive\napp = redrive.Redrive()\nnumber = 3\n@app.job('q')\ndef handler(payload): ...\n"
        )
        (project / "shop_raises.py").write_text("1 / 0\n")
        (project / "shop_syntax.py").write_text("def\n")
        (project / "shop_imports.py").write_text("import no_such_library\n")
        (project / "shop_twice.py").write_text(
            "import redrive\napp = redrive.Redrive()\n\n"
            "@app.job('q')\ndef one(payload): ...\n@app.job('q')\ndef two(payload): ...\n"
        )
        with pytest.raises(ConfigError, match=problem):
            load_app(name)
