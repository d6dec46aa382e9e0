"""What Prometheus reads: parsed by its own parser, bounded whatever jobs do, and without the unknown."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from redrive.errors import ConfigError
from redrive.watch.families import METRICS, Samples, text_of
from redrive.watch.prometheus import MetricsPage
from redrive.worker.tally import BOUNDS, MOST_ERRORS, Tally, Telling, Totals


def parsed(text: bytes) -> dict[str, dict[tuple[str, ...], float]]:
    """Samples by name and the values of their labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def busy(jobs: int, errors: int) -> Tally:
    tally = Tally()
    tally.took(jobs)
    for n in range(jobs):
        tally.ended("retry", n / 1000, f"shop.errors.Error{n % errors}")
    return tally


class TestATally:
    def test_stays_bounded_with_ten_thousand_jobs_and_two_hundred_errors(self) -> None:
        told = busy(10_000, 200).as_dict()
        assert len(told["errors"]) == MOST_ERRORS + 1
        assert sum(told["errors"].values()) == 10_000
        assert told["errors"]["other"] == 10_000 - MOST_ERRORS * 50
        assert len(json.dumps({"queue": "q" * 43, "tally": told})) < 4096

    def test_fits_a_pipes_write_at_its_largest(self) -> None:
        tally = Tally()
        for n in range(500):
            tally.ended("malformed" * 3, 4000.0, f"{n:03}" + "\N{SNOWMAN}" * 500)
        tally.buckets = [10**12] * len(tally.buckets)
        assert len(json.dumps({"queue": "q" * 43, "tally": tally.as_dict()})) < 4096

    def test_tells_again_until_it_was_heard(self) -> None:
        tallies = {"a": Tally(), "b": Tally()}
        telling = Telling(tallies)
        heard: list[str] = []

        def hear(line: dict[str, Any]) -> bool:
            heard.append(line["queue"])
            return len(heard) > 1

        telling.tell(hear)
        telling.tell(hear)
        tallies["b"].took(1)
        telling.tell(hear)
        assert heard == ["a", "b", "a", "b"]


class TestTotals:
    def test_are_the_sums_of_all_processes_and_bounded_too(self) -> None:
        totals = Totals()
        for _ in range(3):
            totals.add({"outages": 2}, {"mail": busy(1000, 15).as_dict(), "other": Tally().as_dict()})
        other = Tally()
        for n in range(15):
            other.ended("retry", 0.1, f"Another{n}")
        totals.add({}, {"mail": other.as_dict()})
        mail = totals.queues["mail"]
        assert (totals.stats["outages"], mail["claimed"], sum(mail["buckets"])) == (6, 3000, 3015)
        assert len(mail["errors"]) == MOST_ERRORS + 1
        assert sum(mail["errors"].values()) == 3015


class TestThePage:
    def test_passes_prometheus_own_parser(self) -> None:
        samples = Samples()
        for metric in METRICS.values():
            labels = tuple(f'{name} "\\\n' for name in metric.labels)
            if metric.kind == "histogram":
                samples.durations(metric.name, busy(5000, 3).buckets, 1.5, *labels)
            else:
                samples.set(metric.name, 1, *labels)
        found = parsed(text_of(samples))
        assert set(found) >= {name for name, each in METRICS.items() if each.kind != "histogram"}
        buckets = found["redrive_job_duration_seconds_bucket"]
        assert len(buckets) == len(BOUNDS) + 1
        assert (
            buckets["+Inf", 'queue "\\\n']
            == found["redrive_job_duration_seconds_count"]['queue "\\\n',]
            == 5000
        )
        assert buckets["1.0", 'queue "\\\n'] == 1001

    def test_keeps_prometheus_customs(self) -> None:
        for name, metric in METRICS.items():
            assert name.startswith("redrive_")
            assert name.endswith("_total") == (metric.kind == "counter"), name
            assert metric.help.endswith("."), name
            assert set(metric.labels).isdisjoint({"msg_id", "id", "key", "error", "url", "worker"})

    def test_leaves_out_what_is_not_known(self) -> None:
        samples = Samples()
        samples.set("redrive_queue_ready", None, "mail")
        samples.set("redrive_queue_drain_seconds", math.nan, "mail")
        samples.set("redrive_queue_dead", 0, "mail")
        assert parsed(text_of(samples)) == {"redrive_queue_dead": {("mail",): 0}}

    def test_of_ten_thousand_messages_is_as_long_as_of_ten(self) -> None:
        def lines(jobs: int) -> int:
            totals = Totals()
            totals.add({}, {"mail": busy(jobs, 200).as_dict()})
            samples = Samples()
            for name, number in totals.queues["mail"]["errors"].items():
                samples.set("redrive_errors_total", number, "mail", name)
            samples.durations("redrive_job_duration_seconds", totals.queues["mail"]["buckets"], 1.0, "mail")
            return text_of(samples).count(b"\n")

        assert lines(10_000) == lines(200)


class TestItsToken:
    def test_lets_only_its_bearer_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REDRIVE_METRICS_TOKEN", "s3cret")
        page = MetricsPage("postgresql:///nowhere")
        assert page.allows("Bearer s3cret")
        assert page.allows("bearer  s3cret")
        for given in (None, "", "Bearer", "Bearer s3cre", "Basic s3cret", "s3cret", "Bearer ÿ"):
            assert not page.allows(given)

    def test_is_not_needed_where_none_is_set(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("REDRIVE_METRICS_TOKEN", raising=False)
        assert MetricsPage("postgresql:///nowhere").allows(None)

    @pytest.mark.parametrize("token", ["", "two words", "line\n", "schlüssel"])
    def test_that_no_header_can_hold_is_refused(self, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
        monkeypatch.setenv("REDRIVE_METRICS_TOKEN", token)
        with pytest.raises(ConfigError, match="REDRIVE_METRICS_TOKEN must be"):
            MetricsPage("postgresql:///nowhere")


def test_the_documents_table_has_every_metric_and_no_other() -> None:
    text = (Path(__file__).parents[2] / "docs/telemetry.md").read_text()
    rows = re.findall(r"^\| `(redrive_\w+)` \| (\w+) \| ([\w, ]*) \| (.+) \|$", text, re.M)
    assert rows == [(m.name, m.kind, ", ".join(m.labels), m.help) for m in METRICS.values()]
    named = set(re.findall(r"redrive_[a-z_]+", text))
    assert {name for name in named if name.removesuffix("_bucket") not in METRICS} == set()
