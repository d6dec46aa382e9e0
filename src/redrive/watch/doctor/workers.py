"""Workers: somebody works on what is ready."""

from __future__ import annotations

from redrive.watch.doctor.finding import Check, Finding, check
from redrive.watch.doctor.names import literal, table
from redrive.watch.doctor.patient import Patient

_SHOWN = 10_000


@check("each queue with messages that are ready has a living worker")
async def workers(patient: Patient) -> list[Finding]:
    queues = [each.name for each in await patient.queues() if each.has_queue]
    if not queues:
        return []
    # One index look-up a queue, none counted past what is told.
    parts = [
        f"""(select {literal(name)}::text as name,
                    (select count(*) from (select from {table(f"q_{name}")}
                                            where vt <= now() limit {_SHOWN}) m) as ready)"""
        for name in queues
    ]
    found = await patient.rows(
        f"""
        with w as materialized (select queue, min(age_sec)::float8 as seen, bool_or(alive) as alive
                                  from redrive.workers() where worker <> '' group by queue)
        select r.name, r.ready, w.seen
          from ({" union all ".join(parts)}) r
          join redrive.queue q on q.queue = r.name
          left join w on w.queue = r.name
         where r.ready > 0 and not q.paused and w.alive is not true
         order by 1
        """
    )
    return [
        Finding(
            "error",
            row.name,
            f"queue {row.name}: {'10,000 or more' if row.ready >= _SHOWN else format(row.ready, ',')} ready, "
            f"and "
            + (
                "no worker was ever seen" if row.seen is None else f"no worker was seen for {row.seen:,.0f} s"
            ),
            (f"redrive worker --app MODULE:ATTR --queue {row.name}",),
        )
        for row in found
    ]


CHECKS: tuple[Check, ...] = (workers,)
