"""``redrive grant``: let a role do a part of redrive."""

from __future__ import annotations

from typing import Annotated

import typer

from redrive.cli.options import DatabaseOption
from redrive.cli.output import answer
from redrive.cli.session import session
from redrive.store import grants
from redrive.store.database import connect


def grant(
    role: Annotated[
        str, typer.Argument(metavar="ROLE", help="A role of the database server.", show_default=False)
    ],
    parts: Annotated[
        list[str],
        typer.Argument(
            metavar="PART",
            help="send (put messages in, receive webhooks), work (run a worker), operate (manage queues and "
            "dead letters, replay webhooks), read (look at all of it).",
            show_default=False,
        ),
    ],
    revoke: Annotated[bool, typer.Option("--revoke", help="Take it away in place of giving it.")] = False,
    database: DatabaseOption = None,
) -> None:
    """Let a role do a part of redrive; it needs no right on any table. Every migrate grants it again."""
    with session(database) as store, connect(store.url) as connection:
        change = grants.revoke if revoke else grants.grant
        for part in parts:
            change(connection, role, part)
    verb = "may no longer" if revoke else "may"
    answer(f"role {role} {verb} {', '.join(parts)}")
