"""``redrive alerts check``: evaluate once, deliver, and say with the exit code whether anything fires."""

from __future__ import annotations

import asyncio
import logging

import typer

from redrive.cli.alerts_list import as_dict, look, print_alerts, print_failing
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import answer, answer_json, say
from redrive.cli.session import session
from redrive.errors import SetupError
from redrive.settings import Settings, load_settings
from redrive.store.database import Database
from redrive.watch.delivery import Delivery
from redrive.watch.health import Health
from redrive.watch.heartbeat import Heartbeat
from redrive.watch.sinks.configured import configured_sinks
from redrive.watch.watch import described


def check(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """Evaluate the rules once, now; deliver what is due to the sinks named here; show what fires.

    For cron, and for a deploy that wants to know. A silenced alert counts too: a silence keeps it from the
    sinks. Exit 1 when an alert fires or a delivery has failed.
    """
    settings = load_settings()
    with session(database) as store:
        asyncio.run(_check(store.url, settings))
        found = look(store)
    if as_json:
        answer_json(as_dict(found))
    elif found.firing:
        print_alerts(found.firing, found.now)
    else:
        answer("nothing fires")
    if not as_json:
        print_failing(found.failing)
        for each in found.state.problems:
            say(f"{each.get('gauge')} could not be read: {each.get('problem')}")
    if found.firing or found.failing:
        raise typer.Exit(1)


async def _check(url: str, settings: Settings) -> None:
    hush()
    sinks = configured_sinks()
    database = Database(url, size=2)
    try:
        await Health(database, sinks, check_every=settings.check_every, told=lambda: None).check(now=True)
        await Delivery(database, sinks, where=described(url)).finish()
        if settings.heartbeat_url is not None:
            await _beat(Heartbeat(database, settings.heartbeat_url, check_every=settings.check_every))
    finally:
        await database.close()


async def _beat(heart: Heartbeat) -> None:
    try:
        await heart.beat()
    except SetupError as error:
        # What was found is the answer all the same.
        say(f"the heartbeat is not sent: {error}")


def hush() -> None:
    """What is logged by a watcher is shown as the answer here."""
    logging.getLogger("redrive.watch").addHandler(logging.NullHandler())
