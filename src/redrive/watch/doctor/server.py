"""Server: its version and encoding, its room for connections, transaction ids and notifications."""

from __future__ import annotations

from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.patient import Patient

OLDEST = 140000
# Claim and heartbeat of a worker process, its LISTEN, and two of what watches over the queues.
_A_PROCESS = 5
# What its handlers' transactions may take beside.
_MOST_OF_HANDLERS = 10


@check("the server's version is one that redrive works on")
async def server_version(patient: Patient, *, oldest: int = OLDEST) -> list[Finding]:
    if patient.version >= oldest:
        return []
    problem = f"the server is Postgres {patient.version // 10000}; redrive needs {oldest // 10000} or newer"
    return [Finding("error", "server", problem)]


@check("the database's encoding takes every text")
async def encoding(patient: Patient) -> list[Finding]:
    found = await patient.row(
        "select pg_encoding_to_char(encoding)::text as name from pg_database where datname = "
        "current_database()"
    )
    if found.name == "UTF8":
        return []
    problem = (
        f"the database's encoding is {found.name}: messages, errors and webhooks with other characters are "
        f"refused; "
        "make a database with encoding UTF8 and move the data there"
    )
    return [Finding("note", patient.database, problem)]


# What sort of session another role's is may be hidden.
_CLIENT = "a.datid is not null and coalesce(a.backend_type, 'client backend') = 'client backend'"
_ROOM = """
select current_setting('max_connections')::integer as most,
       current_setting('superuser_reserved_connections')::integer
           + coalesce(current_setting('reserved_connections', true)::integer, 0) as reserved,
       (select count(*) from pg_stat_activity a where {client})::integer as used,
       (select count(*) from pg_stat_activity a where {client}
           and a.usename = r.rolname and a.application_name like 'redrive%%'
           and a.datname = current_database())::integer as ours,
       r.rolconnlimit as role_limit,
       (select datconnlimit from pg_database where datname = current_database()) as database_limit
  from pg_roles r where r.rolname = %s
""".replace(
    "{client}", "a.datid is not null and coalesce(a.backend_type, 'client backend') = 'client backend'"
)


@check("the server has room for the connections of every worker process")
async def connections(patient: Patient) -> list[Finding]:
    processes, whence = await _processes(patient)
    found = (await patient.rows(_ROOM, patient.role))[:1]
    if not found:
        raise NotChecked(f"role {patient.ident(patient.role)} does not exist")
    [room] = found
    handlers = min(patient.around.concurrency, _MOST_OF_HANDLERS)
    needed = processes * (_A_PROCESS + handlers)
    others = room.used - room.ours
    free = room.most - room.reserved - others
    sums = (
        f"{processes} worker processes ({whence}) take up to {needed} connections ({_A_PROCESS} each, and up "
        f"to "
        f"{handlers} for handlers' transactions)"
    )
    findings: list[Finding] = []
    if needed > free:
        problem = (
            f"{sums}, and the server has room for {max(free, 0)}: max_connections {room.most}, less "
            f"{room.reserved} reserved and {others} of others (another value takes a restart of the server)"
        )
        fix = f"alter system set max_connections = {room.reserved + others + needed + 20};"
        findings.append(Finding("warning", "server", problem, (fix,)))
    for limit, subject, fix in (
        (
            room.role_limit,
            f"role {patient.ident(patient.role)}",
            "alter {subject} connection limit {needed};",
        ),
        (
            room.database_limit,
            f"database {patient.ident(patient.database)}",
            "alter {subject} connection limit {needed};",
        ),
    ):
        if limit >= 0 and needed > limit:
            problem = f"{sums}, and {subject} is limited to {limit}"
            findings.append(
                Finding("warning", subject, problem, (fix.format(subject=subject, needed=needed + 5),))
            )
    return findings


async def _processes(patient: Patient) -> tuple[int, str]:
    if patient.around.processes is not None:
        return patient.around.processes, "--processes"
    if not patient.has_redrive:
        return 1, "one, for want of schema redrive"
    found = await patient.row(
        "select count(distinct worker)::integer as seen from redrive.worker "
        "where worker not in ('', 'read_with_dlq') and worker not like '%#%' "
        "and last_seen > now() - interval '60 seconds'"
    )
    return (found.seen, "seen within a minute") if found.seen else (1, "none is seen; one is assumed")


@check("the database is far from running out of transaction ids")
async def wraparound(patient: Patient, *, most: int = 1_000_000_000) -> list[Finding]:
    found = await patient.row(
        "select age(datfrozenxid) as age from pg_database where datname = current_database()"
    )
    if found.age <= most:
        return []
    problem = (
        f"the oldest transaction id of database {patient.database} is {found.age:,} transactions old; at "
        f"2,000,000,000 "
        "the server refuses every write: a vacuum has not been through for long (see the check holders)"
    )
    return [Finding("error", patient.database, problem, ("vacuum (freeze);",))]


@check("the server's queue of notifications is far from full")
async def notify_queue(patient: Patient, *, most: float = 0.5) -> list[Finding]:
    found = await patient.row("select pg_notification_queue_usage() as usage")
    if found.usage <= most:
        return []
    problem = (
        f"the server's queue of notifications is {found.usage:.0%} full; when it is, every send fails: a "
        f"session that "
        "listens has been in a transaction for long (see the check holders)"
    )
    return [Finding("error", "server", problem)]


CHECKS: tuple[Check, ...] = (server_version, encoding, connections, wraparound, notify_queue)
