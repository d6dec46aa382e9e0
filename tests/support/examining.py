"""The doctor at a test's database: one check at a time, and what its findings say run as it stands there."""

from __future__ import annotations

import asyncio
import shlex
from functools import cached_property, partial
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from redrive.watch.doctor import CHECKS, Check, Finding, Surroundings, examine
from tests.support.cli import fine, run


class Doctor:
    """`url` names the database, as the role that examines it."""

    def __init__(self, url: str, admin_url: str = "") -> None:
        self.url = url
        self.admin_url = admin_url

    @cached_property
    def db(self) -> psycopg.Connection[Any]:
        """A connection for faults."""
        return psycopg.connect(self.url, autocommit=True, row_factory=namedtuple_row, prepare_threshold=None)

    def close(self) -> None:
        if "db" in self.__dict__:
            self.db.close()

    def sql(self, query: str, *params: object) -> list[Any]:
        cursor = self.db.execute(query.encode(), params or None)
        return cursor.fetchall() if cursor.description else []

    def command(self, *words: str) -> None:
        fine(*words, "--database", self.url)

    def all(self, name: str, *, around: Surroundings | None = None, **limits: Any) -> list[Finding]:
        """What the check `name` says; `limits` are its own."""
        [known] = [check for check in CHECKS if check.name == name]
        limited = Check(name, known.title, partial(known.look, **limits))
        return asyncio.run(examine(self.url, around, [limited]))

    def one(self, name: str, **more: Any) -> Finding:
        """Its only finding."""
        found = self.all(name, **more)
        assert len(found) == 1, found
        return found[0]

    def is_fine(self, name: str, **more: Any) -> bool:
        found = self.all(name, **more)
        assert not found, found
        return True

    def mend(self, name: str) -> None:
        """``redrive doctor --fix``; nothing is left of what it found."""
        ran = fine("doctor", "--only", name, "--fix", "--yes", "--database", self.url)
        assert "mended; checking again" in ran.out and "1 check, 0 findings" in ran.out, ran

    def follow(self, finding: Finding, **replaced: str) -> None:
        """Run what the finding prints, as the connecting role; `replaced` are its placeholders."""
        assert finding.fix
        for line in finding.fix:
            for old, new in replaced.items():
                line = line.replace(old, new)
            if line.startswith("redrive "):
                ran = run(*shlex.split(line)[1:], "--database", self.url)
                assert ran.code == 0, ran
            else:
                assert line.endswith(";"), line
                with psycopg.connect(self.url, autocommit=True) as connection:
                    connection.execute(line.encode())
