"""Run the rings of tests and end with one line: ``N passed, N failed, N skipped``.

Some run side by side, since most of their tests wait for processes; what a ring says is shown at its end.

A ring whose tool is missing gets it from Debian's packages where that is possible (root, or sudo that asks
nothing); else the ring is skipped, and the last lines say which and why. With REDRIVE_TEST_ALL=1 each such
skip is a failure. Arguments are passed on to pytest: ``scripts/test.py -k backoff``.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
POSTGRES_15 = Path("/usr/lib/postgresql/15/bin")
# Debian keeps servers out of an ordinary user's PATH.
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
# A database that a developer's shell points to is never the tests' own. And hundreds of processes, each of
# which compiled all of redrive for itself, would take minutes together.
UNWANTED = {"DATABASE_URL", "REDRIVE_DATABASE_URL", "PYTHONDONTWRITEBYTECODE"}
# In memory, a database is made in a twentieth of the time that a disk takes for its thousand files.
MEMORY = Path("/dev/shm")
# All that the rings have at a time is about a gigabyte.
ENOUGH = 6 << 30
# How many tests run at a time, in all rings together: on two cores, five keep both busy and none late.
ROOM = 2 * (os.cpu_count() or 1) + 1
# pytest's exit codes: 0 all passed, 1 some failed, 5 nothing collected.
NO_TESTS = 5


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a ring needs, and the Debian package that brings it."""

    name: str
    package: str
    found: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Ring:
    """A folder of tests, what it needs, and how many of them run at a time."""

    name: str
    folder: str
    needs: tuple[Tool, ...] = ()
    workers: int = 1
    environment: tuple[tuple[str, str], ...] = ()
    selection: str = ""
    """pytest's -m."""
    fuzzes: bool = False
    """Whether it needs the plugin of schemathesis, which takes longer to start than pytest itself."""


@dataclass(frozen=True, slots=True)
class Result:
    """What one ring came to."""

    ring: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Skip:
    """A ring that did not run."""

    ring: str
    reason: str


PGBOUNCER = Tool("pgbouncer", "pgbouncer", lambda: shutil.which("pgbouncer", path=SEARCH_PATH) is not None)
FAKETIME = Tool(
    "libfaketime", "libfaketime", lambda: any(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
)
POSTGRES = Tool("Postgres 15", "postgresql-15", (POSTGRES_15 / "initdb").exists)
EXTENSIONS = Path("/usr/share/postgresql/15/extension")
LINTER = Tool("plpgsql_check", "postgresql-15-plpgsql-check", (EXTENSIONS / "plpgsql_check.control").exists)
CRON = Tool("pg_cron", "postgresql-15-cron", (EXTENSIONS / "pg_cron.control").exists)

# The longest first, and the ones that wait beside the ones that do not.
RINGS = (
    Ring("process", "tests/process", workers=3, fuzzes=True),
    Ring("sql", "tests/sql", workers=2),
    Ring("chaos", "tests/chaos", needs=(PGBOUNCER, FAKETIME), workers=2),
    Ring(
        "sql on Postgres 15",
        "tests/sql",
        needs=(POSTGRES,),
        workers=2,
        # The layout that hosted servers have; the ring above has done them all.
        environment=(("REDRIVE_PG_BIN", str(POSTGRES_15)), ("REDRIVE_TEST_LAYOUTS", "1.5.1")),
        selection="not once",
    ),
    Ring(
        "supabase",
        "tests/supabase",
        needs=(POSTGRES, LINTER, CRON),
        workers=2,
        environment=(("REDRIVE_PG_BIN", str(POSTGRES_15)),),
    ),
    Ring("unit", "tests/unit", workers=2),
    Ring("upgrade", "tests/upgrade"),
)


def choose(rings: Sequence[Ring], missing: Mapping[str, str]) -> tuple[list[Ring], list[Skip]]:
    """Split `rings` into those that can run and those that cannot; `missing` is tool name -> why it is."""
    runnable: list[Ring] = []
    skips: list[Skip] = []
    for ring in rings:
        lacking = [tool.name for tool in ring.needs if tool.name in missing]
        reasons = [f"{name} is missing: {missing[name]}" for name in lacking]
        if reasons:
            skips.append(Skip(ring.name, "; ".join(reasons)))
        else:
            runnable.append(ring)
    return runnable, skips


def closing(results: Sequence[Result], skips: Sequence[Skip], *, all_or_fail: bool) -> tuple[list[str], int]:
    """The last lines of a run and its exit code; a ring that did not run counts as one test.

    A run in which nothing passed has failed too: its selection was a slip.
    """
    verdict = "FAILED, not run" if all_or_fail else "skipped"
    lines = [
        f"{each.ring:<20} {each.passed} passed, {each.failed} failed, {each.skipped} skipped"
        f"  ({each.seconds:.0f} s)"
        for each in results
    ]
    lines += [f"{each.ring:<20} {verdict}: {each.reason}" for each in skips]
    passed = sum(each.passed for each in results)
    failed = sum(each.failed for each in results) + (len(skips) if all_or_fail else 0)
    skipped = sum(each.skipped for each in results) + (0 if all_or_fail else len(skips))
    lines.append(f"{passed} passed, {failed} failed, {skipped} skipped")
    return lines, 1 if failed or not passed else 0


def count(ring: str, report: str | None, code: int, seconds: float, *, filtered: bool) -> Result:
    """Read pytest's JUnit report. What ended without a full report, or ran no test at all, has failed."""
    if code == NO_TESTS and filtered:
        return Result(ring, seconds=seconds)
    if report is None:
        return Result(ring, failed=1, seconds=seconds)
    total = failed = skipped = 0
    for suite in ElementTree.fromstring(report).iter("testsuite"):
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    passed = max(total - failed - skipped, 0)
    if code != 0 and failed == 0:
        failed = 1
    return Result(ring, passed, failed, skipped, seconds)


def fetch(tools: Sequence[Tool]) -> dict[str, str]:
    """Install the tools that are missing; answer those that still are, each with the reason."""
    missing: dict[str, str] = {}
    for tool in dict.fromkeys(tools):
        if tool.found():
            continue
        print(f"installing {tool.name} (Debian package {tool.package})", flush=True)
        reason = apt_install(tool.package)
        if not tool.found():
            missing[tool.name] = reason or f"package {tool.package} did not bring it"
    return missing


def apt_install(package: str) -> str | None:
    """None when `package` is installed, else why it is not."""
    if shutil.which("apt-get") is None:
        return f"no apt-get here; install {package} yourself"
    command = [str(ROOT / "scripts" / "apt-install"), package]
    if os.geteuid() != 0:
        if shutil.which("sudo") is None:
            return f"not root, and no sudo; install {package} yourself"
        command = ["sudo", "-n", *command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return said[-1] if said else f"apt-get ended with {done.returncode}"


def scratch() -> Path | None:
    """Where the rings keep their servers and files: in memory where there is plenty, else (None) on disk."""
    try:
        place, memory = os.statvfs(MEMORY), Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable: +(\d+) kB$", memory, re.MULTILINE)
    room = min(place.f_bavail * place.f_frsize, int(found.group(1)) << 10 if found else 0)
    # Copies of Postgres are run from there.
    fit = room >= ENOUGH and not place.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)
    return MEMORY if fit else None


def run(ring: Ring, arguments: Sequence[str], folder: Path) -> Result:
    """Run one ring in a pytest of its own, and show its output when it is over."""
    report = folder / f"{ring.name}.xml"
    command = [sys.executable, "-m", "pytest", ring.folder, "-q", "--no-header", f"--junitxml={report}"]
    command += ["-n", str(ring.workers), "--dist", "worksteal"] if ring.workers > 1 else []
    # What a test that passed has left behind goes at once.
    command += ["-o", "tmp_path_retention_policy=failed"]
    command += ["-m", ring.selection] if ring.selection else []
    command += [] if ring.fuzzes else ["-p", "no:schemathesis"]
    ours = {name: value for name, value in os.environ.items() if name not in UNWANTED}
    temporary = folder / ring.name.replace(" ", "-")
    temporary.mkdir()
    # As /tmp: servers are not run as root, and make files there too.
    temporary.chmod(0o1777)
    environment = {**ours, "PATH": SEARCH_PATH, "TMPDIR": str(temporary), **dict(ring.environment)}
    output = folder / f"{ring.name}.out"
    print(f"== {ring.name} ({ring.folder}) begins", flush=True)
    start = time.monotonic()
    with output.open("w") as out:
        code = subprocess.run(
            [*command, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    seconds = time.monotonic() - start
    print(f"\n== {ring.name} ({ring.folder})\n{output.read_text(errors='replace')}", flush=True)
    written = report.read_text() if report.exists() else None
    return count(ring.name, written, code, seconds, filtered=bool(arguments))


def side_by_side(rings: Sequence[Ring], room: int, one: Callable[[Ring], Result]) -> list[Result]:
    """`one` of each ring, in their order: as many at once as `room` has workers for, a wider one alone."""
    left = room
    change = threading.Condition()

    def in_turn(ring: Ring, workers: int) -> Result:
        nonlocal left
        try:
            return one(ring)
        finally:
            with change:
                left += workers
                change.notify()

    with ThreadPoolExecutor(max(len(rings), 1)) as threads:
        begun = []
        for ring in rings:
            workers = min(ring.workers, room)
            with change:
                change.wait_for(lambda: left >= workers)  # noqa: B023
                left -= workers
            begun.append(threads.submit(in_turn, ring, workers))
        return [each.result() for each in begun]


def main(arguments: Sequence[str]) -> int:
    # In the background of a script a shell ignores it, and so would every process that the tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runnable, skips = choose(RINGS, fetch([tool for ring in RINGS for tool in ring.needs]))
    with tempfile.TemporaryDirectory(prefix="redrive-", dir=scratch()) as folder:
        Path(folder).chmod(0o755)
        results = side_by_side(runnable, ROOM, lambda ring: run(ring, arguments, Path(folder)))
    lines, code = closing(results, skips, all_or_fail=os.environ.get("REDRIVE_TEST_ALL") == "1")
    print("\n" + "\n".join(lines), flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
