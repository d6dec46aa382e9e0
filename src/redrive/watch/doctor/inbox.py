"""Inbox: its secrets can be right, and every recorded event has a job."""

from __future__ import annotations

from redrive.errors import ConfigError
from redrive.inbox.secrets import resolve
from redrive.watch.doctor.finding import Check, Finding, NotChecked, check, not_checked
from redrive.watch.doctor.names import literal, moment, several, table
from redrive.watch.doctor.patient import Patient

_MOST = 10_000


@check("each inbox has a secret that can be right (with --app)")
async def inbox_secrets(patient: Patient) -> list[Finding]:
    if patient.around.inboxes is None:
        raise NotChecked("no app is named; give --app module:attribute")
    findings: list[Finding] = []
    for source, inbox in patient.around.inboxes.items():
        try:
            resolve(source, inbox.provider.name, inbox.secret, inbox.config)
        except ConfigError as error:
            # It names the setting, and never shows a secret.
            findings.append(Finding("error", source, f"inbox {source} would not start: {error}"))
    return findings


@check("each recorded event that waits has a job")
async def events_without_job(patient: Patient) -> list[Finding]:
    await patient.demand("redrive.webhook_event")
    there = {each.name: each for each in await patient.queues()}
    waiting = await patient.rows(
        """
        select distinct e.source, e.queue
          from (select source, queue from redrive.webhook_event where status = 'received'
                 order by status, source, received_at limit 10000) e
         order by 1, 2
        """
    )
    findings: list[Finding] = []
    for row in waiting:
        known = there.get(row.queue)
        if known is None or not known.has_queue:
            gone = f"events of {row.source} wait in queue {row.queue}, which does not exist"
            findings.append(Finding("error", row.source, gone, (f"redrive queue create {row.queue}",)))
            continue
        try:
            findings += await _lost(patient, row.source, row.queue)
        except NotChecked as why:
            findings.append(not_checked(str(why), row.source))
    return findings


async def _lost(patient: Patient, source: str, queue: str) -> list[Finding]:
    found = await patient.row(
        f"""
        select count(*) as lost, min(e.received_at) as oldest
          from (select e.received_at from redrive.webhook_event e
                 where e.status = 'received' and e.source = {literal(source)} and e.queue = {literal(queue)}
                   and not exists (select from {table(f"q_{queue}")} m where m.msg_id = e.msg_id)
                 limit {_MOST}) e
        """
    )
    if not found.lost:
        return []
    problem = (
        f"{several(found.lost, 'event')} of {source} recorded and not handled, and no job in queue {queue} "
        f"will (the "
        f"oldest of {moment(found.oldest)}): somebody purged the queue or deleted from it"
    )
    return [Finding("error", source, problem, (f"redrive inbox replay --source {source} --status received",))]


CHECKS: tuple[Check, ...] = (inbox_secrets, events_without_job)
