"""``redrive key``: look up an idempotency key, and free it."""

from __future__ import annotations

from typing import Annotated

import typer

from redrive.cli.options import DatabaseOption, JsonOption, YesOption
from redrive.cli.output import answer, answer_json, confirm, facts, say
from redrive.cli.redaction import redact
from redrive.cli.session import session
from redrive.store import keys

app = typer.Typer(no_args_is_help=True, help="Idempotency keys.")

KeyQueue = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE", help="The queue's name; '' for keys taken with claim_job.", show_default=False
    ),
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key.", show_default=False)]


@app.command()
def show(
    queue: KeyQueue, key: KeyArgument, as_json: JsonOption = False, database: DatabaseOption = None
) -> None:
    """Show where a key is queued, running or done, and until when; exit 1 when nothing is known of it."""
    with session(database) as store:
        found = store.run(keys.show(queue, key))
    if as_json:
        answer_json(redact(found))
    elif found is None:
        say(f"nothing is known of key {key!r} in queue {queue!r}: it was never used, or is free again")
    else:
        facts((name, redact(value)) for name, value in found.items())
    if found is None:
        raise typer.Exit(1)


@app.command()
def free(queue: KeyQueue, key: KeyArgument, yes: YesOption = False, database: DatabaseOption = None) -> None:
    """Forget a key, so that a job with it may run again; exit 1 when nothing is known of it."""
    with session(database) as store:
        confirm(f"Free key {key!r} of queue {queue!r}? A job with it may then run a second time.", yes=yes)
        freed = store.run(keys.free(queue, key))
    if not freed:
        say(f"nothing is known of key {key!r} in queue {queue!r}: it was never used, or is free again")
        raise typer.Exit(1)
    answer(f"key {key!r} of queue {queue!r} is free")
