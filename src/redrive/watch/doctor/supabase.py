"""Supabase: pg_cron, pg_net and Vault, where they are: what they were told to do, they do."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from redrive.errors import ConfigError
from redrive.store import vault
from redrive.watch.doctor import jobs
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check, not_checked
from redrive.watch.doctor.jobs import NO_CRON, NO_VAULT, OWN, demand
from redrive.watch.doctor.names import moment, several
from redrive.watch.doctor.patient import Patient
from redrive.watch.times import Times

_NET = "pg_net is not installed in this database"

# decrypted_secrets where name = '...': how a command asks Vault.
_NAMES = r"""decrypted_secrets[^;]*?\mname\M\s*=\s*''?([^']+)''?"""


@check("no job of pg_cron failed when it last ran")
async def cron_failing(patient: Patient) -> list[Finding]:
    await demand(patient, "cron.job_run_details", NO_CRON)
    found = await patient.rows(
        """
        select coalesce(j.jobname, j.jobid::text) as name, j.jobid, d.return_message as said, d.at
          from cron.job j
         cross join lateral (select r.status, r.return_message, coalesce(r.end_time, r.start_time) as at
                               from cron.job_run_details r
                              where r.jobid = j.jobid and r.status in ('succeeded', 'failed')
                              order by r.runid desc limit 1) d
         where j.active and d.status = 'failed' order by 1
        """
    )
    return [
        Finding(
            "error",
            row.name,
            f"pg_cron's job {row.name} failed when it last ran"
            f"{f' ({moment(row.at)})' if row.at else ''}: "
            f"{' '.join((row.said or '').split())[:160]}",
            (f"select * from cron.job_run_details where jobid = {row.jobid} order by runid desc limit 5;",),
        )
        for row in found
    ]


_RUNS = """
select coalesce(j.jobname, j.jobid::text) as name, j.jobid, j.schedule, r.last, now() as now,
       coalesce(nullif(current_setting('cron.timezone', true), ''), 'GMT') as zone,
       coalesce(current_setting('cron.log_run', true), 'on') as logged
  from cron.job j
 cross join lateral (select max(d.start_time) as last from cron.job_run_details d where d.jobid = j.jobid) r
 where j.active order by 1
"""
_SECONDS = re.compile(r"\s*(\d+)\s+seconds?\s*", re.IGNORECASE)
_LATE = timedelta(minutes=5)


@check("pg_cron runs its jobs when they are due")
async def cron_stalled(patient: Patient) -> list[Finding]:
    await demand(patient, "cron.job_run_details", NO_CRON)
    found = await patient.rows(_RUNS)
    if found and found[0].logged == "off":
        raise NotChecked("cron.log_run is off: pg_cron keeps no record of what it runs")
    return [finding for row in found for finding in _runs(row)]


def _runs(row: Any) -> list[Finding]:
    job = f"pg_cron's job {row.name} ({row.schedule})"
    if row.last is None:
        # How old a job is stands nowhere.
        problem = f"{job}: no run is on record; it is new, or pg_cron does not run it"
        return [Finding("note", row.name, problem)]
    try:
        ticks = _times(row.schedule, row.zone).after(row.last)
        due = next(ticks)
        late = max(next(ticks), due + _LATE) < row.now
    except (ConfigError, StopIteration):
        return [not_checked(f"the schedule of {job} cannot be read", row.name)]
    if not late:
        return []
    problem = (
        f"{job} has not run since {moment(row.last)}, and was due at {moment(due)}: pg_cron has stopped, or "
        "all its workers hang; a restart of the server starts it again"
    )
    look = "select pid, state, query from pg_stat_activity where application_name like 'pg_cron%';"
    return [Finding("error", row.name, problem, (look,))]


def _times(schedule: str, zone: str) -> Times:
    """A schedule of pg_cron's: every so many seconds, or five fields, in which $ is a month's last day."""
    seconds = _SECONDS.fullmatch(schedule)
    return Times.of(int(seconds[1]) if seconds else schedule.replace("$", "L"), zone)


@check("no job of pg_cron is switched off")
async def cron_inactive(patient: Patient) -> list[Finding]:
    await demand(patient, "cron.job", NO_CRON)
    found = await patient.rows(
        "select coalesce(jobname, jobid::text) as name, jobid from cron.job "
        f"where not active and not coalesce({OWN}, false) order by 1"
    )
    return [
        Finding(
            "note",
            row.name,
            f"pg_cron's job {row.name} is not active: it does not run",
            (f"select cron.alter_job({row.jobid}, active => true);",),
        )
        for row in found
    ]


@check("calls of pg_net are answered")
async def net_failing(patient: Patient) -> list[Finding]:
    await demand(patient, "net._http_response", _NET)
    found = await patient.row(
        """
        select count(*) as calls,
               count(*) filter (where r.status_code is null or r.status_code >= 400 or r.timed_out) as failed,
               (array_agg(coalesce(r.error_msg, 'HTTP ' || r.status_code, 'timed out')
                          order by r.created desc)
                   filter (where r.status_code is null or r.status_code >= 400 or r.timed_out))[1] as said
          from (select * from net._http_response where created > now() - interval '15 minutes' limit 10000) r
        """
    )
    if not found.failed:
        return []
    problem = (
        f"{found.failed:,} of {several(found.calls, 'call')} of pg_net failed within 15 minutes; the newest: "
        f"{' '.join(found.said.split())[:160]}"
    )
    fix = "select id, status_code, error_msg, content from net._http_response order by created desc limit 10;"
    return [Finding("warning", "pg_net", problem, (fix,))]


@check("each name that a job of pg_cron asks Vault for is there")
async def vault_names(patient: Patient) -> list[Finding]:
    await demand(patient, "cron.job", NO_CRON)
    await demand(patient, "vault.secrets", NO_VAULT)
    found = await patient.rows(
        """
        select coalesce(j.jobname, j.jobid::text) as name, m.secret, m.own
          from cron.job j
         cross join lateral (select f[1] as secret, false as own from regexp_matches(j.command, %s, 'gi') f
                             union select f[2], true from regexp_matches(j.command, %s, 'g') f) m
         where not exists (select from vault.secrets s where s.name = m.secret)
         order by 1, 2
        """,
        _NAMES,
        vault.ASKED,
    )
    return [jobs.missing(row.name, row.secret, own=row.own) for row in found]


CHECKS: tuple[Check, ...] = (
    cron_failing,
    cron_stalled,
    cron_inactive,
    net_failing,
    vault_names,
    *jobs.CHECKS,
)
