"""What README shows of webhooks works as a stranger would type it: dev, serve, openssl, curl, the list."""

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
_SECTION = re.compile(r"^## Webhooks\n(.*?)^## ", re.M | re.S)


def blocks() -> list[list[str]]:
    """The commands of each console block of the section; a line that ends in a backslash goes on."""
    section = _SECTION.search((ROOT / "README.md").read_text())
    assert section
    found: list[list[str]] = []
    for body in _BLOCK.findall(section[1]):
        joined = body.replace("\\\n", " ")
        found.append([line.removeprefix("$ ") for line in joined.splitlines() if line.startswith("$ ")])
    return found


@pytest.mark.skipif(
    not (shutil.which("curl") and shutil.which("openssl") and shutil.which("bash")),
    reason="there is no curl, no openssl or no bash",
)
def test_the_readmes_curl_is_received_handled_and_listed_as_processed(
    database_url: str, tmp_path: Path
) -> None:
    [dev], [export, serve], played = blocks()
    (tmp_path / "webhooks.py").write_text((ROOT / "examples/webhooks.py").read_text())
    name, _, secret = export.removeprefix("export ").partition("=")
    database = {"REDRIVE_DATABASE_URL": database_url}

    def play(commands: list[str]) -> str:
        script = "\n".join(commands).replace("127.0.0.1:8000", where)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", script],
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**{k: v for k, v in os.environ.items() if k != "COLUMNS"}, **database, "PATH": path},
            timeout=60,
        )
        return done.stdout

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
