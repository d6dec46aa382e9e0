"""The pytest fixtures, in the test-suites of users, each run by a pytest of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

pytest_plugins = "pytester"

ROOT = Path(__file__).parents[2]

_APP = """
from redrive import Redrive
app = Redrive("postgresql://somebody@production.example/shop")

@app.job("mails")
async def mail(payload: dict) -> None: ...
"""
_SHARED_SERVER = """
import pytest

@pytest.fixture(scope="session")
def redrive_server():
    return {url!r}
"""


@pytest.fixture(autouse=True)
def strict(pytester: pytest.Pytester) -> None:
    """Each suite takes a warning for an error."""
    pytester.makeini(
        """
        [pytest]
        asyncio_mode = auto
        asyncio_default_fixture_loop_scope = function
        filterwarnings = error
        """
    )


def test_a_suite_that_does_not_use_redrive_does_not_even_import_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_nothing_of_it_is_here():
            loaded = {name.partition(".")[0] for name in sys.modules}
            assert loaded & {"pytest_redrive", "redrive", "psycopg", "pydantic"} == {"pytest_redrive"}
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_fixtures_say_what_they_are(pytester: pytest.Pytester) -> None:
    ran = pytester.runpytest_subprocess("--fixtures")
    for name in ("redrive_server [session scope]", "redrive_database", "redrive_use", "redrive_clock"):
        ran.stdout.fnmatch_lines([f"{name.replace('[', '[[]')} -- *pytest_redrive.py:*"])


def test_the_examples_are_tests_that_pass(pytester: pytest.Pytester) -> None:
    examples = [str(ROOT / f"examples/test_{name}.py") for name in ("email", "webhooks")]
    pytester.runpytest_subprocess("-c", str(ROOT / "pyproject.toml"), *examples).assert_outcomes(passed=2)


def test_the_processes_of_a_run_share_a_server_that_is_gone_afterwards(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(shop=_APP)
    pytester.makepyfile(
        """
        import asyncio
        from pathlib import Path

        import pytest
        from redrive.testing import Ran, assert_sent, run_until_idle, sent
        from shop import app

        @pytest.mark.parametrize("n", range(6))
        def test_alone_in_its_database(redrive_use, redrive_server, n):
            redrive_use(app)
            with Path("servers").open("a") as servers:
                servers.write(redrive_server + chr(10))
            assert sent("mails") == []
            asyncio.run(app.send("mails", {"n": n}))
            assert assert_sent("mails", {"n": n}).id == 1
            assert asyncio.run(run_until_idle(app)) == Ran(done=1)
        """
    )
    ran = pytester.runpytest_subprocess("-n", "2")
    ran.assert_outcomes(passed=6)
    servers = Path("servers").read_text().splitlines()
    assert (len(servers), len(set(servers))) == (6, 1)
    assert not Path(str(conninfo_to_dict(servers[0])["host"])).exists()


def test_an_async_suite_is_left_without_a_warning(
    pytester: pytest.Pytester, server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest(_SHARED_SERVER.format(url=server_url))
    pytester.makepyfile(shop=_APP)
    pytester.makepyfile(
        """
        import gc

        import pytest
        from redrive.testing import assert_sent
        from shop import app

        @pytest.mark.parametrize("n", range(2))
        async def test_only_sends_and_closes_nothing(redrive_use, n):
            redrive_use(app)
            await app.send("mails", {"n": n})
            assert_sent("mails", {"n": n})

        def test_what_is_left_of_their_connections():
            gc.collect()
        """
    )
    monkeypatch.setenv("PYTHONDEVMODE", "1")
    ran = pytester.runpytest_subprocess()
    ran.assert_outcomes(passed=3)


def test_a_failing_assertion_shows_the_callers_line_and_what_was_sent(
    pytester: pytest.Pytester, server_url: str
) -> None:
    pytester.makeconftest(_SHARED_SERVER.format(url=server_url))
    pytester.makepyfile(shop=_APP)
    pytester.makepyfile(
        """
        from redrive.testing import assert_sent
        from shop import app

        def test_mail(redrive_use):
            redrive_use(app).sync.send("mails", {"to": "ann"})
            assert_sent("mails", {"to": "bob"})
        """
    )
    ran = pytester.runpytest_subprocess()
    ran.assert_outcomes(failed=1)
    ran.stdout.fnmatch_lines(
        [
            '>       assert_sent("mails", {"to": "bob"})',
            'E       AssertionError: no message of queue mails has payload {"to": "bob"}; sent were',
            'E         1, ready: {"to": "ann"}',
        ]
    )
    ran.stdout.no_fnmatch_line("*redrive/testing/sent.py*")


def test_without_a_postgres_the_fixture_says_what_to_install(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDRIVE_PG_BIN", "/nowhere")
    pytester.makepyfile("def test_it(redrive_database): ...")
    ran = pytester.runpytest_subprocess()
    ran.assert_outcomes(errors=1)
    ran.stdout.fnmatch_lines(["E *ConfigError: *REDRIVE_PG_BIN*"])
