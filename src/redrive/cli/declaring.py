"""Declaring: what an app needs in its database, made or brought up to date: queues, tables of its APIs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from redrive.cli.session import Session
from redrive.errors import ConfigError, QueueMissing
from redrive.inbox.inbox import Inbox
from redrive.inbox.source import install_tables
from redrive.job import JobDefinition
from redrive.settings import load_settings, origin
from redrive.store import queues
from redrive.store.database import connect


class NamedApp(NamedTuple):
    """Which app, and where that stands: --app, REDRIVE_APP or a file."""

    spec: str
    source: str


def named_app(given: str | None) -> NamedApp | None:
    """The app that `--app`, else the settings name; None when nobody names one."""
    if given:
        return NamedApp(given, "--app")
    spec = load_settings().app
    return None if spec is None else NamedApp(spec, origin("app"))


def app_name(given: str | None) -> str:
    """The app that `--app` (None: the settings) names. Raises `ConfigError` when nobody names one."""
    named = named_app(given)
    if named is None:
        raise ConfigError(
            "no app is named; give --app module:attribute, such as --app examples.email:app, or set "
            "REDRIVE_APP, or app in [tool.redrive] of pyproject.toml"
        )
    return named.spec


def declare(store: Session, jobs: Iterable[JobDefinition]) -> list[str]:
    """Make the queues that are missing, with their declared policies; what was done, one sentence a queue."""
    return [each for job in jobs for each in _declare(store, job)]


def install(store: Session, inboxes: Mapping[str, Inbox]) -> list[str]:
    """Make the tables of the inboxes' APIs; what was done, one sentence each. Raises `SetupError`."""
    apis = {source: inbox.api for source, inbox in inboxes.items() if inbox.api is not None}
    if not apis:
        return []
    with connect(store.url) as connection:
        return install_tables(connection, apis)


def _declare(store: Session, job: JobDefinition) -> list[str]:
    made = False
    try:
        hidden = store.run(queues.declare(job.queue, job.policy))
    except QueueMissing:
        store.run(queues.create(job.queue, job.policy))
        made, hidden = True, []
    done = [f"queue {job.queue} {'is made' if made else 'was there'}, its policy declared"]
    done += [
        f"queue {job.queue}: {each.field} is {each.declared!r} in the code, but an operator has set "
        f"{each.override!r}; `redrive queue policy {job.queue} --reset {each.field}` takes that back"
        for each in hidden
    ]
    return done
