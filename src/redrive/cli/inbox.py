"""``redrive inbox``: look at what webhooks brought, replay it, and try a receiver out."""

from __future__ import annotations

from typing import Annotated

import typer

from redrive.cli import inbox_selection as selection
from redrive.cli.inbox_listing import print_events, row_of
from redrive.cli.inbox_quarantine import quarantine
from redrive.cli.inbox_reconcile import reconcile
from redrive.cli.inbox_replay import replay
from redrive.cli.inbox_send_test import send_test
from redrive.cli.inbox_show import show
from redrive.cli.inbox_sources import check_source
from redrive.cli.inbox_status import status
from redrive.cli.inbox_verify import verify
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import answer_json, say
from redrive.cli.session import session
from redrive.policy import check_count
from redrive.store.events import Listed

app = typer.Typer(no_args_is_help=True, help="Webhooks: what arrived, and what became of it.")


@app.command("list")
def list_(
    source: selection.SourceArgument = None,
    type: selection.TypeOption = None,
    status: selection.StatusOption = None,
    resource: selection.ResourceOption = None,
    since: selection.SinceOption = None,
    until: selection.UntilOption = None,
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Go on after this event, as the list shows it.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="At most this many.")] = 50,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """List events, the newest first. Exit 1 for a source that nobody knows."""
    chosen = selection.Filter(source, type, status, resource, since, until)
    check_count(limit, "--limit")
    with session(database) as store:
        found = next(chosen.pages(store, after=after, limit=limit), list[Listed]())
        if as_json:
            answer_json([row_of(each) for each in found])
        if not found:
            check_source(store, source)
    if as_json:
        return
    print_events(found)
    if len(found) == limit:
        say(f"perhaps there are more: add --after {found[-1].id}")


# In the order in which --help shows them.
for each in (show, status, replay, quarantine, reconcile):
    app.command()(each)
app.command("send-test")(send_test)
app.command()(verify)
