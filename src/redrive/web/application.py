"""The application: ``POST /webhooks/{source}``, ``POST /tick/{queue}``, and /livez, /readyz and /metrics.

Mounted inside another application it works without being told of that one's start and end: connections open
with the first request, and what was refused is told to the database while requests come. Where it is told of
the end, as under `redrive serve`, it first lets what is being recorded end, and what ticks run, then closes
the app.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.datastructures import URL
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from redrive.app import Redrive
from redrive.errors import ConfigError
from redrive.inbox.receiver import Answer, Receiver
from redrive.settings import choose_database, load_settings
from redrive.web.access import Access
from redrive.web.metrics import Metrics
from redrive.web.tick import Ticks
from redrive.worker.service import Service


def asgi(
    app: Redrive,
    *,
    receiver: Receiver | None = None,
    beside: Service | None = None,
    ticks: Ticks | None = None,
) -> Starlette:
    """The ASGI application of `app`; ``web.mount("/redrive", redrive.web.asgi(app))`` in FastAPI, Starlette.

    `receiver` None: one for the app's inboxes. Looks up their secrets, and which database it is, now;
    connects with the first request. `beside` starts and stops with the application, where that is told of
    its start and end; None: nothing runs by itself. `ticks` None: what the environment lets tick may. Raises
    `ConfigError` when a secret is absent or cannot be right, when no database is named, and for an app that
    declares nothing.
    """
    if not app.jobs:
        raise ConfigError(
            "the app declares neither an inbox nor a job; declare one with "
            "app.inbox(source, provider=..., queue=...) or @app.job(queue)"
        )
    given = receiver or _receiver(app)
    ticking = ticks or Ticks(app, Access.from_environment(), spec=load_settings().app)
    metrics = Metrics(lambda: app.database.url)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        if beside is not None:
            await beside.start()
        yield
        if beside is not None:
            await beside.stop()
        await ticking.stop()
        await given.close()
        await metrics.close()
        await app.close()

    async def ready(_: Request) -> PlainTextResponse:
        problem = await given.problem()
        return PlainTextResponse(f"{problem or 'ok'}\n", 503 if problem else 200)

    made = Starlette(
        routes=[
            Route("/webhooks/{source}", _Webhooks(given), methods=["POST"]),
            Route("/tick/{queue}", ticking.__call__, methods=["POST"]),
            Route("/livez", _live),
            Route("/readyz", ready),
            Route("/metrics", metrics.__call__),
        ],
        lifespan=lifespan,
    )
    # A sender follows no redirect, or follows it with a GET.
    made.router.redirect_slashes = False
    return made


def _receiver(app: Redrive) -> Receiver:
    made = Receiver(app.inboxes, lambda: app.database)
    # Else the first webhook would find out that none is named. Looking at an embedded one would start it.
    if app.database_url is not None or choose_database(load_settings()).url is not None:
        made.name_database()
    return made


async def _live(_: Request) -> PlainTextResponse:
    return PlainTextResponse("ok\n")


class _Webhooks:
    """An ASGI application rather than an endpoint: a request and a response object less for each webhook."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._receiver.receive(
            scope["path_params"]["source"], scope["headers"], receive, partial(_url, scope)
        )
        if answer is not None:
            await _send(answer, send)


def _url(scope: Scope) -> str:
    return str(URL(scope=scope))


async def _send(answer: Answer, send: Send) -> None:
    headers = [
        (b"content-type", answer.content_type),
        (b"content-length", str(len(answer.body)).encode()),
        *answer.headers,
    ]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})
