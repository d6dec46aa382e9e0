"""Importing: dead letters of somebody else's worker, taken in batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from redrive.cli.output import count, say
from redrive.cli.progress import progress
from redrive.cli.session import Session
from redrive.errors import RedriveError
from redrive.policy import check_count
from redrive.store import dead_letters
from redrive.store.dead_letters import TakenIn

_BATCH = 200
_NAMED = 10
_WHY_LEFT = {
    "no envelope": "no dead letter: neither {original_msg_id, payload, ...} nor {payload, attempts}",
    "in flight": "somebody has read it, and may be sending it again",
    "locked": "somebody else has it in hand at the moment; try again",
}


@dataclass(slots=True)
class Outcome:
    """What became of the messages of `source`."""

    source: str
    queue: str
    imported: int = 0
    left: list[TakenIn] = field(default_factory=list[TakenIn])

    def add(self, answers: list[TakenIn]) -> None:
        taken = [each for each in answers if each.status == "imported"]
        self.imported += len(taken)
        self.left += [each for each in answers if each.status != "imported"]

    def summary(self, what: str) -> str:
        """One line for those that became, or would become, dead letters, and one a reason of others."""
        lines = [f"{count(self.imported, 'message')} of {self.source} {what} of queue {self.queue}"]
        for status, number in sorted(Counter(each.status for each in self.left).items()):
            ids = [str(each.msg_id) for each in self.left if each.status == status]
            more = f" and {number - _NAMED:,} more" if number > _NAMED else ""
            lines.append(
                f"left where it is: {', '.join(ids[:_NAMED])}{more} ({_WHY_LEFT.get(status, status)})"
            )
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        return {
            "from": self.source,
            "queue": self.queue,
            "imported": self.imported,
            "left": [{"msg_id": each.msg_id, "status": each.status} for each in self.left],
        }


class Importing:
    """Takes dead letters of `source` in as those of `queue`, `limit` at most, the oldest first.

    Each batch is moved as a whole or not at all: Ctrl-C stops between two. Raises `InvalidArgument`.
    """

    def __init__(self, store: Session, source: str, queue: str, limit: int | None = None) -> None:
        self.outcome = Outcome(source, queue)
        self._limit = None if limit is None else check_count(limit, "--limit")
        self._store = store

    def look(self) -> Outcome:
        """What there is to take in; nothing is changed."""
        found = Outcome(self.outcome.source, self.outcome.queue)
        for answers in self._batches(found, dry_run=True):
            found.add(answers)
        return found

    def run(self, expected: int) -> None:
        """Take them in; see `outcome`, also after an exception."""
        try:
            with progress("taking in", total=expected) as advance:
                for answers in self._batches(self.outcome, dry_run=False):
                    before = self.outcome.imported
                    self.outcome.add(answers)
                    advance(self.outcome.imported - before)
        except (KeyboardInterrupt, RedriveError):
            say(self.outcome.summary("became dead letters"))
            raise

    def _batches(self, so_far: Outcome, *, dry_run: bool) -> Iterator[list[TakenIn]]:
        after = 0
        while (size := self._size(so_far)) > 0:
            answers = self._store.run(
                dead_letters.import_from(
                    so_far.source, so_far.queue, after=after, limit=size, dry_run=dry_run
                )
            )
            if not answers:
                return
            after = answers[-1].msg_id
            yield answers

    def _size(self, so_far: Outcome) -> int:
        return _BATCH if self._limit is None else min(_BATCH, self._limit - so_far.imported)
