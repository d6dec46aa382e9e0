"""Session: the database of one command, and statements run on it one after the other.

Guarantees  a database is named before it is used, without its password; an embedded server that the command
            started is left again at its end, however it ends.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from redrive.cli.output import say
from redrive.cli.running import runner
from redrive.errors import ConfigError
from redrive.settings import EMBEDDED, EMBEDDED_DIRECTORY, DatabaseChoice, choose_database, load_settings
from redrive.store.database import Database
from redrive.store.embedded import EmbeddedServer
from redrive.store.statement import Statement
from redrive.store.url import redact

T = TypeVar("T")

# `redrive --database URL status`: what stands before the command's name.
_named: str | None = None


def name_database(url: str | None) -> None:
    """The database for commands that are given none of their own."""
    global _named
    _named = url


class Session:
    """`url` is where the database is now; `description` says which it is and who named it."""

    def __init__(self, url: str, choice: DatabaseChoice, description: str) -> None:
        self.url = url
        self.choice = choice
        self.description = description
        self._database = Database(url, size=1)
        self._runner = runner()

    def run(self, statement: Statement[T]) -> T:
        """Run one statement. Raises one of redrive's errors."""
        return self._runner.run(self._database.run(statement))

    def pause(self, seconds: float) -> None:
        """Wait; Ctrl-C ends it."""
        self._runner.run(asyncio.sleep(seconds))

    def close(self) -> None:
        try:
            self._runner.run(self._database.close())
        finally:
            self._runner.close()


@contextmanager
def session(url: str | None, *, begin_embedded: bool = False, announce: bool = False) -> Generator[Session]:
    """The database that `--database` (None: the settings) names.

    `begin_embedded`: an embedded server may be made where nothing is named. `announce`: say which it is.
    Raises `ConfigError`, `Unavailable`.
    """
    choice = choose(url, begin_embedded=begin_embedded)
    with _located(choice) as (located, description):
        if announce:
            say(f"database: {description}")
        opened = Session(located, choice, description)
        try:
            yield opened
        finally:
            opened.close()


def choose(url: str | None, *, begin_embedded: bool = False) -> DatabaseChoice:
    """Which database, from `--database` or from the settings. Raises `ConfigError`."""
    if "" in (url, _named):
        # An unset shell variable, and whatever else is named would be somebody else's database.
        raise ConfigError("--database is empty; give a URL or the word embedded, or leave it out")
    url = url or _named
    if url is None:
        return choose_database(load_settings(), embedded=begin_embedded)
    directory = Path.cwd() / EMBEDDED_DIRECTORY
    return DatabaseChoice(None if url == EMBEDDED else url, directory, "--database")


@contextmanager
def _located(choice: DatabaseChoice) -> Generator[tuple[str, str]]:
    if choice.url is not None:
        yield choice.url, f"{redact(choice.url)} (from {choice.source})"
        return
    _name_binaries()
    server = EmbeddedServer(choice.directory)
    try:
        url = server.start()
        yield url, f"embedded {server.description} (from {choice.source})"
    finally:
        server.stop()


def _name_binaries() -> None:
    """The embedded server looks for REDRIVE_PG_BIN; the settings may have it from a file."""
    named = load_settings().pg_bin
    if named is not None:
        os.environ.setdefault("REDRIVE_PG_BIN", str(named))
