"""The command `redrive`.

Exit: 0 fine, 1 it found something wrong, 2 usage or configuration, 3 database out of reach, 130 Ctrl-C.
Every `RedriveError` is one sentence on stderr; only a fault of redrive's own shows a traceback.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from redrive.cli import alerts, dlq, inbox, key, lease, message, queue, schedule, supabase
from redrive.cli.config import config
from redrive.cli.demo import demo
from redrive.cli.dev import dev
from redrive.cli.doctor import doctor
from redrive.cli.grant import grant
from redrive.cli.migrate import migrate
from redrive.cli.options import DatabaseOption
from redrive.cli.output import open_closed, say
from redrive.cli.prune import prune
from redrive.cli.send import send
from redrive.cli.serve import serve
from redrive.cli.session import name_database
from redrive.cli.status import status
from redrive.cli.why import why
from redrive.cli.worker import worker
from redrive.errors import RedriveError, Unavailable

EXIT_UNWRITTEN = 1
EXIT_CONFIG = 2
EXIT_UNAVAILABLE = 3
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def _show_version(asked: bool) -> None:
    if asked:
        print(f"redrive {version('redrive')}", flush=True)
        raise typer.Exit


app = typer.Typer(
    name="redrive",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Production job queues on the Postgres you already have.",
    epilog="Exit: 0 fine, 1 it found something wrong, 2 usage or configuration, 3 database out of reach.",
)
for each in (demo, dev, worker, serve, migrate, grant, send, status, why, doctor, prune, config):
    app.command()(each)
for noun in (queue, message, dlq, inbox, key, lease, schedule, alerts, supabase):
    app.add_typer(noun.app, name=noun.__name__.rpartition(".")[2])


@app.callback()
def top(
    show_version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version),
    ] = False,
    database: DatabaseOption = None,
) -> None:
    name_database(database)


def main() -> None:
    """Entry of the command; ends the process."""
    open_closed()
    for stream in (sys.stdout, sys.stderr):
        # What a terminal cannot show is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except RedriveError as error:
        say(f"redrive: {error}")
        sys.exit(EXIT_UNAVAILABLE if isinstance(error, Unavailable) else EXIT_CONFIG)
    except OSError as error:
        # Of a stream that is open already: an error of a file names the file.
        if error.errno not in _NO_ROOM or error.filename is not None:
            raise
        say(f"redrive: the answer cannot be written to stdout: {error.strerror}")
        # What is still in its buffer would make the interpreter complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(EXIT_UNWRITTEN)
