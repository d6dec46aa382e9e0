"""pgmq: there, of one version, and its list of queues true."""

from __future__ import annotations

from collections.abc import Sequence

from redrive.store.pgmq import CALLED, META_COLUMNS
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check
from redrive.watch.doctor.names import literal, table
from redrive.watch.doctor.patient import Patient

_UPGRADE = "alter extension pgmq update;"


def _demand(patient: Patient) -> None:
    if not patient.has_pgmq:
        raise NotChecked("pgmq is missing here; run redrive migrate")


@check("pgmq is there, with what redrive calls")
async def pgmq_complete(patient: Patient) -> list[Finding]:
    found = await patient.row(
        """
        select to_regclass('pgmq.meta') is not null as there,
               array(select 'column pgmq.meta.' || c from unnest(%s::text[]) c
                      where not exists (select from pg_attribute a where a.attrelid = to_regclass('pgmq.meta')
                                           and a.attname = c and not a.attisdropped)) ||
               array(select format('function pgmq.%%s(text)', f) from unnest(%s::text[]) f
                      where not exists (select from pg_proc p where p.pronamespace = to_regnamespace('pgmq')
                                           and p.proname = f)) as lacking
        """,
        list(META_COLUMNS),
        list(CALLED),
    )
    if not found.there:
        problem = "pgmq, in which redrive keeps its queues, is missing"
        return [Finding("error", "pgmq", problem, ("redrive migrate",))]
    if not found.lacking:
        return []
    problem = f"pgmq lacks {', '.join(found.lacking)}: it is incomplete, or a mixture of versions"
    return [Finding("error", "pgmq", problem, await _whole(patient))]


# Two functions of one name that the same call fits: the one with fewer parameters is the older, since what a
# version adds has a default.
_AMBIGUOUS = """
select a.oid::regprocedure::text as older, b.oid::regprocedure::text as newer, a.proname::text as name
  from pg_proc a
  join pg_proc b on b.pronamespace = a.pronamespace and b.proname = a.proname and b.oid <> a.oid
                and (a.pronargs < b.pronargs or a.pronargs = b.pronargs and a.oid < b.oid)
 cross join greatest(a.pronargs - a.pronargdefaults, b.pronargs - b.pronargdefaults) n
 where a.pronamespace = to_regnamespace('pgmq') and a.prokind = 'f' and b.prokind = 'f'
   and n <= least(a.pronargs, b.pronargs)
   and (string_to_array(a.proargtypes::text, ' '))[1:n] = (string_to_array(b.proargtypes::text, ' '))[1:n]
 order by 1
"""
# Functions that came with a column of message_record: where they are, it has to be.
_COLUMNS = """
select c.name as column,
       array_agg(distinct p.oid::regprocedure::text order by p.oid::regprocedure::text) as functions
  from (values ('last_read_at', 'read_grouped'), ('last_read_at', 'bind_topic'),
               ('headers', 'read_grouped'), ('headers', 'bind_topic')) c(name, function)
  join pg_proc p on p.pronamespace = to_regnamespace('pgmq') and p.proname = c.function
 where not exists (select from pg_attribute a join pg_class t on t.oid = a.attrelid
                    where t.relnamespace = to_regnamespace('pgmq') and t.relname = 'message_record'
                      and a.attname = c.name and not a.attisdropped)
 group by c.name order by c.name
"""


@check("pgmq is of one version, not a mixture or half upgraded")
async def pgmq_mixed(patient: Patient) -> list[Finding]:
    _demand(patient)
    findings = [
        Finding(
            "error",
            f"pgmq.{row.name}",
            f"pgmq has {row.older} and {row.newer}: a call that fits both is refused as not unique, as after "
            f"the SQL "
            "of a newer version was run over an older one",
            (f"drop function {row.older};",),
        )
        for row in await patient.rows(_AMBIGUOUS)
    ]
    findings += [
        Finding(
            "error",
            "pgmq.message_record",
            f"pgmq.message_record has no {row.column}, which {', '.join(row.functions)} of a newer version "
            f"give: "
            "pgmq is half upgraded, and these fail; install the whole SQL of one version",
            await _whole(patient),
        )
        for row in await patient.rows(_COLUMNS)
    ]
    return findings


async def _whole(patient: Patient) -> tuple[str, ...]:
    found = await patient.row("select exists (select from pg_extension where extname = 'pgmq') as extension")
    return (_UPGRADE,) if found.extension else ()


@check("no two names of queues differ by case only: they would be one table")
async def pgmq_twins(patient: Patient) -> list[Finding]:
    _demand(patient)
    found = await patient.rows(
        """
        select lower(queue_name) as name, array_agg(queue_name::text order by queue_name) as names
          from pgmq.meta group by 1 having count(*) > 1 order by 1
        """
    )
    return [
        Finding(
            "error",
            row.name,
            f"queues {' and '.join(row.names)} are listed, and share the one table {table('q_' + row.name)}: "
            f"dropping "
            "one takes the other's messages",
            tuple(
                f"delete from pgmq.meta where queue_name = {literal(name)};"
                for name in row.names
                if name != row.name
            ),
        )
        for row in found
    ]


@check("pgmq's list and its tables agree")
async def pgmq_meta(patient: Patient) -> list[Finding]:
    _demand(patient)
    listed = await patient.rows(
        """
        select m.queue_name::text as name,
               to_regclass(format('pgmq.%I', 'a_' || lower(m.queue_name))) is not null as archive
          from pgmq.meta m
         where to_regclass(format('pgmq.%I', 'q_' || lower(m.queue_name))) is null
         order by 1
        """
    )
    there = await patient.rows(
        """
        select substr(c.relname, 3) as name, c.relpersistence = 'u' as unlogged,
               c.relkind = 'p' as partitioned
          from pg_class c
         where c.relnamespace = to_regnamespace('pgmq') and c.relname like 'q\\_%' and c.relkind in ('r', 'p')
           and not c.relispartition
           and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'read_ct')
           and not exists (select from pgmq.meta m where lower(m.queue_name) = substr(c.relname, 3))
         order by 1
        """
    )
    return [_without_table(row.name, row.archive) for row in listed] + [
        Finding(
            "warning",
            row.name,
            f"table {table('q_' + row.name)} is there, but pgmq does not list queue {row.name}",
            (
                "insert into pgmq.meta (queue_name, is_partitioned, is_unlogged) select "
                f"{literal(row.name)}, {str(row.partitioned).lower()}, {str(row.unlogged).lower()} "
                f"where {_has_table(row.name)} on conflict do nothing;",
            ),
            safe=True,
        )
        for row in there
    ]


def _has_table(name: str) -> str:
    """A condition of a fix, which holds when it runs or does not."""
    return f"(to_regclass({literal(table('q_' + name))}) is not null)"


def _without_table(name: str, archive: bool) -> Finding:
    problem = (
        f"pgmq lists queue {name}, whose table {table('q_' + name.lower())} is gone: pgmq.metrics_all() "
        f"fails for "
        "every queue"
    )
    if archive:
        return Finding(
            "error", name, f"{problem}; its archive is there", (f"select pgmq.create({literal(name)});",)
        )
    fix = f"delete from pgmq.meta where queue_name = {literal(name)} and not {_has_table(name.lower())};"
    return Finding("error", name, problem, (fix,), safe=True)


@check("each of pgmq's insert triggers has the row without which it notifies nobody")
async def notify_triggers(patient: Patient) -> list[Finding]:
    _demand(patient)
    if not await patient.has("pgmq.notify_insert_throttle"):
        return []
    found = await patient.rows(
        """
        select substr(c.relname, 3) as name, t.tgname::text as trigger
          from pg_trigger t join pg_class c on c.oid = t.tgrelid
         where c.relnamespace = to_regnamespace('pgmq') and c.relname like 'q\\_%' and not t.tgisinternal
           and t.tgfoid in (select p.oid from pg_proc p where p.pronamespace = to_regnamespace('pgmq')
                               and p.proname = 'notify_queue_listeners')
           and not exists (select from pgmq.notify_insert_throttle h
                            where lower(h.queue_name) = substr(c.relname, 3))
         order by 1
        """
    )
    return [
        Finding(
            "warning",
            row.name,
            f"trigger {row.trigger} of queue {row.name} has no row in pgmq.notify_insert_throttle (an "
            f"unlogged table, "
            "empty after a crash or a failover): it notifies nobody any more",
            (f"select pgmq.enable_notify_insert({literal(row.name)});",),
            safe=True,
        )
        for row in found
    ]


CHECKS: Sequence[Check] = (pgmq_complete, pgmq_mixed, pgmq_twins, pgmq_meta, notify_triggers)
