"""``GET /metrics``: for whoever knows the token, or, without one, for this machine alone.

Guarantees  without REDRIVE_METRICS_TOKEN nobody beyond this machine reads it, also not through a proxy on it:
            a connection from elsewhere, or a request that somebody forwarded, is answered 404.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from redrive.watch.prometheus import MetricsPage, metrics_token

_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")


class Metrics:
    """`url` tells the database, when first asked. Raises `ConfigError` for an impossible token."""

    def __init__(self, url: Callable[[], str]) -> None:
        metrics_token()
        self._url = url
        self._page: MetricsPage | None = None

    async def __call__(self, request: Request) -> Response:
        token = metrics_token()
        if token is None and not _is_near(request):
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


def _is_near(request: Request) -> bool:
    """Whether both ends of the connection are on this machine, and nobody stands between."""
    here = request.scope.get("server")
    ends = (request.client.host if request.client else None, here[0] if here else None)
    return all(map(_is_loopback, ends)) and not any(name in request.headers for name in _FORWARDED)


def _is_loopback(host: str | None) -> bool:
    try:
        return host is not None and ip_address(host).is_loopback
    except ValueError:
        return False
