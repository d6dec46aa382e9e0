"""What README and docs/webhooks.md show first works as a stranger would type it, to the end."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Command
from tests.support.embedded import until

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
_README = re.compile(r"^## Webhooks\n(.*?)^## ", re.M | re.S)
_GUIDE = re.compile(r"^# Webhooks\n(.*?)^## ", re.M | re.S)
_URL = re.compile(r"postgresql://redrive@[^ \"]+")


def blocks(document: str, part: re.Pattern[str]) -> list[list[str]]:
    """The commands of each console block of the section; a line that ends in a backslash goes on."""
    section = part.search((ROOT / document).read_text())
    assert section
    found: list[list[str]] = []
    for body in _BLOCK.findall(section[1]):
        joined = body.replace("\\\n", " ")
        found.append([line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")])
    return found


def played_by_a_shell(commands: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What they print. Fails when one of them does."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", "\n".join(commands)],
        check=True,
        capture_output=True,
        text=True,
        cwd=folder,
        env={**{k: v for k, v in os.environ.items() if k != "COLUMNS"}, **environment, "PATH": path},
        timeout=60,
    )
    return done.stdout


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("openssl") and shutil.which("bash")),
    reason="there is no curl, no openssl or no bash",
)
def test_the_readmes_curl_is_received_handled_and_listed_as_processed(
    database_url: str, tmp_path: Path
) -> None:
    [dev], [export, serve], played = blocks("README.md", _README)
    (tmp_path / "webhooks.py").write_text((ROOT / "examples/webhooks.py").read_text())
    name, _, secret = export.removeprefix("export ").partition("=")
    database = {"REDRIVE_DATABASE_URL": database_url}

    def play(commands: list[str]) -> str:
        return played_by_a_shell(
            [each.replace("127.0.0.1:8000", where) for each in commands], tmp_path, database
        )

    with (
        Command(*dev.split()[1:], folder=tmp_path, environment=database) as worker,
        Command(
            *(*serve.split()[1:], "--port", "0"), folder=tmp_path, environment={**database, name: secret}
        ) as receiver,
    ):
        worker.wait_for("worker_started")
        line = receiver.lines[receiver.wait_for("receiving ") - 1]
        [where] = re.findall(r"http://(127\.0\.0\.1:\d+)", line)
        *posting, listing = played
        assert play(posting) == "ok\n"
        until(lambda: "processed" in play([listing]))
        assert play(posting) == "duplicate\n"
        worker.wait_for("octocat pushed to refs/heads/main of octo/hello")
        assert play([listing]).count("72d3162e-cc78-11e3-81ab-4c9367dc0958") == 1


@pytest.mark.skipif(not (shutil.which("psql") and shutil.which("bash")), reason="there is no psql or no bash")
def test_the_guides_first_example_is_received_handled_and_written(tmp_path: Path, database_url: str) -> None:
    [dev], [config, create, export, serve], [same, sent, listing, select] = blocks("docs/webhooks.md", _GUIDE)
    assert export == same and config.startswith("redrive config")
    section = _GUIDE.search((ROOT / "docs/webhooks.md").read_text())
    assert section
    [hooks] = re.findall(r"^```python\n(.*?)^```$", section[1], re.M | re.S)
    (tmp_path / "hooks.py").write_text(hooks)
    name, _, secret = export.removeprefix("export ").partition("=")
    environment = {"REDRIVE_DATABASE_URL": database_url, name: secret}

    def play(command: str) -> str:
        return played_by_a_shell([_URL.sub(lambda _: database_url, command)], tmp_path, environment)

    with (
        Command(*dev.split()[1:], folder=tmp_path, environment=environment) as worker,
        Command(*(*serve.split()[1:], "--port", "0"), folder=tmp_path, environment=environment) as receiver,
    ):
        worker.wait_for("worker_started")
        line = receiver.lines[receiver.wait_for("receiving ") - 1]
        [where] = re.findall(r"http://(127\.0\.0\.1:\d+)", line)
        play(create)
        answer = play(f"{sent} --url http://{where}/webhooks/stripe")
        assert "of type payment_intent.succeeded" in answer and "200 OK: ok" in answer
        until(lambda: "processed" in play(listing))
        assert "pi_3test |   4200 | payment_intent.succeeded" in play(select)
