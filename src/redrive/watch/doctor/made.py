"""Made: the columns and indexes of redrive's tables, and what its functions run with, as the SQL files say.

Guarantees  what the files create is listed, with a statement that makes it again; nothing else is.
Not given   SQL in general: the few forms that redrive's own files are written in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from redrive.sql import SqlFile

_COMMENT = re.compile(r"--[^\n]*")
_FUNCTION = re.compile(
    r"\bcreate function redrive\.\w+\s*\((.*?)\bas (\$\w*\$)(.*?)\2", re.DOTALL | re.IGNORECASE
)
_SETTING = re.compile(r"\bset (\w+) = ('[^']+'|\w+(?:, \w+)*)", re.IGNORECASE)
_TABLE = re.compile(r"create table redrive\.(\w+) \((.*)\)", re.DOTALL)
_COLUMNS = re.compile(r"alter table redrive\.(\w+)\s+(add column .*)", re.DOTALL)
_INDEX = re.compile(r"create (?:unique )?index (\w+) on redrive\.(\w+)\b", re.DOTALL)
_COMMA = re.compile(r",(?![^(]*\))")
_CONSTRAINT = re.compile(r"(primary key|unique|check)\s*\((.*)\)", re.DOTALL)


class Function(NamedTuple):
    """A function's body, whether it is SECURITY DEFINER, and its settings, sorted."""

    body: str
    definer: bool
    settings: tuple[str, ...]


class Part(NamedTuple):
    """A column or an index of a table: what it is called, and what makes it again."""

    table: str
    kind: str
    name: str
    again: str


def functions(text: str) -> list[Function]:
    """The functions that a file creates, sorted."""
    made: list[Function] = []
    for head, _, body in _FUNCTION.findall(text):
        settings = (f"{name}={value.strip(chr(39))}" for name, value in _SETTING.findall(head))
        made.append(Function(body, "security definer" in head, tuple(sorted(settings))))
    return sorted(made)


def parts(files: Iterable[SqlFile]) -> list[Part]:
    """Every column and index that table files make."""
    made: list[Part] = []
    for file in files:
        for statement in _COMMENT.sub("", file.text).split(";"):
            told = " ".join(statement.split())
            if found := _TABLE.match(told):
                for each in _COMMA.split(_without_options(found[2])):
                    made += _of_table(found[1], each.strip())
            elif found := _COLUMNS.match(told):
                for each in _COMMA.split(found[2]):
                    made += _of_table(found[1], each.strip().removeprefix("add column "))
            elif found := _INDEX.match(told):
                made.append(Part(found[2], "index", found[1], f"{told};"))
    return made


def _without_options(body: str) -> str:
    return re.sub(r"\) with \(.*", "", body)


def _of_table(table: str, told: str) -> list[Part]:
    if found := _CONSTRAINT.match(told):
        columns = [name.strip() for name in found[2].split(",")]
        again = f"alter table redrive.{table} add {told};"
        match found[1]:
            case "primary key":
                return [Part(table, "index", f"{table}_pkey", again)]
            case "unique":
                return [Part(table, "index", "_".join([table, *columns, "key"]), again)]
            case _:
                return []
    name = told.split(maxsplit=1)[0]
    made = [Part(table, "column", name, f"alter table redrive.{table} add column {told};")]
    if " primary key" in told:
        made.append(
            Part(table, "index", f"{table}_pkey", f"alter table redrive.{table} add primary key ({name});")
        )
    return made
