"""Schema: the migration that does what `redrive migrate` does, of this release, as SQL to be read.

It records what migrate records, so that migrate then has nothing to do. Run again, also after a newer one, it
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from redrive.sql import FOLDER, SqlFile, function_files, table_files
from redrive.store import grants, install, pgmq
from redrive.store.migrations import release
from redrive.store.script import literal, quote


def text(*, folder: Path = FOLDER) -> str:
    """The whole file; the same text for the same release."""
    tables, functions = table_files(folder), function_files(folder)
    unless = install.newer(release())
    parts = {
        "pgmq, where there is none.": pgmq.extension_sql() + pgmq.check_sql(),
        "Schema redrive, and the list of the files that were applied to it.": install.bookkeeping(),
        "The files. They stand in a table until this transaction's end.": _MAKE,
        "Tables: numbered files, of which each runs once.": _inserts("table", tables),
        "Functions: a file each, which replaces what has its name.": _inserts("function", functions),
        "What is not applied yet, in a database that no newer release has migrated.": (
            install.tables(_source("table"), release(), unless=unless)
            + install.functions(_source("function"), release(), unless=unless)
        ),
        "What is granted, to whom it was granted.": grants.apply_sql(functions, unless=unless) + _DROP,
    }
    head = _HEAD.replace("{release}", version("redrive"))
    body = "".join(f"\n{f'-- {about} '.ljust(100, '-')}\n{sql}" for about, sql in parts.items())
    return f"{head}\nbegin;\n{install.opening()}{body}commit;\n"


def _source(kind: str) -> str:
    return f"select name, checksum, body from redrive.file_to_apply where kind = '{kind}'"


def _inserts(kind: str, files: Sequence[SqlFile]) -> str:
    # Each a statement of its own: Supabase's command line takes ten seconds to find the end of one of 400 kB.
    return "".join(
        f"insert into redrive.file_to_apply values ('{kind}', {literal(file.name)},\n"
        f"    '{file.checksum}',\n{quote(file.text)});\n\n"
        for file in files
    )


_HEAD = """\
-- Schema redrive as `redrive migrate` makes it, of redrive {release}; written by `redrive supabase init`.
--
-- One transaction, which may be run again: what is there already is left as it is, and so is a database that
-- a newer redrive has migrated. redrive's SQL files stand below as they are, each with its name and the
-- checksum under which redrive.schema_file remembers it.
"""
_MAKE = "create table redrive.file_to_apply (kind text, name text, checksum text, body text);\n"
_DROP = "drop table redrive.file_to_apply;\n"
