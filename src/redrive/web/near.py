"""Near: whether a request comes from this machine, and from nobody further away through it.

Not given   that a proxy on this machine lets nobody in: one that sends a Host of its own and adds no header
            looks like a user of this machine.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

from starlette.requests import Request

# What proxies, tunnels and CDNs add: X-Forwarded-For, CF-Connecting-IP, True-Client-IP, X-Real-IP, …
_FORWARDED = re.compile(
    r"x-forwarded.*|forwarded|via|(.*-)?(connecting|client|real)-?ip|x-original-.*|cdn-loop"
)
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain")


def is_near(request: Request) -> bool:
    """Whether both ends of the connection are on this machine, and nobody stands between."""
    here = request.scope.get("server")
    ends = (request.client.host if request.client else None, here[0] if here else None)
    hosts = request.headers.getlist("host")
    if not all(map(is_loopback, ends)) or len(hosts) != 1 or not _is_here(hosts[0]):
        return False
    return not any(_FORWARDED.fullmatch(name.lower()) for name in request.headers)


def _is_here(host: str) -> bool:
    """Whether a Host header, with or without a port, names this machine as itself."""
    name = re.sub(r":[0-9]*$", "", host.strip()).lower()
    return name.rstrip(".") in _LOOPBACK_NAMES or is_loopback(name.removeprefix("[").removesuffix("]"))


def is_loopback(host: str | None) -> bool:
    """Whether this is the address of a loopback interface; a name is none."""
    try:
        return host is not None and ip_address(host).is_loopback
    except ValueError:
        return False
