"""GitHub's deliveries API, played from its documented shapes: cursors in the Link header, redeliveries."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TOKEN = "ghp-secret-7d1b"
State = dict[str, Any]


class GitHubApi:
    """`deliveries` is oldest first; `redelivered` are the ids asked for, each told to `on_redelivery`."""

    def __init__(self, path: str) -> None:
        self.deliveries: list[State] = []
        self.redelivered: list[int] = []
        self.calls: list[str] = []
        self.link: str | None = None
        self.faults: list[tuple[str, int, dict[str, str]]] = []
        self.on_redelivery: Callable[[State], None] = lambda delivery: None
        self.app = Starlette(
            routes=[
                Route(f"/{path}", self._list),
                Route(f"/{path}/{{ident:int}}/attempts", self._again, methods=["POST"]),
            ]
        )

    def add(
        self, guid: str, event: str = "push", *, age: timedelta = timedelta(), status: int = 502
    ) -> State:
        made: State = {
            "id": 1000 + len(self.deliveries),
            "guid": guid,
            "delivered_at": (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "redelivery": False,
            "duration": 0.03,
            "status": "OK" if status == 200 else "failed to connect",
            "status_code": status,
            "event": event,
            "action": None,
            "installation_id": None,
            "repository_id": 1,
        }
        self.deliveries.append(made)
        return made

    def _refusal(self, request: Request) -> Response | None:
        self.calls.append(f"{request.method} {request.url.path}")
        for fault in self.faults:
            method, status, headers = fault
            if method == request.method:
                self.faults.remove(fault)
                return JSONResponse({"message": "no"}, status, headers)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({"message": "Bad credentials"}, 401)
        return None

    async def _list(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        many = int(request.query_params.get("per_page", "30"))
        assert 1 <= many <= 100
        newest = self.deliveries[::-1]
        cursor = request.query_params.get("cursor")
        start = 0 if cursor is None else [f"v1_{each['id']}" for each in newest].index(cursor)
        headers = {}
        if start + many < len(newest):
            following = request.url.include_query_params(cursor=f"v1_{newest[start + many]['id']}")
            headers["link"] = f'<{following}>; rel="next"'
        if self.link is not None:
            headers["link"] = self.link
        # A lone surrogate is escaped, as any JSON may.
        return Response(json.dumps(newest[start : start + many]), 200, headers, "application/json")

    async def _again(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        ident = request.path_params["ident"]
        for each in self.deliveries:
            if each["id"] == ident:
                self.redelivered.append(ident)
                self.on_redelivery(each)
                return JSONResponse({}, 202)
        return JSONResponse({"message": "Not Found"}, 404)
