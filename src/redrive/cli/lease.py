"""``redrive lease``: see who holds a single-flight right, and take it away."""

from __future__ import annotations

from typing import Annotated

import typer

from redrive.cli.options import DatabaseOption, JsonOption, YesOption
from redrive.cli.output import answer, answer_json, confirm, say
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.store import leases

app = typer.Typer(no_args_is_help=True, help="Leases: rights that one process holds at a time.")


@app.command("list")
def list_(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """List leases; those of single-flight queues are called queue:NAME."""
    with session(database) as store:
        found = store.run(leases.listing())
    if as_json:
        answer_json([each._asdict() for each in found])
        return
    rows = [
        (each.name, each.holder, each.token, each.acquired_at, each.lease_until, each.held) for each in found
    ]
    print_table(
        ("lease", "holder", "token", "acquired", "until", "held"),
        rows,
        keep=("lease",),
        shed=("acquired", "token"),
    )


@app.command()
def release(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The lease's name.", show_default=False)],
    yes: YesOption = False,
    database: DatabaseOption = None,
) -> None:
    """Take a lease from whoever holds it; exit 1 when there is none."""
    with session(database) as store:
        confirm(
            f"Take lease {name!r} away? Its holder, if it lives, and the next one may then work at once.",
            yes=yes,
        )
        freed = store.run(leases.free(name))
    if not freed:
        say(f"there is no lease {name!r}; see redrive lease list")
        raise typer.Exit(1)
    answer(f"lease {name!r} is free")
