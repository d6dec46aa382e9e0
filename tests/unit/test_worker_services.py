"""The small parts of a worker: deadlines, watchdog, health, logs, options."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from typing import Any

import httpx
import pytest

from redrive.errors import ConfigError, InvalidArgument
from redrive.worker.deadlines import Deadlines
from redrive.worker.health import Health
from redrive.worker.held import Held
from redrive.worker.lane import Lane
from redrive.worker.logs import JsonFormatter, TextFormatter, configure
from redrive.worker.options import WorkerOptions, address
from redrive.worker.protocol import Delivery
from redrive.worker.watchdog import Watchdog
from tests.support.working import until


def held(deadline: float) -> Held:
    made = Held(Delivery("mail", 1, 1, 1, 0.0, 0.0, "{}", None, None, False), Lane("mail", 2.0), 0.0)
    made.deadline = deadline
    return made


class TestDeadlines:
    async def test_fire_in_order_whatever_the_order_they_were_set_in(self) -> None:
        now = time.monotonic()
        late: list[Held] = []
        first, second, never = held(now + 0.05), held(now + 0.1), held(float("inf"))
        running = {first, second, never}
        over = asyncio.Event()

        def expire(which: Held) -> None:
            late.append(which)
            running.discard(which)
            if len(running) == 1:
                over.set()

        deadlines = Deadlines(running, expire)
        for each in (never, second, first):
            deadlines.watch(each.deadline)
        await asyncio.wait_for(over.wait(), 5)
        assert late == [first, second]
        deadlines.close()

    async def test_that_were_moved_while_they_fired_fire_again(self) -> None:
        one = held(time.monotonic() + 0.02)
        fired = asyncio.Queue[float]()
        moved: list[Held] = []

        def grace(which: Held) -> None:
            fired.put_nowait(time.monotonic())
            moved.append(which)
            which.deadline = time.monotonic() + 0.05 if len(moved) < 2 else float("inf")

        deadlines = Deadlines({one}, grace)
        deadlines.watch(one.deadline)
        times = [await asyncio.wait_for(fired.get(), 5) for _ in range(2)]
        assert times[1] - times[0] >= 0.045
        deadlines.close()


class TestTheWatchdog:
    async def test_tells_how_long_the_loop_has_been_silent_and_ends_a_process_that_hangs(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        told: list[float] = []
        ended: list[int] = []
        monkeypatch.setattr("redrive.worker.watchdog._WARN_AFTER", 0.5)
        monkeypatch.setattr("redrive.worker.watchdog.os._exit", ended.append)
        dog = Watchdog(told.append, hang_after=1.0)
        await dog.start()
        await dog.start()
        with caplog.at_level(logging.WARNING, "redrive.worker"):
            time.sleep(2.5)
        await dog.stop()
        await dog.stop()
        assert ended and ended[0] == 70
        assert max(told) > 1.0
        [warned] = [r for r in caplog.records if r.__dict__.get("event") == "loop_blocked"]
        assert "test_tells_how_long_the_loop" in warned.getMessage()

    async def test_is_quiet_while_the_loop_turns(self, caplog: pytest.LogCaptureFixture) -> None:
        told: list[float] = []
        dog = Watchdog(told.append)
        await dog.start()
        await until(lambda: len(told) >= 3)
        await dog.stop()
        assert max(told) < 2 and not caplog.records


class TestHealth:
    @pytest.fixture
    def state(self) -> dict[str, bool]:
        return {"live": True, "ready": True}

    async def ask(self, port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        raw = await reader.read()
        writer.close()
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body

    async def test_answers_by_what_it_is_told(self, state: dict[str, bool]) -> None:
        health = Health(
            "127.0.0.1:0",
            {"/livez": lambda: (state["live"], {"a": 1}), "/readyz": lambda: (state["ready"], {"b": 2})},
        )
        await health.start()
        get = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"
        try:
            code, headers, body = await self.ask(health.port, get % b"/livez")
            assert (code, json.loads(body)) == (200, {"a": 1})
            assert int(headers["Content-Length"]) == len(body)
            state["ready"] = False
            assert (await self.ask(health.port, get % b"/readyz?x=1"))[0] == 503
            assert (await self.ask(health.port, get % b"/livez"))[0] == 200
            assert (await self.ask(health.port, get % b"/secrets"))[0] == 404
            assert (await self.ask(health.port, b"POST /livez HTTP/1.1\r\n\r\n"))[0] == 405
            head = await self.ask(health.port, b"HEAD /livez HTTP/1.1\r\n\r\n")
            assert (head[0], head[2]) == (200, b"")
            assert int(head[1]["Content-Length"]) == len(body)
        finally:
            await health.stop()
            await health.stop()

    async def test_survives_nonsense(self, state: dict[str, bool]) -> None:
        health = Health("127.0.0.1:0", {"/livez": lambda: (True, {})})
        await health.start()
        for nonsense in (b"\r\n\r\n", b"\x00\xff\r\n\r\n", b"GET\r\n\r\n"):
            assert (await self.ask(health.port, nonsense))[0] in (404, 405)
        reader, writer = await asyncio.open_connection("127.0.0.1", health.port)
        writer.write(b"x" * 100_000)
        await writer.drain()
        assert await reader.read() == b""
        writer.close()
        assert (await self.ask(health.port, b"GET /livez HTTP/1.1\r\n\r\n"))[0] == 200
        await health.stop()

    async def test_says_when_its_port_is_taken(self) -> None:
        first = Health("127.0.0.1:0", {})
        await first.start()
        second = Health(f"127.0.0.1:{first.port}", {})
        with pytest.raises(ConfigError, match="cannot listen there"):
            await second.start()
        await first.stop()


class TestLogLines:
    def record(self, message: str, *args: Any, **extra: Any) -> logging.LogRecord:
        record = logging.LogRecord("redrive.worker", logging.WARNING, __file__, 1, message, args, None)
        record.__dict__.update(extra)
        return record

    def test_in_text_are_one_line_with_the_fields_at_the_end(self) -> None:
        line = TextFormatter().format(
            self.record("failed: %s", "a\nb", event="job_retry", queue="mail", msg_id=7, attempt=2, key=None)
        )
        assert line.endswith("WARNING failed: a\\nb event=job_retry queue=mail msg_id=7 attempt=2")
        assert "\n" not in line
        line = TextFormatter().format(self.record("a\x1b[31m\r\x00\x9b\u202eb é\t", subject="\x1b]0;x\x07"))
        assert line.endswith(r" a\x1b[31m\r\x00\x9b\u202eb é" + "\t" + r" subject=\x1b]0;x\x07")

    def test_in_json_are_one_object(self) -> None:
        line = JsonFormatter().format(
            self.record("failed: %s", "a\nb", event="job_retry", queue="mail", msg_id=7)
        )
        told = json.loads(line)
        assert "\n" not in line
        assert (told["level"], told["message"], told["event"], told["queue"], told["msg_id"]) == (
            "warning",
            "failed: a\nb",
            "job_retry",
            "mail",
            7,
        )

    def test_keep_a_traceback_on_the_line(self) -> None:
        try:
            raise ValueError("x")
        except ValueError:
            record = self.record("oops")
            record.exc_info = sys.exc_info()
        assert "\n" not in TextFormatter().format(record)
        assert "ValueError: x" in json.loads(JsonFormatter().format(record))["traceback"]


class TestOptions:
    def test_survive_the_way_to_a_process(self) -> None:
        options = WorkerOptions("a:b", "postgresql://x", queues=("mail", "video"), health="127.0.0.1:8080")
        assert WorkerOptions.from_json(options.to_json()) == options

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("concurrency", 0),
            ("processes", 0),
            ("drain_timeout", -1),
            ("poll", 0),
            ("poll", float("nan")),
            ("log_format", "xml"),
            ("health", "8080"),
            ("health", "localhost:port"),
            ("health", ":80"),
        ],
    )
    def test_that_cannot_be_right_are_refused_by_name(self, field: str, value: Any) -> None:
        with pytest.raises((ConfigError, InvalidArgument), match=field.replace("_", "-")):
            WorkerOptions("a:b", "postgresql://x", **{field: value})

    def test_read_an_address(self) -> None:
        assert address("[::1]:80") == ("::1", 80)
        assert address("0.0.0.0:8080") == ("0.0.0.0", 8080)


def test_requests_that_went_well_are_no_lines_of_a_command_s_log(capsys: pytest.CaptureFixture[str]) -> None:
    names = ("", "psycopg", "httpx", "httpcore")
    loggers = [logging.getLogger(name) for name in names]
    before = [(each, each.level, each.handlers[:]) for each in loggers]
    try:
        configure("text")
        httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200))).get("http://api.test/")
        logging.getLogger("httpcore.connection").info("connect")
        logging.getLogger("httpx").warning("something odd")
        said = capsys.readouterr().err
    finally:
        for logger, level, handlers in before:
            logger.setLevel(level)
            logger.handlers[:] = handlers
    assert "something odd" in said and "HTTP Request" not in said and "connect" not in said
