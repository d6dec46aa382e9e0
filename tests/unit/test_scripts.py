"""The ring runner: what is skipped, what fails, and what the last line says."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from scripts import test as runner
from scripts.test import Result, Ring, Skip, Tool

ROOT = Path(__file__).parents[2]
POOLER = Tool("pooler", "pooler-package", lambda: False)
DISK = Tool("disk", "disk-package", lambda: True)
PLAIN = Ring("plain", "tests/plain")
SKIP = [Skip("chaos", "pooler is missing")]
NEEDY = Ring("needy", "tests/needy", needs=(POOLER, DISK))


def suite(tests: int, failures: int = 0, errors: int = 0, skipped: int = 0) -> str:
    counts = f'tests="{tests}" failures="{failures}" errors="{errors}" skipped="{skipped}"'
    return f"<testsuites><testsuite {counts}/></testsuites>"


class TestChoosingRings:
    def test_a_ring_runs_when_nothing_it_needs_is_missing(self) -> None:
        assert runner.choose([PLAIN, NEEDY], {}) == ([PLAIN, NEEDY], [])

    def test_a_ring_whose_tool_is_missing_is_skipped_by_name_and_reason(self) -> None:
        runnable, skips = runner.choose([PLAIN, NEEDY], {"pooler": "no apt-get here"})
        assert runnable == [PLAIN]
        assert skips == [Skip("needy", "pooler is missing: no apt-get here")]

    def test_every_missing_tool_of_a_ring_is_named(self) -> None:
        _, skips = runner.choose([NEEDY], {"pooler": "a", "disk": "b", "something else": "c"})
        assert skips == [Skip("needy", "pooler is missing: a; disk is missing: b")]

    def test_every_folder_of_a_ring_exists_and_is_known_to_pytest(self) -> None:
        text = (ROOT / "pyproject.toml").read_text()
        for ring in runner.RINGS:
            assert f'"{ring.folder}"' in text
            assert (ROOT / ring.folder).is_dir()


class TestFetchingTools:
    def test_a_tool_that_is_there_is_not_installed_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "apt_install", lambda package: pytest.fail(f"installs {package}"))
        assert runner.fetch([DISK]) == {}

    def test_a_tool_that_cannot_be_installed_keeps_the_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "apt_install", lambda package: f"{package}: no such thing")
        assert runner.fetch([POOLER, DISK]) == {"pooler": "pooler-package: no such thing"}

    def test_a_package_that_brings_no_tool_is_a_miss(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "apt_install", lambda package: None)
        assert runner.fetch([POOLER]) == {"pooler": "package pooler-package did not bring it"}

    def test_a_tool_needed_by_two_rings_is_asked_for_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[str] = []
        monkeypatch.setattr(runner, "apt_install", asked.append)
        runner.fetch([POOLER, POOLER])
        assert asked == ["pooler-package"]


class TestSideBySide:
    def test_results_come_in_the_order_of_the_rings(self) -> None:
        rings = [Ring(name, "tests", workers=2) for name in "abc"]
        assert [each.ring for each in runner.side_by_side(rings, 5, lambda ring: Result(ring.name))] == [
            *"abc"
        ]

    def test_no_more_run_at_once_than_there_is_room_for(self) -> None:
        now: list[Ring] = []
        most = 0
        lock = threading.Lock()

        def one(ring: Ring) -> Result:
            nonlocal most
            with lock:
                now.append(ring)
                most = max(most, sum(each.workers for each in now))
            together.wait(10) if ring.name in "ab" else None
            with lock:
                now.remove(ring)
            return Result(ring.name)

        # Two of them do run at the same time, or this would break.
        together = threading.Barrier(2)
        rings = [
            Ring(name, "tests", workers=workers) for name, workers in zip("abcd", (3, 2, 2, 1), strict=True)
        ]
        assert len(runner.side_by_side(rings, 5, one)) == 4
        assert most == 5

    def test_a_ring_wider_than_the_room_runs_alone(self) -> None:
        rings = [Ring("wide", "tests", workers=9), Ring("narrow", "tests")]
        assert len(runner.side_by_side(rings, 2, lambda ring: Result(ring.name))) == 2

    def test_one_that_breaks_off_keeps_no_other_from_running(self) -> None:
        ran: list[str] = []

        def one(ring: Ring) -> Result:
            ran.append(ring.name)
            if ring.name == "a":
                raise OSError("no room on the disk")
            return Result(ring.name)

        with pytest.raises(OSError, match="no room"):
            runner.side_by_side([Ring(name, "tests", workers=2) for name in "abc"], 2, one)
        assert ran == [*"abc"]


class TestCounting:
    def test_a_report_is_summed_over_its_suites(self) -> None:
        report = suite(9, failures=2, errors=1, skipped=1)
        assert runner.count("r", report, 1, 2.5, filtered=False) == Result("r", 5, 3, 1, 2.5)

    @pytest.mark.parametrize("code", [2, 3, 4, -9])
    def test_a_ring_that_broke_off_without_a_report_has_failed(self, code: int) -> None:
        assert runner.count("r", None, code, 0, filtered=False).failed == 1

    def test_a_bad_end_is_a_failure_even_when_no_test_failed(self) -> None:
        assert runner.count("r", suite(3), 2, 0, filtered=False) == Result("r", 3, 1, 0)

    def test_an_empty_ring_has_failed_unless_tests_were_selected(self) -> None:
        assert runner.count("r", suite(0), runner.NO_TESTS, 0, filtered=False).failed == 1
        assert runner.count("r", suite(0), runner.NO_TESTS, 0, filtered=True).failed == 0


class TestTheClosingLines:
    def test_the_last_line_sums_all_rings_and_nothing_else(self) -> None:
        lines, code = runner.closing([Result("a", 5, 0, 1), Result("b", 2, 0, 0)], [], all_or_fail=False)
        assert (lines[-1], code) == ("7 passed, 0 failed, 1 skipped", 0)

    def test_a_failed_test_makes_the_run_fail(self) -> None:
        lines, code = runner.closing([Result("a", 5, 1, 0)], [], all_or_fail=False)
        assert (lines[-1], code) == ("5 passed, 1 failed, 0 skipped", 1)

    def test_a_run_in_which_nothing_passed_has_failed(self) -> None:
        lines, code = runner.closing([Result("a"), Result("b")], [], all_or_fail=False)
        assert (lines[-1], code) == ("0 passed, 0 failed, 0 skipped", 1)

    def test_a_skipped_ring_is_counted_and_named_with_its_reason(self) -> None:
        lines, code = runner.closing([Result("a", 5)], SKIP, all_or_fail=False)
        assert (lines[-1], code) == ("5 passed, 0 failed, 1 skipped", 0)
        assert lines[-2].split(maxsplit=1) == ["chaos", "skipped: pooler is missing"]

    def test_when_all_must_run_a_skipped_ring_is_a_failure(self) -> None:
        lines, code = runner.closing([Result("a", 5)], SKIP, all_or_fail=True)
        assert (lines[-1], code) == ("5 passed, 1 failed, 0 skipped", 1)
        assert lines[-2].split(maxsplit=1) == ["chaos", "FAILED, not run: pooler is missing"]


def test_bootstrap_refuses_an_environment_it_does_not_know() -> None:
    done = subprocess.run(
        [ROOT / "scripts/bootstrap", "nonsense"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unknown environment 'nonsense'; it is run or dev" in done.stderr
