"""``redrive config``: what is set, and where."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import answer_json
from redrive.cli.session import choose
from redrive.cli.tables import print_table
from redrive.errors import ConfigError
from redrive.settings import EMBEDDED, alert_sinks, load_settings, origin
from redrive.store.embedded import running_url
from redrive.store.url import redact
from redrive.watch.sinks.configured import kind_of


def config(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """Show the settings that hold here and where each stands; passwords, and where alerts go, are left out.

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
    shown = {
        "app": settings.app,
        "pg_bin": None if settings.pg_bin is None else str(settings.pg_bin),
        "check_every": f"{settings.check_every:g}",
        "heartbeat_url": None if settings.heartbeat_url is None else _host(settings.heartbeat_url),
    }
    for name, value in shown.items():
        is_set = name in settings.model_fields_set
        found[name] = {"value": value, "source": origin(name) if is_set else None}
    for sink in alert_sinks():
        found[f"alerts_{sink.name}"] = {"value": kind_of(sink), "source": sink.variable}
    return found


def _host(url: str) -> str:
    """Where it leads, without the path: that is what gives the right to call it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}/…"
