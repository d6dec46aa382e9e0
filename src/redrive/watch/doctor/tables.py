"""Tables of queues: their columns and indexes, how they are kept, and whether vacuum keeps up with them."""

from __future__ import annotations

from typing import Any

from redrive.watch.doctor.finding import Check, Finding, check
from redrive.watch.doctor.names import literal, several
from redrive.watch.doctor.patient import Patient


@check("each archive has the columns for outcome and duration")
async def archive_columns(patient: Patient) -> list[Finding]:
    queues = {each.name: each for each in await patient.queues()}
    names = [f"a_{name}" for name in queues] + [f"a_{name}_dlq" for name in queues]
    found = await patient.rows(
        """
        select c.relname::text as name, array(
                   select w from unnest(array['outcome', 'duration']) w
                    where not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = w
                                         and not a.attisdropped)) as lacking
          from pg_class c where c.relnamespace = to_regnamespace('pgmq') and c.relname = any (%s) order by 1
        """,
        names,
    )
    findings: list[Finding] = []
    for row in found:
        queue = row.name.removeprefix("a_")
        known = queues.get(queue) or queues[queue.removesuffix("_dlq")]
        # An adopted queue's get them at the first end that is written there.
        if row.lacking and not known.adopted:
            problem = (
                f"archive pgmq.{row.name} has no column {' and '.join(row.lacking)}: no job of it can end"
            )
            fix = (f"select redrive.create_queue({literal(known.name)});",)
            findings.append(Finding("error", known.name, problem, fix, safe=known.has_dlq))
    return findings


_INDEXES = """
select c.relname::text as relation, c.oid::regclass::text as name, w.kind
  from pg_class c
  join (values ('q', 'msg_id', true), ('q', 'vt', false),
               ('a', 'msg_id', true), ('a', 'archived_at', false)) w(of, kind, uniq)
    on w.of = left(c.relname, 1)
 where c.relnamespace = to_regnamespace('pgmq') and c.relname = any (%s) and c.relkind = 'r'
   and not exists (select from pg_index i join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[0]
                    where i.indrelid = c.oid and a.attname = w.kind and i.indisvalid and i.indpred is null
                      and (not w.uniq or i.indisunique and i.indnkeyatts = 1))
 order by 1, 3
"""


@check("each queue table has its indexes: on the id, on vt, and on archived_at of the archive")
async def indexes(patient: Patient) -> list[Finding]:
    found = await patient.rows(_INDEXES, [name for _, name in await patient.tables()])
    return [_index(row.relation, row.name, row.kind) for row in found]


def _index(relation: str, name: str, kind: str) -> Finding:
    match kind:
        case "msg_id":
            fix = f"alter table {name} add primary key (msg_id);"
            problem = (
                f"{name} has no unique index on msg_id: ends of jobs are refused, and every look-up reads it "
                f"whole"
            )
            return Finding("error", relation, problem, (fix,))
        case "vt":
            problem = f"{name} has no index on vt: every claim reads the whole table"
        case _:
            problem = f"{name} has no index on archived_at: metrics and retention read the whole archive"
    return Finding("error", relation, problem, (f"create index concurrently on {name} ({kind});",))


async def _tables(patient: Patient) -> list[Any]:
    return await patient.rows(
        """
        select c.oid::regclass::text as name, c.relname::text as relation,
               c.relpersistence::text as relpersistence, c.relkind::text as relkind
          from pg_class c
         where c.relnamespace = to_regnamespace('pgmq') and c.relname = any (%s) order by 1
        """,
        [name for _, name in await patient.tables()],
    )


@check("no queue is unlogged: such a table is empty after a crash")
async def unlogged_queues(patient: Patient) -> list[Finding]:
    found = [each for each in await _tables(patient) if each.relpersistence == "u"]
    return [
        Finding(
            "error",
            row.relation,
            f"{row.name} is unlogged: a crash or a failover of the server empties it",
            (
                f"alter table {row.name} set logged;",
                f"update pgmq.meta set is_unlogged = false where queue_name = {literal(row.relation[2:])};",
            ),
        )
        for row in found
    ]


@check("no queue is partitioned: its maintenance can drop messages nobody has worked on")
async def partitioned_queues(patient: Patient) -> list[Finding]:
    found = [each for each in await _tables(patient) if each.relkind == "p"]
    return [
        Finding(
            "warning",
            row.relation,
            f"{row.name} is partitioned, which redrive does not know: "
            + (
                "its rows go by age, and limits of rows or bytes hold only as it is analyzed by hand"
                if row.relation.startswith("a_")
                else "partitions may be dropped with messages that nobody has worked on, and messages "
                "handed out twice; move the messages to an ordinary queue"
            ),
        )
        for row in found
    ]


@check("autovacuum runs, and keeps up with the tables of queues")
async def autovacuum(
    patient: Patient, *, most_dead: int = 10_000, most_days: float = 1 / 24
) -> list[Finding]:
    off = await patient.row(
        "select not current_setting('autovacuum')::boolean or not current_setting('track_counts')::boolean "
        "as off"
    )
    findings = (
        [
            Finding(
                "error",
                "server",
                "autovacuum is off in this server: queue tables grow without end, and claims get slower",
                (
                    "alter system set autovacuum = on;",
                    "alter system set track_counts = on;",
                    "select pg_reload_conf();",
                ),
            )
        ]
        if off.off
        else []
    )
    found = await patient.rows(
        """
        select c.relname::text as relation, c.oid::regclass::text as name,
               s.n_dead_tup as dead, s.n_live_tup as live,
               extract(epoch from now() - greatest(s.last_autovacuum, s.last_vacuum))::float8 as since,
               exists (select from pg_options_to_table(c.reloptions) o
                        where o.option_name = 'autovacuum_enabled' and not o.option_value::boolean) as off
          from pg_class c join pg_stat_all_tables s on s.relid = c.oid
         where c.relnamespace = to_regnamespace('pgmq') and c.relname = any (%s)
         order by 1
        """,
        [name for _, name in await patient.tables()],
    )
    for row in found:
        if row.off:
            problem = f"autovacuum is switched off for {row.name}"
            fix = f"alter table {row.name} reset (autovacuum_enabled);"
            findings.append(Finding("error", row.relation, problem, (fix,), safe=True))
        if (
            row.dead >= most_dead
            and row.dead > 10 * row.live
            and (row.since is None or row.since > most_days * 86400)
        ):
            last = "never yet" if row.since is None else f"{row.since / 3600:.1f} hours ago"
            problem = (
                f"{row.name} has {several(row.dead, 'dead row')} and {row.live:,} live, and was vacuumed "
                f"{last}: "
                "vacuum does not keep up, or a transaction holds it back (see the check holders)"
            )
            findings.append(Finding("warning", row.relation, problem, (f"vacuum {row.name};",)))
    return findings


@check("no trigger of somebody else's decides over what is sent, or what becomes of it")
async def foreign_triggers(patient: Patient) -> list[Finding]:
    found = await patient.rows(
        """
        select c.oid::regclass::text as name, c.relname::text as relation, quote_ident(t.tgname) as trigger,
               p.oid::regprocedure::text as function
          from pg_trigger t
          join pg_class c on c.oid = t.tgrelid
          join pg_proc p on p.oid = t.tgfoid
         where c.relnamespace = to_regnamespace('pgmq') and c.relname = any (%s)
           and not t.tgisinternal and t.tgenabled <> 'D'
           and p.pronamespace is distinct from to_regnamespace('pgmq')
           and p.pronamespace is distinct from to_regnamespace('redrive')
         order by 1, 3
        """,
        [name for _, name in await patient.tables()],
    )
    return [
        Finding(
            "note",
            row.relation,
            f"{row.name} has a trigger {row.trigger}, neither pgmq's nor redrive's: {row.function} can "
            f"change, refuse or swallow what is sent there, and is part of every send and every end of a job",
            (f"drop trigger {row.trigger} on {row.name};",),
        )
        for row in found
    ]


CHECKS: tuple[Check, ...] = (
    archive_columns,
    indexes,
    unlogged_queues,
    partitioned_queues,
    autovacuum,
    foreign_triggers,
)
