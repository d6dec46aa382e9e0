"""``redrive migrate``: bring a database to this release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.declaring import NamedApp, declare, install, named_app
from redrive.cli.options import DatabaseOption, YesOption
from redrive.cli.output import answer, confirm, count, say
from redrive.cli.session import Session, session
from redrive.errors import ConfigError, InvalidArgument
from redrive.store import migrations
from redrive.store.database import connect
from redrive.store.migrations import Migration
from redrive.store.statement import Statement, scalar
from redrive.store.url import redact

if TYPE_CHECKING:
    from redrive.app import Redrive

_HAS_SCHEMA = Statement("select to_regnamespace('redrive') is not null", (), scalar)
_PGMQ = {
    "extension": "pgmq: installed, the extension",
    "sql": "pgmq: installed, from the SQL of the pgmq package",
}


def migrate(
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL script that does the same; needs no database.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; say what is missing, and exit 1.")
    ] = False,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:ATTR",
            help="Make this app's queues too, with the policies it declares, and its inboxes' tables. "
            "Default: REDRIVE_APP, else [tool.redrive] app, else the schema alone.",
            show_default=False,
        ),
    ] = None,
    yes: YesOption = False,
    database: DatabaseOption = None,
) -> None:
    """Make or update schema redrive, and pgmq where there is none, in one transaction: all or nothing.

    Asks before the first time where only DATABASE_URL names the database. An app that --app names has to be
    there; one that only the settings name is left out, with a note, where it cannot be imported.
    """
    if sql:
        if app:
            raise InvalidArgument(
                "--sql prints the schema alone, without an app's queues and tables; leave out --app, and run "
                f"redrive migrate --app {app} once the script has run"
            )
        answer(migrations.plan_sql())
        return
    # A check is of the schema; only an app that was asked for in so many words has to be there.
    named = named_app(app) if app or not check else None
    loaded = None if named is None else _loaded(named)
    jobs = [] if loaded is None else list(loaded.jobs.values())
    with session(database, announce=True) as store:
        if check:
            _check(store)
            return
        for line in bring_up(store, yes=yes):
            answer(line)
        for line in declare(store, jobs):
            answer(line)
        for line in install(store, {} if loaded is None else loaded.inboxes):
            answer(line)


def _loaded(named: NamedApp) -> Redrive | None:
    """The app; None, with a note, where the settings name it and it cannot be imported here.

    The settings are everybody's, and who migrates may have neither the app's code nor its environment.
    """
    from redrive.app import load_app

    try:
        loaded = load_app(named.spec)
        # A handler of an inbox that is not declared is found out now.
        loaded.inboxes  # noqa: B018
    except ConfigError as error:
        if named.source == "--app":
            raise
        say(
            f"{error}; {named.source} names that app, so its queues and tables are left as they are: the "
            f"schema alone is migrated. To insist: redrive migrate --app {named.spec}"
        )
        return None
    say(f"app: {named.spec} (from {named.source})")
    return loaded


def bring_up(store: Session, *, yes: bool) -> list[str]:
    """Migrate; what was done. Asks first where nobody named this database to redrive in particular.

    Raises `ConfigError` when there is nobody to ask, `SetupError`, `Unavailable`.
    """
    if store.choice.only_shared and store.choice.url is not None and not store.run(_HAS_SCHEMA):
        confirm(f"Add schema redrive to {redact(store.choice.url)}, which only DATABASE_URL names?", yes=yes)
    with connect(store.url) as connection:
        return _told(migrations.migrate(connection))


def _check(store: Session) -> None:
    with connect(store.url) as connection:
        lacking = migrations.check(connection)
    for each in lacking:
        answer(each)
    if lacking:
        # A missing schema or right says itself what to run.
        if not any("`redrive " in each for each in lacking):
            say("run redrive migrate")
        raise typer.Exit(1)
    answer("nothing is missing")


def _told(done: Migration) -> list[str]:
    if done.newer is not None:
        return [f"nothing was changed: {done.newer}"]
    lines = [_PGMQ[done.pgmq]] if done.pgmq in _PGMQ else []
    if done.tables:
        lines.append(f"tables: {', '.join(done.tables)}")
    if done.functions:
        lines.append(f"functions: {count(len(done.functions), 'function')} made or replaced")
    if done.dropped:
        lines.append(f"functions dropped: {', '.join(done.dropped)}")
    if not done.changed:
        lines.append("nothing to do: the database is of this release")
    lines += [
        f"role {role} has grants but does not exist any more; make it again, or revoke them"
        for role in done.lost_roles
    ]
    return lines
