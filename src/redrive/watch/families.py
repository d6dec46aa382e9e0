"""Families: every metric redrive has, by name, and how samples of them become Prometheus' text.

Guarantees  labels are names somebody declared (queues, sources, schedules, rules, sinks, leases) and words of
            redrive's own, never a message's id, key, payload or error text;
            what is not known is left out: an absent sample, not a zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from redrive.worker.tally import BOUNDS

Kind = Literal["gauge", "counter", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """`labels` are the labels' names."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


def _of(labels: str, kind: Kind, *named: tuple[str, str]) -> list[Metric]:
    return [Metric(name, kind, text, tuple(labels.split())) for name, text in named]


# What this process and those it started have done: no database is asked.
PROCESS = (
    *_of("version", "gauge", ("redrive_build_info", "Always 1; which redrive this is.")),
    *_of(
        "",
        "gauge",
        ("redrive_worker_processes", "Worker processes that run."),
        ("redrive_jobs_running", "Jobs that run in these processes."),
    ),
    *_of(
        "queue outcome",
        "counter",
        (
            "redrive_jobs_total",
            "Deliveries whose handler ended, by what it ended in: done, ignored, retry, snooze, reject, "
            "malformed, crashed, release, lost.",
        ),
    ),
    *_of("queue", "histogram", ("redrive_job_duration_seconds", "How long handlers ran.")),
    *_of(
        "queue error_type",
        "counter",
        (
            "redrive_errors_total",
            "Failed attempts by class of error: twenty classes a queue, the rest as other.",
        ),
    ),
    *_of(
        "queue",
        "counter",
        ("redrive_claims_total", "Messages claimed."),
        ("redrive_dead_letters_total", "Messages that became dead letters by these processes' reports."),
        ("redrive_deliveries_lost_total", "Deliveries that another worker took over, or that had ended."),
    ),
    *_of(
        "",
        "counter",
        ("redrive_database_outages_total", "How often the database went out of reach."),
        ("redrive_timeouts_total", "Handlers that were told to stop because of their timeout."),
        ("redrive_jobs_stuck_total", "Handlers that did not stop when told to; their process was replaced."),
        ("redrive_reports_dropped_total", "Reports that the database refused for good."),
    ),
)

# What the database knows, whoever works there; asked once in ten seconds at most.
DATABASE = (
    *_of("", "gauge", ("redrive_database_up", "1 where the database answered in time, else 0.")),
    *_of(
        "part",
        "gauge",
        ("redrive_readable", "1 where this part of the numbers could be read; 0: a right is missing."),
    ),
    *_of(
        "queue",
        "gauge",
        ("redrive_queue_ready", "Messages that may be claimed now; counted to 10,000."),
        ("redrive_queue_delayed", "Messages whose time has not come; counted to 10,000."),
        ("redrive_queue_in_flight", "Messages that were handed out and not reported."),
        ("redrive_queue_parked", "Messages over their budget with no dead-letter queue to go to."),
        ("redrive_queue_dead", "Dead letters that wait; counted to 10,000."),
        (
            "redrive_queue_oldest_ready_age_seconds",
            "Since when the oldest ready message has been due; 0 where none is.",
        ),
        ("redrive_queue_max_attempt", "The highest attempt among the messages."),
        ("redrive_queue_inflow_per_second", "Messages sent a second, over about five minutes."),
        ("redrive_queue_outflow_per_second", "Messages ended a second, over about five minutes."),
        ("redrive_queue_failure_ratio", "Failed attempts among those that ended, over about five minutes."),
        ("redrive_queue_drain_seconds", "When the ready messages will be gone at this rate."),
        ("redrive_queue_archive_rows", "Rows of the archive, as the statistics estimate them."),
        ("redrive_queue_archive_bytes", "Bytes of the archive with its indexes."),
        ("redrive_queue_dead_tuples", "Dead rows of the queue's table, as the statistics estimate them."),
        ("redrive_queue_last_done_timestamp_seconds", "When a job was last done."),
        ("redrive_queue_paused", "1 while the queue is paused."),
        ("redrive_queue_workers", "Worker processes of the queue that were seen within a minute."),
        ("redrive_queue_running_jobs", "Jobs that these run, as they last said."),
    ),
    *_of("queue", "counter", ("redrive_queue_claimed_total", "Messages claimed by all workers ever.")),
    *_of(
        "queue outcome",
        "counter",
        ("redrive_queue_reports_total", "Reports of all workers ever: done, failed, dead, given_back."),
    ),
    *_of(
        "source status",
        "gauge",
        (
            "redrive_inbox_events",
            "Webhook events by status: waiting, processed, failed, ignored; each counted to 10,000.",
        ),
    ),
    *_of(
        "source",
        "gauge",
        ("redrive_inbox_oldest_waiting_timestamp_seconds", "When the oldest unhandled event was received."),
        ("redrive_inbox_last_received_timestamp_seconds", "When an event was last received."),
    ),
    *_of(
        "source reason", "counter", ("redrive_inbox_refused_total", "Requests that were refused, by reason.")
    ),
    *_of(
        "schedule",
        "gauge",
        ("redrive_schedule_lag_seconds", "For how long a tick has been due; 0 where none is."),
        ("redrive_schedule_paused", "1 while the schedule is paused."),
    ),
    *_of("lease", "gauge", ("redrive_lease_held", "1 while somebody holds the lease; of a hundred at most.")),
    *_of(
        "what",
        "gauge",
        ("redrive_xmin_age_seconds", "How long the oldest of them has kept dead rows from being cleaned up."),
    ),
    *_of("rule", "gauge", ("redrive_alert_firing", "Subjects for which the rule fires; silenced ones too.")),
    *_of(
        "sink",
        "gauge",
        ("redrive_alert_deliveries_open", "Alerts that have not left for this sink."),
    ),
    *_of(
        "sink",
        "counter",
        ("redrive_alert_deliveries_failed_total", "Tries to deliver that failed."),
    ),
    *_of(
        "",
        "gauge",
        ("redrive_health_check_age_seconds", "Since when the rules have not been evaluated."),
        ("redrive_health_check_problems", "Gauges of the rules that could not be read."),
        ("redrive_notification_queue_usage_ratio", "How full the server's queue of notifications is."),
    ),
)
METRICS = {each.name: each for each in (*PROCESS, *DATABASE)}


class Samples:
    """Values by metric and labels."""

    def __init__(self) -> None:
        self._values: dict[str, dict[tuple[str, ...], Any]] = {}

    def set(self, name: str, value: float | bool | None, *labels: str) -> None:
        """None and what is no number are left out."""
        if value is not None and not math.isnan(value):
            self._values.setdefault(name, {})[labels] = float(value)

    def durations(self, name: str, buckets: Sequence[int], seconds: float, *labels: str) -> None:
        """How many fell between two of `BOUNDS`, and their sum."""
        self._values.setdefault(name, {})[labels] = (list(buckets), seconds)

    def families(self) -> Iterator[Family]:
        for name, values in self._values.items():
            yield _family(METRICS[name], values)


class _Collected(Collector):
    def __init__(self, samples: Sequence[Samples]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Family]:
        for each in self._samples:
            yield from each.families()


def text_of(*samples: Samples) -> bytes:
    """What Prometheus reads."""
    registry = CollectorRegistry()
    registry.register(_Collected(samples))
    return generate_latest(registry)


def _family(metric: Metric, values: Mapping[tuple[str, ...], Any]) -> Family:
    match metric.kind:
        case "gauge":
            gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, value in values.items():
                gauge.add_metric(labels, value)
            return gauge
        case "counter":
            counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, value in values.items():
                counter.add_metric(labels, value)
            return counter
        case "histogram":
            histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
            for labels, (buckets, seconds) in values.items():
                histogram.add_metric(labels, _cumulated(buckets), seconds)
            return histogram


def _cumulated(buckets: Sequence[int]) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    total = 0
    for bound, number in zip((*map(float, BOUNDS), math.inf), buckets, strict=True):
        total += number
        found.append(("+Inf" if math.isinf(bound) else repr(bound), total))
    return found
