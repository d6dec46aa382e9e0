"""run_schedule: a schedule's tick, sent and run in a test.

Guarantees  what is sent is what a scheduler sends, by the database's own function;
            ticks that pass while a test moves its clock send nothing: what runs is what the test asked for.
"""

from __future__ import annotations

from redrive.app import Redrive
from redrive.errors import ConfigError
from redrive.store import schedules
from redrive.testing.database import database_of
from redrive.testing.idle import Ran, run_until_idle
from redrive.watch.scheduler import declaration


async def run_schedule(app: Redrive, name: str, *, timeout: float = 30.0) -> Ran:
    """Send the tick of schedule `name`, due now by the test's clock, and run its queue; what came of it.

    Raises `ConfigError` when the app has no such schedule, and as `run_until_idle`.

        redrive_clock.set(datetime(2031, 3, 1, 2, 30, tzinfo=UTC))
        assert await run_schedule(app, "close_the_day") == Ran(done=1)
    """
    if name not in app.schedules:
        there_are = ", ".join(sorted(app.schedules)) or "none"
        raise ConfigError(f"the app has no schedule {name!r}; it has: {there_are}")
    # Before anything is sent: what is no test's database gets nothing.
    database_of(app)
    schedule = app.schedules[name]
    await app.database.run(schedules.declare([declaration(schedule)]))
    await app.database.run(schedules.run(name))
    return await run_until_idle(app, queues=[schedule.queue], timeout=timeout)
