"""Schedules: somebody sends what is due."""

from __future__ import annotations

import shlex

from redrive.watch.doctor.finding import Check, Finding, check
from redrive.watch.doctor.names import moment
from redrive.watch.doctor.patient import Patient

_LATEST = 120
_UNSEEN = 300


@check("each schedule that is due is run by somebody")
async def schedules(patient: Patient, *, latest: float = _LATEST) -> list[Finding]:
    await patient.demand("redrive.schedules()")
    found = await patient.rows(
        """
        select s.name, s.lag_sec::float8 as lag, s.paused, s.last_tick,
               extract(epoch from s.now - coalesce(s.seen_at, s.declared_at))::float8 as unseen
          from redrive.schedules() s order by s.name
        """
    )
    findings: list[Finding] = []
    for row in found:
        if row.paused:
            problem = f"schedule {row.name} is paused"
            findings.append(
                Finding("note", row.name, problem, (f"redrive schedule resume {shlex.quote(row.name)}",))
            )
        elif row.lag is not None and row.lag > latest:
            last = "it never ran" if row.last_tick is None else f"last: {moment(row.last_tick)}"
            problem = (
                f"schedule {row.name} has been due for {row.lag:,.0f} s and nobody ran it: the app that "
                f"declares it "
                f"has no worker running "
                f"({last})"
            )
            fix = ("redrive worker --app MODULE:ATTR", f"redrive schedule drop {shlex.quote(row.name)}")
            findings.append(Finding("error", row.name, problem, fix))
        elif row.unseen > _UNSEEN:
            problem = (
                f"schedule {row.name} is run by nobody: no process that declares it has looked for "
                f"{row.unseen / 60:,.0f} minutes"
            )
            fix = ("redrive worker --app MODULE:ATTR", f"redrive schedule drop {shlex.quote(row.name)}")
            findings.append(Finding("warning", row.name, problem, fix))
    return findings


CHECKS: tuple[Check, ...] = (schedules,)
