"""Why: the facts about one message, told in sentences: why it does not run, and what happens next.

Guarantees  one cause, by name, and beside it whatever else stands in the way; pure: reads no clock and no
            database, all ages are by the database's clock.
Not given   that it is still so: the facts are of the moment they were asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from redrive.watch.why_ended import ended, parked, unknown
from redrive.watch.why_life import life_of
from redrive.watch.why_words import Facts, Found, Moment, attempt_of, is_never, many, moment

_KEY_WAITS = 5.5
# A worker says every ten seconds what it holds.
_SAYS_WITHIN = 15.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NOT = "does not run because "


@dataclass(frozen=True, slots=True)
class Why:
    """`cause` is one word for programs; `answer` and `then` are for people; `also` is what else is wrong."""

    cause: str
    answer: str
    then: str
    also: list[str] = field(default_factory=list[str])
    life: list[tuple[datetime | None, str]] = field(default_factory=list[tuple[datetime | None, str]])


def explain(facts: Facts) -> Why:
    """What `redrive.why` found, as sentences."""
    found = _of(facts)
    first = found[0] if found else _nothing_in_the_way(facts)
    return Why(
        first.cause, f"{_named(facts)} {first.text}", first.then, [o.text for o in found[1:]], life_of(facts)
    )


def _of(facts: Facts) -> list[Found]:
    message = facts["message"]
    if message is None:
        return [unknown(facts)]
    match message["state"]:
        case "archived":
            return [ended(facts)]
        case "running":
            again = "does not run again, should it come back, because "
            also = _each(facts, _paused, _workers)
            return [
                _running(facts),
                *(replace(each, text=again + each.text.removeprefix(_NOT)) for each in also),
            ]
        case "parked":
            return [parked(facts)]
        case "waiting":
            # Who waits for a key is put off for five seconds at most.
            soon = Moment(facts["now"]).seconds_to(message["due_at"]) <= _KEY_WAITS
            first = (_key, _waits) if soon else (_waits, _key)
            return _each(facts, *first, _paused, _workers)
        case _:
            return _each(facts, _key, _spent, _paused, _flight, _workers, _behind)


def _each(facts: Facts, *causes: Callable[[Facts], Found | None]) -> list[Found]:
    return [found for cause in causes if (found := cause(facts)) is not None]


# --- what keeps a message in its queue from running ---


def _waits(facts: Facts) -> Found:
    """Its time has not come: who said so?"""
    m, now = facts["message"], Moment(facts["now"])
    until, sooner = now.until(m["due_at"]), f"redrive message now {facts['queue']} {facts['msg_id']}"
    next_attempt = f"attempt {m['attempts'] + 1} of {facts['policy']['max_attempts']}"
    if is_never(m["due_at"]):
        again = first = f"nothing, until somebody reschedules it: {sooner}"
    else:
        due = f"{now.then(m['due_at'])}; {sooner} makes it due at once"
        again, first = f"{next_attempt} may begin {due}", f"a worker may claim it {due}"
    last = next((f for f in reversed(facts["failures"]) if f.get("read_ct") == m["read_ct"]), None)
    if last is not None:
        return Found("backed_off", f"is backed off {until}: {attempt_of(facts, last)}", again)
    if m["read_ct"] == 0:
        return Found("delayed", f"is delayed {until}", first)
    put_off = "its handler put it off with Snooze, or an operator did, at no charge"
    return Found("put_off", f"is put off {until}: {put_off}", again)


def _key(facts: Facts) -> Found | None:
    m, held = facts["message"], facts["key_held"]
    if held is None or held["owner_msg"] == facts["msg_id"]:
        return None
    now, queue, key = Moment(facts["now"]), facts["queue"], m["key"]
    if held["state"] == "done":
        if held["expires_at"] is None or now.is_past(held["expires_at"]):
            return None
        owner = f"message {held['owner_msg']}" if held["owner_msg"] else "somebody, by hand,"
        return Found(
            "key_done",
            f"will not run: {owner} has completed its key {key!r} {now.at(held['done_at'])}",
            "the next claim archives it as duplicate, without a start",
        )
    if held["lease_until"] is None or now.is_past(held["lease_until"]):
        return None
    until = now.until(held["lease_until"])
    if held["owner_msg"] is not None:
        return Found(
            "key_held",
            f"waits for its key {key!r}, which message {held['owner_msg']} holds {until}",
            "when that one is done, this one is archived as duplicate; when it fails, this one may run; "
            f"see: redrive why {queue} {held['owner_msg']}",
        )
    return Found(
        "key_held",
        f"waits for its key {key!r}, which {held['owner'] or 'somebody'} holds by hand {until}",
        f"it may run when that is given up or runs out; redrive key free {queue} {key} takes it away",
    )


def _spent(facts: Facts) -> Found | None:
    m, most = facts["message"], facts["policy"]["max_attempts"]
    if m["attempts"] < most:
        return None
    where = "a dead letter" if facts["policy"]["dead_letters"] else "parked: there is no dead-letter queue"
    return Found(
        "spent", f"has spent its {many(most, 'attempt')}", f"the next claim makes it {where}, without a run"
    )


def _paused(facts: Facts) -> Found | None:
    policy = facts["policy"]
    if not policy["paused"]:
        return None
    by = {"operator": "an operator", "code": "the code that declares it"}[policy["paused_by"]]
    since = "" if policy["paused_at"] is None else f" since {Moment(facts['now']).since(policy['paused_at'])}"
    return Found(
        "paused",
        f"{_NOT}queue {facts['queue']} is paused{since}, by {by}",
        f"redrive queue resume {facts['queue']} hands out again",
    )


def _flight(facts: Facts) -> Found | None:
    flight = facts["flight"]
    if flight is None:
        return None
    now, holder = Moment(facts["now"]), flight["holder"]
    return Found(
        "single_flight",
        f"may be claimed by nobody but worker {holder}, which holds the single flight of queue "
        f"{facts['queue']} {now.until(flight['lease_until'])}{_at_work(facts, holder)}",
        "that worker claims it when it has a free slot; when it is gone, another does as the lease ends",
    )


def _at_work(facts: Facts, name: str) -> str:
    for each in facts["workers"]:
        if each["worker"] == name:
            if not each["alive"]:
                return f", and was last seen {Moment(facts['now']).at(each['last_seen'])}"
            return f", and runs {many(each['running'], 'job')}"
    return ""


def _workers(facts: Facts) -> Found | None:
    if facts["alive"]:
        return None
    queue, now = facts["queue"], Moment(facts["now"])
    start = f"start one: redrive worker --app MODULE:ATTR --queue {queue}"
    if not facts["workers"] and facts["gone_at"] is None:
        more = (
            "" if facts["policy"]["adopted"] else f"; redrive has not adopted it: redrive queue adopt {queue}"
        )
        return Found("no_worker", f"{_NOT}no worker has ever taken queue {queue}{more}", start)
    seen: list[str] = [each["last_seen"] for each in facts["workers"]]
    last = max(seen + ([facts["gone_at"]] if facts["gone_at"] else []), key=moment)
    which = f", {facts['workers'][0]['worker']}," if len(seen) == 1 else ""
    return Found(
        "workers_gone",
        f"{_NOT}no worker of queue {queue} lives: the last{which} was seen {now.at(last)}",
        start,
    )


def _behind(facts: Facts) -> Found | None:
    ahead = facts["message"]["ahead"]
    sizes = [each["concurrency"] for each in _living(facts) if each["concurrency"] is not None]
    # Who reads by SQL has no slots, and so none that are taken.
    if not sizes or (not ahead and facts["busy"] < sum(sizes)):
        return None
    doing = (
        f"the {many(facts['alive'], 'living worker')} of the queue run{'s' if facts['alive'] == 1 else ''}"
    )
    return Found(
        "waiting_behind",
        f"waits its turn since {_ready_since(facts)}: {_due_before(ahead)}, and {doing} "
        f"{many(facts['busy'], 'job')}",
        "it is claimed when those before it are; more workers, or a higher --concurrency, make that sooner",
    )


def _nothing_in_the_way(facts: Facts) -> Found:
    ahead, since = facts["message"]["ahead"], _ready_since(facts)
    readers = [each["worker"] for each in _living(facts)]
    if all(each["concurrency"] is None for each in _living(facts)):
        others = f"; {_due_before(ahead)}" if ahead else "; nothing stands in its way"
        return Found(
            "about_to_run",
            f"is ready since {since}{others}",
            f"it is handed out to the next who reads or claims{' and has room' if ahead else ''}: "
            f"{', '.join(readers[:3])}",
        )
    return Found(
        "about_to_run",
        f"is ready since {since}; nothing stands in its way",
        f"one of the queue's {many(facts['alive'], 'living worker')} claims it with its next look, within "
        "seconds",
    )


def _living(facts: Facts) -> list[Facts]:
    return [each for each in facts["workers"] if each["alive"]]


def _ready_since(facts: Facts) -> str:
    return Moment(facts["now"]).since(facts["message"]["due_at"])


def _due_before(ahead: int) -> str:
    if ahead >= 10_000:
        return "10,000 or more messages are due before it"
    return f"{many(ahead, 'message')} {'is' if ahead == 1 else 'are'} due before it"


# --- what has it ---


def _running(facts: Facts) -> Found:
    m, now, policy = facts["message"], Moment(facts["now"]), facts["policy"]
    until, back = now.until(m["due_at"]), now.then(m["due_at"])
    comes_back = "it never comes back by itself" if is_never(m["due_at"]) else f"it comes back {back}"
    which = f"attempt {m['attempts']} of {policy['max_attempts']}"
    holder = _holder(facts)
    if holder is None:
        unsure = "" if policy["headers"] else " (or waits for its next attempt: this pgmq does not tell)"
        silent = [each["worker"] for each in _living(facts) if each["concurrency"] is None][:3]
        perhaps = f"; {' or '.join(silent)} may have it, and does not say so" if silent else ""
        return Found(
            "running",
            f"is claimed {until}, {which}{unsure}; no worker has said that it holds it (yet){perhaps}",
            "a worker says so every ten seconds, other readers of the queue never; when nobody reports, "
            f"{comes_back}",
        )
    if not holder["alive"]:
        release = (
            "; once you know that it is dead, and not only cut off from the database: redrive message "
            f"release {facts['queue']} {facts['msg_id']} gives it back now, at no charge"
        )
        return Found(
            "holder_gone",
            f"was claimed by worker {holder['worker']}, which was last seen {now.at(holder['last_seen'])}, "
            f"and has not reported {which}",
            f"when nobody reports, {comes_back}, and that attempt is charged"
            + ("" if m["claimed_at"] is None else release),
        )
    alone = ", in a process of its own, since two deliveries ended without a report" if m["isolated"] else ""
    return Found(
        "running",
        f"is at worker {holder['worker']} now, {which}{alone}; it is its own {until}",
        "the worker extends that while the job runs, and reports its end; when it dies, it comes back then",
    )


def _holder(facts: Facts) -> Facts | None:
    """Who said last that it holds it in this delivery, not in an earlier one; who lives comes first."""
    m = facts["message"]
    if m["claimed_at"] is not None:
        since = exact = moment(m["claimed_at"])
    else:
        # When it was claimed, or extended last, for all one knows: who extends it said so shortly before.
        vt = facts["policy"]["visibility_timeout"]
        due = moment(m["due_at"])
        exact = due - min(timedelta(seconds=vt), due - _EPOCH)
        since = exact - timedelta(seconds=min(_SAYS_WITHIN, vt / 2))
    said = [each for each in facts["workers"] if each["held_at"] is not None]
    said.sort(key=lambda each: not each["alive"])
    for each in said:
        if moment(each["held_at"]) >= (since if each["alive"] else exact):
            return each
    return None


def _named(facts: Facts) -> str:
    number = facts["msg_id"]
    if number is None:
        return "this dead letter"
    return f"message {number} of queue {facts['queue']}"
