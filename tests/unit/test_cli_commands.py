"""The commands there are, and what each promises alike."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from redrive.cli import app
from tests.support.cli import run

ROOT = Path(__file__).parents[2]

COMMANDS = {
    "alerts check",
    "alerts forget",
    "alerts list",
    "alerts rule drop",
    "alerts rule reset",
    "alerts rule set",
    "alerts rules",
    "alerts silence",
    "alerts silences",
    "alerts test",
    "alerts unsilence",
    "alerts watch",
    "config",
    "demo",
    "dev",
    "dlq discard",
    "dlq import",
    "dlq list",
    "dlq redrive",
    "dlq show",
    "doctor",
    "grant",
    "inbox list",
    "inbox quarantine",
    "inbox reconcile",
    "inbox replay",
    "inbox send-test",
    "inbox show",
    "inbox status",
    "inbox verify",
    "key free",
    "key show",
    "lease list",
    "lease release",
    "message cancel",
    "message now",
    "message release",
    "message show",
    "message snooze",
    "migrate",
    "prune",
    "queue adopt",
    "queue create",
    "queue drop",
    "queue list",
    "queue pause",
    "queue policy",
    "queue resume",
    "queue show",
    "schedule drop",
    "schedule list",
    "schedule pause",
    "schedule resume",
    "schedule run",
    "schedule show",
    "send",
    "serve",
    "status",
    "supabase init",
    "supabase secrets env",
    "supabase secrets set",
    "why",
    "worker",
}
READING = {
    "alerts check",
    "alerts list",
    "alerts rules",
    "alerts silences",
    "config",
    "dlq list",
    "dlq show",
    "doctor",
    "inbox list",
    "inbox quarantine",
    "inbox show",
    "inbox status",
    "inbox verify",
    "key show",
    "lease list",
    "message show",
    "prune",
    "queue list",
    "queue policy",
    "queue show",
    "schedule list",
    "schedule show",
    "status",
    "why",
}
DESTRUCTIVE = {
    *("dlq discard", "inbox replay", "key free", "lease release", "message cancel", "message release"),
    "dlq import",
    "queue drop",
    "prune",
    "schedule drop",
}
# A name in quotes is one of pg_cron's jobs; so is "redrive drain QUEUE".
_MENTIONED = re.compile(
    r"(?<!from )(?<!')\bredrive (?!drain )"
    r"((?:queue|message|dlq|inbox|key|lease|schedule|alerts|supabase) [a-z-]+|[a-z]+)\b"
)


@cache
def commands() -> dict[str, Any]:
    """Every command by its words."""
    return {" ".join(words): command for words, command in _beneath(typer.main.get_command(app), ())}


def _beneath(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, each in command.commands.items():
        yield from _beneath(each, (*words, name))


@cache
def options(name: str) -> set[str]:
    params = commands()[name].params
    return {option for each in params for option in (*each.opts, *each.secondary_opts)}


def test_the_commands_are_those_that_are_promised() -> None:
    assert set(commands()) == COMMANDS


def test_every_document_names_only_commands_there_are() -> None:
    known = {" ".join(name.split()[:most]) for name in COMMANDS for most in (1, 2)}
    for document in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("**/*.md")]:
        in_code = " ".join(re.findall(r"```.*?```|`[^`\n]+`", document.read_text(), re.DOTALL))
        assert set(_MENTIONED.findall(in_code)) <= known, document


def test_every_document_names_only_options_there_are() -> None:
    used: set[tuple[str, str, str]] = set()
    for document in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("**/*.md")]:
        for line in re.findall(
            r"^[$ ]*redrive [^\n|&;#`]*|`redrive [^`]*`", document.read_text(), re.MULTILINE
        ):
            words = line.strip("`$ ").split()[1:]
            starts = (" ".join(words[:most]) for most in (3, 2, 1))
            name = next((each for each in starts if each in commands()), None)
            if name is not None:
                used |= {
                    (document.name, name, word.partition("=")[0]) for word in words if word.startswith("--")
                }
    assert used
    assert {each for each in used if each[2] not in options(each[1])} == set()


def test_every_reading_command_has_json() -> None:
    assert {name for name in READING if "--json" not in options(name)} == set()


def test_every_destructive_command_can_be_answered_beforehand() -> None:
    assert {name for name in commands() if "--yes" in options(name)} >= DESTRUCTIVE


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_says_what_it_is_for(name: str) -> None:
    ran = run(*name.split(), "--help")
    assert ran.code == 0
    assert len(commands()[name].help) > 10


def test_the_version_is_told() -> None:
    ran = run("--version")
    assert (ran.code, ran.err) == (0, "") and re.fullmatch(r"redrive \d+\.\d+\.\d+\S*\n", ran.out)


def test_what_is_no_command_exits_2() -> None:
    assert run("quue", "list").code == 2
    assert run("queue", "lst").code == 2
    assert run("status", "--jsn").code == 2


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_word_of_a_help_text_is_shown(name: str) -> None:
    """Markdown leaves out what looks like HTML, rich what looks like a style in square brackets."""
    shown = re.sub(r"[^\w<>]+", "", run(*name.split(), "--help").out)
    command = commands()[name]
    for text in (command.help, *(getattr(each, "help", None) for each in command.params)):
        for paragraph in (text or "").split("\n\n"):
            words = re.findall(r"[\w<>]+", paragraph)
            missing = [word for word in words if word.strip("_") and word not in shown]
            assert missing == [], paragraph
