"""The pgmq layouts the SQL ring runs on: what users have, and what each of them can do.

1.13.0 comes from the wheel. The others are hand-written shapes (tests/layouts), since no package brings them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parent.parent / "layouts"

# Layout -> the files that make it, in order; none where migrate itself installs pgmq.
FILES: dict[str, tuple[str, ...]] = {
    "1.13.0": (),
    "1.5.1": ("1.5.1.sql",),
    "1.5.1+last_read_at": ("1.5.1.sql", "1.5.1_last_read_at_appended.sql"),
    "1.4.4": ("1.4.4.sql",),
}
NEWEST = next(iter(FILES))
LAYOUTS = tuple(os.environ.get("REDRIVE_TEST_LAYOUTS", "").split()) or tuple(FILES)

# For tests of the SQL ring that are about something some layouts do not have.
with_headers = pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "1.4.4"], indirect=True)
without_headers = pytest.mark.parametrize("layout", ["1.4.4"], indirect=True)
newest_only = pytest.mark.parametrize("layout", [NEWEST], indirect=True)


def scripts(layout: str) -> list[str]:
    """The SQL that makes `layout` in an empty database."""
    return [(_FOLDER / name).read_text() for name in FILES[layout]]
