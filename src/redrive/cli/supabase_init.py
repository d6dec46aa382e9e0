"""``redrive supabase init``: a project's migrations, functions and settings, written and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from redrive.cli.declaring import app_name
from redrive.cli.options import AppOption, DatabaseOption, JsonOption
from redrive.cli.output import answer, answer_json, count, say
from redrive.cli.session import session
from redrive.errors import InvalidArgument

if TYPE_CHECKING:
    from pathlib import Path

    from redrive.supabase.writing import Plan


def init(
    app: AppOption = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Write the migrations into this folder, and Edge Functions into DIR/functions. Default: the "
            "Supabase project that this folder is in.",
            show_default=False,
        ),
    ] = None,
    worker: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Who works the queues: tick (cron calls POST /tick/QUEUE of redrive serve), edge (cron "
            "calls the generated Edge Function), resident (redrive worker runs, nothing is called). "
            "Default: tick.",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS",
            help="Between two calls for a queue: 1 to 59, or whole minutes. Default: 10.",
            show_default=False,
        ),
    ] = None,
    api_schema: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Make the articles' functions for service_role in this schema, which PostgREST exposes.",
            show_default=False,
        ),
    ] = None,
    edge_function: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Write this Edge Function, worker or receiver; may be repeated. Needs --api-schema.",
            show_default=False,
        ),
    ] = None,
    replace_recipe: Annotated[
        bool,
        typer.Option(
            "--replace-recipe",
            help="Replace the articles' functions and cron jobs; take over their keys, leases and messages.",
        ),
    ] = False,
    keys_of: Annotated[
        list[str] | None,
        typer.Option(
            metavar="QUEUE",
            help="With --replace-recipe: a queue whose keys the recipe's processed_jobs holds; may be "
            "repeated. Default: email_jobs.",
            show_default=False,
        ),
    ] = None,
    url_secret: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Vault's name for the URL that cron calls.", show_default=False),
    ] = None,
    key_secret: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Vault's name for the key that cron sends.", show_default=False),
    ] = None,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew", help="What is not given is the default, not what the newest file was written with."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing; say what would be written.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing; say what the database is not like, and exit 1."),
    ] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Write what the app needs into a Supabase project: migrations, Edge Functions, lines of config.toml.

    `supabase db push` applies the migrations. Run it again after each change of the app, and after each
    upgrade: a migration is written anew, whole, only when it would say something else. Options that are not
    given are those of the newest migration. Nothing that left the app is dropped.
    """
    from redrive.app import load_app
    from redrive.supabase import writing

    if database is not None and not check:
        raise InvalidArgument("--database names what --check compares; init itself writes files alone")
    given = {
        "worker": worker,
        "interval": interval,
        "api_schema": api_schema,
        "edge_functions": tuple(edge_function) if edge_function else None,
        "replace_recipe": replace_recipe or None,
        "keys_of": tuple(keys_of) if keys_of else None,
        "url_secret": url_secret,
        "key_secret": key_secret,
    }
    plan = writing.plan(load_app(app_name(app)), given, out=out, anew=anew)
    for note in plan.notes:
        say(note)
    if check:
        _check(plan, database, as_json=as_json)
        return
    if not dry_run:
        plan.write()
    if as_json:
        answer_json(_json(plan, written=not dry_run))
    else:
        _tell(plan, dry_run=dry_run)


def _check(plan: Plan, database: str | None, *, as_json: bool) -> None:
    from redrive.store.database import connect
    from redrive.supabase import comparison

    with session(database, announce=not as_json) as store, connect(store.url) as connection:
        found = comparison.problems(connection, plan.sections)
    unwritten = [_shown(each.path) for each in plan.changes]
    if as_json:
        answer_json({"problems": found, "unwritten": unwritten})
    else:
        for each in found:
            answer(each)
    for each in unwritten:
        say(f"{each} is not written yet, or not like this; run redrive supabase init")
    if found:
        if not as_json:
            say(
                f"{count(len(found), 'problem')}; `supabase db push` applies what it has not applied; where "
                "it says that all is up to date, run the newest files by psql"
            )
        raise typer.Exit(1)
    if not as_json:
        answer("the database is as the migrations make it")


def _tell(plan: Plan, *, dry_run: bool) -> None:
    verb = "would be written" if dry_run else "written"
    for change in plan.changes:
        answer(f"{verb}: {_shown(change.path)}")
    for path in plan.unchanged:
        answer(f"unchanged: {_shown(path)}")
    for each in plan.left:
        answer(f"no longer in the app, left in the database: {each}")
    if plan.config_difference:
        answer(plan.config_difference)
    if plan.snippet:
        answer(f"config.toml of the project has to say:\n{plan.snippet}")
    for each in plan.vault:
        answer(f"Vault has to hold {each}")
    if not dry_run:
        for each in plan.next_steps:
            answer(f"next: {each}")


def _json(plan: Plan, *, written: bool) -> dict[str, object]:
    return {
        "written" if written else "would_write": [_shown(each.path) for each in plan.changes],
        "unchanged": [_shown(path) for path in plan.unchanged],
        "left_in_database": list(plan.left),
        "config_difference": plan.config_difference,
        "vault": list(plan.vault),
        "next": list(plan.next_steps),
    }


def _shown(path: Path) -> str:
    from pathlib import Path

    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
