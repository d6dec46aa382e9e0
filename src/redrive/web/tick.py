"""``POST /tick/{queue}``: drains one queue for a while, and answers what came of it.

    ?budget=8 or {"budget": 8}   seconds, 1 to 300, after which the answer comes at the latest; 8

Guarantees  the answer comes within the budget: work that takes longer goes on in this process, and the next
            tick answers that this one is at it;
            whoever goes away before the answer stops nothing but the claiming;
            `drain` ends all of them as SIGTERM ends a worker, at no charge.
Not given   work after the answer, on a host that stops a process between its requests: there, a job must end
            within the budget.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from typing import Any, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from redrive.app import Redrive
from redrive.errors import RedriveError, Unavailable
from redrive.job import JobDefinition
from redrive.web.access import Access
from redrive.worker.drain import ENDING, Drain, Drained
from redrive.worker.options import DEFAULT_CONCURRENCY, WorkerOptions
from redrive.worker.service import until

log = logging.getLogger("redrive.tick")

# Shorter than the ten seconds between two ticks of a generated cron job.
BUDGET = 8.0
_SHORTEST, _LONGEST = 1.0, 300.0
_MOST_BODY = 10_000
# What `redrive serve` waits for at its end, less the two seconds that cancelled handlers get.
_DRAIN = 3.0
_POLL = 0.25
# The drain tells by the end of its budget, where the event loop is not behind.
_SLACK = 0.3
# Beyond the drain timeout: cancelling, settling, goodbye.
_LEAVING = 6.0
_RETRY = {"retry-after": "5"}


class _Refused(Exception):
    """A request that is answered with a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class Ticks:
    """Drains queues of `app`. `spec`: its name, module:attr, for the processes of isolated deliveries."""

    def __init__(self, app: Redrive, access: Access, *, spec: str | None = None) -> None:
        self.access = access
        self._app = app
        self._spec = spec
        self.drains: dict[asyncio.Task[None], Drain] = {}
        self._checked: set[str] = set()
        self._stuck = 0
        self._ending = False

    async def __call__(self, request: Request) -> Response:
        if refusal := self.access.refusal(request):
            status, sentence = refusal
            headers = {"www-authenticate": "Bearer"} if status == 401 else None
            return PlainTextResponse(f"{sentence}\n", status, headers)
        try:
            definition = self._definition(request.path_params["queue"])
            budget = _budget(request.query_params, await _body(request))
            drained = await self._drain(definition, budget, request)
        except _Refused as refused:
            headers = _RETRY if refused.status == 503 else None
            return PlainTextResponse(f"{refused}\n", refused.status, headers)
        except ClientDisconnect:
            return Response(status_code=400)
        return JSONResponse(_told(drained), headers={"cache-control": "no-store"})

    @property
    def stuck(self) -> int:
        """Handlers that did not stop when told to: they run on, and keep their places."""
        return self._stuck + sum(drain.given_up for drain in self.drains.values())

    def drain(self) -> None:
        """Begin to end: claim no more, give back; what runs has three seconds, then it is cancelled."""
        self._ending = True
        for drain in self.drains.values():
            drain.hurry()

    async def stop(self) -> None:
        """`drain`, and wait for the end of what ran."""
        self.drain()
        if self.drains:
            await asyncio.wait(list(self.drains), timeout=_DRAIN + _LEAVING)

    def _definition(self, queue: str) -> JobDefinition:
        jobs = self._app.jobs
        if queue not in jobs:
            raise _Refused(
                404, f"this app has no job for queue {queue!r}; it works: {', '.join(sorted(jobs))}"
            )
        definition = jobs[queue]
        if definition.check is not None and queue not in self._checked:
            # What a worker asks before it starts, such as an API's credentials.
            try:
                definition.check()
            except RedriveError as error:
                raise _Refused(503, _sentence(error, queue)) from error
            self._checked.add(queue)
        return definition

    async def _drain(self, definition: JobDefinition, budget: float, request: Request) -> Drained:
        if self._ending:
            raise _Refused(503, ENDING)
        if (concurrency := DEFAULT_CONCURRENCY - self.stuck) < 1:
            raise _Refused(503, f"{self.stuck} handlers did not stop when told to; start this process again")
        deadline = time.monotonic() + budget
        options = WorkerOptions(
            app_spec=self._spec or "",
            url=self._app.database.url,
            concurrency=concurrency,
            drain_timeout=_DRAIN,
            poll=_POLL,
        )
        drain = Drain(definition, options, self._app.database)
        task = asyncio.get_running_loop().create_task(
            drain.run(budget), name=f"redrive-tick-{definition.queue}"
        )
        self.drains[task] = drain
        task.add_done_callback(lambda ended: self._ended(ended, definition.queue))
        leaving = asyncio.ensure_future(_gone(request, drain))
        try:
            told = await until(drain.told, max(0.0, deadline + _SLACK - time.monotonic()))
        finally:
            leaving.cancel()
        error = drain.error if told else Unavailable("the database has not answered in time")
        if error is not None:
            raise _Refused(503, _sentence(error, definition.queue))
        return drain.result

    def _ended(self, task: asyncio.Task[None], queue: str) -> None:
        drain = self.drains.pop(task)
        result = drain.result
        self._stuck += drain.given_up
        if result.processed or result.failed or result.skipped:
            log.info(
                "tick of %s: %d processed, %d failed, %d skipped",
                queue,
                result.processed,
                result.failed,
                result.skipped,
                extra={"event": "ticked", "queue": queue},
            )
        if drain.given_up:
            log.error(
                "tick of %s: %d handlers did not stop when told to and run on; start this process again",
                queue,
                drain.given_up,
                extra={"event": "tick_stuck", "queue": queue},
            )


def _told(drained: Drained) -> dict[str, Any]:
    told: dict[str, Any] = {
        "processed": drained.processed,
        "failed": drained.failed,
        "skipped": drained.skipped,
    }
    if drained.running:
        told["running"] = drained.running
    if drained.reason is not None:
        told["reason"] = drained.reason
    return told


def _sentence(error: Exception, queue: str) -> str:
    if isinstance(error, RedriveError):
        log.error("tick of %s: %s; 503", queue, error, extra={"event": "tick_failed", "queue": queue})
        return str(error)
    log.error("tick of %s failed; 503", queue, exc_info=error, extra={"event": "tick_failed", "queue": queue})
    return f"the tick failed: {type(error).__name__}; the server's log says more"


async def _gone(request: Request, drain: Drain) -> None:
    """Whoever asked does not wait any more."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    drain.end("whoever asked has gone")


async def _body(request: Request) -> Mapping[str, Any]:
    """What was posted: pg_net sends {"queue": …}, which the path says already."""
    raw = b""
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > _MOST_BODY:
            raise _Refused(413, f"a tick's body has at most {_MOST_BODY:,} bytes")
    if not raw.strip():
        return {}
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _Refused(400, 'the body is no JSON object; send nothing, or {"budget": 8}')
    return cast("dict[str, Any]", found)


def _budget(query: Mapping[str, str], body: Mapping[str, Any]) -> float:
    given: Any = query.get("budget", body.get("budget", BUDGET))
    try:
        if isinstance(given, bool) or not isinstance(given, (str, int, float)):
            raise ValueError
        seconds = float(given)
        if not _SHORTEST <= seconds <= _LONGEST:
            raise ValueError
    except (ValueError, OverflowError):
        shown = json.dumps(given)[:40]
        raise _Refused(
            400, f"budget is {shown}; it must be seconds from {_SHORTEST:g} to {_LONGEST:g}"
        ) from None
    return seconds
