"""``GET /metrics``: for whoever knows the token, or, without one, for this machine alone.

Guarantees  without REDRIVE_METRICS_TOKEN a connection from elsewhere, a request that says it was forwarded,
            and one for a host that is not this machine's loopback are answered 404.
Not given   that, without a token, a proxy on this machine lets nobody in: one that sends a Host of its own
            and adds no header looks like a user of this machine. Behind a proxy, set a token.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from redrive.watch.prometheus import MetricsPage, metrics_token
from redrive.web.near import is_near


class Metrics:
    """`url` tells the database, when first asked. Raises `ConfigError` for an impossible token."""

    def __init__(self, url: Callable[[], str]) -> None:
        metrics_token()
        self._url = url
        self._page: MetricsPage | None = None

    async def __call__(self, request: Request) -> Response:
        token = metrics_token()
        if token is None and not is_near(request):
            return PlainTextResponse("Not Found", 404)
        if self._page is None:
            self._page = MetricsPage(self._url())
        if not self._page.allows(request.headers.get("authorization")):
            return PlainTextResponse("this page takes a token\n", 401, {"www-authenticate": "Bearer"})
        headers = {"cache-control": "no-store", "content-type": self._page.content_type}
        return Response(await self._page.text(), headers=headers)

    async def close(self) -> None:
        if self._page is not None:
            await self._page.close()
