"""Queues: their tables are there, their ids go on, their policy is the code's, and nothing is left over."""

from __future__ import annotations

from typing import Any

from redrive.watch.doctor.finding import Check, Finding, NotChecked, check, not_checked
from redrive.watch.doctor.names import literal, several, table
from redrive.watch.doctor.patient import Patient, Queue

# Rows of keys looked at, a table; there are no more of them than messages in hand.
_MOST = 10_000


def _prepare(queue: Queue, *, tables: str | None = None) -> tuple[str, ...]:
    """What makes what a queue lacks, again; `tables` of this queue of pgmq's have to be there before.

    Another's name may be one that redrive does not give queues: such a queue is adopted again, not created.
    """
    verb = "adopt_queue" if queue.adopted else "create_queue"
    made = (f"select pgmq.create({literal(tables)});",) if tables else ()
    return (*made, f"select redrive.{verb}({literal(queue.name)});")


@check("each queue that redrive knows has its tables")
async def queue_tables(patient: Patient) -> list[Finding]:
    findings: list[Finding] = []
    for each in await patient.queues():
        if not each.has_queue:
            findings.append(
                Finding(
                    "error",
                    each.name,
                    f"queue {each.name}: table {table('q_' + each.name)} is gone, as after pgmq.drop_queue; "
                    f"whoever "
                    f"sends is refused (to forget the queue: redrive queue drop {each.name})",
                    _prepare(each, tables=each.name if each.adopted else None),
                )
            )
        elif not each.has_archive:
            findings.append(
                Finding(
                    "error",
                    each.name,
                    f"queue {each.name}: its archive {table('a_' + each.name)} is gone, so no job can end",
                    _prepare(each, tables=each.name),
                    safe=True,
                )
            )
    return findings


@check("each queue has its dead-letter queue")
async def dead_letter_queues(patient: Patient) -> list[Finding]:
    findings: list[Finding] = []
    for each in await patient.queues():
        if each.has_queue and each.has_archive and not each.has_dlq:
            fix = _prepare(each)
        elif each.has_dlq and not each.has_dlq_archive:
            fix = _prepare(each, tables=f"{each.name}_dlq")
        else:
            continue
        missing = "archive of its dead-letter queue" if each.has_dlq else f"dead-letter queue {each.name}_dlq"
        problem = (
            f"queue {each.name}: the {missing} is missing, so what fails for good stays in the queue, parked"
        )
        findings.append(Finding("error", each.name, problem, fix, safe=True))
    return findings


@check("no queue hands out ids again that its rows or its archive have")
async def queue_ids(patient: Patient) -> list[Finding]:
    names = {name.removeprefix("q_") for _, name in await patient.tables() if name.startswith("q_")}
    there = {name for _, name in await patient.tables()}
    sequences = await patient.rows(
        """
        select n.name, s.oid::regclass::text as sequence
          from unnest(%s::text[]) n(name)
          join pg_class c on c.relnamespace = to_regnamespace('pgmq') and c.relname = 'q_' || n.name
          join pg_class s on s.oid = pg_get_serial_sequence(c.oid::regclass::text, 'msg_id')::regclass
         order by 1
        """,
        sorted(names),
    )
    # Look-ups of the highest id in an index; for all queues at once.
    parts = [_next_id(row.name, row.sequence, f"a_{row.name}" in there) for row in sequences]
    found = await patient.rows(" union all ".join(parts) + " order by 1") if parts else []
    return [_again(row) for row in found if row.next <= max(row.live, row.archived)]


def _again(row: Any) -> Finding:
    highest = max(row.live, row.archived)
    problem = (
        f"queue {row.name}: its next id is {row.next}, as after a restore, but there is a message {highest} "
    )
    if row.next <= row.live:
        severity, problem = "error", f"{problem}in it already: sends will fail until the ids are past it"
    else:
        severity, problem = "warning", f"{problem}in its archive: what ends will replace older rows there"
    archived = f", (select max(msg_id) from {table(f'a_{row.name}')})" if row.has_archive else ""
    # By nextval, from where the sequence is then: it never goes back, whoever sends meanwhile.
    fix = (
        f"select max(nextval({literal(row.sequence)})) from generate_series("
        f"(select last_value + is_called::integer from {row.sequence}), "
        f"greatest((select max(msg_id) from {table(f'q_{row.name}')}){archived}));",
    )
    return Finding(severity, row.name, problem, fix, safe=True)


def _next_id(name: str, sequence: str, has_archive: bool) -> str:
    archived = f"(select max(msg_id) from {table(f'a_{name}')})" if has_archive else "null"
    return f"""
        (select {literal(name)}::text as name, {literal(sequence)}::text as sequence,
                coalesce((select max(msg_id) from {table(f"q_{name}")}), 0) as live,
                coalesce({archived}, 0) as archived,
                {str(has_archive).lower()} as has_archive,
                case when s.is_called then s.last_value + 1 else s.last_value end as next
           from {sequence} s)"""


@check("no policy set by hand hides what the code declares")
async def policy_overrides(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    found = await patient.rows(
        """
        select q.queue as name, o.key as field, o.value::text as override,
               (q.declared -> o.key)::text as declared
          from redrive.queue q cross join jsonb_each(q.override) o
         where q.declared ? o.key and q.declared -> o.key is distinct from o.value and o.key <> 'paused'
         order by 1, 2
        """
    )
    return [
        Finding(
            "note",
            row.name,
            f"queue {row.name}: {row.field} is {row.declared} in the code, but was set to {row.override} by "
            f"hand",
            (f"redrive queue policy {row.name} --reset {row.field}",),
        )
        for row in found
    ]


@check("no queue is paused")
async def paused_queues(patient: Patient) -> list[Finding]:
    patient.demand_redrive()
    found = await patient.rows("select queue as name from redrive.queue where paused order by 1")
    return [
        Finding(
            "note",
            row.name,
            f"queue {row.name} is paused: nothing is handed out",
            (f"redrive queue resume {row.name}",),
        )
        for row in found
    ]


@check("no idempotency key is held by a message that is gone")
async def orphaned_keys(patient: Patient) -> list[Finding]:
    findings: list[Finding] = []
    for each in await patient.queues():
        if not each.has_queue:
            continue
        try:
            findings += await _orphans(patient, each.name)
        except NotChecked as why:
            findings.append(not_checked(str(why), each.name))
    return findings


async def _orphans(patient: Patient, name: str) -> list[Finding]:
    queue, held = literal(name), table(f"q_{name}")
    running = f"""k.queue = {queue} and k.state = 'running' and k.owner_msg is not null
        and k.lease_until < redrive.clock()
        and not exists (select from {held} m where m.msg_id = k.owner_msg)"""
    sent = f"""s.queue = {queue}
        and not exists (select from {held} m where m.msg_id = any (s.msg_ids))"""
    # The clock may not be the connecting role's to ask.
    found = await patient.row(
        f"""
        select (select count(*) from (select from redrive.key k
                  where {running.replace("redrive.clock()", "now()")} limit {_MOST}) k) as running,
               (select count(*) from (select * from redrive.sent_key s where s.queue = {queue}
                  limit {_MOST}) s where {sent}) as sent
        """
    )
    findings: list[Finding] = []
    if found.running:
        problem = f"queue {name}: {several(found.running, 'running key')} of messages that are gone"
        fix = f"delete from redrive.key k where {running};"
        findings.append(Finding("warning", name, problem, (_one_line(fix),), safe=True))
    if found.sent:
        problem = (
            f"queue {name}: {several(found.sent, 'key')} of sent messages that are gone, as after a purge"
        )
        fix = f"delete from redrive.sent_key s where {sent};"
        findings.append(Finding("note", name, problem, (_one_line(fix),), safe=True))
    return findings


def _one_line(sql: str) -> str:
    return " ".join(sql.split())


CHECKS: tuple[Check, ...] = (
    queue_tables,
    dead_letter_queues,
    queue_ids,
    policy_overrides,
    paused_queues,
    orphaned_keys,
)
