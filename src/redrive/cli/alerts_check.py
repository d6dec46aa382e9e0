"""``redrive alerts check``: evaluate once, deliver, and say with the exit code whether anything fires."""

from __future__ import annotations

import asyncio
import logging
import time

import typer

from redrive.cli.alerts_list import as_dict, look, print_alerts, print_failing, print_problems
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import answer, answer_json, say
from redrive.cli.running import run
from redrive.cli.session import session
from redrive.errors import SetupError, Unavailable
from redrive.settings import Settings, load_settings
from redrive.store import alerts
from redrive.store.database import Database
from redrive.watch.delivery import Delivery
from redrive.watch.health import Health
from redrive.watch.heartbeat import Heartbeat
from redrive.watch.sinks.configured import configured_sinks
from redrive.watch.watch import described

# For whoever evaluates at this moment.
_PATIENCE = 5.0
_PAUSE = 0.3


def check(as_json: JsonOption = False, database: DatabaseOption = None) -> None:
    """Evaluate the rules once, now; deliver what is due to the sinks named here; show what fires.

    For cron, and for a deploy that wants to know. A silenced alert counts too: a silence keeps it from the
    sinks. Exit 1 when an alert fires, a delivery has failed or something could not be read, and when another
    session has been evaluating for five seconds.
    """
    settings = load_settings()
    with session(database) as store:
        evaluated = run(_check(store.url, settings))
        found = look(store)
    if as_json:
        answer_json(as_dict(found))
    elif found.firing:
        print_alerts(found.firing, found.now)
    elif evaluated:
        answer("nothing fires")
    if not as_json:
        print_failing(found.failing)
        print_problems(found.state)
    if not evaluated:
        say(
            "nothing was evaluated: another session does that, or is in a transaction in which it did, for "
            f"{_PATIENCE:g} s; this is what the last evaluation found"
        )
    if found.firing or found.failing or found.state.problems or not evaluated:
        raise typer.Exit(1)


async def _check(url: str, settings: Settings) -> bool:
    """Whether the rules were evaluated, by us or by somebody else in the meantime."""
    hush()
    sinks = configured_sinks()
    database = Database(url, size=2)
    try:
        health = Health(database, sinks, check_every=settings.check_every, told=lambda: None)
        evaluated = await _evaluate(database, health)
        await Delivery(database, sinks, where=described(url)).finish()
        if settings.heartbeat_url is not None:
            await _beat(Heartbeat(database, settings.heartbeat_url, check_every=settings.check_every))
        return evaluated
    finally:
        await database.close()


async def _evaluate(database: Database, health: Health) -> bool:
    before = (await database.run(alerts.state())).checked_at
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            await health.check(now=True)
        except Unavailable:
            # A lock on what is written down: whoever has it may be done in a moment.
            if time.monotonic() > deadline:
                raise
        if (await database.run(alerts.state())).checked_at != before:
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_PAUSE)


async def _beat(heart: Heartbeat) -> None:
    try:
        await heart.beat()
    except SetupError as error:
        # What was found is the answer all the same.
        say(f"the heartbeat is not sent: {error}")


def hush() -> None:
    """What is logged by a watcher is shown as the answer here."""
    logging.getLogger("redrive.watch").addHandler(logging.NullHandler())
