"""Pruning: the batches of ``redrive prune``, each kind and queue by itself.

Guarantees  a batch is deleted only when its rows are on disk: after a crash some lines may be there twice,
            and none is missing;
            between two batches nothing is open: whoever ends the command loses nothing;
            what cannot be deleted keeps nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg

from redrive.cli.export import Export
from redrive.cli.output import count
from redrive.cli.progress import progress
from redrive.cli.session import Session
from redrive.errors import RedriveError
from redrive.store import retention
from redrive.store.database import connect
from redrive.store.faults import explain_psycopg
from redrive.store.retention import Over

# A batch that took longer than this is followed by a pause as long: others want the database too.
_SLOW = 0.2
_MOST_IDLE = 100
# An export's first batch; how many bytes of JSON the next ones have, and what is fetched at once.
_FIRST_ROWS = 100
_BATCH_BYTES = 16_000_000
_PIECE_BYTES = 2_000_000


class Part(NamedTuple):
    """One kind of thing, of a queue or of all, with what there was to delete when it was counted.

    `problem`: why it could not be counted, or not all of it deleted.
    """

    what: str
    queue: str | None
    older_than: timedelta | None
    over: Over
    deleted: int = 0
    problem: str | None = None

    @property
    def name(self) -> str:
        return f"{self.what} of queue {self.queue}" if self.queue else self.what


def counted(store: Session, what: str, queue: str | None, older_than: timedelta | None) -> Part:
    """What there is to delete of one part."""
    part = Part(what, queue, older_than, Over(0, None, None))
    try:
        return part._replace(over=store.run(retention.over(what, queue, older_than)))
    except (RedriveError, psycopg.Error) as error:
        return part._replace(problem=_problem(part, error))


def delete(store: Session, parts: Sequence[Part], *, batch: int, export: Export | None) -> list[Part]:
    """Delete what is over, in batches; the parts with what became of them."""
    done: list[Part] = []
    with progress("pruning", total=sum(part.over.total for part in parts)) as advance:
        for part in parts:
            size, total, idle = batch if export is None else min(batch, _FIRST_ROWS), 0, 0
            problem = part.problem
            while problem is None and total < part.over.total:
                began = time.monotonic()
                try:
                    if export is None or part.what in ("sent_keys", "workers"):
                        gone = store.run(retention.purge(part.what, part.queue, part.older_than, batch=batch))
                    else:
                        gone, written = _exported(store.url, part, size, export)
                        size = max(1, min(batch, size * 2, _BATCH_BYTES * gone // max(written, 1)))
                except (RedriveError, psycopg.Error) as error:
                    problem = _problem(part, error)
                    break
                total += gone
                advance(gone)
                # Each call looks at the next ten batches of sent_keys, and may find nothing among them.
                idle = 0 if gone else idle + 1
                if idle > (_MOST_IDLE if part.what == "sent_keys" else 0):
                    left = store.run(retention.over(part.what, part.queue, part.older_than)).total
                    if left:
                        problem = (
                            f"{part.name}: {count(left, 'row')} could not be deleted: somebody holds them, "
                            "or a trigger keeps them"
                        )
                    break
                if (took := time.monotonic() - began) > _SLOW:
                    store.pause(took)
            done.append(part._replace(deleted=total, problem=problem))
    return done


def _problem(part: Part, error: Exception) -> str:
    """In one sentence, where it is this part's alone; else the error is raised."""
    if not retention.is_of_one_table(error):
        raise error
    words = (error.diag.message_primary if isinstance(error, psycopg.Error) else None) or str(error)
    return f"{part.name}: {words}"


def _exported(url: str, part: Part, batch: int, export: Export) -> tuple[int, int]:
    """Rows and bytes of one batch: fetched in pieces, on disk, then gone."""
    statement = retention.purge_rows(part.what, part.queue, part.older_than, batch=batch)
    rows = 0
    try:
        with (
            closing(connect(url)) as connection,
            connection.transaction(),
            connection.cursor("pruned") as cursor,
            export.batch() as write,
        ):
            cursor.execute(statement.sql.encode(), statement.params)
            piece, written = 1, 0
            while found := cursor.fetchmany(piece):
                rows += len(found)
                written += write(_lines(found))
                piece = max(1, min(piece * 2, _PIECE_BYTES * rows // written))
    except psycopg.Error as error:
        raise (explain_psycopg(error) or error) from error
    return rows, written


def _lines(rows: Sequence[Sequence[Any]]) -> bytes:
    return "".join(f"{row[0]}\n" for row in rows).encode()
