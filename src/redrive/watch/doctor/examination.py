"""Examination: every check of the doctor on one database, and the safe fixes.

Guarantees  a check that fails, cannot be made or is not reached in time is a finding that says so, and takes
            no other check's with it;
            the whole ends, whatever the database does; `mend` alone changes anything, a transaction a fix.
Not given   that what is found is still so when it is read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import psycopg

from redrive.errors import RedriveError, Unavailable
from redrive.watch.doctor import (
    connection,
    inbox,
    pgmq,
    queues,
    rights,
    schedules,
    schema,
    server,
    sessions,
    supabase,
    tables,
    timeouts,
    watching,
    workers,
)
from redrive.watch.doctor.finding import Check, Finding, NotChecked, not_checked
from redrive.watch.doctor.patient import Patient, Surroundings, connect

ENDS_WITHIN = 120.0

CHECKS: tuple[Check, ...] = (
    *schema.CHECKS,
    *rights.CHECKS,
    *pgmq.CHECKS,
    *queues.CHECKS,
    *tables.CHECKS,
    *connection.CHECKS,
    *server.CHECKS,
    *sessions.CHECKS,
    *timeouts.CHECKS,
    *workers.CHECKS,
    *watching.CHECKS,
    *schedules.CHECKS,
    *inbox.CHECKS,
    *supabase.CHECKS,
)

_ORDER = {"error": 0, "warning": 1, "note": 2, "not checked": 3}
_MENDS_FOR = "60s"


async def examine(
    url: str,
    around: Surroundings | None = None,
    checks: Sequence[Check] = CHECKS,
    *,
    within: float = ENDS_WITHIN,
) -> list[Finding]:
    """What the checks find, the worst first. Raises `Unavailable` for a database out of reach.

    One that is lost on the way is a finding.
    """
    patient = await Patient.admit(url, around or Surroundings())
    until = time.monotonic() + within
    found: list[Finding] = []
    lost = False
    try:
        for each in checks:
            if lost:
                found.append(not_checked("the database was lost").of(each.name))
                continue
            if time.monotonic() > until:
                found.append(not_checked(f"the doctor's {within:g} s were over").of(each.name))
                continue
            try:
                found += [finding.of(each.name) for finding in await _look(each, patient)]
            except Unavailable as error:
                lost = True
                problem = f"the database was lost while it was examined: {error}"
                found.append(Finding("error", patient.database, problem).of(each.name))
    finally:
        await patient.close()
    return sorted(found, key=lambda finding: _ORDER[finding.severity])


async def _look(each: Check, patient: Patient) -> Sequence[Finding]:
    """What it finds. Raises `Unavailable` where the database is lost, and does not come back."""
    try:
        return await each.look(patient)
    except NotChecked as why:
        return [not_checked(str(why))]
    except Unavailable as error:
        await patient.reconnect()
        return [not_checked(str(error))]
    except Exception as error:
        # What other programs' tables hold, nobody promises.
        return [not_checked(f"this check failed: {type(error).__name__}: {' '.join(str(error).split())}")]


async def mend(url: str, finding: Finding) -> str | None:
    """Run a safe finding's statements in one transaction; why that failed, None where it did not.

    Raises `Unavailable`.
    """
    assert finding.safe, "only safe fixes are run"
    async with await connect(url) as connection:
        try:
            async with connection.transaction():
                await connection.execute("set local search_path = pg_catalog")
                await connection.execute("set local lock_timeout = '5s'")
                await connection.execute(f"set local statement_timeout = '{_MENDS_FOR}'".encode())
                for statement in finding.fix:
                    await connection.execute(statement.encode())
        except (psycopg.Error, RedriveError) as error:
            return " ".join(str(error).split())
    return None
