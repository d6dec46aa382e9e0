"""FastPix' API, played from its documented shapes: Basic auth, lists by page number, faults, slow answers."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TOKEN_ID, SECRET_KEY = "token-id-8f3c", "sk-very-secret-1f9a"
EPOCH = datetime(2026, 11, 30, 10, 0, 0, tzinfo=UTC)
State = dict[str, Any]


@dataclass
class Fault:
    """Answers in place of the API, `times` requests whose path begins with `path`."""

    path: str
    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    times: int = 1


class Hold:
    """Keeps an answer that was made already: it is given when `release` is called."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.reached = threading.Event()
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    async def wait(self) -> None:
        self.reached.set()
        await asyncio.to_thread(self._released.wait, 30)


class FastPixApi:
    """What is true. Change `media`, `streams` and `uploads` as you like; `calls` are the paths asked for."""

    def __init__(self) -> None:
        self.media: dict[str, State] = {}
        self.streams: dict[str, State] = {}
        self.uploads: dict[str, State] = {}
        self.calls: list[str] = []
        self.faults: list[Fault] = []
        self.holds: list[Hold] = []
        self.after_page: Callable[[str, int], None] = lambda path, number: None
        self.most = 50
        routes = [
            Route("/v1/on-demand/uploads", self._list(lambda: self.uploads)),
            Route("/v1/on-demand", self._list(lambda: self.media)),
            Route("/v1/on-demand/{ident}", self._one(lambda: self.media)),
            Route("/v1/live/streams", self._list(lambda: self.streams)),
            Route("/v1/live/streams/{ident}", self._one(lambda: self.streams)),
        ]
        self.app = Starlette(routes=routes)

    def add_media(
        self, ident: str, status: str = "created", *, age: timedelta = timedelta(), **more: Any
    ) -> State:
        made: State = {
            "id": ident,
            "status": status,
            "createdAt": _time(age),
            "updatedAt": _time(age),
            "title": f"film {ident}",
            "duration": "00:00:10",
            "maxResolution": "1080p",
            "isAudioOnly": False,
            "mp4Support": "none",
            "workspaceId": "w-1",
            "playbackIds": [{"id": f"p-{ident}", "accessPolicy": "public"}],
            "tracks": [{"id": "t-1", "type": "video", "frameRate": 29.97}],
            "metadata": {"key": "value"},
            **more,
        }
        self.media[ident] = made
        return made

    def add_stream(
        self, ident: str, status: str = "idle", *, age: timedelta = timedelta(), **more: Any
    ) -> State:
        made: State = {
            "streamId": ident,
            "streamKey": f"streamkey-secret-{ident}",
            "srtPlaybackResponse": {"srtPlaybackStreamId": "s", "srtPlaybackSecret": "srt-secret"},
            "status": status,
            "createdAt": _time(age),
            "reconnectWindow": 60,
            "enableRecording": True,
            "playbackIds": [],
            "simulcastResponses": [
                {"simulcastId": "x", "url": "rtmp://there", "streamKey": "simulcast-secret"}
            ],
            **more,
        }
        self.streams[ident] = made
        return made

    def add_upload(self, ident: str, **more: Any) -> State:
        made: State = {
            "uploadId": ident,
            "status": "waiting",
            "url": f"https://storage.example/{ident}?X-Signature=signed-secret",
            "timeout": 14400,
            "corsOrigin": "*",
            **more,
        }
        self.uploads[ident] = made
        return made

    def fail(self, path: str, status: int, *, times: int = 1, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(f"/v1/{path}", status, named, body, times))

    def hold(self, path: str) -> Hold:
        """The next answer to this path waits until it is released."""
        held = Hold(f"/v1/{path}")
        self.holds.append(held)
        return held

    def _list(self, table: Callable[[], dict[str, State]]) -> Any:
        async def answer(request: Request) -> Response:
            if (refusal := self._refusal(request)) is not None:
                return refusal
            limit, number = (
                int(request.query_params.get(n, d)) for n, d in (("limit", "10"), ("offset", "1"))
            )
            if (
                not 1 <= limit <= 50
                or number < 1
                or request.query_params.get("orderBy") not in ("asc", "desc")
            ):
                return JSONResponse({"success": False, "error": {"code": 400}}, 400)
            limit = min(limit, self.most)
            rows = list(table().values())
            newest = sorted(
                enumerate(rows), key=lambda each: (each[1].get("createdAt", ""), each[0]), reverse=True
            )
            order = newest if request.query_params["orderBy"] == "desc" else newest[::-1]
            data = [dict(row) for _, row in order[(number - 1) * limit : number * limit]]
            pagination = {
                "totalRecords": len(rows),
                "currentOffset": number,
                "offsetCount": -(-len(rows) // limit),
            }
            self.after_page(request.url.path.removeprefix("/v1/"), number)
            return await self._given(request, {"success": True, "data": data, "pagination": pagination})

        return answer

    def _one(self, table: Callable[[], dict[str, State]]) -> Any:
        async def answer(request: Request) -> Response:
            if (refusal := self._refusal(request)) is not None:
                return refusal
            found = table().get(request.path_params["ident"])
            if found is None:
                return JSONResponse({"success": False, "error": {"code": 404, "message": "not found"}}, 404)
            return await self._given(request, {"success": True, "data": dict(found)})

        return answer

    def _refusal(self, request: Request) -> Response | None:
        path = request.url.path
        self.calls.append(path.removeprefix("/v1/"))
        for fault in self.faults:
            if path.startswith(fault.path) and fault.times > 0:
                fault.times -= 1
                return Response(fault.body, fault.status, fault.headers)
        pair = base64.b64encode(f"{TOKEN_ID}:{SECRET_KEY}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {pair}":
            return JSONResponse(
                {"success": False, "error": {"code": 401, "message": "Invalid credentials"}}, 401
            )
        return None

    async def _given(self, request: Request, content: State) -> Response:
        response = JSONResponse(content)
        for held in self.holds:
            if request.url.path == held.path and not held.reached.is_set():
                await held.wait()
        return response


def _time(age: timedelta) -> str:
    """As FastPix writes it: with nanoseconds."""
    return (datetime.now(UTC) - age).strftime("%Y-%m-%dT%H:%M:%S.%f") + "789Z"
