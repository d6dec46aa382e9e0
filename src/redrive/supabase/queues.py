"""Queues and schedules: what the app declares, made where it is missing and declared where it differs.

Running it again touches no row. What is there and is no part of the declaration stays: an operator's
overrides, the row security of an adopted queue, a schedule's pause.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from redrive.app import Redrive
from redrive.job import JobDefinition
from redrive.sql import function_files
from redrive.store import grants, install, migrations
from redrive.store.script import block, literal
from redrive.supabase.plan import Check, Section
from redrive.watch.scheduler import declaration


def section(app: Redrive) -> Section:
    """The app's queues with their declared policies, and the tables of its inboxes' APIs."""
    jobs = [job for _, job in sorted(app.jobs.items())]
    scripts = dict(_api_scripts(app))
    parts = [_queues(jobs)] if jobs else []
    for source, script in scripts.items():
        parts.append(f"-- The tables of inbox {source}'s API.\n{script}")
    if scripts:
        unless = install.newer(migrations.release())
        parts.append(f"-- Who works with them.\n{grants.apply_sql(function_files(), unless=unless)}")
    objects = [f"queue {job.queue}" for job in jobs]
    objects += [f"tables of inbox {source}" for source in scripts]
    return Section("Queues", "\n".join(parts), tuple(objects), tuple(map(_check, jobs)))


def schedules(app: Redrive) -> Section | None:
    """The app's schedules; None where it has none. Workers and cron fire them."""
    declared = {name: declaration(each).as_json() for name, each in sorted(app.schedules.items())}
    if not declared:
        return None
    rows = ",\n    ".join(declared.values())
    wanted = literal(f"[\n    {rows}\n]")
    return Section(
        "Schedules",
        block(_SCHEDULES.replace("{differs}", _DIFFERS).replace("{wanted}", f"{wanted}::jsonb")),
        tuple(f"schedule {name}" for name in declared),
        tuple(_schedule_check(name, text) for name, text in declared.items()),
    )


def _api_scripts(app: Redrive) -> Iterator[tuple[str, str]]:
    for source, inbox in sorted(app.inboxes.items()):
        script = inbox.api.schema(source) if inbox.api is not None else ""
        if script:
            yield source, script if script.endswith("\n") else f"{script}\n"


def _queues(jobs: list[JobDefinition]) -> str:
    rows = ",\n            ".join(f"({literal(job.queue)}, {literal(_policy(job))}::jsonb)" for job in jobs)
    return block(_QUEUES.replace("{queues}", rows))


def _policy(job: JobDefinition) -> str:
    return json.dumps(job.policy.declared(), sort_keys=True)


def _check(job: JobDefinition) -> Check:
    name = literal(job.queue)
    return Check(
        f"queue {job.queue} is missing, or its declared policy is another",
        f"to_regclass(format('pgmq.%I', 'q_' || {name})) is not null "
        f"and to_regclass(format('pgmq.%I', 'q_' || {name} || '_dlq')) is not null "
        f"and exists (select from redrive.queue q where q.queue = {name} "
        f"and q.declared = {literal(_policy(job))}::jsonb)",
    )


def _schedule_check(name: str, declared: str) -> Check:
    return Check(
        f"schedule {name} is missing, or its times or payload are others",
        f"(select not ({_DIFFERS}) from (select {literal(declared)}::jsonb) d (e))",
    )


# Adopted where pgmq has the queue; made anew where its tables were lost, as a restored branch loses them.
_QUEUES = """
declare
    v_queue  text;
    v_policy jsonb;
    v_table  regclass;
begin
    for v_queue, v_policy in
        select * from (values
            {queues}
        ) queues (queue, declared)
    loop
        v_table := to_regclass(format('pgmq.%I', 'q_' || v_queue));
        if v_table is not null and not exists (select from redrive.queue q where q.queue = v_queue) then
            perform redrive.adopt_queue(v_queue);
        elsif v_table is null or to_regclass(format('pgmq.%I', 'q_' || v_queue || '_dlq')) is null then
            perform redrive.create_queue(v_queue, v_policy);
        end if;
        v_table := to_regclass(format('pgmq.%I', 'q_' || v_queue));
        if exists (select from redrive.queue q
                    where q.queue = v_queue
                      and (q.declared, q.has_headers) is distinct from
                          (v_policy, redrive._has_column(v_table, 'headers'))) then
            perform redrive.declare_queue(v_queue, v_policy);
        end if;
    end loop;
end
"""

# Of `e`, one schedule as it is declared.
_DIFFERS = """not exists (
               select from redrive.schedule s
                where (s.name, s.queue, s.payload, s.cron,
                       s.every_sec, s.tz, s.missed, s.overlap) is not distinct from
                      (e ->> 'name', e ->> 'queue', e -> 'payload', e ->> 'cron',
                       (e ->> 'every_sec')::numeric, e ->> 'tz', e ->> 'missed', e ->> 'overlap'))"""

# Declaring what stands there already would move the time at which somebody last upheld it.
_SCHEDULES = """
declare
    v_differing jsonb := (
        select jsonb_agg(e)
          from jsonb_array_elements({wanted}) e
         where {differs});
begin
    if v_differing is not null then
        perform redrive.declare_schedules(v_differing);
    end if;
end
"""
