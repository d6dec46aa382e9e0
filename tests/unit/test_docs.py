"""What README and docs say exists, exists: commands, options, links, examples, SQL functions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from redrive.cli import app
from redrive.sql import FOLDER, function_files

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.M | re.S)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[[^\]]+\]\((?!https?:)(?P<target>[^)#]*)(?:#(?P<anchor>[^)]+))?\)")
_INCLUDED = re.compile(r"^<!-- (?P<path>examples/\S+) -->\n```python\n(?P<body>.*?)^```$", re.M | re.S)


def _prose(text: str) -> str:
    return _FENCE.sub("", text)


def _names(documents: list[Path]) -> list[str]:
    return [path.relative_to(ROOT).as_posix() for path in documents]


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of every `redrive …` in console blocks and code spans."""
    lines = [
        line.removeprefix("$ ").partition("  #")[0]
        for block in _FENCE.finditer(text)
        if block["language"] in ("console", "ini", "yaml")
        for line in block["body"].splitlines()
        if line.startswith("$ ") or block["language"] != "console"
    ]
    spans = [" ".join(span.split()) for span in _SPAN.findall(_prose(text))]
    for line in lines + spans:
        found = re.search(r"(?:^|[ /=])redrive (?=[a-z-])(.*)", line)
        if found:
            yield shlex.split(found[1])


def problem_with(words: list[str]) -> str | None:
    """What the command line would not understand of `redrive WORDS`."""
    command: Any = typer.main.get_command(app)
    options = {each for each in command.params for each in each.opts} | {"--help"}
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"there is no command {rest[0]!r}"
        command = command.commands[rest.pop(0)]
        options |= {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    unknown = [word for word in rest if word.startswith("--") and word.partition("=")[0] not in options]
    return f"there is no option {unknown[0]}" if unknown else None


def anchors(text: str) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", _names(DOCUMENTS))
class TestDocument:
    def test_names_only_commands_and_options_that_exist(self, name: str) -> None:
        found = list(commands_in((ROOT / name).read_text()))
        wrong = [f"redrive {' '.join(words)}: {why}" for words in found if (why := problem_with(words))]
        assert wrong == []

    def test_links_only_to_what_is_there(self, name: str) -> None:
        here = ROOT / name
        broken: list[str] = []
        for link in _LINK.finditer(_prose(here.read_text())):
            target = (here.parent / link["target"]).resolve() if link["target"] else here
            if not target.exists() or (link["anchor"] and link["anchor"] not in anchors(target.read_text())):
                broken.append(link[0])
        assert broken == []

    def test_has_python_that_compiles(self, name: str) -> None:
        for block in _FENCE.finditer((ROOT / name).read_text()):
            if block["language"] == "python":
                compile(block["body"], name, "exec", dont_inherit=True)

    def test_shows_examples_as_they_are(self, name: str) -> None:
        for example in _INCLUDED.finditer((ROOT / name).read_text()):
            assert example["body"] == (ROOT / example["path"]).read_text(), example["path"]


def test_an_unknown_command_or_option_would_be_noticed() -> None:
    text = "`redrive queue burn q` and `redrive status --loud`\n```console\n$ redrive fly\n```\n"
    problems = [problem_with(words) for words in commands_in(text)]
    assert problems == [
        "there is no command 'fly'",
        "there is no command 'burn'",
        "there is no option --loud",
    ]


def test_the_contract_has_every_public_sql_function() -> None:
    headings = "\n".join(
        line for line in (ROOT / "docs/sql.md").read_text().splitlines() if line.startswith("#")
    )
    public = {file.name for file in function_files(FOLDER) if not file.name.startswith("_")}
    assert {name for name in public if not re.search(rf"\b{name}\(", headings)} == set()
    documented = set(re.findall(r"`(\w+)\(", headings))
    assert documented - public == set()
