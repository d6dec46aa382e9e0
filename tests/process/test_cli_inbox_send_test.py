"""``redrive inbox send-test`` against a real receiver and a real worker."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redrive.cli.inbox_samples import SAMPLES
from redrive.cli.inbox_send_test import github_type
from redrive.inbox.providers import PROVIDERS
from tests.support.cli import Ran, fine, run
from tests.support.command import Command
from tests.support.embedded import until

# Real payloads, where this checkout lies beside them.
WEBHOOKS = Path(__file__).parents[3] / "shared" / "data" / "github-webhooks"

APP = """
from redrive import Event, Redrive
from redrive.inbox.providers import PROVIDERS

app = Redrive()
SECRETS = {"standard-webhooks": "whsec_", "svix": "whsec_"}
GENERIC = {"signature_header": "X-Sign", "event_id": "/id", "type": "/type"}

for name in PROVIDERS:
    secret = SECRETS.get(name, "") + "c2VjcmV0IG9mIDI0IGJ5dGVzLi4uLg=="
    config = GENERIC if name == "generic" else None
    app.inbox(name, provider=name, queue="hooks", secret=secret, config=config)

    @app.on(name, "*")
    async def handle(event: Event) -> None: ...

odd = {"signature_header": "X-Sign", "event_id": "/meta/id", "type": "/event~1name/0", "resource": "X-About"}
app.inbox("acme", provider="generic", queue="hooks", secret="s", config=odd)
app.inbox("plain", provider="generic", queue="hooks", secret="s", config={"signature_header": "X-Sign"})
headed = {"signature_header": "X-Sign", "event_id": "X-Id", "type": "X-Type"}
app.inbox("headed", provider="generic", queue="hooks", secret="s", config=headed)
app.inbox("sms", provider="twilio", queue="hooks", secret="token", url="https://shop.example/in/sms?shop=7")
"""
SECRET = "c2VjcmV0IG9mIDI0IGJ5dGVzLi4uLg=="


@pytest.fixture
def folder(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sixteen_inboxes.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDRIVE_DATABASE_URL", database_url)
    monkeypatch.delenv("REDRIVE_APP", raising=False)
    return tmp_path


@contextmanager
def receiving(folder: Path, database_url: str) -> Generator[str]:
    """A receiver and a worker of the app; where the receiver is."""
    environment = {"REDRIVE_DATABASE_URL": database_url, "REDRIVE_APP": "sixteen_inboxes:app"}
    with (
        Command("serve", "--port", "0", folder=folder, environment=environment) as serve,
        Command("worker", folder=folder, environment=environment) as worker,
    ):
        worker.wait_for("worker_started")
        line = serve.lines[serve.wait_for("receiving ") - 1]
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        yield found[0]
        assert "Traceback" not in serve.said + worker.said


def send(where: str, name: str, *more: str) -> Ran:
    """With the app's secret and config."""
    url = f"{where}/webhooks/{name}"
    return run("inbox", "send-test", name, "--app", "sixteen_inboxes:app", "--url", url, "--json", *more)


def processed() -> dict[str, dict[str, Any]]:
    """The processed events by their senders' ids."""
    found = fine("inbox", "list", "--status", "processed", "--limit", "1000", "--json").json
    return {each["event_id"]: each for each in found}


def test_every_provider_has_a_sample_that_its_receiver_takes_and_a_second_is_another_event(
    folder: Path, database_url: str
) -> None:
    assert set(SAMPLES) == set(PROVIDERS)
    with receiving(folder, database_url) as where:
        sent: dict[str, tuple[str, str]] = {}
        for name in PROVIDERS:
            for _ in range(2):
                ran = send(where, name)
                assert (ran.code, ran.json["answer"]) == (0, "ok\n"), (name, ran)
                assert ran.json["type"] != "unknown", name
                sent[ran.json["event_id"]] = (name, ran.json["type"])
        assert len(sent) == 2 * len(PROVIDERS)
        until(lambda: len(processed()) == len(sent))
        assert {key: (each["source"], each["type"]) for key, each in processed().items()} == sent


@pytest.mark.skipif(not WEBHOOKS.is_dir(), reason=f"there are no real webhooks in {WEBHOOKS}")
def test_real_github_webhooks_are_received_handled_and_kept_byte_for_byte(
    folder: Path, database_url: str
) -> None:
    files = sorted(WEBHOOKS.glob("*.json"))
    assert len(files) == 40
    with receiving(folder, database_url) as where:
        sent: dict[str, Path] = {}
        for file in files:
            ran = send(where, "github", "--file", str(file))
            assert (ran.code, ran.json["status"]) == (0, 200), (file.name, ran)
            if file.name.startswith("ping__"):
                assert ran.json["type"] == "ping" and ran.json["answer"] == ""
            else:
                assert ran.json["answer"] == "ok\n"
                sent[ran.json["event_id"]] = file
        until(lambda: len(processed()) == 39)
        found = processed()
        assert found.keys() == sent.keys()
        assert len(fine("inbox", "list", "--limit", "100", "--json").json) == 39
    assert {each["type"] for each in found.values()} >= {"fork", "repository_import", "issues", "push"}
    for event_id, file in list(sent.items())[::13]:
        shown = fine("inbox", "show", f"github/{event_id}", "--raw", "--json").json
        assert shown["payload"] == json.loads(file.read_text())
        assert shown["size"] == file.stat().st_size


def test_what_signs_its_url_is_signed_for_the_public_one(folder: Path, database_url: str) -> None:
    (folder / "message.json").write_text('{"MessageSid": "SM1", "MessageStatus": "sent"}')
    with receiving(folder, database_url) as where:
        for arguments in ([], ["--file", "message.json"]):
            ran = run(
                *("inbox", "send-test", "sms", "--app", "sixteen_inboxes:app", "--json", *arguments),
                *("--url", f"{where}/webhooks/sms?shop=7"),
            )
            assert (ran.code, ran.json["answer"]) == (0, "ok\n"), ran


def test_id_and_type_go_where_the_provider_has_them(folder: Path, database_url: str) -> None:
    (folder / "event.json").write_text('{"id": "evt_1", "type": "a", "n": 1.50}')
    (folder / "array.json").write_text("[]")
    with receiving(folder, database_url) as where:
        first = send(where, "stripe", "--file", "event.json")
        assert (first.json["event_id"], first.json["type"], first.json["answer"]) == ("evt_1", "a", "ok\n")
        assert send(where, "stripe", "--file", "event.json").json["answer"] == "duplicate\n"
        changed = send(where, "stripe", "--file", "event.json", "--id", "evt_2", "--type", "b")
        assert (changed.json["event_id"], changed.json["type"]) == ("evt_2", "b")
        nested = send(where, "slack", "--type", "message")
        assert nested.json["type"] == "message"
        header = send(where, "shopify", "--id", "w1", "--type", "orders/paid")
        assert (header.json["event_id"], header.json["type"]) == ("w1", "orders/paid")
        (folder / "flat.json").write_text('{"event": "none"}')
        flat = send(where, "slack", "--file", "flat.json", "--type", "message")
        assert flat.code == 2 and "--type belongs at /event/type of the event" in flat.err
        for arguments in (["zoom", "--id", "x"], ["stripe", "--file", "array.json", "--id", "x"]):
            ran = send(where, *arguments)
            assert ran.code == 2 and "--id has no place of its own in this event" in ran.err


def test_a_generic_sample_has_id_and_type_where_its_inbox_looks_for_them(
    folder: Path, database_url: str
) -> None:
    with receiving(folder, database_url) as where:
        for name in ("acme", "headed"):
            first, second = send(where, name), send(where, name)
            assert (first.code, first.json["answer"], first.json["type"]) == (0, "ok\n", "test"), first
            assert first.json["event_id"] != second.json["event_id"]
            assert not first.json["event_id"].startswith("sha256:")
            ran = send(where, name, "--id", "given", "--type", "paid")
            assert (ran.json["event_id"], ran.json["type"], ran.json["answer"]) == ("given", "paid", "ok\n")
        assert [send(where, "plain").json["answer"] for _ in "12"] == ["ok\n", "ok\n"]


def test_an_empty_url_is_no_default(folder: Path) -> None:
    ran = run("inbox", "send-test", "stripe", "--app", "sixteen_inboxes:app", "--url", "")
    assert (ran.code, ran.out) == (2, "")
    assert "--url is empty; give it a value, or leave it out" in ran.err


def test_a_conflict_exits_1_since_no_job_was_sent(folder: Path, database_url: str) -> None:
    (folder / "a.json").write_text('{"id": "evt_1", "type": "a", "n": 1}')
    (folder / "b.json").write_text('{"id": "evt_1", "type": "a", "n": 2}')
    with receiving(folder, database_url) as where:
        assert send(where, "stripe", "--file", "a.json").code == 0
        assert send(where, "stripe", "--file", "a.json").code == 0
        ran = send(where, "stripe", "--file", "b.json")
        assert (ran.code, ran.json["status"], ran.json["answer"]) == (1, 200, "conflict\n")
        assert "with another body, so no job was sent; see redrive inbox quarantine stripe" in ran.err


def test_a_handshake_is_called_one(folder: Path, database_url: str) -> None:
    (folder / "hello.json").write_text('{"type": "url_verification", "challenge": "3eZbrw"}')
    with receiving(folder, database_url) as where:
        ping = ("inbox", "send-test", "github", "--app", "sixteen_inboxes:app", "--type", "ping")
        told = fine(*ping, "--url", f"{where}/webhooks/github")
        assert told.out.startswith("a handshake of type ping, ") and "nothing is recorded of it" in told.out
        assert send(where, "github", "--type", "ping").json["handshake"] is True
        assert send(where, "slack", "--file", "hello.json").json["handshake"] is True
        assert send(where, "github").json["handshake"] is False
        assert len(fine("inbox", "list", "--json").json) == 1


def test_a_refusal_exits_1_and_nobody_there_exits_3(
    folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", "not the app's")
    monkeypatch.setenv("RIGHT", SECRET)
    with receiving(folder, database_url) as where:
        url = f"{where}/webhooks/github"
        refused = run("inbox", "send-test", "github", "--url", url)
        assert refused.code == 1 and "401 Unauthorized: mismatch" in refused.out
        assert run("inbox", "send-test", "github", "--url", f"{where}/webhooks/gitlab").code == 1
        taken = fine("inbox", "send-test", "github", "--url", url, "--secret-env", "RIGHT")
        assert "200 OK: ok" in taken.out and "of type push" in taken.out
        assert SECRET not in taken.out + taken.err + refused.out + refused.err

    gone = run("inbox", "send-test", "github", "--url", url)
    assert gone.code == 3 and f"{url} gives no answer" in gone.err and "redrive serve" in gone.err
    for where in ("github", "ftp://127.0.0.1/x", "http://127.0.0.1:port/"):
        ran = run("inbox", "send-test", "github", "--url", where)
        assert ran.code == 2 and f"--url is {where!r}" in ran.err and len(ran.err.splitlines()) == 1, ran
    for odd in ("é", "a\nb", "\x00"):
        ran = run("inbox", "send-test", "github", "--id", odd, "--url", url)
        assert ran.code == 2 and "cannot stand in the header" in ran.err and len(ran.err.splitlines()) == 1, (
            ran
        )
    secret = run("inbox", "send-test", "github", "--url", url.replace("//", "//ada:hunter2@"))
    assert secret.code == 3 and "hunter2" not in secret.out + secret.err
    missing = run("inbox", "send-test", "github", "--file", "nowhere.json")
    assert missing.code == 2 and "nowhere.json cannot be read" in missing.err


@pytest.mark.parametrize(
    ("file", "type"),
    [
        ("issues__edited.json", "issues"),
        ("fork_.json", "fork"),
        ("repository_import_.json", "repository_import"),
        ("push__with-no-username-committer.json", "push"),
        ("branch_protection_rule__created.1.json", "branch_protection_rule"),
        ("/some/where/push.json", "push"),
        ("push", "push"),
    ],
)
def test_a_file_of_githubs_says_its_type(file: str, type: str) -> None:
    assert github_type(file) == type
