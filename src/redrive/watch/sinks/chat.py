"""Chat: everything that apprise delivers to: Slack, Discord, PagerDuty, mail and more than a hundred others.

Guarantees  the event loop never waits for it: apprise blocks, so each try has a thread of its own;
            a try that takes too long is given up, and the sink takes no other while its thread still runs;
            what apprise logs meanwhile is shown nowhere: URLs and keys are among it.
Not given   a Retry-After of the other side: apprise keeps it to itself, and waits for Discord's on its own.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import urlsplit

from redrive.errors import ConfigError
from redrive.settings import SinkSetting
from redrive.watch.sinks import text
from redrive.watch.sinks.sink import Alert, Undelivered

_HOSTS = {"hooks.slack.com": "slack", "discord.com": "discord", "discordapp.com": "discord"}
_STATUS = re.compile(r"error=([1-5][0-9][0-9])\b")
_GONE = 410
# apprise's own names for how a message is meant; PagerDuty's incidents end with a success.
_TYPES = {"critical": "failure", "error": "failure", "warning": "warning", "info": "info"}


def native_kind(url: str) -> str | None:
    """The service whose own https URL this is, which apprise knows too; None for every other."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
    except ValueError:
        return None
    if parts.scheme.lower() != "https":
        return None
    for known, kind in _HOSTS.items():
        if host == known or (kind == "discord" and host.endswith(f".{known}")):
            return kind
    return None


class Chat:
    """Make it with `Chat.of`."""

    def __init__(self, name: str, kind: str, plugin: Any, *, timeout: float) -> None:
        self.name = name
        self.kind = kind
        self.groups = kind != "pagerduty"
        self._plugin = plugin
        self._timeout = timeout
        self._busy = False

    def __repr__(self) -> str:
        return f"Chat({self.name!r}, {self.kind!r})"

    @classmethod
    def of(cls, setting: SinkSetting, *, timeout: float) -> Chat:
        """Raises `ConfigError` where apprise is not installed, and for what it does not understand."""
        apprise = _apprise(setting)
        # Loading its plugins warns of modules that they import and Python gives up.
        with _hush(), warnings.catch_warnings(action="ignore"):
            try:
                plugin = apprise.Apprise.instantiate(setting.url, suppress_exceptions=True)
            except Exception:
                plugin = None
        if plugin is None:
            raise ConfigError(
                f"{setting.variable} is no URL that apprise understands; see "
                "https://github.com/caronc/apprise/wiki for how a service's URL looks"
            )
        # Alerts are few, and its pauses of up to 5 s between two would use up the time a try has.
        plugin.request_rate_per_sec = 0
        kind = native_kind(setting.url) or urlsplit(setting.url).scheme.lower()
        return cls(setting.name, kind, plugin, timeout=timeout)

    async def send(self, alerts: Sequence[Alert]) -> None:
        """Raises `Undelivered`."""
        if self._busy:
            raise Undelivered("the try before this one has not ended yet")
        if self.kind == "pagerduty":
            self._plugin.dedup, self._plugin.action = alerts[0].dedup[:255], "map"
        title = text.title(alerts)
        title = text.cut(title, self._plugin.title_maxlen or len(title))
        # Where a service has no title, or counts it in, it stands before the body.
        body = text.cut(text.body(alerts), max(0, self._plugin.body_maxlen - len(title) - 4))
        ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        said: list[str] = []
        self._busy = True
        _run(lambda: self._notify(title, body, _meant(alerts), said), ended)
        try:
            async with asyncio.timeout(self._timeout):
                if await ended:
                    return
        except TimeoutError:
            raise Undelivered(f"no answer within {self._timeout:g} s") from None
        except Exception as error:
            raise Undelivered(f"could not be sent ({type(error).__name__})") from None
        raise _undelivered(said)

    def _notify(self, title: str, body: str, meant: str, said: list[str]) -> bool:
        apprise = importlib.import_module("apprise")
        # One that holds this plugin alone: it turns plain text into what the service takes.
        page = apprise.Apprise()
        page.add(self._plugin)
        try:
            with _hush(said):
                return bool(
                    page.notify(
                        body=body,
                        title=title,
                        notify_type=meant,
                        body_format="text",
                        interpret_escapes=False,
                    )
                )
        finally:
            self._busy = False


def _apprise(setting: SinkSetting) -> Any:
    try:
        return importlib.import_module("apprise")
    except ImportError:
        raise ConfigError(
            f"{setting.variable} needs apprise, which is not installed; run `pip install 'redrive[alerts]'`"
        ) from None


def _meant(alerts: Sequence[Alert]) -> str:
    if all(each.event == "resolved" for each in alerts):
        return "success"
    meant = [_TYPES.get(each.severity, "warning") for each in alerts if each.event != "resolved"]
    return next(each for each in ("failure", "warning", "info") if each in meant)


def _undelivered(said: Sequence[str]) -> Undelivered:
    """Of what apprise logged only a status is told on: the rest may hold the URL."""
    together = " ".join(said)
    if found := _STATUS.search(together):
        status = int(found[1])
        more = ", which means it wants no more" if status == _GONE else ""
        return Undelivered(f"answered {status}{more}", gone=status == _GONE)
    if "onnection" in together or "Socket" in together:
        return Undelivered("it cannot be connected to, or broke off")
    return Undelivered("apprise could not deliver it")


def _run(function: Callable[[], bool], ended: asyncio.Future[bool]) -> None:
    """In a thread that holds up no process that is to end: those of an executor would."""
    loop = asyncio.get_running_loop()

    def settle(answer: bool | BaseException) -> None:
        if not ended.done():
            if isinstance(answer, BaseException):
                ended.set_exception(answer)
            else:
                ended.set_result(answer)

    def run() -> None:
        try:
            answer: bool | BaseException = function()
        except BaseException as error:
            answer = error
        try:
            loop.call_soon_threadsafe(settle, answer)
        except RuntimeError:
            pass  # the loop has ended, and nobody waits any more

    threading.Thread(target=run, name="redrive-alert", daemon=True).start()


# --- apprise's log ---

# A context, not a thread: some releases of apprise send from threads of their own, with our context.
_heard: ContextVar[list[str] | None] = ContextVar("redrive_apprise", default=None)


class _Hush(logging.Filter):
    """Keeps what we make apprise and what is beneath it say; what others make them say goes on."""

    def filter(self, record: logging.LogRecord) -> bool:
        heard = _heard.get()
        if heard is None:
            return True
        if record.name == "apprise" and record.levelno >= logging.WARNING:
            heard.append(record.getMessage())
        return False


_hushing = _Hush()


@contextmanager
def _hush(heard: list[str] | None = None) -> Generator[None]:
    # urllib3 names the path of what it posts to.
    for library in ("apprise", "urllib3.connectionpool", "urllib3.util.retry"):
        logging.getLogger(library).addFilter(_hushing)
    before = _heard.set([] if heard is None else heard)
    try:
        yield
    finally:
        _heard.reset(before)
