"""Why: the facts about one message, told in sentences: why it does not run, and what happens next.

Guarantees  one cause, by name, and beside it whatever else stands in the way; pure: reads no clock and no
            database, all ages are by the database's clock.
Not given   that it is still so: the facts are of the moment they were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from redrive.watch.why_life import life_of
from redrive.watch.why_words import Moment, attempt_of, in_a_line, many, moment, span

Facts = Mapping[str, Any]

_KEY_WAITS = 5.5


@dataclass(frozen=True, slots=True)
class Why:
    """`cause` is one word for programs; `answer` and `then` are for people; `also` is what else is wrong."""

    cause: str
    answer: str
    then: str
    also: list[str] = field(default_factory=list[str])
    life: list[tuple[datetime | None, str]] = field(default_factory=list[tuple[datetime | None, str]])


@dataclass(frozen=True, slots=True)
class _Found:
    """One thing that keeps a message from running."""

    cause: str
    text: str
    then: str


def explain(facts: Facts) -> Why:
    """What `redrive.why` found, as sentences."""
    found = _of(facts)
    first = found[0] if found else _nothing_in_the_way(facts)
    return Why(
        first.cause, f"{_named(facts)} {first.text}", first.then, [o.text for o in found[1:]], life_of(facts)
    )


def _of(facts: Facts) -> list[_Found]:
    message = facts["message"]
    if message is None:
        return [_unknown(facts)]
    match message["state"]:
        case "archived":
            return [_ended(facts)]
        case "running":
            return [_running(facts)]
        case "parked":
            return [_parked(facts)]
        case "waiting":
            # Who waits for a key is put off for five seconds at most.
            soon = Moment(facts["now"]).seconds_to(message["due_at"]) <= _KEY_WAITS
            first = (_key, _waits) if soon else (_waits, _key)
            return _each(facts, *first, _paused, _workers)
        case _:
            return _each(facts, _key, _spent, _paused, _flight, _workers, _behind)


def _each(facts: Facts, *causes: Callable[[Facts], _Found | None]) -> list[_Found]:
    return [found for cause in causes if (found := cause(facts)) is not None]


# --- what keeps a message in its queue from running ---


def _waits(facts: Facts) -> _Found:
    """Its time has not come: who said so?"""
    m, now = facts["message"], Moment(facts["now"])
    due = now.until(m["due_at"])
    hurry = f"redrive message now {facts['queue']} {facts['msg_id']} makes it due at once"
    again = f"attempt {m['attempts'] + 1} of {facts['policy']['max_attempts']} may begin {due}; {hurry}"
    last = next((f for f in reversed(facts["failures"]) if f.get("read_ct") == m["read_ct"]), None)
    if last is not None:
        return _Found("backed_off", f"is backed off until {due}: {attempt_of(facts, last)}", again)
    if m["read_ct"] == 0:
        return _Found("delayed", f"is delayed until {due}", f"a worker may claim it {due}; {hurry}")
    put_off = "its handler put it off with Snooze, or an operator did, at no charge"
    return _Found("put_off", f"is put off until {due}: {put_off}", again)


def _key(facts: Facts) -> _Found | None:
    m, held = facts["message"], facts["key_held"]
    if held is None or held["owner_msg"] == facts["msg_id"]:
        return None
    now, queue, key = Moment(facts["now"]), facts["queue"], m["key"]
    if held["state"] == "done":
        if held["expires_at"] is None or now.is_past(held["expires_at"]):
            return None
        owner = f"message {held['owner_msg']}" if held["owner_msg"] else "somebody, by hand,"
        return _Found(
            "key_done",
            f"will not run: {owner} has completed its key {key!r} {now.at(held['done_at'])}",
            "the next claim archives it as duplicate, without a start",
        )
    if held["lease_until"] is None or now.is_past(held["lease_until"]):
        return None
    until = now.until(held["lease_until"])
    if held["owner_msg"] is not None:
        return _Found(
            "key_held",
            f"waits for its key {key!r}, which message {held['owner_msg']} holds until {until}",
            "when that one is done, this one is archived as duplicate; when it fails, this one may run; "
            f"see: redrive why {queue} {held['owner_msg']}",
        )
    return _Found(
        "key_held",
        f"waits for its key {key!r}, which {held['owner'] or 'somebody'} holds by hand until {until}",
        f"it may run when that is given up or runs out; redrive key free {queue} {key} takes it away",
    )


def _spent(facts: Facts) -> _Found | None:
    m, most = facts["message"], facts["policy"]["max_attempts"]
    if m["attempts"] < most:
        return None
    where = "a dead letter" if facts["policy"]["dead_letters"] else "parked: there is no dead-letter queue"
    return _Found(
        "spent", f"has spent its {many(most, 'attempt')}", f"the next claim makes it {where}, without a run"
    )


def _paused(facts: Facts) -> _Found | None:
    policy = facts["policy"]
    if not policy["paused"]:
        return None
    by = {"operator": "an operator", "code": "the code that declares it"}[policy["paused_by"]]
    since = "" if policy["paused_at"] is None else f" since {Moment(facts['now']).since(policy['paused_at'])}"
    return _Found(
        "paused",
        f"does not run because queue {facts['queue']} is paused{since}, by {by}",
        f"redrive queue resume {facts['queue']} hands out again",
    )


def _flight(facts: Facts) -> _Found | None:
    flight = facts["flight"]
    if flight is None:
        return None
    now, holder = Moment(facts["now"]), flight["holder"]
    return _Found(
        "single_flight",
        f"may be claimed by nobody but worker {holder}, which holds the single flight of queue "
        f"{facts['queue']} until {now.until(flight['lease_until'])}{_at_work(facts, holder)}",
        "that worker claims it when it has a free slot; when it is gone, another does as the lease ends",
    )


def _at_work(facts: Facts, name: str) -> str:
    for each in facts["workers"]:
        if each["worker"] == name:
            if not each["alive"]:
                return f", and was last seen {Moment(facts['now']).at(each['last_seen'])}"
            return f", and runs {many(each['running'], 'job')}"
    return ""


def _workers(facts: Facts) -> _Found | None:
    if facts["alive"]:
        return None
    queue, now = facts["queue"], Moment(facts["now"])
    start = f"start one: redrive worker --queue {queue}"
    if not facts["workers"] and facts["gone_at"] is None:
        more = (
            "" if facts["policy"]["adopted"] else f"; redrive has not adopted it: redrive queue adopt {queue}"
        )
        return _Found(
            "no_worker", f"does not run because no worker has ever taken queue {queue}{more}", start
        )
    seen: list[str] = [each["last_seen"] for each in facts["workers"]]
    last = max(seen + ([facts["gone_at"]] if facts["gone_at"] else []), key=moment)
    which = f", {facts['workers'][0]['worker']}," if len(seen) == 1 else ""
    return _Found(
        "workers_gone",
        f"does not run because no worker of queue {queue} lives: the last{which} was seen {now.at(last)}",
        start,
    )


def _behind(facts: Facts) -> _Found | None:
    ahead, m = facts["message"]["ahead"], facts["message"]
    room = sum(each["concurrency"] or 0 for each in facts["workers"] if each["alive"])
    if not facts["alive"] or (not ahead and facts["busy"] < room):
        return None
    number = (
        "10,000 or more messages are"
        if ahead >= 10_000
        else f"{many(ahead, 'message')} {'is' if ahead == 1 else 'are'}"
    )
    since = Moment(facts["now"]).since(m["due_at"])
    doing = (
        f"the {many(facts['alive'], 'living worker')} of the queue run{'s' if facts['alive'] == 1 else ''}"
    )
    return _Found(
        "waiting_behind",
        f"waits its turn since {since}: {number} due before it, and {doing} {many(facts['busy'], 'job')}",
        "it is claimed when those before it are; more workers, or a higher --concurrency, make that sooner",
    )


def _nothing_in_the_way(facts: Facts) -> _Found:
    return _Found(
        "about_to_run",
        f"is ready since {Moment(facts['now']).since(facts['message']['due_at'])}; nothing stands in its way",
        f"one of the queue's {many(facts['alive'], 'living worker')} claims it with its next look, within "
        "seconds",
    )


# --- what has it, or had it ---


def _running(facts: Facts) -> _Found:
    m, now, policy = facts["message"], Moment(facts["now"]), facts["policy"]
    until = now.until(m["due_at"])
    which = f"attempt {m['attempts']} of {policy['max_attempts']}"
    holder = next((each for each in facts["workers"] if each["held_at"] is not None), None)
    if holder is None:
        unsure = "" if policy["headers"] else " (or waits for its next attempt: this pgmq does not tell)"
        return _Found(
            "running",
            f"is claimed until {until}, {which}{unsure}; no worker has said that it holds it",
            "a worker says so every ten seconds, other readers of the queue never; when nobody reports, "
            f"it comes back {until}",
        )
    if not holder["alive"]:
        return _Found(
            "holder_gone",
            f"was claimed by worker {holder['worker']}, which was last seen {now.at(holder['last_seen'])}: "
            f"{which} ended without a report",
            f"it comes back by its visibility timeout, {until}, and that attempt is charged; redrive message "
            f"release {facts['queue']} {facts['msg_id']} gives it back now, at no charge",
        )
    alone = ", in a process of its own, since two deliveries ended without a report" if m["isolated"] else ""
    return _Found(
        "running",
        f"is at worker {holder['worker']} now, {which}{alone}; it is its own until {until}",
        "the worker extends that while the job runs, and reports its end; when it dies, it comes back then",
    )


def _parked(facts: Facts) -> _Found:
    queue, m = facts["queue"], facts["message"]
    return _Found(
        "parked",
        f"is parked: its {many(m['attempts'], 'attempt')} are spent, and queue {queue} has no dead-letter "
        f"queue to go to{_last_words(facts)}",
        f"make {queue}_dlq, with redrive queue create {queue}: it becomes a dead letter then, with the first "
        f"claim after {Moment(facts['now']).until(m['due_at'])}",
    )


def _ended(facts: Facts) -> _Found:
    m, now = facts["message"], Moment(facts["now"])
    at = "" if m["archived_at"] is None else f" {now.at(m['archived_at'])}"
    took = "" if m.get("duration") is None else f", after {span(m['duration'])} of work"
    nothing = "nothing: it has ended"
    match m["outcome"]:
        case "done":
            return _Found("done", f"is done{at}, with attempt {m['attempts']}{took}", nothing)
        case "ignored":
            return _Found("ignored", f"was ignored{at}: the app has no handler for such an event", nothing)
        case "cancelled":
            return _Found("cancelled", f"was cancelled{at}, before it ran", nothing)
        case "duplicate":
            held = facts["key_held"]
            owner = (
                f"message {held['owner_msg']} has" if held and held["owner_msg"] else "another message had"
            )
            return _Found(
                "duplicate",
                f"is a duplicate, archived{at} without a start: {owner} completed its key {m['key']!r}",
                nothing,
            )
        case "dead":
            return _dead(facts, at)
        case _:
            return _Found("archived", f"was archived{at}, past redrive: pgmq.archive, or a restore", nothing)


def _dead(facts: Facts, at: str) -> _Found:
    queue, letter, m = facts["queue"], facts["letter"], facts["message"]
    why = f"{_reason(letter)} after {many(m['attempts'], 'attempt')}{_last_words(facts)}"
    if facts["redriven"]["to"]:
        newest = facts["redriven"]["to"][-1]["msg_id"]
        return _Found(
            "redriven",
            f"died{at}, {why}; it was sent again as message {newest}",
            f"see: redrive why {queue} {newest}",
        )
    if letter is None:
        return _Found(
            "dead", f"died{at}, {why}; its dead letter is not kept any more", "nothing: it has ended"
        )
    number, now = letter["dead_id"], Moment(facts["now"])
    if letter["state"] == "waiting":
        return _Found(
            "dead",
            f"is dead letter {number}{at}: {why}",
            f"nothing, until somebody decides: redrive dlq redrive {queue} {number} sends it again, redrive "
            f"dlq discard {queue} {number} gives it up",
        )
    if letter["state"] == "discarded":
        return _Found(
            "discarded",
            f"died{at}, {why}; its dead letter was given up {now.at(letter['at'])}",
            "nothing: it has ended",
        )
    return _Found(
        "redriven",
        f"died{at}, {why}; its dead letter was {letter['state']} {now.at(letter['at'])}",
        "nothing: it has ended",
    )


def _unknown(facts: Facts) -> _Found:
    queue, last, number = facts["queue"], facts["last_id"], facts["msg_id"]
    if number is None:
        return _Found(
            "unknown", f"is not in queue {queue}_dlq", f"redrive dlq list {queue} shows those there are"
        )
    if last is None or number > last:
        given = "it has given none yet" if last is None else f"the last it gave is {last}"
        return _Found(
            "never_sent", f"was never sent: queue {queue} has not given this id; {given}", "nothing"
        )
    kept = "" if facts["policy"]["archive"] else f", and queue {queue} keeps no archive"
    return _Found(
        "not_kept",
        f"is not kept any more: it had this id and is gone{kept}; it ended and was purged, or its sender's "
        "transaction was rolled back",
        "nothing",
    )


def _reason(letter: Facts | None) -> str:
    return {"crashed": "crashed", "rejected": "rejected", "malformed": "malformed"}.get(
        "" if letter is None else letter["reason"] or "", "failed"
    )


def _last_words(facts: Facts) -> str:
    failures = facts["failures"]
    if not failures:
        return ""
    last = failures[-1]
    return ": " + in_a_line(": ".join(filter(None, (last.get("error_type"), last.get("error")))))


def _named(facts: Facts) -> str:
    number = facts["msg_id"]
    if number is None:
        return "this dead letter"
    return f"message {number} of queue {facts['queue']}"
