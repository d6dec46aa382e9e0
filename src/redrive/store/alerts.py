"""Alerts: evaluate the rules, see what fires, tell the sinks, keep quiet for a while."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from redrive.store.statement import Statement, column, int_array, scalar, text_array

# A sink that asks for this pause wants no more: its delivery is given up at once.
NEVER = float("inf")


class Change(NamedTuple):
    """What an evaluation changed: `state` is firing or resolved."""

    rule: str
    subject: str
    state: str
    severity: str
    value: float | None
    threshold: float | None
    summary: str
    command: str | None
    since: datetime


class Alert(NamedTuple):
    """`state`: pending, firing or resolved. `undelivered`: how many of its deliveries have not left."""

    rule: str
    subject: str
    state: str
    severity: str
    value: float | None
    threshold: float | None
    summary: str
    command: str | None
    since: datetime
    fired_at: datetime | None
    resolved_at: datetime | None
    silenced_until: datetime | None
    silence_reason: str | None
    undelivered: int


class Rule(NamedTuple):
    """`changed`: the fields an operator set; None where it is as redrive brings it."""

    name: str
    gauge: str
    operator: str
    threshold: float
    clear_at: float | None
    for_sec: float
    remind_sec: float | None
    severity: str
    queue_pattern: str | None
    enabled: bool
    builtin: bool
    summary: str | None
    command: str | None
    changed: dict[str, Any] | None


class Silence(NamedTuple):
    """`rule` and `subject` None: any. `known`: there is something of that name, as far as is known."""

    id: int
    rule: str | None
    subject: str | None
    until: datetime
    reason: str | None
    by: str | None
    at: datetime
    known: bool


class Due(NamedTuple):
    """A delivery that was claimed: `event` is firing, reminder, resolved or test."""

    id: int
    token: int
    sink: str
    rule: str
    subject: str
    event: str
    body: dict[str, Any]
    attempts: int
    age_sec: float


class Told(NamedTuple):
    """A delivery in the list: `state` is waiting, held back, failing, delivered or given up."""

    id: int
    sink: str
    rule: str
    subject: str
    event: str
    state: str
    summary: str | None
    at: datetime
    next_at: datetime | None
    attempts: int
    delivered_at: datetime | None
    gave_up_at: datetime | None
    error: str | None


class Sink(NamedTuple):
    """`age_sec`: since a process that has the sink was seen. `failures`: failed tries so far."""

    sink: str
    kind: str
    seen_at: datetime
    age_sec: float
    delivered: int
    failures: int
    open: int
    gave_up: int
    last_error: str | None


class WatchState(NamedTuple):
    """`checked_at` None: the rules were never evaluated. `problems`: gauges that could not be read."""

    checked_at: datetime | None
    age_sec: float | None
    duration_sec: float | None
    problems: list[dict[str, Any]]
    firing: int
    pending: int
    undelivered: int
    delivery_failures: int

    def is_late(self, most: float) -> bool:
        """Nobody has evaluated for so many seconds; or who did had a clock that ran ahead."""
        return self.age_sec is None or not 0 <= self.age_sec <= most


def check(every: float = 0) -> Statement[list[Change]]:
    """Evaluate the rules: what began to fire, and what is over.

    With `every`, only when nobody who named an `every` has done so within that many seconds.
    """
    return Statement(
        f"select {', '.join(Change._fields)} from redrive.check_queue_health(p_every => %s::numeric)",
        (every,),
        lambda rows: [Change(*row) for row in rows],
    )


def listing(*, ended: bool = False) -> Statement[list[Alert]]:
    """What fires or is about to, the worst first; `ended`: also the newest 200 that are over."""
    return Statement(
        f"select {', '.join(Alert._fields)} from redrive.alerts(p_all => %s::boolean)",
        (ended,),
        lambda rows: [Alert(*row) for row in rows],
    )


def rules() -> Statement[list[Rule]]:
    """Every rule as it holds."""
    plain = ", ".join(
        f"{name}::float8" if name in ("for_sec", "remind_sec") else name for name in Rule._fields[:-1]
    )
    return Statement(
        f"select {plain}, changed::text from redrive.rules()",
        (),
        lambda rows: [Rule(*row[:-1], changed=_json(row[-1])) for row in rows],
    )


def set_rule(name: str, fields: Mapping[str, Any]) -> Statement[dict[str, Any]]:
    """Change fields of a rule, or make a new one. Raises `InvalidArgument`."""
    return Statement(
        "select redrive.set_rule(p_name => %s::text, p_fields => %s::jsonb)::text",
        (name, json.dumps(dict(fields))),
        lambda rows: json.loads(scalar(rows)),
    )


def reset_rule(name: str) -> Statement[bool]:
    """A built-in rule is as redrive brings it; False when it was. Raises `InvalidArgument`."""
    return Statement("select redrive.reset_rule(p_name => %s::text)", (name,), scalar)


def drop_rule(name: str) -> Statement[bool]:
    """Forget a rule of the user's own. Raises `InvalidArgument` for a built-in or unknown one."""
    return Statement("select redrive.drop_rule(p_name => %s::text)", (name,), scalar)


def silence(
    rule: str | None, subject: str | None, seconds: float, reason: str | None = None
) -> Statement[int]:
    """Tell nobody of this rule and subject (None: any) for a while; the silence's id."""
    return Statement(
        "select redrive.silence_alert(p_rule => %s::text, p_subject => %s::text, "
        "p_seconds => %s::numeric, p_reason => %s::text)",
        (rule, subject, seconds, reason),
        scalar,
    )


def unsilence(
    id: int | None = None, rule: str | None = None, subject: str | None = None, *, everything: bool = False
) -> Statement[int]:
    """End silences now: by id, or of this rule and subject (None: of any), or all; how many there were."""
    return Statement(
        "select redrive.unsilence(p_id => %s::bigint, p_rule => %s::text, p_subject => %s::text, "
        "p_all => %s::boolean)",
        (id, rule, subject, everything),
        scalar,
    )


def silences() -> Statement[list[Silence]]:
    """The silences that are running."""
    return Statement(
        f"select {', '.join(Silence._fields)} from redrive.silences()",
        (),
        lambda rows: [Silence(*row) for row in rows],
    )


def declare_sinks(sinks: Mapping[str, str]) -> Statement[None]:
    """This process delivers to these sinks (name -> kind). To be said every minute."""
    return Statement(
        "select redrive.declare_sinks(p_sinks => %s::text[], p_kinds => %s::text[])",
        (text_array(list(sinks)), text_array(list(sinks.values()))),
        lambda _: None,
    )


def installation() -> Statement[str]:
    """Which redrive this database is, however it is reached."""
    return Statement("select redrive.installation_id()::text", (), scalar)


def forget_sink(sink: str) -> Statement[bool]:
    """Drop a sink and what waits for it; False when it is not known."""
    return Statement("select redrive.forget_sink(p_sink => %s::text)", (sink,), scalar)


def claim(sinks: Sequence[str], *, limit: int = 50, hold: float = 60) -> Statement[list[Due]]:
    """Deliveries that are due for these sinks; the caller's for `hold` seconds."""
    plain = [name if name != "body" else "body::text" for name in Due._fields]
    return Statement(
        f"select {', '.join(plain)} from redrive.claim_alerts(p_sinks => %s::text[], "
        "p_limit => %s::integer, p_hold => %s::numeric) order by id",
        (text_array(list(sinks)), limit, hold),
        lambda rows: [Due(*row)._replace(body=json.loads(row[6])) for row in rows],
    )


def settle(
    ids: Sequence[int],
    tokens: Sequence[int],
    errors: Sequence[str | None],
    retry_after: Sequence[float | None] | None = None,
) -> Statement[int]:
    """How claimed deliveries went: an error each, None for delivered; how many counted."""
    after = None if retry_after is None else "{" + ",".join(_number(each) for each in retry_after) + "}"
    return Statement(
        "select redrive.settle_alerts(p_ids => %s::bigint[], p_tokens => %s::bigint[], "
        "p_errors => %s::text[], p_retry_after => %s::numeric[])",
        (int_array(ids), int_array(tokens), text_array(list(errors)), after),
        scalar,
    )


def test(sink: str | None = None) -> Statement[list[int]]:
    """Write a test delivery to one sink, or to each; their ids. Raises `InvalidArgument`."""
    return Statement("select redrive.test_alert(p_sink => %s::text)", (sink,), column)


def deliveries(limit: int = 100) -> Statement[list[Told]]:
    """What was told, or could not be: the open ones first, then the newest."""
    return Statement(
        f"select {', '.join(Told._fields)} from redrive.alert_deliveries(p_limit => %s::integer)",
        (limit,),
        lambda rows: [Told(*row) for row in rows],
    )


def sinks() -> Statement[list[Sink]]:
    """Where alerts are told, and how that goes."""
    return Statement(
        f"select {', '.join(Sink._fields)} from redrive.alert_sinks()",
        (),
        lambda rows: [Sink(*row) for row in rows],
    )


def state() -> Statement[WatchState]:
    """When the rules were evaluated last, and whether alerts reach anybody."""
    plain = [name if name != "problems" else "problems::text" for name in WatchState._fields]
    return Statement(
        f"select {', '.join(plain)} from redrive.watch_state()",
        (),
        lambda rows: WatchState(*rows[0])._replace(problems=json.loads(rows[0][3])),
    )


def _json(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def _number(value: float | None) -> str:
    return "NULL" if value is None else repr(float(value))
