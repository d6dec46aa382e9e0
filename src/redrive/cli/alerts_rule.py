"""``redrive alerts rules`` and ``redrive alerts rule``: what is an alert, and changing that."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from redrive.cli.durations import YEAR, seconds
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import age, answer, answer_json, facts, say
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.errors import InvalidArgument
from redrive.store import alerts

app = typer.Typer(no_args_is_help=True, help="One rule: change it, make a new one, take it back.")

_NEVER = "never"
# Beyond it the database refuses too, naming the field.
_HIGHEST = 1e15

RuleName = Annotated[str, typer.Argument(metavar="NAME", help="The rule's name.", show_default=False)]


def rules(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """List the rules: which gauge is held against what, and for how long."""
    with session(database) as store:
        found = store.run(alerts.rules())
    if as_json:
        answer_json([each._asdict() for each in found])
        return
    print_table(
        ("rule", "gauge", "fires", "for", "severity", "reminds after", "only", ""),
        [
            (
                each.name,
                each.gauge,
                f"{each.operator} {each.threshold:g}" + _cleared(each),
                age(each.for_sec) if each.for_sec else "",
                each.severity,
                _NEVER if each.remind_sec is None else age(each.remind_sec),
                each.queue_pattern,
                _remark(each),
            )
            for each in found
        ],
        keep=("rule",),
        shed=("reminds after", "gauge", "only"),
    )


@app.command("set")
def set_(
    name: RuleName,
    gauge: Annotated[
        str | None, typer.Option(metavar="GAUGE", help="What is measured.", show_default=False)
    ] = None,
    operator: Annotated[
        str | None, typer.Option(metavar="OP", help="One of >, >=, <, <=.", show_default=False)
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(metavar="NUMBER", help="The limit.", show_default=False)
    ] = None,
    clear: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER", help="Where a firing alert is over, if not at the limit.", show_default=False
        ),
    ] = None,
    lasting: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="TIME", help="How long it must be over, such as 5m.", show_default=False
        ),
    ] = None,
    remind: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"Remind after this, such as 4h, or {_NEVER}.", show_default=False),
    ] = None,
    severity: Annotated[
        str | None, typer.Option(metavar="WORD", help="info, warning or critical.", show_default=False)
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help="Only queues of this name; * stands for any text.", show_default=False
        ),
    ] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Turn it on or off.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Change what is named of a rule, or make a new one, which needs --gauge and --threshold."""
    for option, number in (("--threshold", threshold), ("--clear", clear)):
        if number is not None and not abs(number) <= _HIGHEST:
            raise InvalidArgument(f"{option} is {number:g}; it must be a number, {_HIGHEST:g} at most")
    fields: dict[str, Any] = {
        "gauge": gauge,
        "operator": operator,
        "threshold": threshold,
        "clear_at": clear,
        "for_sec": None if lasting is None else seconds(lasting, "--for", most=YEAR),
        "severity": severity,
        "queue_pattern": queue,
        "enabled": enabled,
    }
    given = {field: value for field, value in fields.items() if value is not None}
    if remind is not None:
        given["remind_sec"] = None if remind == _NEVER else seconds(remind, "--remind", least=1, most=YEAR)
    if not given:
        raise InvalidArgument(
            "nothing is to be changed; name at least one of the options, such as --threshold"
        )
    with session(database) as store:
        made = store.run(alerts.set_rule(name, given))
    if as_json:
        answer_json(made)
    else:
        facts(made.items())


@app.command()
def reset(name: RuleName, database: DatabaseOption = None) -> None:
    """Make a built-in rule what it is from the start."""
    with session(database) as store:
        changed = store.run(alerts.reset_rule(name))
    answer(f"rule {name} is as redrive brings it" if changed else f"rule {name} was not changed before")


@app.command()
def drop(name: RuleName, database: DatabaseOption = None) -> None:
    """Forget a rule of your own; its alerts are over. A built-in one can be disabled instead."""
    with session(database) as store:
        if any(each.builtin for each in store.run(alerts.rules()) if each.name == name):
            raise InvalidArgument(
                f"rule {name} comes with redrive; turn it off instead: "
                f"redrive alerts rule set {name} --disable"
            )
        dropped = store.run(alerts.drop_rule(name))
    if not dropped:
        say(f"there is no rule {name}; see redrive alerts rules")
        raise typer.Exit(1)
    answer(f"rule {name} is gone")


def _cleared(rule: alerts.Rule) -> str:
    return "" if rule.clear_at is None else f", until {rule.clear_at:g}"


def _remark(rule: alerts.Rule) -> str:
    if not rule.enabled:
        return "off"
    if not rule.builtin:
        return "your own"
    return "changed" if rule.changed else ""
