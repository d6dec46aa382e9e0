"""Arguments: the options of `redrive supabase init`, checked; the line by which a file remembers them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, cast, get_args

from redrive.errors import InvalidArgument
from redrive.policy import check_queue_name
from redrive.supabase.functions import check_schema
from redrive.supabase.plan import EdgeFunction, Options, Worker

WORKERS: tuple[str, ...] = get_args(Worker)
EDGE_FUNCTIONS: tuple[str, ...] = get_args(EdgeFunction)
# A name: a value would stand in a file that is committed.
_SECRET = re.compile(r"(?!eyJ|sb_secret_|sb_publishable_)[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_LISTS = {"edge_functions": "edge_function"}


def options(given: Mapping[str, Any], remembered: str | None = None) -> Options:
    """`given` (None: not given) over what a file remembers, over the defaults. Raises `InvalidArgument`."""
    values = _remembered(remembered) if remembered else {}
    values |= {name: value for name, value in given.items() if value is not None}
    return checked(Options(**values))


def checked(asked: Options) -> Options:
    """What was asked for, once it can be done. Raises `InvalidArgument`, `ConfigError`."""
    if asked.worker not in WORKERS:
        raise InvalidArgument(f"--worker is {asked.worker!r}; it is one of {', '.join(WORKERS)}")
    if not (1 <= asked.interval <= 59 or (asked.interval % 60 == 0 and 60 <= asked.interval <= 59 * 60)):
        raise InvalidArgument(
            f"--interval is {asked.interval}; it is 1 to 59 seconds, or whole minutes: 60, 120, ... 3540"
        )
    if unknown := sorted(set(asked.edge_functions) - set(EDGE_FUNCTIONS)):
        raise InvalidArgument(f"--edge-function is {unknown[0]!r}; it is one of {', '.join(EDGE_FUNCTIONS)}")
    if asked.api_schema is not None:
        check_schema(asked.api_schema)
    for queue in asked.keys_of:
        check_queue_name(queue)
    for option, name in (("--url-secret", asked.url_secret), ("--key-secret", asked.key_secret)):
        if name is not None and not _SECRET.fullmatch(name):
            raise InvalidArgument(
                f"{option} takes the name of a secret in Vault, not its value: 1 to 100 letters, digits, "
                "_ . or -"
            )
    return _completed(asked)


def line(asked: Options) -> str:
    """The options as they are given on a command line; the defaults are left out, but for the worker."""
    words: list[str] = []
    told = asdict(asked)
    if asked.worker == "edge":
        # Said by the worker already.
        told["edge_functions"] = tuple(each for each in asked.edge_functions if each != "worker")
    for name, value in told.items():
        if name != "worker" and value == getattr(Options(), name):
            continue
        option = f"--{_LISTS.get(name, name).replace('_', '-')}"
        match value:
            case True:
                words.append(option)
            case list() | tuple():
                words += [word for each in cast("Sequence[str]", value) for word in (option, each)]
            case _:
                words += [option, str(value)]
    return shlex.join(words)


def _completed(asked: Options) -> Options:
    wanted: set[str] = {*asked.edge_functions, *(["worker"] if asked.worker == "edge" else [])}
    if wanted and asked.api_schema is None:
        why = "--worker edge" if asked.worker == "edge" else f"--edge-function {min(wanted)}"
        raise InvalidArgument(
            f"{why} needs the functions that an Edge Function calls: say in which schema PostgREST's clients "
            "find them, such as --api-schema public"
        )
    values = {field.name: getattr(asked, field.name) for field in fields(asked)}
    # In one order, so that the same options make the same text.
    values["edge_functions"] = tuple(each for each in EDGE_FUNCTIONS if each in wanted)
    values["keys_of"] = tuple(dict.fromkeys(asked.keys_of))
    return Options(**values)


def _remembered(text: str) -> dict[str, Any]:
    """Of the line that `line` made. Raises `InvalidArgument` where somebody edited it."""
    values: dict[str, Any] = {}
    try:
        words = iter(shlex.split(text))
    except ValueError:
        raise InvalidArgument(_edited(text)) from None
    known = {f"--{_LISTS.get(each.name, each.name).replace('_', '-')}": each.name for each in fields(Options)}
    for word in words:
        name = known.get(word)
        if name is None:
            raise InvalidArgument(_edited(word))
        if name == "replace_recipe":
            values[name] = True
            continue
        value = next(words, None)
        if value is None or (name == "interval" and not re.fullmatch("[0-9]{1,9}", value)):
            raise InvalidArgument(_edited(word))
        if name in ("edge_functions", "keys_of"):
            values[name] = (*values.get(name, ()), value)
        else:
            values[name] = int(value) if name == "interval" else value
    return values


def _edited(word: str) -> str:
    return (
        f"the newest ..._redrive_app.sql names the option {word!r}, which this redrive does not know so; "
        "give every option, with --anew"
    )
