"""``redrive alerts silence``: tell nobody of an alert for a while."""

from __future__ import annotations

from typing import Annotated

import typer

from redrive.cli.durations import YEAR, seconds
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import age, answer, answer_json, count, say
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.errors import InvalidArgument
from redrive.store import alerts, events

RuleArgument = Annotated[
    str | None, typer.Argument(metavar="[RULE]", help="The rule's name.", show_default=False)
]
SubjectOption = Annotated[
    str | None,
    typer.Option(
        "--subject",
        "--queue",
        metavar="NAME",
        help="Only of this queue, source, schedule, lease or sink; * stands for any text.",
        show_default=False,
    ),
]


def silence(
    rule: RuleArgument = None,
    every_rule: Annotated[bool, typer.Option("--all", help="Of every rule.")] = False,
    subject: SubjectOption = None,
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long, such as 30m, 2h or 1d.")
    ] = "1h",
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, for whoever wonders.", show_default=False)
    ] = None,
    database: DatabaseOption = None,
) -> None:
    """Tell nobody of a rule's alerts for a while; they still fire, here and in exit codes.

    What still fires at the end of the silence is told then.
    """
    if (rule is None) != every_rule:
        raise InvalidArgument("name a rule, such as redrive alerts silence dead_letters, or say --all")
    lasting = seconds(duration, "--for", least=1, most=YEAR)
    with session(database) as store:
        id = store.run(alerts.silence(rule, subject, lasting, reason))
        known = all(each.known for each in store.run(alerts.silences()) if each.id == id)
    what = _named(rule, subject)
    answer(
        f"silence {id}: nobody is told of {what} for {age(lasting)}; redrive alerts unsilence {id} ends it"
    )
    if not known:
        say(f"nothing that is known so far is named {subject}: no queue, source, schedule or sink")


def unsilence(
    id: Annotated[
        int | None,
        typer.Argument(metavar="[ID]", help="The silence, as silences lists it.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every silence.")] = False,
    rule: Annotated[
        str | None, typer.Option(metavar="RULE", help="Those of this rule.", show_default=False)
    ] = None,
    subject: SubjectOption = None,
    database: DatabaseOption = None,
) -> None:
    """End silences before their time; exit 1 when there is none."""
    if (id is None and rule is None and subject is None) != everything or (
        id is not None and (rule is not None or subject is not None)
    ):
        raise InvalidArgument("give the id of a silence, or --rule and --subject, or --all")
    with session(database) as store:
        ended = store.run(alerts.unsilence(id, rule, subject, everything=everything))
    if not ended:
        say("there is no such silence; see redrive alerts silences")
        raise typer.Exit(1)
    answer(f"{count(ended, 'silence')} ended")


def silences(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """List the silences that are running."""
    with session(database) as store:
        found = store.run(alerts.silences())
        now = store.run(events.now())
    if as_json:
        answer_json([each._asdict() for each in found])
        return
    if not found:
        answer("nothing is silenced")
        return
    rows = [
        (
            each.id,
            each.rule or "(every rule)",
            each.subject or "",
            age((each.until - now).total_seconds()),
            each.reason,
            each.by,
        )
        for each in found
    ]
    print_table(("id", "rule", "of", "ends in", "reason", "by"), rows, numbers=("id",), shed=("by",))


def _named(rule: str | None, subject: str | None) -> str:
    of = f" of {subject}" if subject else ""
    return f"{rule or 'any rule'}{of}"
