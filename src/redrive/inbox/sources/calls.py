"""Calls: HTTP requests to a provider's API, whose answers are outcomes.

    2xx                          the response
    404                          None
    429; 503 with Retry-After    Snooze: as long as the API asks, a second to an hour
    408, other 5xx, the network  ApiError: another try may succeed
    an encoded or huge body      ApiError, and it is not unpacked: none is asked for
    401, 403                     Reject: names the setting to check
    other 3xx and 4xx            Reject

Guarantees  a call ends within `timeout` seconds, however slowly the answer drips in;
            credentials stand in a header only: in no URL, error or log.
"""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from redrive.errors import ConfigError
from redrive.inbox.source import ApiError
from redrive.job import Reject, Snooze
from redrive.policy import check_seconds

MOST_SNOOZE = 3600.0
_LEAST_SNOOZE = 1.0
# For a 429 that does not say how long.
_DEFAULT_SNOOZE = 30.0
# An entry of a list has a few kilobytes, a page at most a hundred entries.
_MOST_BYTES = 32 * 1024 * 1024
# What is looked at of an answer's headers; the others may hold any bytes.
_KEPT = (
    b"retry-after",
    b"date",
    b"link",
    b"x-ratelimit-limit",
    b"x-ratelimit-remaining",
    b"x-ratelimit-reset",
)

Credential = str | Callable[[], str] | None


class Calls:
    """`headers` is asked for each request, so that rotated credentials take effect.

    `name` is the API's, `check` says which setting to look at when it refuses the credentials. `busy` finds
    the seconds to wait in an answer that says so in a way of its own.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        headers: Callable[[], Mapping[str, str]],
        check: str,
        timeout: float,
        busy: Callable[[httpx.Response], float | None] | None = None,
    ) -> None:
        self._name = name
        self._base_url = _checked_url(base_url, name)
        self._headers = headers
        self._check = check
        self._timeout = check_seconds(timeout, f"{name}(timeout)", above=True)
        self._busy = busy
        self._clients: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self._process = os.getpid()

    async def ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | int] | None = None,
        *,
        nothing: Sequence[int] = (404,),
    ) -> httpx.Response | None:
        """The response; None for a status of `nothing`. Raises as the module says."""
        what = f"{method} {path}"
        headers = self._headers()
        try:
            async with asyncio.timeout(self._timeout):
                response = await self._answer(method, path, params, headers)
        except TimeoutError:
            raise ApiError(
                f"{self._name} did not answer {what} within {self._timeout:g} s; another try may succeed"
            ) from None
        except httpx.HTTPError as error:
            said = str(error) or type(error).__name__
            raise ApiError(
                f"{self._name} is out of reach for {what}: {said}; another try may succeed"
            ) from error
        return self._judged(response, what, nothing)

    async def json(self, path: str, params: Mapping[str, str | int] | None = None) -> Any:
        """The JSON that GET answers; None for 404 alone. Raises as `ask`, `ApiError` for null or no JSON."""
        response = await self.ask("GET", path, params)
        if response is None:
            return None
        answer = self.parsed(response, path)
        if answer is None:
            raise self.unexpected(path, "it is null")
        return answer

    def parsed(self, response: httpx.Response, path: str) -> Any:
        """The response's JSON. Raises `ApiError`."""
        try:
            return response.json(parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise self.unexpected(path, "it is no JSON") from None

    def unexpected(self, path: str, problem: str) -> ApiError:
        """An answer that is not of the documented shape."""
        return ApiError(
            f"{self._name} answered GET {path} with something unexpected: {problem}; another try may succeed"
        )

    async def close(self) -> None:
        """Close this event loop's connections; closing twice is fine."""
        client = self._known().pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _answer(
        self,
        method: str,
        path: str,
        params: Mapping[str, str | int] | None,
        headers: Mapping[str, str],
    ) -> httpx.Response:
        # A few kilobytes can unpack to gigabytes: no encoding is asked for, and none is undone.
        plain = {**headers, "accept-encoding": "identity"}
        async with self._client().stream(method, path, params=params, headers=plain) as response:
            status, raw = response.status_code, response.headers.raw
            encoding = response.headers.get("content-encoding", "identity")
            if response.is_success and encoding.lower() != "identity":
                raise ApiError(
                    f"{self._name} answered {method} {path} with the encoding {encoding[:100]!r}, which "
                    "nobody asked for; another try may succeed"
                )
            size, chunks = 0, list[bytes]()
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > _MOST_BYTES:
                    raise ApiError(
                        f"{self._name} answered {method} {path} with more than {_MOST_BYTES:,} bytes; "
                        "another try may succeed"
                    )
                chunks.append(chunk)
        kept = [(name, value) for name, value in raw if name.lower() in _KEPT]
        return httpx.Response(status, headers=kept, content=b"".join(chunks))

    def _judged(self, response: httpx.Response, what: str, nothing: Sequence[int]) -> httpx.Response | None:
        status = response.status_code
        if (wait := self._wait(response)) is not None:
            raise Snooze(min(max(wait, _LEAST_SNOOZE), MOST_SNOOZE))
        if response.is_success:
            return response
        answered = f"{self._name} answered {what} with {status}"
        if status in nothing:
            return None
        if status in (401, 403):
            why = "the credentials are wrong or expired" if status == 401 else "they lack a permission"
            raise Reject(f"{answered}: {why}; check {self._check}")
        if status == 408 or status >= 500:
            raise ApiError(f"{answered}; another try may succeed")
        raise Reject(f"{answered}, which another try does not change; check {self._name}(base_url=...)")

    def _wait(self, response: httpx.Response) -> float | None:
        asked = retry_after(response)
        if response.status_code == 429:
            found = self._busy(response) if asked is None and self._busy is not None else asked
            return _DEFAULT_SNOOZE if found is None else found
        if response.status_code == 503:
            return asked
        return self._busy(response) if self._busy is not None else None

    def _client(self) -> httpx.AsyncClient:
        clients, loop = self._known(), asyncio.get_running_loop()
        client = clients.get(loop)
        if client is None:
            for gone in [each for each in clients if each.is_closed()]:
                del clients[gone]
            # Redirects are not followed: they would carry the credentials to whoever they name.
            client = clients[loop] = httpx.AsyncClient(base_url=self._base_url, timeout=self._timeout)
        return client

    def _known(self) -> dict[asyncio.AbstractEventLoop, httpx.AsyncClient]:
        # After a fork the sockets are the parent's.
        if self._process != os.getpid():
            self._clients, self._process = {}, os.getpid()
        return self._clients


def retry_after(response: httpx.Response) -> float | None:
    """The seconds of the header Retry-After, a number or until a date; None when it says nothing usable."""
    said = response.headers.get("retry-after", "").strip()
    if said.isascii() and said.isdigit():
        return float(said) if len(said) < 12 else MOST_SNOOZE
    try:
        until = parsedate_to_datetime(said).timestamp()
        # The sender's clock is the one its date is from.
        now = (
            parsedate_to_datetime(response.headers["date"]).timestamp()
            if "date" in response.headers
            else None
        )
    except (ValueError, OverflowError):
        return None
    seconds = until - (time.time() if now is None else now)
    return seconds if math.isfinite(seconds) else None


def credential(given: Credential, variable: str, what: str) -> str:
    """A credential from the argument, the callable, or the environment. Raises `ConfigError` naming it."""
    try:
        value = given() if callable(given) else given
    except Exception as error:
        raise ConfigError(f"the function of {what} raised {type(error).__name__}: {error}") from error
    where = what if given is not None else variable
    if value is None:
        value = os.environ.get(variable)
    if not value:
        raise ConfigError(f"{where} is not set, or empty; set {variable} in the environment, or give {what}")
    if value != value.strip() or not value.isascii() or not value.isprintable():
        raise ConfigError(
            f"{where} has white space around it (a newline?), or a character no credential has; copy it again"
        )
    return value


def _checked_url(base_url: str, name: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ConfigError(f"{name}(base_url) is no URL: {error}") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(f"{name}(base_url) is no http or https URL")
    if url.userinfo:
        raise ConfigError(f"{name}(base_url) has credentials in it; give them as arguments of their own")
    return base_url


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
