"""Sessions: who holds old rows back from vacuum: transactions, replication slots, prepared transactions."""

from __future__ import annotations

from typing import Any

from redrive.watch.doctor.finding import Check, Finding, check, not_checked
from redrive.watch.doctor.names import literal, several
from redrive.watch.doctor.patient import Patient

LONGEST = 600.0

_TRANSACTIONS = """
select a.pid, a.usename::text as role, nullif(a.application_name, '') as application, a.state,
       extract(epoch from clock_timestamp() - a.xact_start)::float8 as age,
       extract(epoch from clock_timestamp() - coalesce(a.state_change, a.xact_start))::float8 as idle,
       age(a.backend_xmin) as xmin, left(regexp_replace(a.query, '\\s+', ' ', 'g'), 60) as query
  from pg_stat_activity a
 where a.pid <> pg_backend_pid() and a.backend_type in ('client backend', 'walsender')
   and (a.datname = current_database() or a.backend_xmin is not null)
   and a.xact_start < clock_timestamp() - make_interval(secs => %s)
 order by a.xact_start limit 20
"""


@check("no transaction has been open for long: it holds back vacuum for every queue")
async def holders(patient: Patient, *, longest: float = LONGEST) -> list[Finding]:
    findings = [_holder(row) for row in await patient.rows(_TRANSACTIONS, longest)]
    hidden = await patient.row(
        "select count(*) as sessions from pg_stat_activity "
        "where datid is not null and query = '<insufficient privilege>'"
    )
    if hidden.sessions:
        findings.append(
            not_checked(
                f"role {patient.me} may not see what {several(hidden.sessions, 'session')} of other roles "
                f"do; "
                f"grant pg_read_all_stats to {patient.me}",
                "sessions",
            )
        )
    return findings


def _holder(found: Any) -> Finding:
    who = f"process {found.pid} of role {found.role}" + (
        f" ({found.application})" if found.application else ""
    )
    state = (
        f"idle in transaction for {_long(found.idle)}" if str(found.state).startswith("idle") else found.state
    )
    back = f", holding back {found.xmin:,} transactions" if found.xmin else ""
    problem = f"{who} has had a transaction open for {_long(found.age)}{back}; it is {state}: {found.query}"
    fix = f"select pg_terminate_backend({found.pid});"
    return Finding("warning", f"pid {found.pid}", problem, (fix,))


def _long(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


@check("no replication slot is left that nobody reads")
async def replication_slots(patient: Patient) -> list[Finding]:
    found = await patient.rows(
        """
        select s.slot_name::text as name, age(s.xmin) as xmin,
               case when pg_is_in_recovery() then null
                    else pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::bigint end as wal
          from pg_replication_slots s where not s.active order by 1
        """
    )
    return [
        Finding(
            "warning",
            row.name,
            f"replication slot {row.name} is read by nobody, and keeps {(row.wal or 0) / 1e6:,.0f} MB of WAL"
            + (f" and the rows of {row.xmin:,} transactions" if row.xmin is not None else ""),
            (f"select pg_drop_replication_slot({literal(row.name)});",),
        )
        for row in found
    ]


@check("no prepared transaction is left: its locks outlive every session")
async def prepared_transactions(patient: Patient, *, longest: float = 300.0) -> list[Finding]:
    found = await patient.rows(
        """
        select gid, owner::text as owner, extract(epoch from clock_timestamp() - prepared)::float8 as age
          from pg_prepared_xacts
         where database = current_database() and prepared <= clock_timestamp() - make_interval(secs => %s)
         order by prepared
        """,
        longest,
    )
    return [
        Finding(
            "warning",
            row.gid,
            f"transaction {row.gid!r} of role {row.owner} was prepared {_long(row.age)} ago and neither "
            f"committed nor "
            "rolled back: it keeps its locks, and holds back vacuum",
            (f"rollback prepared {literal(row.gid)};",),
        )
        for row in found
    ]


CHECKS: tuple[Check, ...] = (holders, replication_slots, prepared_transactions)
