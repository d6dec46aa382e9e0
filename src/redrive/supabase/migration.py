"""Migration: the file of an app, put together from its sections; and what an earlier one says of itself.

The head of the file lists what it makes, with which options it was written, and what earlier ones made that
the app does not have any more. The same app and options make the same text after the same earlier file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from redrive.app import Redrive
from redrive.sql import table_files
from redrive.store import install
from redrive.store.script import block, literal
from redrive.supabase import cron, intents, queues, recipe, wrappers
from redrive.supabase.plan import Options, Section

_MAKES = "makes: "
_LEFT = "no longer in the app, left in the database: "
_OPTIONS = "options: "


@dataclass(frozen=True, slots=True)
class Said:
    """What the head of an app's file says: its `options`, what it `makes`, what was `left` by then."""

    options: str | None = None
    makes: tuple[str, ...] = ()
    left: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Said:
        """Read the head: the comment lines before anything else."""
        head = [found.group(1) for found in map(re.compile(r"-- ?(.*)").match, _head(text)) if found]
        options = [line.removeprefix(_OPTIONS) for line in head if line.startswith(_OPTIONS)]
        return cls(
            options[0] if options else None,
            tuple(line.removeprefix(_MAKES) for line in head if line.startswith(_MAKES)),
            tuple(line.removeprefix(_LEFT) for line in head if line.startswith(_LEFT)),
        )


def sections(app: Redrive, options: Options) -> list[Section]:
    """What the file is made of, in its order. Raises `ConfigError` for what cannot be made."""
    found: list[Section | None] = [
        recipe.opening(app, options),
        queues.section(app),
        recipe.replacement(app, options),
        queues.schedules(app),
        None if options.api_schema is None else wrappers.section(options.api_schema),
        intents.section(app),
        cron.section(app, options),
    ]
    return [each for each in found if each is not None]


def text(parts: Sequence[Section], *, options: str, vault: Sequence[str] = (), before: Said = Said()) -> str:
    """The whole file; `before`: what the newest earlier one says, `vault`: which names have to be there."""
    makes = [each for part in parts for each in part.objects]
    left = sorted(each for each in {*before.makes, *before.left} - {*makes} if not _replaced(each, makes))
    head = [
        *_HEAD,
        "",
        f"{_OPTIONS}{options}",
        "",
        *(f"{_MAKES}{each}" for each in makes),
        *([""] if left else []),
        *(f"{_LEFT}{each}" for each in left),
    ]
    needed = ["", "Vault has to hold (no value of it stands in a file):", *vault] if vault else []
    return "\n".join(
        (
            _commented(head),
            f"begin;\n{install.opening(check_bodies=True)}{block(_demand_schema())}",
            *(f"{_title(part.title)}\n{part.sql.strip()}\n" for part in parts),
            *([_commented(needed[1:]) + "\n"] if needed else []),
            "commit;\n",
        )
    )


def _replaced(made: str, makes: Sequence[str]) -> bool:
    """Whether it is a function that has other parameters now: the one before is dropped."""
    name, paren, _ = made.partition("(")
    return bool(paren) and any(each.startswith(name + paren) for each in makes)


def _title(about: str) -> str:
    return f"-- {about[:1].upper()}{about[1:]} ".ljust(100, "-")


def _commented(lines: Sequence[str]) -> str:
    return "\n".join(f"-- {line}".rstrip() for line in lines)


def _head(text: str) -> list[str]:
    lines = text.lstrip("\ufeff \t\r\n").splitlines()
    end = next((n for n, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return lines[:end]


def _demand_schema() -> str:
    # The functions called here came with, or after, the newest numbered file.
    return _DEMAND_SCHEMA.replace("{newest}", literal(table_files()[-1].name))


_HEAD = (
    "What an app needs of redrive in this project; written by `redrive supabase init`.",
    "",
    "One transaction, which may be run again: each part looks before it acts. It needs schema redrive, which",
    "the file ..._redrive_schema.sql makes.",
)

_DEMAND_SCHEMA = """
begin
    if to_regclass('redrive.schema_file') is not null then
        if exists (select from redrive.schema_file where kind = 'table' and name = {newest}) then
            return;
        end if;
    end if;
    raise exception using errcode = 'RD002', message =
        'this database lacks schema redrive, or has one of an older release: run the newest '
        '..._redrive_schema.sql first';
end
"""
