"""Config: a project's config.toml, changed where it has to be and nowhere else."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Array, InlineTable

from redrive.errors import ConfigError

# What Supabase exposes where the file does not say.
_EXPOSED = ("public", "graphql_public")
_WHY = "# It checks who calls it itself: a webhook's signature, or the key that cron sends.\n"


def edited(text: str, *, functions: Iterable[str], schema: str | None) -> str:
    """`text` with ``verify_jwt = false`` for each of `functions`, and with `schema` exposed by PostgREST.

    Comments and layout stay as they are. Raises `ConfigError` for a file that is no config.toml.
    """
    document = _parsed(text)
    if schema is not None:
        _expose(document, schema)
    added = [name for name in functions if not _opened(document, name)]
    out = tomlkit.dumps(document)
    if added and out.strip():
        out = f"{out.rstrip()}\n"
    # At the end, where a table of its own is right whatever stands before it.
    return out + "".join(f"\n[functions.{name}]\n{_WHY}verify_jwt = false\n" for name in added)


def snippet(*, functions: Iterable[str], schema: str | None) -> str:
    """What has to be in a config.toml that is not here to be edited."""
    return edited("", functions=functions, schema=schema).strip()


def exposed(text: str) -> tuple[str, ...]:
    """The schemas whose functions PostgREST's clients can call."""
    return tuple(_table(_parsed(text), "api").get("schemas", _EXPOSED))


def difference(old: str, new: str, name: str) -> str:
    """A unified diff; empty where nothing changed."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, lineterm="")
    return "\n".join(lines)


def _parsed(text: str) -> Any:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ConfigError(f"supabase/config.toml is no TOML: {error}; mend it first") from None


def _table(parent: Any, *names: str) -> Any:
    """The table of these names, which is empty where there is none. Raises `ConfigError`."""
    for number, name in enumerate(names, 1):
        parent = parent.get(name, {})
        if not isinstance(cast("object", parent), dict):
            where = ".".join(names[:number])
            raise ConfigError(f"supabase/config.toml: {where} is no table; mend it first")
    return parent


def _expose(document: Any, schema: str) -> None:
    api = _table(document, "api")
    listed = api.get("schemas")
    if listed is not None and not isinstance(listed, Array):
        raise ConfigError("supabase/config.toml: api.schemas is no list of schemas; mend it first")
    if schema in (_EXPOSED if listed is None else listed):
        return
    if listed is not None:
        cast("Any", listed).append(schema)
        return
    if "api" not in document:
        document["api"] = tomlkit.table()
    document["api"]["schemas"] = [*_EXPOSED, schema]


def _opened(document: Any, name: str) -> bool:
    """Whether the function has a table there, which now says that it is open."""
    functions = _table(document, "functions")
    if isinstance(functions, InlineTable):
        raise ConfigError(
            "supabase/config.toml: functions is written in one line, where nothing can be added; write each "
            "function as a table [functions.name]"
        )
    if name not in functions:
        return False
    table = _table(document, "functions", name)
    if table.get("verify_jwt") is not False:
        table["verify_jwt"] = False
    return True
