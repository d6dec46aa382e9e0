"""Text: what people read of alerts: a title and a body, in plain text.

Guarantees  nothing in it pings anybody: the summary of an alert may hold words of anybody's error;
            several alerts are grouped by what they are about, ten lines at most, the rest as a count;
            what is longer than the sink takes ends in a mark.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from redrive.watch.sinks.sink import Alert

MOST_LINES = 10
CUT = "… (cut)"
# Of a message to chat: what matters of an alert stands at its beginning.
_LONGEST_SUMMARY = 500
_NOTHING = "\u200b"
# @everyone, @here, <@U123>, <!channel>, <#C123>; apprise makes <!channel> of "!channel>" too.
_PING = re.compile(r"@(?=\S)|!(?=\w)|<(?=[@!#])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def title(alerts: Sequence[Alert]) -> str:
    """``[firing] email_jobs: dead letters``, the same each time; of several, how many of each kind."""
    if len(alerts) == 1:
        return f"[{alerts[0].event}] {_name(alerts[0])}"
    events = [each.event for each in alerts]
    counted = ", ".join(f"{events.count(event)} {event}" for event in dict.fromkeys(events))
    return f"[{_loudest(events)}] {len(alerts)} alerts: {counted}"


def body(alerts: Sequence[Alert]) -> str:
    """What, since when, where, and the command to look further."""
    if len(alerts) == 1:
        return _alone(alerts[0])
    shown: list[str] = []
    for alert in sorted(alerts, key=lambda each: (each.subject, each.id))[:MOST_LINES]:
        look = f"  ({alert.command})" if alert.command and alert.event != "resolved" else ""
        shown.append(f"[{alert.event}] {' '.join(_summary(alert).split())}{look}")
    if more := len(alerts) - len(shown):
        shown.append(f"… and {more} more: redrive alerts list")
    return "\n".join([*shown, *_where(alerts[0])])


def cut(text: str, most: int) -> str:
    """The text, or as much of it as `most` characters have room for, with a mark."""
    if len(text) <= most:
        return text
    return text[: max(0, most - len(CUT))] + CUT[: max(0, most)]


def harmless(text: str) -> str:
    """The text without what pings people or drives a terminal; it looks the same."""
    return _PING.sub(lambda found: found.group() + _NOTHING, _CONTROL.sub(" ", text))


def _alone(alert: Alert) -> str:
    over = alert.event == "resolved"
    lines = [_summary(alert)]
    if alert.since:
        lines.append(
            f"since {_moment(alert.since)}" + (f", until {_moment(alert.resolved_at)}" if over else "")
        )
    lines += _where(alert)
    if alert.command and not over:
        lines.append(f"look: {harmless(alert.command)}")
    return "\n".join(lines)


def _where(alert: Alert) -> list[str]:
    return [f"database {harmless(alert.database)}"] if alert.database else []


def _name(alert: Alert) -> str:
    words = alert.rule.replace("_", " ") if alert.event != "test" else "alerts of redrive"
    return f"{harmless(alert.subject)}: {words}" if alert.subject else words


def _moment(text: str | None) -> str:
    """Postgres' ISO time as people read it, in UTC."""
    try:
        return datetime.fromisoformat(text or "").astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):
        return harmless(text or "?")


def _summary(alert: Alert) -> str:
    return cut(harmless(alert.summary), _LONGEST_SUMMARY)


def _loudest(events: Sequence[str]) -> str:
    return next((each for each in ("firing", "reminder", "resolved") if each in events), events[0])
