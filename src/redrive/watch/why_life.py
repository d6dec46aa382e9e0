"""A message's life in its order: sent, each failed delivery, its end, what it was redriven from and to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from redrive.watch.why_words import attempt_of, many, span, time_of

Event = tuple[datetime | None, str]


def life_of(facts: Mapping[str, Any]) -> list[Event]:
    """What is known to have happened, each with its moment."""
    found: list[Event] = [*_before(facts), *_sent(facts)]
    for failure in facts["failures"]:
        worker = f" (worker {failure['worker']})" if failure.get("worker") else ""
        found.append((time_of(failure.get("at")), attempt_of(facts, failure) + worker))
    found += _end(facts)
    for n, each in enumerate(facts["redriven"]["to"]):
        then = "sent again as" if n == 0 else "that one died too, and was sent again as"
        found.append((time_of(each["at"]), f"{then} message {each['msg_id']}"))
    return found


def _before(facts: Mapping[str, Any]) -> list[Event]:
    return [
        (
            None if n == 0 else time_of(facts["redriven"]["from"][n - 1]["at"]),
            f"began as message {each['msg_id']}, which died"
            if n == 0
            else f"went on as message {each['msg_id']}, which died",
        )
        for n, each in enumerate(facts["redriven"]["from"])
    ]


def _sent(facts: Mapping[str, Any]) -> list[Event]:
    m = facts["message"]
    if m is None:
        return []
    event, generation = facts["event"], m.get("generation") or 0
    text = "sent"
    if generation and facts["redriven"]["from"]:
        text = f"sent again from its dead letter, generation {generation}"
    elif generation:
        text = f"sent again from a dead letter of message {m['origin']}, generation {generation}"
    elif event is not None:
        text = f"sent by webhook {event['type']} of {event['source']}, event {event['event_id']}"
        text += f" ({event['status']})"
    if m.get("key"):
        text += f", key {m['key']!r}"
    if m.get("trace"):
        text += f", trace {m['trace']}"
    found: list[Event] = [(time_of(m["enqueued_at"]), text)]
    if m.get("given_back"):
        found.append(
            (
                None,
                f"given back {many(m['given_back'], 'time')} without charge (shutdown, Snooze, or a release)",
            )
        )
    return found


def _end(facts: Mapping[str, Any]) -> list[Event]:
    m, letter = facts["message"], facts["letter"]
    found: list[Event] = []
    if m is not None and m["state"] == "archived":
        took = "" if m.get("duration") is None else f" after {span(m['duration'])}"
        found.append((time_of(m["archived_at"]), f"{m['outcome'] or 'archived'}{took}"))
    if letter is not None and letter["state"] == "discarded":
        found.append((time_of(letter["at"]), f"its dead letter {letter['dead_id']} was discarded"))
    return found
