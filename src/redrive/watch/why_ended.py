"""What a message ended in: done, dead, parked, discarded, or gone; told in sentences."""

from __future__ import annotations

from redrive.watch.why_words import Facts, Found, Moment, last_words, many, span

_NOTHING = "nothing: it has ended"


def parked(facts: Facts) -> Found:
    queue, m = facts["queue"], facts["message"]
    return Found(
        "parked",
        f"is parked: its {many(m['attempts'], 'attempt')} are spent, and queue {queue} has no dead-letter "
        f"queue to go to{last_words(facts)}",
        f"make {queue}_dlq, with redrive queue create {queue}: it becomes a dead letter then, with the first "
        f"claim after {Moment(facts['now']).then(m['due_at'])}",
    )


def ended(facts: Facts) -> Found:
    m, now = facts["message"], Moment(facts["now"])
    at = "" if m["archived_at"] is None else f" {now.at(m['archived_at'])}"
    took = "" if m.get("duration") is None else f", after {span(m['duration'])} of work"
    match m["outcome"]:
        case "done":
            return Found("done", f"is done{at}, with attempt {m['attempts']}{took}", _NOTHING)
        case "ignored":
            return Found("ignored", f"was ignored{at}: the app has no handler for such an event", _NOTHING)
        case "cancelled":
            return Found("cancelled", f"was cancelled{at}{_before_that(facts)}", _NOTHING)
        case "duplicate":
            return Found(
                "duplicate",
                f"is a duplicate, archived{at} without a start: {_completed(facts)} its key {m['key']!r}",
                _NOTHING,
            )
        case "dead":
            return _dead(facts, at)
        case _:
            return Found("archived", f"was archived{at}, past redrive: pgmq.archive, or a restore", _NOTHING)


def _before_that(facts: Facts) -> str:
    m = facts["message"]
    if not m["read_ct"]:
        return ", before it ran"
    # One that was claimed and given back has no attempts.
    return f", after {many(m['attempts'], 'attempt')}{last_words(facts)}" if m["attempts"] else ""


def _completed(facts: Facts) -> str:
    """Who has completed its key. The key may have been another's since: it may have run out, or be freed."""
    held, ended_at = facts["key_held"], facts["message"]["archived_at"]
    if held is None or held["state"] != "done" or Moment(ended_at).seconds_to(held["done_at"]) > 0:
        return "another message had completed"
    if held["owner_msg"]:
        return f"message {held['owner_msg']} had completed"
    return "somebody had completed, by hand,"


def _dead(facts: Facts, at: str) -> Found:
    queue, letter, m = facts["queue"], facts["letter"], facts["message"]
    why = _reason(letter, m["attempts"]) + last_words(facts)
    if facts["redriven"]["to"]:
        newest = facts["redriven"]["to"][-1]["msg_id"]
        return Found(
            "redriven",
            f"died{at}, {why}; it was sent again as message {newest}",
            f"see: redrive why {queue} {newest}",
        )
    if letter is None:
        return Found("dead", f"died{at}, {why}; its dead letter is not kept any more", _NOTHING)
    number, now = letter["dead_id"], Moment(facts["now"])
    if letter["state"] == "waiting":
        return Found(
            "dead",
            f"is dead letter {number}{at}: {why}",
            f"nothing, until somebody decides: redrive dlq redrive {queue} {number} sends it again, redrive "
            f"dlq discard {queue} {number} gives it up",
        )
    if letter["state"] == "discarded":
        return Found(
            "discarded",
            f"died{at}, {why}; its dead letter was given up {now.at(letter['at'])}",
            _NOTHING,
        )
    return Found(
        "redriven",
        f"died{at}, {why}; its dead letter was {letter['state']} {now.at(letter['at'])}",
        _NOTHING,
    )


def unknown(facts: Facts) -> Found:
    queue, last, number = facts["queue"], facts["last_id"], facts["msg_id"]
    if number is None:
        return Found(
            "unknown", f"is not in queue {queue}_dlq", f"redrive dlq list {queue} shows those there are"
        )
    if last is None or number > last:
        given = "it has given none yet" if last is None else f"the last it gave is {last}"
        return Found("never_sent", f"was never sent: queue {queue} has not given this id; {given}", "nothing")
    kept = "" if facts["policy"]["archive"] else f", and queue {queue} keeps no archive"
    return Found(
        "not_kept",
        f"is not kept any more: it had this id and is gone{kept}; it ended and was purged, or its sender's "
        "transaction was rolled back",
        "nothing",
    )


def _reason(letter: Facts | None, attempts: int | None) -> str:
    reason = None if letter is None else letter["reason"]
    what = reason if reason in ("crashed", "rejected", "malformed") else "failed"
    return what if attempts is None else f"{what} after {many(attempts, 'attempt')}"
