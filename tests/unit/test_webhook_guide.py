"""What docs/webhooks.md says of providers, settings and reasons is what the code has."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from django.conf import settings as django_settings

from redrive import ConfigError, Redrive
from redrive.cli.inbox_quarantine import REASONS
from redrive.cli.inbox_status import FAILED, HANDLED, NOTHING, WAITING
from redrive.inbox.providers import PROVIDERS
from redrive.inbox.schemes import GENERIC, SCHEMES, configured
from redrive.store.events import STATUSES
from redrive.web import asgi

GUIDE = (Path(__file__).parents[2] / "docs/webhooks.md").read_text()
PYTHON = re.findall(r"^```python\n(.*?)^```$", GUIDE, re.M | re.S)
APPS = [block for block in PYTHON if "app = Redrive()" in block]
MOUNTS = [block for block in PYTHON if "from hooks import app" in block]


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    section = GUIDE.split(f" {heading}\n", 1)[1]
    table = re.search(r"^\|.*?(?=\n\n)", section, re.M | re.S)
    assert table
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()[2:]]


def terms(heading: str) -> set[str]:
    """What stands as code in the first column of that table."""
    return {term for row in rows(heading) for term in re.findall(r"`([^`]+)`", row[0])}


def test_every_provider_has_a_row_with_its_header_and_its_tolerance() -> None:
    found = {row[0].strip("`"): row for row in rows("Providers")}
    assert found.keys() == PROVIDERS.keys()
    for name, scheme in SCHEMES.items():
        header, time = found[name][1], found[name][2]
        assert scheme.families[0].signature.name in header, name
        said = f"y ({scheme.tolerance:g} s)" if scheme.tolerance is not None else "only with `tolerance`"
        assert time == (said if scheme.timed else "n"), name


def test_the_generic_settings_are_all_there_and_no_others() -> None:
    with pytest.raises(ConfigError) as refused:
        configured(GENERIC, {"signature_header": "X-Sign", "nonsense": 1})
    known = set(str(refused.value).rpartition("it takes: ")[2].split(", "))
    assert terms("A provider that is not in the list") == known - {"tolerance"}


def test_reasons_statuses_and_verdicts_are_all_there() -> None:
    assert terms("Quarantine") == set(REASONS)
    statuses = {row[0].strip("`") for row in _after("What becomes of an event:")}
    assert statuses == set(STATUSES)
    for verdict in (HANDLED, WAITING, FAILED, NOTHING):
        assert f"`{verdict}`" in GUIDE


def _after(sentence: str) -> list[list[str]]:
    table = re.search(r"^\|.*?(?=\n\n)", GUIDE.split(sentence, 1)[1], re.M | re.S)
    assert table
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[0].splitlines()[2:]]


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STRIPE", "ACME", "GITHUB", "FASTPIX"):
        monkeypatch.setenv(f"{name}_WEBHOOK_SECRET", "c2VjcmV0")
    monkeypatch.setenv("GITHUB_OLD_SECRET", "another")
    monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://127.0.0.1:1/nothing")


def declared(block: str) -> Redrive:
    names: dict[str, Any] = {"__name__": "shown"}
    exec(block, names)
    return names["app"]


@pytest.mark.parametrize("block", APPS, ids=[re.findall(r'inbox\(\s*"(\w+)"', each)[0] for each in APPS])
@pytest.mark.usefixtures("secrets")
def test_the_apps_that_are_shown_can_be_served(block: str) -> None:
    app = declared(block)
    assert app.jobs
    asgi(app)


@pytest.mark.parametrize("block", MOUNTS, ids=["fastapi", "django"])
@pytest.mark.usefixtures("secrets")
async def test_the_mounts_that_are_shown_receive(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = ModuleType("hooks")
    vars(hooks)["app"] = declared(APPS[0])
    monkeypatch.setitem(sys.modules, "hooks", hooks)
    if "django" in block and not django_settings.configured:
        django_settings.configure()
    names: dict[str, Any] = {"__name__": "shown"}
    exec(block, names)
    web, path = (names["web"], "/hooks/webhooks") if "web" in names else (names["application"], "/webhooks")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(web), base_url="http://test") as client:
        unsigned = await client.post(f"{path}/stripe", content=b"{}")
        unknown = await client.post(f"{path}/nobody", content=b"{}")
    assert (unsigned.status_code, unsigned.text) == (401, "no_header\n")
    assert (unknown.status_code, unknown.text) == (404, "there is no such inbox\n")


def test_the_table_of_answers_has_every_answer_of_the_receiver() -> None:
    from redrive.inbox import receiver

    answers = {each.status for each in vars(receiver).values() if isinstance(each, receiver.Answer)} | {401}
    documented = {
        int(code) for row in rows("What is answered, and when") for code in re.findall(r"^\d+", row[1])
    }
    assert documented == answers
