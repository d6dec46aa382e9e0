"""Settler: what has ended and is not yet known to the store.

Guarantees  a report is kept until the store has taken it or refused it for good, however long it is out of
            reach;
            one whose row somebody's transaction holds is sent again, after a pause, until it is taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from redrive.worker.held import Held
from redrive.worker.outcome import DONE, Decision
from redrive.worker.protocol import Answer, Delivery, Report, Verdict
from redrive.worker.stats import Stats

log = logging.getLogger("redrive.worker")

_LOCKED_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
_RELEASE_TRIES = 3
_COUNTED = {
    "done": "done",
    "ignored": "ignored",
    "retry": "retried",
    "snooze": "snoozed",
    "reject": "rejected",
    "malformed": "malformed",
    "crashed": "crashed",
}


class Settler:
    """`forget` is called for each delivery that is no longer this process's."""

    def __init__(self, stats: Stats, forget: Callable[[Held], None]) -> None:
        self._stats = stats
        self._forget = forget
        self._pending: list[tuple[Held, Report]] = []
        self._releases: list[Held] = []
        self._locked: list[tuple[float, Held, Report | None]] = []
        """When to send it again; no report: release it."""
        self._sent: list[tuple[Held, Report]] = []
        self._sent_releases: list[Held] = []
        self._tries: dict[Held, int] = {}

    @property
    def ready(self) -> int:
        """Reports and releases that can be sent now."""
        return len(self._pending) + len(self._releases)

    @property
    def unsettled(self) -> int:
        """Everything the store does not know yet, also what is under way."""
        return self.ready + len(self._locked) + len(self._sent) + len(self._sent_releases)

    def add(self, held: Held, decision: Decision, duration: float | None) -> None:
        """Keep what `held` ended in."""
        d = held.delivery
        if decision is DONE:
            self._stats.done += 1
            self._pending.append(
                (held, Report(d.queue, d.msg_id, d.read_ct, "done", None, None, None, None, duration))
            )
        elif decision.outcome == "release":
            self._releases.append(held)
        elif decision.outcome == "nothing":
            self._forget(held)
        else:
            counter = _COUNTED[decision.outcome]
            setattr(self._stats, counter, getattr(self._stats, counter) + 1)
            report = Report(
                d.queue,
                d.msg_id,
                d.read_ct,
                decision.outcome,
                decision.delay,
                decision.error_type,
                decision.error,
                decision.traceback,
                duration,
            )
            self._pending.append((held, report))

    def locked_in(self, now: float) -> float | None:
        """Seconds until a locked report may be sent again; None when there is none."""
        return max(0.0, min(at for at, _, _ in self._locked) - now) if self._locked else None

    def take(self, now: float) -> tuple[Mapping[str, list[Report]], Mapping[str, list[Delivery]]]:
        """Everything that can be sent now, by queue. Call `settled` or `failed` with what came of it."""
        if self._locked:
            due = [entry for entry in self._locked if entry[0] <= now]
            self._locked = [entry for entry in self._locked if entry[0] > now]
            self._pending += [(held, report) for _, held, report in due if report is not None]
            self._releases += [held for _, held, report in due if report is None]
        self._sent, self._pending = self._pending, []
        self._sent_releases, self._releases = self._releases, []
        reports: dict[str, list[Report]] = {}
        for _, report in self._sent:
            if (batch := reports.get(report.queue)) is None:
                batch = reports[report.queue] = []
            batch.append(report)
        releases: dict[str, list[Delivery]] = {}
        for held in self._sent_releases:
            releases.setdefault(held.delivery.queue, []).append(held.delivery)
        return reports, releases

    def failed(self) -> None:
        """It is unknown whether the last `take` arrived: send it again, first."""
        self._pending = self._sent + self._pending
        self._releases = self._sent_releases + self._releases
        self._sent, self._sent_releases = [], []

    def settled(self, answer: Answer, now: float) -> None:
        """The store has judged the last `take`."""
        if answer.verdicts:
            self._count(answer)
        again = {report for report, verdict in answer.verdicts if verdict == "locked"}
        for held, report in self._sent:
            if again and report in again:
                self._later(held, report, now)
            else:
                self._over(held)
        not_back = set(answer.unreleased)
        for held in self._sent_releases:
            # Not ours any more or only locked: the store does not say which, so a few tries must do.
            if held.delivery not in not_back:
                self._stats.released += 1
                self._over(held)
            elif self._tries.get(held, 0) < _RELEASE_TRIES:
                self._later(held, None, now)
            else:
                self._stats.lost += 1
                held.lane.tally.lost += 1
                log.warning(
                    "lost: another owns it, it has ended, or somebody's transaction holds it; not given back",
                    extra=_about(held.delivery, "job_lost"),
                )
                self._over(held)
        self._sent, self._sent_releases = [], []
        for report, verdict in answer.verdicts:
            self._tell(report, verdict)
        for report, error in answer.dropped:
            self._stats.dropped += 1
            log.error(
                "report of %s refused, dropped: %s",
                report.outcome,
                error,
                extra=_about(report, "report_dropped"),
            )

    def _count(self, answer: Answer) -> None:
        tallies = {report: held.lane.tally for held, report in self._sent}
        for report, verdict in answer.verdicts:
            if (tally := tallies.get(report)) is not None and verdict in ("dead", "lost"):
                tally.changes += 1
                tally.dead += verdict == "dead"
                tally.lost += verdict == "lost"

    def _later(self, held: Held, report: Report | None, now: float) -> None:
        tries = self._tries[held] = self._tries.get(held, 0) + 1
        self._locked.append((now + _LOCKED_PAUSES[min(tries, len(_LOCKED_PAUSES)) - 1], held, report))

    def _over(self, held: Held) -> None:
        if self._tries:
            self._tries.pop(held, None)
        self._forget(held)

    def _tell(self, report: Report, verdict: Verdict) -> None:
        match verdict:
            case "dead":
                self._stats.dead += 1
                log.error(
                    "dead letter: %s: %s", report.error_type, report.error, extra=_about(report, "job_dead")
                )
            case "late":
                self._stats.late += 1
                log.warning("done, after another had claimed it; it counts", extra=_about(report, "job_late"))
            case "lost":
                self._stats.lost += 1
                log.warning(
                    "lost: another owns it or it has ended; its %s does not count",
                    report.outcome,
                    extra=_about(report, "job_lost"),
                )
            case "repeat":
                self._stats.repeated += 1
            case "locked":
                self._stats.locked += 1
            case "ok":
                pass


def _about(one: Report | Delivery, event: str) -> dict[str, object]:
    return {"event": event, "queue": one.queue, "msg_id": one.msg_id, "read_ct": one.read_ct}
