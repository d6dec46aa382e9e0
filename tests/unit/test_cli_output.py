"""What commands print: for people, for programs, and never for the terminal itself."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr
from datetime import UTC, datetime, timedelta, timezone

import pytest
import typer

from redrive.cli import output
from redrive.errors import ConfigError


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ""),
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3_600, "1h 0m"),
        (12_240, "3h 24m"),
        (180_000, "2d 2h"),
        (float("inf"), "for ever"),
    ],
)
def test_ages_are_short(seconds: float | None, shown: str) -> None:
    assert output.age(seconds) == shown


def test_times_are_in_utc() -> None:
    at = datetime(2026, 3, 1, 9, tzinfo=timezone(timedelta(hours=1)))
    assert output.moment(at) == "2026-03-01 08:00:00Z"


def test_values_in_tables_are_plain() -> None:
    assert [output.shown(each) for each in (None, True, 3, {"a": [1, "ü"]})] == [
        "",
        "yes",
        "3",
        '{"a": [1, "ü"]}',
    ]


def test_an_error_cannot_drive_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07red\x1b[31m\x9b2J\rhidden"
    assert output.plain(hostile) == "\\x1b]0;owned\\x07red\\x1b[31m\\x9b2J\\rhidden"
    assert output.shown({"error": hostile}).isprintable()
    assert output.one_line(hostile, 200).isprintable()
    assert output.plain("two\n\tlines") == "two\n\tlines"


def test_a_long_text_is_cut_to_one_line() -> None:
    assert output.one_line("a\nb  c", 10) == "a b c"
    assert output.one_line("x" * 20, 10) == "x" * 9 + "…"
    assert output.one_line(None, 10) == ""


def test_counts_agree_with_their_noun() -> None:
    assert output.count(1, "message") == "1 message"
    assert output.count(2_000, "message") == "2,000 messages"


class TestAsking:
    def test_a_yes_beforehand_asks_nobody(self) -> None:
        output.confirm("Delete?", yes=True)

    def test_without_a_terminal_it_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
        with pytest.raises(ConfigError, match="Delete\\? There is no terminal to ask on; add --yes"):
            output.confirm("Delete?", yes=False)

    @pytest.mark.parametrize("answer", ["n\n", "\n"])
    def test_a_no_ends_with_1(self, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
        terminal = io.StringIO(answer)
        monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
        monkeypatch.setattr("sys.stdin", terminal)
        said = io.StringIO()
        with redirect_stderr(said), pytest.raises(typer.Exit) as ended:
            output.confirm("Delete?", yes=False)
        assert ended.value.exit_code == 1 and "nothing was changed" in said.getvalue()


def test_times_in_json_are_iso_8601(capsys: pytest.CaptureFixture[str]) -> None:
    output.answer_json({"at": datetime(2026, 3, 1, 8, tzinfo=UTC)})
    assert capsys.readouterr().out == '{\n  "at": "2026-03-01T08:00:00Z"\n}\n'


def test_a_terminal_that_lacks_a_character_is_no_fault() -> None:
    script = (
        "import sys; sys.argv = ['redrive', 'queue', 'create', 'é']; from redrive.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONIOENCODING": "ascii", "REDRIVE_DATABASE_URL": "postgresql://127.0.0.1:1/d"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr and b"\\xe9" in done.stderr


def test_a_full_disk_is_one_sentence_and_no_traceback() -> None:
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "redrive.cli", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert ran.returncode == 1
    assert ran.stderr == "redrive: the answer cannot be written to stdout: No space left on device\n"


def test_a_closed_stdin_is_said() -> None:
    command = (
        f"{sys.executable} -m redrive.cli send emails - --database postgresql://nobody@localhost:1/x <&-"
    )
    ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (
        2,
        "redrive: stdin is closed; give the payloads as files or as an argument\n",
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stdout_or_stderr_is_nobody_who_watches(closed: str) -> None:
    script = (
        "import sys; sys.argv = ['redrive', 'config']\n"
        "from redrive.cli import main, output, tables\n"
        "from redrive.cli.progress import progress\n"
        "def config():\n"
        "    with progress('x', total=None) as step: step(1)\n"
        "    tables.print_table(('id',), [('a',)]); output.say('b')\n"
        "    output.answer('c'); output.console().print('d')\n"
        "import redrive.cli; redrive.cli.app = config; main(); print(3, file=sys.stderr); sys.exit(7)"
    )
    command = f'"$0" -c "$1" {closed}'
    ran = subprocess.run(
        ["bash", "-c", command, sys.executable, script], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 7
    assert (ran.stdout, ran.stderr) == {
        ">&-": ("", "b\n3\n"),
        "2>&-": ("id\na\nc\nd\n", ""),
        ">&- 2>&-": ("", ""),
    }[closed]
