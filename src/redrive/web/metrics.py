"""``GET /metrics``: for whoever knows the token, or, without one, for this machine alone.

Guarantees  without REDRIVE_METRICS_TOKEN a connection from elsewhere, a request that says it was forwarded,
            and one for a host that is not this machine's loopback are answered 404.
Not given   that, without a token, a proxy on this machine lets nobody in: one that sends a Host of its own
            and adds no header looks like a user of this machine. Behind a proxy, set a token.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import ip_address

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from redrive.watch.prometheus import MetricsPage, metrics_token

# What proxies, tunnels and CDNs add: X-Forwarded-For, CF-Connecting-IP, True-Client-IP, X-Real-IP, …
_FORWARDED = re.compile(
    r"x-forwarded.*|forwarded|via|(.*-)?(connecting|client|real)-?ip|x-original-.*|cdn-loop"
)
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain")


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
    hosts = request.headers.getlist("host")
    if not all(map(_is_loopback, ends)) or len(hosts) != 1 or not _is_here(hosts[0]):
        return False
    return not any(_FORWARDED.fullmatch(name.lower()) for name in request.headers)


def _is_here(host: str) -> bool:
    """Whether a Host header, with or without a port, names this machine as itself."""
    name = re.sub(r":[0-9]*$", "", host.strip()).lower()
    return name.rstrip(".") in _LOOPBACK_NAMES or _is_loopback(name.removeprefix("[").removesuffix("]"))


def _is_loopback(host: str | None) -> bool:
    try:
        return host is not None and ip_address(host).is_loopback
    except ValueError:
        return False
