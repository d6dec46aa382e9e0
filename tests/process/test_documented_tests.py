"""The test that the README shows passes as it stands, beside its hello.py, without any plugin of pytest."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
_CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def redrive_server():
    return {url!r}
"""


def test_what_the_readme_shows_as_a_test_passes(server_url: str, tmp_path: Path) -> None:
    [shown] = [each for each in _BLOCK.findall((ROOT / "README.md").read_text()) if "def test_" in each]
    (tmp_path / "test_shown.py").write_text(shown)
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
    assert "1 passed" in done.stdout
