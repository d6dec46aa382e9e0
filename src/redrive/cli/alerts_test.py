"""``redrive alerts test``: a real alert, through the same table and the same sinks as every other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from redrive.cli.alerts_check import hush
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import age, answer_json, say
from redrive.cli.running import run
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.errors import ConfigError
from redrive.settings import alert_sinks
from redrive.store import alerts
from redrive.store.database import Database
from redrive.watch.delivery import Delivery
from redrive.watch.sinks.configured import configured_sinks
from redrive.watch.watch import described

_PATIENCE = 30.0
_PAUSE = 0.5
# Delivered by the check itself.
_BY_CHECK = "pg_net"


def test(
    sink: Annotated[
        str | None, typer.Argument(metavar="[SINK]", help="Only this one.", show_default=False)
    ] = None,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Send a real alert to each sink and say whether it arrived, in 30 seconds at most.

    Sinks that only other processes have are theirs to deliver to. Exit 1 when one did not arrive.
    """
    with session(database) as store:
        told, known = run(_test(store.url, sink))
    if as_json:
        answer_json([each._asdict() for each in told])
    else:
        seen = {each.sink: each for each in known}
        print_table(
            ("sink", "kind", "result"),
            [(each.sink, seen[each.sink].kind, _result(each, seen[each.sink])) for each in told],
        )
    if any(each.delivered_at is None for each in told):
        if not as_json:
            say("what has not arrived is tried again; redrive alerts list shows how that goes")
        raise typer.Exit(1)


async def _test(url: str, sink: str | None) -> tuple[list[alerts.Told], list[alerts.Sink]]:
    hush()
    name = None if sink is None else sink.lower()
    configured = configured_sinks()
    ours = [each for each in configured if name is None or each.name == name]
    database = Database(url, size=2)
    try:
        if configured:
            await database.run(alerts.declare_sinks({each.name: each.kind for each in configured}))
        known = await database.run(alerts.sinks())
        if not known:
            # The check declares what the database delivers to by itself.
            await database.run(alerts.check())
            known = await database.run(alerts.sinks())
        if not known or (name is not None and name not in {each.sink for each in known}):
            raise ConfigError(_unknown(name, known))
        ids = await database.run(alerts.test(name))
        return await _outcome(database, Delivery(database, ours, where=described(url)), ids), known
    finally:
        await database.close()


async def _outcome(database: Database, delivery: Delivery, ids: Sequence[int]) -> list[alerts.Told]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        await delivery.finish()
        told = [each for each in await database.run(alerts.deliveries(1000)) if each.id in ids]
        waiting = [each for each in told if each.state == "waiting"]
        if not waiting or time.monotonic() > deadline:
            return sorted(told, key=lambda each: each.sink)
        if any(each.sink == _BY_CHECK for each in waiting):
            await database.run(alerts.check())
        await asyncio.sleep(_PAUSE)


def _result(each: alerts.Told, sink: alerts.Sink) -> str:
    if each.delivered_at is not None:
        return "delivered"
    if each.error is not None:
        return f"not delivered: {each.error}"
    named = {setting.name for setting in alert_sinks()}
    if each.sink in named or each.sink == _BY_CHECK:
        return "no answer yet"
    return f"no process has taken it: the last one that has this sink was seen {age(sink.age_sec)} ago"


def _unknown(name: str | None, known: Sequence[alerts.Sink]) -> str:
    if not known:
        return (
            "no alert sink is configured; set REDRIVE_ALERTS_<NAME> to where alerts go, such as "
            "REDRIVE_ALERTS_SLACK to the https://hooks.slack.com/... of a channel, here and for the workers"
        )
    return (
        f"sink {name} is unknown; there are {', '.join(each.sink for each in known)}; "
        f"set REDRIVE_ALERTS_{(name or '').upper()} to make it one"
    )
