"""The page /metrics: what this process did, and what the database knows.

Guarantees  it answers in time whatever the database does: what a process counts needs none;
            with REDRIVE_METRICS_TOKEN set, only to `Authorization: Bearer <token>`.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from importlib.metadata import version

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from redrive.errors import ConfigError
from redrive.settings import METRICS_TOKEN
from redrive.watch.families import Samples, text_of
from redrive.watch.gauges import DatabaseGauges
from redrive.worker.tally import Totals


class MetricsPage:
    """`url` is the database's, `totals` the sums of worker processes where there are some.

    Raises `ConfigError` for a token that no header can hold.
    """

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def __init__(self, url: str, totals: Callable[[], Totals] | None = None) -> None:
        self._gauges = DatabaseGauges(url)
        self._totals = totals
        self.token = metrics_token()

    def allows(self, authorization: str | None) -> bool:
        """Whether a request with this Authorization header may read it."""
        if self.token is None:
            return True
        scheme, _, given = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode("utf-8", "replace"), self.token.encode()
        )

    async def text(self) -> bytes:
        """The page."""
        return text_of(_process(self._totals), await self._gauges.read())

    async def close(self) -> None:
        await self._gauges.close()


def metrics_token() -> str | None:
    """The token in the environment. Raises `ConfigError` for one that no header can hold."""
    token = os.environ.get(METRICS_TOKEN)
    if token is not None and (not token.isascii() or not token.isprintable() or not token or " " in token):
        raise ConfigError(
            f"{METRICS_TOKEN} must be ASCII letters, digits and signs without white space, and not empty"
        )
    return token


def _process(totals: Callable[[], Totals] | None) -> Samples:
    to = Samples()
    to.set("redrive_build_info", 1, version("redrive"))
    if totals is None:
        return to
    known = totals()
    to.set("redrive_worker_processes", known.processes)
    to.set("redrive_jobs_running", known.running)
    for name, counter in (
        ("redrive_database_outages_total", "outages"),
        ("redrive_timeouts_total", "timeouts"),
        ("redrive_jobs_stuck_total", "stuck"),
        ("redrive_reports_dropped_total", "dropped"),
    ):
        to.set(name, known.stats.get(counter, 0))
    for queue, tally in known.queues.items():
        to.set("redrive_claims_total", tally["claimed"], queue)
        to.set("redrive_dead_letters_total", tally["dead"], queue)
        to.set("redrive_deliveries_lost_total", tally["lost"], queue)
        to.durations("redrive_job_duration_seconds", tally["buckets"], tally["seconds"], queue)
        for outcome, number in tally["outcomes"].items():
            to.set("redrive_jobs_total", number, queue, outcome)
        for error_type, number in tally["errors"].items():
            to.set("redrive_errors_total", number, queue, error_type)
    return to
