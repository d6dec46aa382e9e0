"""Watching: somebody checks the queues' health, and somebody is told."""

from __future__ import annotations

from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.names import several
from redrive.watch.doctor.patient import Patient

_LATEST = 300
# How often who checks means to: it takes its lease for nine tenths of that.
_EVERY = """
select extract(epoch from lease_until - acquired_at)::float8 / 0.9 as every
  from redrive.leases() where name = 'redrive.health'
"""
_STATE = """
select age_sec::float8 as age,
       (select left(string_agg(concat(p ->> 'gauge', ' (', p ->> 'problem', ')'), '; '), 500)
          from jsonb_array_elements(problems) p) as unread
  from redrive.watch_state()
"""


@check("the health of the queues is checked, as often as was meant (each minute by default)")
async def watcher(patient: Patient, *, latest: float = _LATEST) -> list[Finding]:
    await patient.demand("redrive.watch_state()")
    found = await patient.rows(_STATE)
    age = found[0].age if found else None
    if age is not None and 0 <= age <= max(latest, 2 * await _every(patient)):
        unread = found[0].unread
        if unread is None:
            return []
        problem = f"the last check could not read everything, and its rules saw nothing there: {unread}"
        return [Finding("error", "health", problem, ("redrive alerts check",))]
    when = "was never checked" if age is None else f"was checked last {age / 60:,.0f} minutes ago"
    if age is not None and age < 0:
        when = f"was checked last by a clock that was {-age / 60:,.0f} minutes ahead of this one"
    problem = (
        f"the health of the queues {when}: no worker, no redrive serve and no redrive alerts watch runs, so "
        f"nobody "
        "finds out"
    )
    return [Finding("error", "health", problem, ("redrive alerts watch",))]


async def _every(patient: Patient) -> float:
    """The seconds between two checks (REDRIVE_CHECK_EVERY), as far as they are known: else 0."""
    try:
        return sum(row.every for row in await patient.rows(_EVERY))
    except NotChecked:
        return 0


@check("alerts have somewhere to go")
async def alert_sinks(patient: Patient) -> list[Finding]:
    await patient.demand("redrive.alert_sink")
    found = await patient.rows(
        "select name, extract(epoch from now() - seen_at)::float8 as age from redrive.alert_sink order by "
        "name"
    )
    if not found:
        problem = (
            "no process has told of a place to send alerts to: what goes wrong stands in redrive alerts list "
            "alone"
        )
        fix = ("export REDRIVE_ALERTS_TEAM=https://hooks.slack.com/services/T…/B…/…", "redrive alerts test")
        return [Finding("warning", "alerts", problem, fix)]
    return [
        Finding(
            "warning",
            row.name,
            f"no process has had the alert sink {row.name} for {row.age / 60:,.0f} minutes: what is written "
            f"for it waits (if it is gone for good: redrive alerts forget {row.name})",
            ("redrive alerts watch",),
        )
        for row in found
        if row.age > _LATEST
    ]


@check("alerts arrive where they are sent")
async def alert_deliveries(patient: Patient) -> list[Finding]:
    await patient.demand("redrive.alert_delivery")
    found = await patient.rows(
        """
        select sink, count(*) as open, max(attempts) as attempts, max(error) as error,
               count(*) filter (where gave_up_at is not null) as lost
          from redrive.alert_delivery
         where delivered_at is null
           and (attempts > 0 and gave_up_at is null or gave_up_at > now() - interval '1 day')
           and id not in (select id from redrive.alert_deliveries(10000) where state = 'held back')
         group by sink order by sink
        """
    )
    return [
        Finding(
            "error",
            row.sink,
            f"sink {row.sink}: {several(row.open, 'alert')} undelivered ({row.lost:,} given up), after up to "
            f"{several(row.attempts, 'try').replace('trys', 'tries')}: "
            f"{(row.error or 'no reason known')[:120]}",
            (f"redrive alerts test {row.sink}",),
        )
        for row in found
    ]


CHECKS: tuple[Check, ...] = (watcher, alert_sinks, alert_deliveries)
