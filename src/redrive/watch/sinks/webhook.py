"""Webhook: alerts as JSON, posted to a URL of yours and signed as Standard Webhooks describe.

    {"type": "redrive.alerts",
     "alerts": [{"id", "rule", "subject", "event", "severity", "value", "threshold", "summary", "command",
                 "since", "resolved_at", "database", "dedup_key"}], "text": "…"}

Guarantees  each alert is a message of its own, under a webhook-id that stays the same however often it is
            sent, by whom, and whatever else is due: what was sent twice can be told from what is new;
            no redirect is followed; a try ends within its timeout, whatever the other side does;
            of an answer only its status and Retry-After count: no text of it is shown or stored.
Not given   that a flood of `100 Continue` costs no CPU until the timeout.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import httpx

from redrive.errors import ConfigError
from redrive.inbox.signing import sign
from redrive.settings import SinkSetting
from redrive.watch.sinks import text
from redrive.watch.sinks.sink import Alert, Undelivered

_SCHEME = "standard-webhooks"
_LONGEST_WAIT = 3600.0
_GONE = 410
_context: ssl.SSLContext | None = None


class Webhook:
    """Make it with `Webhook.of`: that refuses what could never be delivered."""

    kind = "webhook"
    groups = False

    def __init__(self, name: str, url: str, secret: str, *, timeout: float) -> None:
        self.name = name
        self._url = url
        self._secret = secret
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"Webhook({self.name!r})"

    @classmethod
    def of(cls, setting: SinkSetting, *, timeout: float) -> Webhook:
        """Raises `ConfigError` for an absent or impossible secret, and for a URL without a host."""
        if setting.secret is None:
            raise ConfigError(
                f"{setting.variable} is a webhook, and those are signed; set {setting.secret_variable} to a "
                "secret such as whsec_ and the base64 of 32 random bytes, and give it to the receiver"
            )
        try:
            sign(_SCHEME, secret=setting.secret, body=b"{}")
        except ConfigError as error:
            raise ConfigError(f"{setting.secret_variable}: {error}") from None
        try:
            host = httpx.URL(setting.url).host
        except (httpx.InvalidURL, ValueError):
            host = ""
        if not host:
            raise ConfigError(f"{setting.variable} is no URL; it must look like https://host/path")
        return cls(setting.name, setting.url, setting.secret, timeout=timeout)

    async def send(self, alerts: Sequence[Alert]) -> None:
        """Raises `Undelivered`."""
        said = text.cut(f"{text.title(alerts)}\n{text.body(alerts)}", 4000)
        told = [each.as_dict() for each in alerts]
        body = json.dumps({"type": "redrive.alerts", "alerts": told, "text": said}).encode()
        # By the database's clock: a receiver refuses what was signed by one that is minutes off.
        headers = sign(_SCHEME, secret=self._secret, body=body, now=alerts[0].at, event_id=alerts[0].key)
        headers["User-Agent"] = "redrive"
        try:
            async with (
                asyncio.timeout(self._timeout),
                await http_client(self._url, self._timeout) as client,
                # Only its head counts: an answer may be endless.
                client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                check(answer)
        except Exception as error:
            raise undelivered(error, self._timeout) from None


async def http_client(url: str, timeout: float) -> httpx.AsyncClient:
    """A client for calls to `url`; a context manager."""
    global _context
    if not url.lower().startswith("https:"):
        return httpx.AsyncClient(timeout=timeout, verify=False)
    if _context is None:
        # Reading the machine's certificates takes a tenth of a second, and the loop has jobs to run.
        _context = await asyncio.to_thread(httpx.create_ssl_context)
    return httpx.AsyncClient(timeout=timeout, verify=_context)


def check(answer: httpx.Response) -> None:
    """Raises `Undelivered` for an answer that is no 2xx."""
    if answer.is_success:
        return
    raise Undelivered(
        f"answered {_named(answer.status_code)}"
        + (", which means it wants no more" if answer.status_code == _GONE else ""),
        retry_after=retry_after(answer.headers),
        gone=answer.status_code == _GONE,
    )


def retry_after(headers: httpx.Headers) -> float | None:
    """The seconds that Retry-After asks for, an hour at most; a date counts by the answer's own clock."""
    given = headers.get("retry-after", "").strip()
    if not given:
        return None
    try:
        seconds = float(given)
    except ValueError:
        until, now = _date(given), _date(headers.get("date", ""))
        if until is None or now is None:
            return None
        seconds = (until - now).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_WAIT) if seconds == seconds else None


def undelivered(error: Exception, timeout: float) -> Undelivered:
    """The reason in words that hold nothing of the URL: httpx's own may."""
    if isinstance(error, Undelivered):
        return error
    if isinstance(error, (TimeoutError, httpx.TimeoutException)):
        return Undelivered(f"no answer within {timeout:g} s")
    if isinstance(error, httpx.ConnectError):
        return Undelivered(_unconnected(error))
    if isinstance(error, httpx.TransportError):
        return Undelivered("the connection broke before an answer came")
    return Undelivered(f"could not be sent ({type(error).__name__})")


def _unconnected(error: BaseException) -> str:
    """What stands behind a failed connection: the resolver's and the system's words name no URL."""
    said = str(error).lower()
    if any(
        word in said for word in ("name or service", "nodename", "name resolution", "no address", "getaddr")
    ):
        return "its host name does not resolve"
    if "certificate" in said or "ssl" in said or "tls" in said:
        return "its certificate was not accepted"
    if "refused" in said or "all connection attempts failed" in said:
        return "nobody listens there (connection refused)"
    return "it cannot be connected to"


def _named(status: int) -> str:
    """The status with our own phrase: the other side's may hold anything, also what it was sent."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _date(value: str) -> datetime | None:
    try:
        at = parsedate_to_datetime(value)
    except (ValueError, TypeError):
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
