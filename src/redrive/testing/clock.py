"""Clock: moves time in a test database, for every statement redrive runs there.

Guarantees  only the database it was made for has another time; production has nothing to set.
Not given   that Python's clocks move too: a handler's timeout and its sleeps take the time they take.
"""

from __future__ import annotations

from datetime import datetime

from redrive.errors import InvalidArgument
from redrive.policy import check_seconds
from redrive.store.database import connect
from redrive.store.statement import Statement, nothing, scalar
from redrive.testing.database import ask

# Definer's rights: a role that may do nothing but send asks the clock too.
_INSTALL = """
create table if not exists redrive._test_clock (
    one   boolean primary key default true check (one),
    ahead interval not null default '0'
);
insert into redrive._test_clock default values on conflict do nothing;
create or replace function redrive.clock() returns timestamptz
language sql volatile parallel safe security definer set search_path = pg_catalog, pg_temp
as $$ select pg_catalog.clock_timestamp() + ahead from redrive._test_clock $$;
"""
_NOW = "select redrive.clock()"
_ADVANCE = "update redrive._test_clock set ahead = ahead + make_interval(secs => %s::float8)"
_SET = "update redrive._test_clock set ahead = %s::timestamptz - clock_timestamp()"


class Clock:
    """The clock of the test database `url`, which goes on from wherever it was set to.

    clock.advance(30)      # what was due in half a minute is ready now
    """

    def __init__(self, url: str) -> None:
        self._url = url
        with connect(url) as connection:
            connection.execute(_INSTALL)

    def now(self) -> datetime:
        """The time in the test database."""
        return ask(self._url, Statement(_NOW, (), scalar))

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass. Raises `InvalidArgument` when they are negative: `set` goes back."""
        ask(self._url, _command(_ADVANCE, check_seconds(seconds, "advance(seconds)")))

    def set(self, when: datetime) -> None:
        """Make it `when`, an aware datetime. Raises `InvalidArgument` when it has no time zone."""
        if when.utcoffset() is None:
            raise InvalidArgument(f"{when!r} has no time zone; add one, such as tzinfo=UTC")
        ask(self._url, _command(_SET, when.isoformat()))


def _command(sql: str, value: str | float) -> Statement[None]:
    return Statement(f"with moved as ({sql} returning 1) select 1 from moved", (value,), nothing)
