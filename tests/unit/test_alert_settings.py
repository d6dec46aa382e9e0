"""Settings of health and alerts: which sinks there are, what is refused, and that no secret is repeated."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from redrive.errors import ConfigError
from redrive.settings import alert_sinks, load_settings
from redrive.watch.sinks.chat import Chat
from redrive.watch.sinks.configured import configured_sinks
from redrive.watch.sinks.webhook import Webhook
from tests.support.cli import run

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SLACK = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
DISCORD = "https://discord.com/api/webhooks/123456789012345678/abcdefghijklmnopqrstuvwxyz0123456789"
PAGERDUTY = "pagerduty://R0utingKey0123456789012345678901@apikey"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in list(os.environ):
        if name.startswith("REDRIVE_") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_sinks_are_called_as_their_variables_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_ALERTS_SLACK", SLACK)
    monkeypatch.setenv("REDRIVE_ALERTS_ON_CALL", PAGERDUTY)
    monkeypatch.setenv("REDRIVE_ALERTS_GAMES", DISCORD)
    monkeypatch.setenv("REDRIVE_ALERTS_OPS", "https://ops.example.com/hook")
    monkeypatch.setenv("REDRIVE_ALERTS_OPS_SECRET", SECRET)
    monkeypatch.setenv("REDRIVE_ALERTS_MAIL", "mailto://ada:pw@example.com")
    assert [(each.name, each.kind, each.groups) for each in configured_sinks()] == [
        ("games", "discord", True),
        ("mail", "mailto", True),
        ("on_call", "pagerduty", False),
        ("ops", "webhook", False),
        ("slack", "slack", True),
    ]


def test_nothing_shows_where_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_ALERTS_OPS", "https://ops.example.com/hook/t0ken")
    monkeypatch.setenv("REDRIVE_ALERTS_OPS_SECRET", SECRET)
    monkeypatch.setenv("REDRIVE_HEARTBEAT_URL", "https://beat.example.com/t0ken")
    monkeypatch.setenv("REDRIVE_ALERTS_SLACK", SLACK)
    shown = repr((alert_sinks(), configured_sinks(), load_settings()))
    assert "t0ken" not in shown and SECRET not in shown and "TIiajk" not in shown
    ran = run("config", "--json")
    assert "t0ken" not in ran.out and SECRET not in ran.out and "TIiajk" not in ran.out
    assert ran.json["heartbeat_url"] == {
        "value": "https://beat.example.com/…",
        "source": "REDRIVE_HEARTBEAT_URL",
    }
    assert ran.json["check_every"] == {"value": "60", "source": None}
    assert ran.json["alerts_ops"] == {"value": "webhook", "source": "REDRIVE_ALERTS_OPS"}
    assert ran.json["alerts_slack"] == {"value": "slack", "source": "REDRIVE_ALERTS_SLACK"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"OPS": ""}, "REDRIVE_ALERTS_OPS: is empty"),
        ({"OPS": "json://127.0.0.1/t0ken\n"}, "REDRIVE_ALERTS_OPS: .* white space"),
        ({"ops": "json://t0ken"}, "REDRIVE_ALERTS_ops names no sink"),
        ({"1ST": "json://t0ken"}, "REDRIVE_ALERTS_1ST names no sink"),
        ({"OPS_SECRET": SECRET}, "REDRIVE_ALERTS_OPS_SECRET is set, but REDRIVE_ALERTS_OPS is not"),
        ({"OPS": "https://h/t0ken"}, "set REDRIVE_ALERTS_OPS_SECRET to a secret"),
        ({"OPS": "https://h/t0ken", "OPS_SECRET": "whsec_t0ken!"}, "REDRIVE_ALERTS_OPS_SECRET: "),
        ({"OPS": "https://", "OPS_SECRET": SECRET}, "REDRIVE_ALERTS_OPS is no URL"),
        ({"OPS": "t0ken://h"}, "REDRIVE_ALERTS_OPS is no URL that apprise understands"),
        ({"OPS": "t0ken"}, "REDRIVE_ALERTS_OPS is no URL that apprise understands"),
        ({"OPS": "https://hooks.slack.com/t0ken"}, "REDRIVE_ALERTS_OPS "),
        ({"OPS": "pagerduty://t0ken"}, "REDRIVE_ALERTS_OPS is no URL that apprise understands"),
    ],
)
def test_what_cannot_be_a_sink_is_refused_by_its_variable_without_its_value(
    given: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"REDRIVE_ALERTS_{name}", value)
    with caplog.at_level("DEBUG"), pytest.raises(ConfigError, match=said) as refused:
        configured_sinks()
    assert "t0ken" not in str(refused.value) + caplog.text
    assert refused.value.__cause__ is None


def test_without_the_extra_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    monkeypatch.setenv("REDRIVE_ALERTS_SLACK", SLACK)
    with pytest.raises(ConfigError, match=r"REDRIVE_ALERTS_SLACK .* `pip install 'redrive\[alerts\]'`"):
        configured_sinks()
    monkeypatch.delenv("REDRIVE_ALERTS_SLACK")
    monkeypatch.setenv("REDRIVE_ALERTS_OPS", "https://ops.example.com/hook")
    monkeypatch.setenv("REDRIVE_ALERTS_OPS_SECRET", SECRET)
    assert isinstance(configured_sinks()[0], Webhook)


def test_a_misspelt_sink_is_refused_with_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_ALERT_SLACK", SLACK)
    with pytest.raises(ConfigError, match=r"REDRIVE_ALERT_SLACK .* did you mean REDRIVE_ALERTS_SLACK"):
        load_settings()
    monkeypatch.delenv("REDRIVE_ALERT_SLACK")
    monkeypatch.setenv("REDRIVE_ALERTS", SLACK)
    with pytest.raises(ConfigError, match="write REDRIVE_ALERTS_<NAME>"):
        load_settings()


@pytest.mark.parametrize("service", ["REDRIVE_ALERTS", "REDRIVE_ALERT"])
def test_what_kubernetes_makes_of_a_service_of_our_name_is_no_sink(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rest in (
        "SERVICE_HOST",
        "SERVICE_PORT",
        "SERVICE_PORT_HTTP",
        "PORT",
        "PORT_80_TCP",
        "PORT_80_TCP_ADDR",
    ):
        monkeypatch.setenv(f"{service}_{rest}", "tcp://10.0.0.1:80")
    load_settings()
    assert alert_sinks() == ()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CHECK_EVERY", "0", "CHECK_EVERY: is 0; it must be from 1 to 3600 seconds"),
        ("CHECK_EVERY", "-1", "from 1 to 3600"),
        ("CHECK_EVERY", "nan", "from 1 to 3600"),
        ("CHECK_EVERY", "inf", "from 1 to 3600"),
        ("CHECK_EVERY", "a minute", "CHECK_EVERY: "),
        (
            "HEARTBEAT_URL",
            "hc-ping.com/t0ken",
            "HEARTBEAT_URL: is no URL that begins with https:// or http://",
        ),
    ],
)
def test_intervals_and_heartbeats_that_cannot_be_right_are_refused(
    name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"REDRIVE_{name}", value)
    with pytest.raises(ConfigError, match=said) as refused:
        load_settings()
    assert "t0ken" not in str(refused.value)


def test_chat_is_made_of_the_urls_that_services_show() -> None:
    from redrive.settings import SinkSetting

    for url, kind in ((SLACK, "slack"), (DISCORD, "discord"), (PAGERDUTY, "pagerduty")):
        made = Chat.of(SinkSetting("x", "REDRIVE_ALERTS_X", url), timeout=1)
        assert made.kind == kind
