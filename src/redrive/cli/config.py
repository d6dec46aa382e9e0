"""``redrive config``: what is set, and where."""

from __future__ import annotations

from typing import Any

from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import answer_json
from redrive.cli.session import choose
from redrive.cli.tables import print_table
from redrive.errors import ConfigError
from redrive.settings import EMBEDDED, load_settings, origin
from redrive.store.embedded import running_url
from redrive.store.url import redact


def config(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """Show the settings that hold here and where each stands; passwords are left out.

    Of a Postgres of redrive's own also the URL under which psql finds it, while a worker or another command
    keeps it running: psql "URL".
    """
    found = _settings(database)
    if as_json:
        answer_json(found)
        return
    rows = [(name, each["value"], each["source"]) for name, each in found.items()]
    print_table(("setting", "value", "from"), rows, keep=("setting",))


def _settings(database: str | None) -> dict[str, dict[str, Any]]:
    settings = load_settings()
    try:
        choice = choose(database)
        where = redact(choice.url) if choice.url is not None else f"{EMBEDDED} in {choice.directory}"
        found: dict[str, dict[str, Any]] = {"database_url": {"value": where, "source": choice.source}}
        if choice.url is None:
            url = running_url(choice.directory)
            source = "the server that runs" if url else "no server runs; redrive dev starts it"
            found["psql"] = {"value": url, "source": source}
    except ConfigError:
        found = {"database_url": {"value": None, "source": None}}
    for name in ("app", "pg_bin"):
        value = getattr(settings, name)
        found[name] = {
            "value": None if value is None else str(value),
            "source": None if value is None else origin(name),
        }
    return found
