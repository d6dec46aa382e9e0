"""``redrive inbox quarantine``: what was refused, by reason, and samples of it."""

from __future__ import annotations

import base64
from typing import Annotated, Any

import typer

from redrive.cli.inbox_selection import SourceArgument
from redrive.cli.inbox_sources import check_source
from redrive.cli.options import DatabaseOption, JsonOption
from redrive.cli.output import answer, answer_json, one_line, say
from redrive.cli.redaction import redact
from redrive.cli.session import session
from redrive.cli.tables import print_table
from redrive.errors import InvalidArgument
from redrive.policy import check_count
from redrive.store import events
from redrive.store.events import Refusal

REASONS = ("no_header", "malformed", "stale", "mismatch", "too_large", "conflict")
# As many as are kept of a source.
_MOST = 200
_ID = 255
_DETAIL = 1_000


def quarantine(
    source: SourceArgument = None,
    reason: Annotated[
        str | None,
        typer.Option(metavar="REASON", help=f"Those for {', '.join(REASONS)}.", show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", help="At most this many samples.")] = 20,
    as_json: JsonOption = False,
    database: DatabaseOption = None,
) -> None:
    """Show how many requests were refused, why, and the newest samples, whose bodies are in --json.

    A conflict was answered 200: its id was known, with another body, which is kept here. At most 200 samples
    of a source are kept, and none has the secret or the digest that would have been right.
    """
    if reason is not None and reason not in REASONS:
        raise InvalidArgument(f"--reason is {reason!r}; it must be one of {', '.join(REASONS)}")
    check_count(limit, "--limit")
    with session(database) as store:
        counts = [
            (each.source, why, total)
            for each in store.run(events.status(source))
            for why, total in sorted(each.refused.items())
            if reason in (None, why)
        ]
        sources = [source] if source is not None else sorted({each[0] for each in counts})
        samples = [
            each
            for one in sources
            for each in store.run(events.refusals(one, limit=_MOST))
            if reason in (None, each.reason)
        ]
        samples = sorted(samples, key=lambda each: each.at, reverse=True)[:limit]
        if as_json:
            answer_json(
                {
                    "counts": [{"source": one, "reason": why, "total": total} for one, why, total in counts],
                    "samples": [_as_json(each) for each in samples],
                }
            )
        if not counts:
            check_source(store, source)
    if not as_json:
        _print(counts, samples)


def _print(counts: list[tuple[str, str, int]], samples: list[Refusal]) -> None:
    if not counts:
        answer("the quarantine is empty: nothing was refused, and no id came again with another body")
        return
    print_table(("source", "reason", "ever"), counts, numbers=("ever",), keep=("source",))
    if not samples:
        say("no sample is kept of these")
        return
    answer("")
    print_samples(samples)


def print_samples(samples: list[Refusal]) -> None:
    """Samples as a table; on a narrow terminal the details fold, and an event's id may be left out."""
    rows = [
        (
            *(each.id, each.at, each.source, each.reason, each.size),
            # What is to be done stands at the detail's end.
            *(one_line(each.event_id, _ID), one_line(redact(each.detail), _DETAIL)),
        )
        for each in samples
    ]
    columns = ("id", "at", "source", "reason", "bytes", "event", "detail")
    print_table(
        columns,
        rows,
        numbers=("id", "bytes"),
        keep=("source", "reason", "event"),
        shed=("event", "bytes", "id"),
    )


def _as_json(sample: Refusal) -> dict[str, Any]:
    """The body as base64: the bytes matter, since a signature is over them."""
    facts = redact({name: value for name, value in sample._asdict().items() if name != "body"})
    body = None if sample.body is None else base64.b64encode(sample.body).decode()
    return {**facts, "body_base64": body}
