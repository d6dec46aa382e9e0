"""Schema: the migration that does what `redrive migrate` does, of this release, as SQL to be read.

It records what migrate records, so that migrate then has nothing to do.
"""

from __future__ import annotations

from importlib.metadata import version

from redrive.store import migrations

_HEAD = """\
-- Schema redrive as `redrive migrate` makes it, of redrive {release}; written by `redrive supabase init`.
--
-- One transaction, which may be run again: what is there already is left as it is, and so is a database that
-- a newer redrive has migrated. redrive's SQL files stand below as they are, each with its name and the
-- checksum under which redrive.schema_file remembers it.

"""


def text() -> str:
    """The whole file; the same text for the same release."""
    return _HEAD.replace("{release}", version("redrive")) + migrations.replay_sql()
