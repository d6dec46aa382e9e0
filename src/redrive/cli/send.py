"""``redrive send``: put messages into a queue, from the command line, files or stdin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated

import typer

from redrive.cli.inputs import STDIN, Input, from_argument, from_files
from redrive.cli.options import DatabaseOption, JsonOption, QueueArgument
from redrive.cli.output import answer, answer_json, say
from redrive.cli.sending import Options, Sending
from redrive.cli.session import session
from redrive.errors import InvalidArgument, RedriveError


def send(
    queue: QueueArgument,
    payloads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PAYLOAD", help="JSON, or - for stdin. After --file: more files.", show_default=False
        ),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--file", metavar="FILE", help="A file of payloads: --file *.json.", show_default=False),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="A .json file holds an array: one message an element.")
    ] = False,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Idempotency key.", show_default=False)
    ] = None,
    delay: Annotated[
        str,
        typer.Option(metavar="WHEN", help="Seconds, or a time with its zone: 2026-03-01T09:00+01:00."),
    ] = "0",
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME=VALUE", help="May be repeated.", show_default=False),
    ] = None,
    unique: Annotated[
        bool, typer.Option("--unique", help="Send nothing when the key is queued, running or done.")
    ] = False,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Send messages to a queue.

    A .ndjson or .jsonl file and stdin hold one payload a line; any other file is one payload as a whole, or
    with --each an array of them. They are sent in batches of at most 1,000, each as a whole or not at all;
    the first payload that cannot be sent stops the command, which then says what was sent.
    """
    inputs = _inputs(payloads or [], files or [], each=each)
    options = Options(key, _delay(delay), _headers(headers or []), unique)
    with session(database) as store:
        sending = Sending(store, queue, options, listing=as_json)
        try:
            sending.run(inputs)
        except (RedriveError, KeyboardInterrupt):
            if as_json:
                answer_json(sending.tally.as_json(queue))
            if sending.tally.new or sending.tally.unknown:
                say(sending.tally.interrupted(queue))
            raise
    if as_json:
        answer_json(sending.tally.as_json(queue))
    else:
        answer(sending.tally.summary(queue))


def _inputs(payloads: Sequence[str], files: Sequence[str], *, each: bool) -> Iterable[Input]:
    # A shell turns `--file *.json` into one --file and further arguments.
    if files:
        return from_files([*files, *payloads], each=each)
    if each:
        raise InvalidArgument("--each is for files; name them with --file")
    match payloads:
        case []:
            raise InvalidArgument("what is to be sent? Give a payload, --file FILE, or - for stdin")
        case [only]:
            return from_files([STDIN]) if only == STDIN else [from_argument(only)]
        case _:
            raise InvalidArgument(
                f"{len(payloads)} payloads are given; give one, quoted for the shell, or put them into a "
                "file, one a line"
            )


def _delay(text: str) -> float | datetime:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidArgument(
            f"--delay is {text!r}; it must be seconds, or a time with its zone such as 2026-03-01T09:00+01:00"
        ) from None
    if at.utcoffset() is None:
        raise InvalidArgument(f"--delay is {text!r}, which has no time zone; add one: {text}Z for UTC")
    return at


def _headers(pairs: Sequence[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise InvalidArgument(f"--header {pair!r} is no NAME=VALUE; write it like --header trace=8f3c")
        found[name] = value
    return found or None
