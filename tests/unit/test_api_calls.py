"""Calls to an API: how long it asks to wait, which credentials are used, and what many share."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from redrive import ConfigError
from redrive.inbox import source as sources
from redrive.inbox.source import ApiError, patiently
from redrive.inbox.sources.calls import Calls, credential, retry_after
from redrive.inbox.sources.fastpix import FastPix
from redrive.inbox.sources.reading import SharedReading
from redrive.job import Reject, Snooze
from tests.support.serving import Serving


def said(value: str, date: datetime | None = None) -> float | None:
    headers = {"retry-after": value} | ({} if date is None else {"date": format_datetime(date, usegmt=True)})
    return retry_after(httpx.Response(429, headers=headers))


class TestRetryAfter:
    def test_it_is_a_number_of_seconds_or_a_date(self) -> None:
        now = datetime(2026, 11, 30, 10, 0, 0, tzinfo=UTC)
        assert said("120") == 120
        assert said(" 7 ") == 7
        # By the sender's own clock, whatever ours says.
        assert said(format_datetime(now + timedelta(seconds=90), usegmt=True), now) == 90
        assert said(format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)) == pytest.approx(
            90, abs=3
        )

    @pytest.mark.parametrize("value", ["", "soon", "-5", "1.5", "٣", "1_0", "Mon, 99 Nov 2026 10:00:00 GMT"])
    def test_what_is_neither_says_nothing(self, value: str) -> None:
        assert retry_after(httpx.Response(429, headers=[(b"retry-after", value.encode())])) is None

    @given(st.binary(max_size=40).filter(lambda raw: not set(raw) & {0, 10, 13}))
    def test_no_header_breaks_it(self, raw: bytes) -> None:
        found = retry_after(httpx.Response(429, headers=[(b"retry-after", raw), (b"date", raw)]))
        assert found is None or isinstance(found, float)


class TestCredentials:
    def test_they_come_from_the_argument_a_function_or_the_environment(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SOME_TOKEN", "from-env")
        assert credential(None, "SOME_TOKEN", "Api(token=...)") == "from-env"
        assert credential("given", "SOME_TOKEN", "Api(token=...)") == "given"
        assert credential(lambda: "called", "SOME_TOKEN", "Api(token=...)") == "called"

    @pytest.mark.parametrize("wrong", ["", " hush", "hush\n", "hu\x00sh", "hüsh"])
    def test_what_cannot_be_one_is_refused_without_showing_it(self, wrong: str) -> None:
        with pytest.raises(ConfigError, match=r"Api\(token=...\)") as refused:
            credential(wrong, "SOME_TOKEN", "Api(token=...)")
        assert not wrong or wrong.strip() not in str(refused.value)

    @pytest.mark.parametrize(
        "url", ["ftp://api", "api.example", "https://user:hush@api.example/", "http://[::1"]
    )
    def test_a_base_url_is_plain_http(self, url: str) -> None:
        with pytest.raises(ConfigError, match="base_url") as refused:
            Calls("Api", url, headers=dict, check="it", timeout=1)
        assert "hush" not in str(refused.value)


class TestAnswers:
    async def test_null_is_no_404(self) -> None:
        with pytest.raises(ApiError, match="GET thing with something unexpected: it is null"):
            await json_of(Response(b"null"))
        assert await json_of(Response(b"{}", 404)) is None

    async def test_headers_may_hold_any_bytes(self) -> None:
        response = Response(b'{"fine": true}')
        response.raw_headers.append((b"x-region", "Zürich".encode("latin-1")))
        assert await json_of(response) == {"fine": True}
        busy = Response(status_code=429)
        busy.raw_headers += [(b"retry-after", b"\xb2"), (b"link", b"\xff")]
        with pytest.raises(Snooze) as asked:
            await json_of(busy)
        assert asked.value.seconds == 30

    async def test_no_encoding_is_asked_for_and_none_unpacked(self) -> None:
        bomb = gzip.compress(gzip.compress(bytes(200_000_000)))
        assert len(bomb) < 10_000
        asked: list[str] = []
        tracemalloc.start()
        try:
            with pytest.raises(ApiError, match="with the encoding 'gzip, gzip'"):
                await json_of(Response(bomb, headers={"content-encoding": "gzip, gzip"}), asked)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert asked == ["identity"]
        assert peak < 20_000_000

    async def test_a_failure_is_one_however_it_is_encoded(self) -> None:
        with pytest.raises(Reject, match="401"):
            await json_of(Response(gzip.compress(b"no"), 401, {"content-encoding": "gzip"}))


class TestPatience:
    async def test_it_waits_as_asked_and_tries_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slept = _no_sleep(monkeypatch)
        answers = iter([Snooze(5), ApiError("once"), ApiError("twice"), Snooze(7), "done"])

        async def ask() -> str:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        assert await patiently(ask) == "done"
        assert slept == [5, 1, 2, 7]

    async def test_it_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        slept = _no_sleep(monkeypatch)

        async def busy() -> None:
            raise Snooze(400)

        async def broken() -> None:
            raise ApiError("broken")

        async def refused() -> None:
            raise Reject("no")

        with pytest.raises(ApiError, match="left alone for 400 s, after 800 s already"):
            await patiently(busy)
        with pytest.raises(ApiError, match="broken"):
            await patiently(broken)
        with pytest.raises(Reject):
            await patiently(refused)
        assert slept == [400, 400, 1, 2, 4, 8, 16]


class TestSharedReading:
    async def test_whoever_asks_meanwhile_shares_the_next_answer(self) -> None:
        numbers, begun, go = count(1), asyncio.Event(), asyncio.Event()

        async def read() -> int:
            number = next(numbers)
            begun.set()
            await go.wait()
            return number

        reading = SharedReading(read)
        early = [asyncio.create_task(reading.get()) for _ in range(3)]
        await begun.wait()
        late = [asyncio.create_task(reading.get()) for _ in range(3)]
        await asyncio.sleep(0)
        go.set()
        assert await asyncio.gather(*early) == [1, 1, 1]
        assert await asyncio.gather(*late) == [2, 2, 2]
        assert await reading.get() == 3

    async def test_a_failure_is_for_those_who_asked_and_not_for_the_next(self) -> None:
        answers = iter([ApiError("once"), "fine"])

        async def read() -> str:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        reading = SharedReading(read)
        got = await asyncio.gather(reading.get(), reading.get(), return_exceptions=True)
        assert [str(each) for each in got] == ["once", "once"]
        assert await reading.get() == "fine"

    async def test_one_who_is_cancelled_leaves_the_others_theirs(self) -> None:
        go = asyncio.Event()

        async def read() -> str:
            await go.wait()
            return "fine"

        reading = SharedReading(read)
        first, second = (asyncio.create_task(reading.get()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        go.set()
        assert await second == "fine"

    async def test_closing_ends_what_is_under_way(self) -> None:
        async def read() -> None:
            await asyncio.Event().wait()

        reading = SharedReading(read)
        asked = asyncio.create_task(reading.get())
        await asyncio.sleep(0)
        await reading.close()
        with pytest.raises(asyncio.CancelledError):
            await asked


async def json_of(response: Response, asked: list[str] | None = None) -> object:
    """What a call makes of the API's answer; `asked` is told the encodings it would have taken."""

    async def answer(scope, receive, send):  # type: ignore
        if asked is not None:
            asked.append(Request(scope).headers.get("accept-encoding", ""))  # type: ignore
        await response(scope, receive, send)  # type: ignore

    with Serving(answer) as served:
        calls = Calls("Api", f"{served.url}/", headers=dict, check="it", timeout=10)
        try:
            return await calls.json("thing")
        finally:
            await calls.close()


def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(sources, "sleep", sleep)
    return slept


def test_a_credential_s_function_that_raises_is_named_in_a_sentence() -> None:
    def vault() -> str:
        raise TimeoutError("vault does not answer")

    with pytest.raises(
        ConfigError, match=r"function of FastPix\(token_id=...\) raised TimeoutError: vault does not answer"
    ):
        FastPix(vault, "key").check_credentials()
