"""Which sinks this process has: those of the environment, each made and checked before anything runs."""

from __future__ import annotations

from redrive.settings import SinkSetting, alert_sinks
from redrive.watch.sinks.chat import Chat, native_kind
from redrive.watch.sinks.sink import Sink

# Of one try, all in all: long enough for a slow service, and six fit into a claim of a minute.
TIMEOUT = 10.0


def configured_sinks(*, timeout: float = TIMEOUT) -> list[Sink]:
    """The sinks of REDRIVE_ALERTS_<NAME>. Raises `ConfigError` naming the variable, never its value."""
    return [_made(setting, timeout) for setting in alert_sinks()]


def kind_of(setting: SinkSetting) -> str:
    """``webhook``, or which of apprise's services, without a look at whether it could work."""
    url = setting.url.lower()
    if (native := native_kind(setting.url)) is not None:
        return native
    return "webhook" if url.startswith(("https://", "http://")) else url.partition("://")[0][:20]


def _made(setting: SinkSetting, timeout: float) -> Sink:
    if kind_of(setting) != "webhook":
        return Chat.of(setting, timeout=timeout)
    # Its HTTP client is a quarter of what a worker takes to start.
    from redrive.watch.sinks.webhook import Webhook

    return Webhook.of(setting, timeout=timeout)
