"""``redrive alerts``: what fires, whether anybody is told, and the rules behind it."""

from __future__ import annotations

import typer

from redrive.cli import alerts_rule
from redrive.cli.alerts_check import check
from redrive.cli.alerts_forget import forget
from redrive.cli.alerts_list import list_
from redrive.cli.alerts_rule import rules
from redrive.cli.alerts_silence import silence, silences, unsilence
from redrive.cli.alerts_test import test
from redrive.cli.alerts_watch import watch

app = typer.Typer(no_args_is_help=True, help="Alerts: what is wrong, and who is told.")

# In the order in which --help shows them.
app.command("list")(list_)
for each in (check, watch, test, silence, unsilence, silences, forget, rules):
    app.command()(each)
app.add_typer(alerts_rule.app, name="rule")
