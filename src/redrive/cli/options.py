"""Options that several commands take, each in one place so that they look alike."""

from __future__ import annotations

from typing import Annotated

import typer

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="postgresql://user:password@host/name, or the word embedded; redrive config shows the default.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:ATTR",
        help="The app, such as examples.email:app. Default: REDRIVE_APP, else [tool.redrive] app.",
        show_default=False,
    ),
]
QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="The queue's name.", show_default=False)]
IdsArgument = Annotated[list[int], typer.Argument(metavar="ID", help="Ids of messages.", show_default=False)]
