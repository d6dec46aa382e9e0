"""The command line, run in this process: fast, and with the exit code and output of the real one."""

from __future__ import annotations

import functools
import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

import typer.main

import redrive.cli

# Working out the options of every command takes longer than most commands.
_command = functools.cache(typer.main.get_command)


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*arguments: str, stdin: str | bytes = "") -> Ran:
    """``redrive ARGUMENTS``, with `stdin` that is no terminal."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    out, err = io.StringIO(), io.StringIO()
    # pytest's side-by-side workers set a width, as if a narrow terminal watched.
    unwatched = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with (
        mock.patch.dict(os.environ, unwatched, clear=True),
        mock.patch.object(typer.main, "get_command", _command),
        mock.patch.object(sys, "argv", ["redrive", *arguments]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(data))),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            redrive.cli.main()
        except SystemExit as end:
            code = end.code
        else:
            code = 0
    assert isinstance(code, int), code
    return Ran(code, out.getvalue(), err.getvalue())


def fine(*arguments: str, stdin: str | bytes = "") -> Ran:
    """The same, of a command that must end with 0."""
    ran = run(*arguments, stdin=stdin)
    assert ran.code == 0, ran
    return ran
