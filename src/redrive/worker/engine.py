"""The Postgres engine: redrive's SQL contract, spoken over one connection.

Guarantees  a turn is one round trip, one transaction and one commit: settles, releases, claims;
            when it is refused, everything in it was rolled back, and its parts are asked for one by one, so
            that one bad report or one dropped queue does not stop the others;
            conflicts (40001, 40P01) are run again: everything here is fenced.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from redrive.errors import QueueMissing, RedriveError, SetupError, Unavailable
from redrive.store.faults import CONFLICTS
from redrive.store.statement import int_array, text_array
from redrive.worker.link import DEADLINE, Link, Wire
from redrive.worker.protocol import Answer, Delivery, Report, Verdict, Want

log = logging.getLogger("redrive.worker")

T = TypeVar("T")
Cursor = AsyncCursor[TupleRow]
Reports = Mapping[str, Sequence[Report]]
Releases = Mapping[str, Sequence[Delivery]]

# jsonb and times as text and numbers: psycopg's own loaders cost 2 us a row more, and a value that one of
# them cannot load would lose the whole batch until its timeout. Text that is no UTF-8 does not get here: the
# server refuses to send it, and the claim is rolled back.
_CLAIM = """
select msg_id, read_ct, attempt, extract(epoch from enqueued_at)::float8, extract(epoch from due_at)::float8,
       message::text, headers::text, key, isolated
  from redrive.claim(p_queue => %s::text, p_vt => %s::numeric, p_qty => %s::integer, p_worker => %s::text)"""
_NEXT_DUE = "select redrive.next_due(p_queue => %s::text)::float8"
_SETTLE = """
select msg_id, read_ct, verdict
  from redrive.settle(p_queue => %s::text, p_msg_ids => %s::bigint[], p_read_cts => %s::integer[],
                      p_outcomes => %s::text[], p_delays => %s::numeric[], p_error_types => %s::text[],
                      p_errors => %s::text[], p_tracebacks => %s::text[], p_durations => %s::numeric[],
                      p_worker => %s::text)
 where verdict <> 'ok'"""
_RELEASE = """
select redrive.release(p_queue => %s::text, p_msg_ids => %s::bigint[], p_read_cts => %s::integer[],
                       p_due => %s::timestamptz[])"""
_EXTEND = """
select redrive.extend(p_queue => %s::text, p_msg_ids => %s::bigint[], p_read_cts => %s::integer[],
                      p_vt => %s::numeric)"""
_POLICY = "select redrive.queue_policy(p_queue => %s::text)::text"
_DECLARE = """
select field, declared::text, override::text
  from redrive.declare_queue(p_queue => %s::text, p_policy => %s::jsonb)"""
_CREATE = "select redrive.create_queue(p_queue => %s::text, p_policy => %s::jsonb)"
_GOODBYE = "select redrive.worker_stop(p_worker => %s::text, p_visitor => %s::text)"
_BEAT = """
select redrive.worker_beat(p_worker => %s::text, p_queues => %s::text[], p_running => %s::integer[],
                           p_held => %s::jsonb, p_concurrency => %s::integer)"""
_CALL = "select pg_notify(%s, '')"

# A database that is not in UTF-8 lacks most characters an error may be written in.
_NO_SUCH_CHARACTER = frozenset({"22P05", "22021"})
_CONFLICT_PAUSES = (0.01, 0.03, 0.1, 0.3)


class PostgresEngine:
    """`Engine` on Postgres. `worker` names this process in the store; `deadline` is seconds a call."""

    def __init__(self, url: str, worker: str, *, deadline: float = DEADLINE) -> None:
        self._worker = worker
        self._link = Link(url, f"redrive {worker}"[:63], deadline=deadline)

    async def turn(self, reports: Reports, releases: Releases, wants: Sequence[Want]) -> Answer:
        try:
            return await self._call(lambda wire: self._at_once(wire, reports, releases, wants))
        except Unavailable:
            raise
        except (psycopg.Error, RedriveError):
            return await self._piecemeal(reports, releases, wants)

    async def extend(self, queue: str, held: Sequence[tuple[int, int]], vt: float) -> set[tuple[int, int]]:
        read_ct = dict(sorted(held))  # one id twice: only its newest delivery can still be ours
        params = (queue, int_array([m for m, _ in held]), int_array([r for _, r in held]), vt)
        return {(row[0], read_ct[row[0]]) for row in await self._rows(_EXTEND, params)}

    async def policy(self, queue: str) -> Mapping[str, Any]:
        return cast("dict[str, Any]", json.loads((await self._rows(_POLICY, (queue,)))[0][0]))

    async def declare(
        self, queue: str, policy: Mapping[str, Any], *, create: bool = True
    ) -> Sequence[tuple[str, Any, Any]]:
        text = json.dumps(dict(policy))
        try:
            rows = await self._rows(_DECLARE, (queue, text))
        except QueueMissing as missing:
            if not create:
                raise
            try:
                await self._rows(_CREATE, (queue, text))
            except SetupError:
                raise missing from None
            rows = await self._rows(_DECLARE, (queue, text))
        return [(row[0], json.loads(row[1]), json.loads(row[2])) for row in rows]

    async def call(self, channel: str) -> None:
        await self._rows(_CALL, (channel,))

    async def beat(
        self, running: Mapping[str, int], held: Mapping[str, Sequence[int]], concurrency: int
    ) -> None:
        queues, counts = text_array(list(running)), int_array(list(running.values()))
        await self._rows(_BEAT, (self._worker, queues, counts, json.dumps(held), concurrency))

    async def goodbye(self, visitor: str | None = None) -> None:
        await self._rows(_GOODBYE, (self._worker, visitor))

    def abort(self) -> None:
        self._link.shut()

    async def close(self) -> None:
        await self._link.close()

    async def _rows(self, sql: LiteralString, params: Sequence[Any]) -> list[TupleRow]:
        async def work(wire: Wire) -> list[TupleRow]:
            return await (await wire.execute(sql, params)).fetchall()

        return await self._call(work)

    async def _call(self, work: Callable[[Wire], Awaitable[T]]) -> T:
        for pause in (*_CONFLICT_PAUSES, None):
            try:
                return await self._link.call(work)
            except psycopg.Error as error:
                if error.sqlstate not in CONFLICTS:
                    raise
                if pause is None:
                    raise Unavailable(f"the call lost every conflict: {error}") from error
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
        raise AssertionError

    async def _at_once(
        self, wire: Wire, reports: Reports, releases: Releases, wants: Sequence[Want]
    ) -> Answer:
        """One implicit transaction: without a fetch inside, an autocommit pipeline has one sync.

        A claim alone, as an idle worker's that was told of something, is spared the pipeline's ceremony.
        """
        alone = len(wants) == 1 and not (reports or releases or wants[0].due)
        answer = Answer()
        settled: list[tuple[Sequence[Report], Cursor]] = []
        released: list[tuple[Sequence[Delivery], Cursor]] = []
        claimed: list[tuple[Want, Cursor, Cursor | None]] = []
        async with nullcontext() if alone else wire.pipeline():
            for queue, batch in reports.items():
                settled.append((batch, await wire.execute(_SETTLE, self._settle_params(queue, batch))))
            for queue, batch in releases.items():
                released.append((batch, await wire.execute(_RELEASE, _release_params(queue, batch))))
            for want in wants:
                rows = await wire.execute(_CLAIM, (want.queue, want.vt, want.qty, self._worker))
                due = await wire.execute(_NEXT_DUE, (want.queue,)) if want.due else None
                claimed.append((want, rows, due))
        for batch, cursor in settled:
            if rows := await cursor.fetchall():
                answer.verdicts += _verdicts(batch, rows)
        for batch, cursor in released:
            answer.unreleased += _unreleased(batch, await cursor.fetchall())
        for want, cursor, due in claimed:
            answer.claimed[want.queue] = [Delivery(want.queue, *row) for row in await cursor.fetchall()]
            if due is not None:
                answer.due[want.queue] = (await due.fetchall())[0][0]
        return answer

    async def _piecemeal(self, reports: Reports, releases: Releases, wants: Sequence[Want]) -> Answer:
        """One transaction a part, so that whatever cannot be done is known by name and stops nothing else."""
        answer = Answer()
        for queue, batch in reports.items():
            try:
                answer.verdicts += await self._settle(queue, batch)
            except (psycopg.Error, RedriveError) as error:
                if isinstance(error, Unavailable):
                    raise
                await self._one_by_one(queue, batch, answer)
        for queue, batch in releases.items():
            try:
                rows = await self._rows(_RELEASE, _release_params(queue, batch))
                answer.unreleased += _unreleased(batch, rows)
            except (psycopg.Error, RedriveError) as error:
                if isinstance(error, Unavailable):
                    raise
                log.error("release refused: %s", error, extra={"event": "release_refused", "queue": queue})
        for want in wants:
            try:
                one = await self._call(lambda wire, w=want: self._at_once(wire, {}, {}, [w]))
                answer.claimed |= one.claimed
                answer.due |= one.due
            except Unavailable:
                # What the earlier parts brought must not be lost with this one.
                break
            except RedriveError as error:
                answer.refused[want.queue] = error
            except psycopg.Error as error:
                answer.refused[want.queue] = SetupError(f"claim was refused: {error}")
        return answer

    async def _settle(self, queue: str, batch: Sequence[Report]) -> list[tuple[Report, Verdict]]:
        return _verdicts(batch, await self._rows(_SETTLE, self._settle_params(queue, batch)))

    async def _one_by_one(self, queue: str, batch: Sequence[Report], answer: Answer) -> None:
        for report in batch:
            try:
                answer.verdicts += await self._settle_alone(queue, report)
            except (psycopg.Error, RedriveError) as error:
                # A schema or a right that is missing may come back; a queue or a bad value does not.
                if isinstance(error, (Unavailable, SetupError)) and not isinstance(error, QueueMissing):
                    raise
                answer.dropped.append((report, error))

    async def _settle_alone(self, queue: str, report: Report) -> list[tuple[Report, Verdict]]:
        try:
            return await self._settle(queue, [report])
        except RedriveError as error:
            if not _no_such_character(error):
                raise
        verdicts = await self._settle(queue, [_in_ascii(report)])
        return [(report, verdict) for _, verdict in verdicts]

    def _settle_params(self, queue: str, batch: Sequence[Report]) -> tuple[Any, ...]:
        plain = all(r.outcome == "done" for r in batch)
        return (
            queue,
            int_array([r.msg_id for r in batch]),
            int_array([r.read_ct for r in batch]),
            "{" + ",".join([r.outcome for r in batch]) + "}",
            None if plain else _numeric_array([r.delay for r in batch]),
            None if plain else text_array([r.error_type for r in batch]),
            None if plain else text_array([r.error for r in batch]),
            None if plain else text_array([r.traceback for r in batch]),
            _numeric_array([r.duration for r in batch]),
            self._worker,
        )


def _no_such_character(error: RedriveError) -> bool:
    return isinstance(error.__cause__, psycopg.Error) and error.__cause__.sqlstate in _NO_SUCH_CHARACTER


def _in_ascii(report: Report) -> Report:
    def plain(text: str | None) -> str | None:
        return None if text is None else text.encode("ascii", "backslashreplace").decode()

    return replace(
        report,
        error_type=plain(report.error_type),
        error=plain(report.error),
        traceback=plain(report.traceback),
    )


def _release_params(queue: str, batch: Sequence[Delivery]) -> tuple[Any, ...]:
    dues = text_array([d.due_at.isoformat() for d in batch])
    return queue, int_array([d.msg_id for d in batch]), int_array([d.read_ct for d in batch]), dues


def _unreleased(batch: Sequence[Delivery], rows: Sequence[TupleRow]) -> list[Delivery]:
    back = {row[0] for row in rows}
    return [delivery for delivery in batch if delivery.msg_id not in back]


def _numeric_array(values: Sequence[float | None]) -> str:
    return "{" + ",".join(["NULL" if v is None else f"{v:.6f}" for v in values]) + "}"


def _verdicts(batch: Sequence[Report], rows: Sequence[TupleRow]) -> list[tuple[Report, Verdict]]:
    if not rows:
        return []
    by_name = {(r.msg_id, r.read_ct): r for r in batch}
    return [(by_name[row[0], row[1]], row[2]) for row in rows]
