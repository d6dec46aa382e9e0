"""``redrive why``: one message's whole life, and why it does not run."""

from __future__ import annotations

from typing import Annotated

import typer

from redrive.cli.options import DatabaseOption, JsonOption, QueueArgument
from redrive.cli.output import answer, answer_json, moment
from redrive.cli.redaction import redact
from redrive.cli.session import session
from redrive.store.why import why as facts_of
from redrive.watch.why import explain

_UNKNOWN = ("never_sent", "not_kept", "unknown")


def why(
    queue: QueueArgument,
    msg_id: Annotated[int, typer.Argument(metavar="ID", help="The message's id.", show_default=False)],
    dead: Annotated[
        bool, typer.Option("--dead", help="ID is a dead letter's, as dlq list shows it.")
    ] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Say why a message does not run, who holds it, what happens next, and what happened to it so far.

    Live, archived and dead ones, through their redrives. Its payload is for `redrive message show`.
    Exit 1 when there is no such message.
    """
    with session(database) as store:
        facts = redact(store.run(facts_of(queue, msg_id, dead=dead)))
    found = explain(facts)
    if as_json:
        told = {"cause": found.cause, "answer": found.answer, "next": found.then, "also": found.also}
        answer_json(told | {"life": [{"at": at, "what": what} for at, what in found.life]} | facts)
    else:
        answer(found.answer)
        for each in found.also:
            answer(f"  also: it {each}")
        answer(f"  next: {found.then}")
        if found.life:
            answer("")
        for at, what in found.life:
            answer(f"{'' if at is None else moment(at):<20}  {what}")
    if found.cause in _UNKNOWN:
        raise typer.Exit(1)
