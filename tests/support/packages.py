"""SQL folders of other releases: a copy of ours, with files added, edited or removed."""

from __future__ import annotations

import shutil
from pathlib import Path

from redrive.sql import FOLDER


class SqlPackage:
    """A copy of redrive's SQL files in `place`, to be changed; `folder` is what `migrate` takes."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "sql"
        shutil.copytree(FOLDER, self.folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))

    def function(self, name: str, text: str) -> None:
        """Write a function file."""
        (self.folder / "functions" / f"{name}.sql").write_text(text)

    def edit_function(self, name: str) -> None:
        """Change a function file without changing what it does."""
        path = self.folder / "functions" / f"{name}.sql"
        path.write_text(path.read_text() + "\n-- edited\n")

    def remove_function(self, name: str) -> None:
        (self.folder / "functions" / f"{name}.sql").unlink()

    def table(self, name: str, text: str) -> None:
        """Write a numbered table file."""
        (self.folder / "tables" / f"{name}.sql").write_text(text)
