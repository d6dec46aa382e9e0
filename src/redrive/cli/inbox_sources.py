"""Sources: whether anybody knows the source that was named, so that a mistyped one is no empty answer."""

from __future__ import annotations

import typer

from redrive.app import load_app
from redrive.cli.output import say
from redrive.cli.session import Session
from redrive.errors import ConfigError
from redrive.settings import load_settings
from redrive.store import events


def check_source(store: Session, source: str | None) -> None:
    """For a command that found nothing: exit 1, in one sentence, where nobody knows the source it was given.

    Known is what sent an event or was refused, ever, and what the app that the settings name declares.
    """
    if source is not None and (why := _unknown(store, source)) is not None:
        say(why)
        raise typer.Exit(1)


def _unknown(store: Session, source: str) -> str | None:
    [told] = store.run(events.status(source))
    if told.received or told.refused:
        return None
    app = load_settings().app
    declared: set[str] = set()
    why = "no app is named that could declare it"
    if app is not None:
        try:
            declared = {*load_app(app).inboxes}
            why = f"app {app} declares no such inbox"
        except ConfigError:
            why = f"app {app}, which could declare it, cannot be imported here"
    if source in declared:
        return None
    known = ", ".join(sorted({each.source for each in store.run(events.status())} | declared)) or "none"
    return f"nothing has ever arrived from {source!r}, and {why}; the sources that are known: {known}"
