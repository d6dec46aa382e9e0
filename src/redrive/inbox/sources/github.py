"""GitHub: redeliveries of webhooks that never arrived, through its deliveries API.

GitHub does not try again by itself, but lists what it sent for some days and sends it again when asked:

    app.inbox("github", provider="github", queue="webhook_jobs", api=GitHub("octo/shop", hook_id=42))

An event itself holds all there is to know, so nothing is fetched: an event without a handler is ignored.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, cast

import httpx

from redrive.errors import ConfigError
from redrive.inbox.source import Signal, patiently
from redrive.inbox.sources.calls import Calls, Credential, credential
from redrive.inbox.sources.fastpix_states import moment
from redrive.job import Reject

BASE_URL = "https://api.github.com/"
TOKEN = "GITHUB_TOKEN"
_VERSION = "2022-11-28"
_PAGE = 100
# Unknown, too old, or refused for this delivery alone.
_NOT_AGAIN = (400, 404, 410, 422)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt of GitHub's to deliver an event: `guid` is the event's id, the same for every attempt."""

    id: int
    guid: str
    event: str
    delivered: datetime | None


class GitHub:
    """A webhook of GitHub's: of a repository ("owner/name"), of an organisation, or of a GitHub App.

    `hook_id` is the number at the end of the webhook's page; an App has one webhook only. `token`: a token
    that may read and write the webhook, or a callable; by default GITHUB_TOKEN. An App needs its own JWT.

        GitHub("octo/shop", hook_id=42) · GitHub(org="octo", hook_id=42) · GitHub(app=True, token=jwt)
    """

    def __init__(
        self,
        repository: str | None = None,
        *,
        org: str | None = None,
        app: bool = False,
        hook_id: int | None = None,
        token: Credential = None,
        base_url: str = BASE_URL,
        timeout: float = 20.0,
    ) -> None:
        self._path = _path(repository, org, app, hook_id)
        self._token = token
        self._calls = Calls(
            "GitHub", base_url, headers=self._headers, check=TOKEN, timeout=timeout, busy=_rate_limit
        )

    def __repr__(self) -> str:
        return f"GitHub({self._path!r})"

    @property
    def policy(self) -> Mapping[str, Any]:
        return {}

    def resources(self, event: Signal) -> Sequence[str]:
        return ()

    def schema(self, source: str) -> str:
        return ""

    async def close(self) -> None:
        await self._calls.close()

    async def deliveries(self, since: datetime | None) -> AsyncIterator[list[Delivery]]:
        """Pages of what was delivered since, newest first; None: all that GitHub still knows.

        Waits where GitHub asks for it.
        """
        path, params = self._path, {"per_page": _PAGE}
        cursors: set[str] = set()
        while True:
            response = await patiently(partial(self._calls.ask, "GET", path, params))
            if response is None:
                raise Reject(
                    f"GitHub has no {self._path}; check the repository or organisation, hook_id and {TOKEN}"
                )
            listed = self._calls.parsed(response, path)
            if not isinstance(listed, list):
                raise self._calls.unexpected(path, "it is no list")
            page = [found for each in cast("list[object]", listed) if (found := _delivery(each)) is not None]
            yield [
                each for each in page if since is None or each.delivered is None or each.delivered >= since
            ]
            cursor = self._cursor(response)
            if cursor is None or (
                since is not None and page and page[-1].delivered is not None and page[-1].delivered < since
            ):
                return
            if cursor in cursors:
                raise self._calls.unexpected(path, "its next page is one that it had before")
            cursors.add(cursor)
            params = {"per_page": _PAGE, "cursor": cursor}

    async def redeliver(self, delivery: Delivery) -> bool:
        """Ask for it to be sent again; False when GitHub does not have it any more. Waits if asked to."""
        path = f"{self._path}/{delivery.id}/attempts"
        ask = partial(self._calls.ask, "POST", path, nothing=_NOT_AGAIN)
        return await patiently(ask) is not None

    def _cursor(self, response: httpx.Response) -> str | None:
        """The next page's, from the Link header; its address is not followed: it would get the token."""
        following = response.links.get("next", {}).get("url")
        if following is None:
            return None
        try:
            cursor = httpx.URL(following).params.get("cursor")
        except (httpx.InvalidURL, ValueError):
            cursor = None
        if not cursor:
            raise self._calls.unexpected(self._path, "its header Link names a next page without a cursor")
        return cursor

    def _headers(self) -> Mapping[str, str]:
        return {
            "authorization": f"Bearer {credential(self._token, TOKEN, 'GitHub(token=...)')}",
            "accept": "application/vnd.github+json",
            "x-github-api-version": _VERSION,
            "user-agent": "redrive",
        }


def _path(repository: str | None, org: str | None, app: bool, hook_id: int | None) -> str:
    named = [each for each in (repository, org, app or None) if each is not None]
    if len(named) != 1 or (hook_id is None) != app:
        raise ConfigError(
            'GitHub is called as GitHub("owner/name", hook_id=...), GitHub(org="name", hook_id=...) or '
            "GitHub(app=True)"
        )
    if app:
        return "app/hook/deliveries"
    owner = org if org is not None else repository
    assert owner is not None
    parts = owner.split("/")
    if len(parts) != (1 if org is not None else 2) or not all(_is_name(part) for part in parts):
        raise ConfigError(
            f"GitHub({owner!r}) is no name; a repository is owner/name, an organisation one word"
        )
    return f"{'orgs' if org is not None else 'repos'}/{owner}/hooks/{hook_id}/deliveries"


def _is_name(part: str) -> bool:
    return part.strip(".") != "" and all(
        each.isascii() and (each.isalnum() or each in "-_.") for each in part
    )


def _delivery(entry: object) -> Delivery | None:
    if not isinstance(entry, dict):
        return None
    fields = cast("dict[str, Any]", entry)
    ident, guid, event = fields.get("id"), fields.get("guid"), fields.get("event")
    if not isinstance(ident, int) or not isinstance(guid, str) or not isinstance(event, str):
        return None
    # No record has such a name, and Postgres could not be asked for it.
    if not guid.isprintable():
        return None
    return Delivery(ident, guid, event, moment(fields.get("delivered_at")))


def _rate_limit(response: httpx.Response) -> float | None:
    """GitHub says by 403 or 429 that too much was asked: after Retry-After, or when the limit starts anew."""
    if response.status_code not in (403, 429):
        return None
    after = response.headers.get("retry-after", "")
    if after.isascii() and after.isdigit():
        return float(after)
    reset = response.headers.get("x-ratelimit-reset", "")
    if response.headers.get("x-ratelimit-remaining") == "0" and reset.isascii() and reset.isdigit():
        return max(0.0, float(reset) - time.time())
    return None
