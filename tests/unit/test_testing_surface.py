"""What `redrive.testing` shows is listed, says what it is, and stands in the documents."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import redrive.testing

DOCUMENT = Path(__file__).parents[2] / "docs/testing.md"


def test_public_names_are_listed_and_sorted() -> None:
    shown = [n for n, v in vars(redrive.testing).items() if not n.startswith("_") and not inspect.ismodule(v)]
    assert sorted(redrive.testing.__all__) == sorted(shown)
    assert redrive.testing.__all__ == sorted(redrive.testing.__all__)


def test_every_public_name_says_what_it_is_and_is_documented() -> None:
    text = DOCUMENT.read_text()
    for name in redrive.testing.__all__:
        assert inspect.getdoc(getattr(redrive.testing, name)), name
        assert re.search(rf"\b{name}\b", text), name
