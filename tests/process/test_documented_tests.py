"""The tests that the documents show pass as they stand, beside the hello.py of the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
_CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def redrive_server():
    return {url!r}
"""


@pytest.mark.parametrize("document", ["README.md", "docs/testing.md"])
def test_what_a_document_shows_as_a_test_passes(document: str, server_url: str, tmp_path: Path) -> None:
    shown = [each for each in _BLOCK.findall((ROOT / document).read_text()) if "def test_" in each]
    assert shown
    for number, body in enumerate(shown):
        (tmp_path / f"test_shown_{number}.py").write_text(body)
    (tmp_path / "hello.py").write_text((ROOT / "examples/hello.py").read_text())
    (tmp_path / "conftest.py").write_text(_CONFTEST.format(url=server_url))
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio"],
        check=False,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(shown)} passed" in done.stdout
