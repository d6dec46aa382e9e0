"""Timeouts: the policies of queues against what their handlers really take."""

from __future__ import annotations

import math
from typing import Any

from redrive.watch.doctor.finding import Check, Finding, NotChecked, check, not_checked
from redrive.watch.doctor.names import literal, several, table
from redrive.watch.doctor.patient import Patient

# Of the newest jobs; fewer than these say nothing of one in a hundred.
_NEWEST = 1_000
_LEAST = 20
# What is suggested leaves room: a handler may take three times what ninety-nine in a hundred take.
_ROOM = 3
_NEAR = 0.9


@check("each queue's visibility timeout is longer than its handler takes")
async def visibility_timeout(patient: Patient) -> list[Finding]:
    findings: list[Finding] = []
    for each in await _measured(patient):
        if isinstance(each, Finding):
            findings.append(each)
        elif each.p99 > each.vt:
            suggested = _seconds(each.p99 * _ROOM)
            why = await _unextended(patient, each.name)
            findings.append(
                Finding(
                    "warning" if why else "note",
                    each.name,
                    f"queue {each.name}: 1 in 100 of its newest {each.jobs:,} jobs took {each.p99:.1f} s or "
                    f"more, and the visibility timeout is {each.vt:g} s: "
                    + (
                        why
                        or "its workers' heartbeats make up for it, unless something blocks the event loop"
                    )
                    + f"; {suggested} s would do, and {_batch(suggested, each.p99)} read one after the other",
                    (f"redrive queue policy {each.name} --set visibility_timeout={suggested}",),
                )
            )
    return findings


async def _unextended(patient: Patient, name: str) -> str:
    """Why a delivery of this queue may outlast its visibility timeout; empty where nothing tells of that."""
    found = await patient.row(
        """
        select exists (select from redrive.worker where queue = %s and worker = 'read_with_dlq') as read,
               (select count(*) from (select from redrive.attempt
                  where queue = %s and error_type = 'crashed' and at > now() - interval '7 days'
                  limit 1000) a)::integer as lost
        """,
        name,
        name,
    )
    if found.read:
        return (
            "read_with_dlq, which works on it, has no heartbeat: such a job is handed out again while it runs"
        )
    if found.lost:
        return (
            f"{several(found.lost, 'delivery').replace('deliverys', 'deliveries')} within 7 days ended "
            "without a report, as where a blocked event loop keeps heartbeats back"
        )
    return ""


@check("each queue's time limit is longer than its handler takes")
async def handler_timeout(patient: Patient) -> list[Finding]:
    findings: list[Finding] = []
    for each in await _measured(patient):
        if isinstance(each, Finding):
            findings.append(each)
        elif each.timeout is not None and each.p99 > _NEAR * each.timeout:
            suggested = _seconds(each.p99 * _ROOM)
            findings.append(
                Finding(
                    "warning",
                    each.name,
                    f"queue {each.name}: 1 in 100 of its newest {each.jobs:,} jobs took {each.p99:.1f} s or "
                    f"more, and "
                    f"the time limit (timeout) is {each.timeout:g} s: such jobs are cancelled, and tried "
                    f"again",
                    (f"redrive queue policy {each.name} --set timeout={suggested}",),
                )
            )
    return findings


def _batch(seconds: int, p99: float) -> str:
    fitting = math.floor(seconds / p99)
    return f"a batch of at most {fitting}" if fitting > 1 else "one message at a time"


def _seconds(value: float) -> int:
    return max(1, math.ceil(value / 10) * 10 if value > 10 else math.ceil(value))


async def _measured(patient: Patient) -> list[Any]:
    """name, vt, timeout, jobs, p99 of each queue with enough ended jobs; a finding for an unreadable one."""
    found: list[Any] = []
    for each in await patient.queues():
        if not (each.has_queue and each.has_archive):
            continue
        archive = table(f"a_{each.name}")
        has = await patient.row(
            "select exists (select from pg_attribute where attrelid = %s::regclass and attname = 'duration') "
            "as it",
            archive,
        )
        if not has.it:
            continue
        try:
            row = await patient.row(
                f"""
                select q.queue as name, q.visibility_timeout::float8 as vt, q.timeout::float8 as timeout,
                       m.jobs, m.p99
                  from redrive.queue q
                 cross join (select count(*)::integer as jobs,
                                    percentile_disc(0.99) within group (order by a.duration) as p99
                               from (select duration from {archive} where archived_at is not null
                                      order by archived_at desc limit {_NEWEST}) a
                              where a.duration is not null) m
                 where q.queue = {literal(each.name)}
                """
            )
        except NotChecked as why:
            found.append(not_checked(str(why), each.name))
            continue
        if row.jobs >= _LEAST:
            found.append(row)
    return found


CHECKS: tuple[Check, ...] = (visibility_timeout, handler_timeout)
