"""The generated receiver, under Deno: it judges every known request as redrive does, and loses none."""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import zlib
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive, Secret
from redrive.errors import ConfigError
from redrive.inbox.examine import examine
from redrive.inbox.providers import provider
from redrive.inbox.secrets import resolve
from redrive.inbox.signatures import verify
from redrive.inbox.signing import sign
from redrive.supabase.edge import files
from redrive.supabase.plan import Options
from tests.support.edge import DRIVER, Function, served, written
from tests.support.node import Node
from tests.support.postgrest import SECRET, Postgrest, install, serving
from tests.support.project import Project, Projects
from tests.support.webhooks import VECTORS, body_of, secrets_of

MOST_SECRETS = 3
# What the receiver is not generated for.
KNOWN = [
    each
    for each in VECTORS
    if each["scheme"] != "twilio" and not any(secret.startswith("whpk_") for secret in secrets_of(each))
]

FASTPIX = base64.b64encode(b"k" * 32).decode()
_GZIP = gzip.compress(b'{"id": "packed", "type": "t"}')
# Bodies whose readers are not all of one mind.
ODD = {
    "NaN": b'{"id": "evt\\"NaN", "type": "a", "x": [NaN, Infinity, -Infinity, "-Infinity"]}',
    "-NaN": b'{"id": "evt", "x": -NaN}',
    "NaN as an id": b'{"id": NaN, "type": "a"}',
    "nothing but NaN, as a form": b"NaN",
    "deep": b'{"id": "evt", "x": ' + b"[" * 3_000 + b"]" * 3_000 + b"}",
    "deep in a text": b'{"id": "evt", "x": "\\"' + b"[" * 3_000 + b'"}',
    "digits": b'{"id": "evt", "x": [' + b"1e099999," * 501 + b"1]}",
    "digits in a text": b'{"id": "evt", "x": "' + b"1e099999," * 501 + b'"}',
    "a form": b"id=caf\xc3\xa9&type=%E9%zz+x;y=1",
    "a form with a question": b"?id=1&id=2&type",
    "a form with JSON": b"payload=%7B%22id%22:%22in%22,%22x%22:NaN%7D&id=out",
    "a form with null": b"payload=null&id=out",
    "a form with no JSON": b"payload=%7B&id=out",
    "a form of many fields": b"id=1" + b"&a=" * 1_000,
    "gzip packed": _GZIP,
    "x-gzip packed": _GZIP,
    "deflate packed": zlib.compress(b'{"id": "packed", "type": "t"}'),
    "gzip packed, and more": _GZIP + b"\0\0\0\0",
    "gzip packed twice": _GZIP + _GZIP,
    "gzip packed, cut": _GZIP[:-12] + bytes(4),
    "gzip packed, and changed": _GZIP[:-8] + bytes(8),
    "gzip not packed": b'{"id": "plain"}',
    "br packed": b'{"id": "plain"}',
}


def config_of(vector: dict[str, Any]) -> dict[str, Any]:
    told = {**vector.get("config", {}), "tolerance": vector.get("tolerance_s")}
    return {name: value for name, value in told.items() if value is not None}


def source_of(vector: dict[str, Any]) -> str:
    """One inbox for each scheme and configuration."""
    text = json.dumps([vector["scheme"], config_of(vector)], sort_keys=True)
    return f"{vector['scheme']}-{hashlib.sha256(text.encode()).hexdigest()[:6]}"


def app_of(vectors: list[dict[str, Any]]) -> Redrive:
    app = Redrive()
    for source, vector in {source_of(each): each for each in vectors}.items():
        app.inbox(
            source,
            provider=vector["scheme"],
            queue="webhook_jobs",
            secret=[Secret(env=f"SECRET_{number}") for number in range(MOST_SECRETS)],
            config=config_of(vector),
            limit=100_000,
        )
    app.inbox("shop", provider="github", queue="webhook_jobs", limit=100_000)
    app.inbox("constructor", provider="github", queue="webhook_jobs")
    app.inbox("pay", provider="fastpix", queue="webhook_jobs", limit=400_000)
    app.inbox("chat", provider="slack", queue="webhook_jobs", secret=[
        Secret(env="CHAT_OLD", until=datetime(2020, 1, 1, tzinfo=UTC)), Secret(env="CHAT_NEW")])  # fmt: skip
    return app


@pytest.fixture(scope="module")
def project(projects: Projects) -> Generator[Project]:
    made = projects.make(migrated=True)
    install(made)
    made.read("select redrive.create_queue('webhook_jobs')")
    made.read("select redrive.check_inbox(array['webhook_jobs'])")
    yield made
    projects.drop(made)


@pytest.fixture(scope="module")
def api(project: Project) -> Postgrest:
    return Postgrest(project)


@pytest.fixture(scope="module")
def receiver(api: Postgrest, node: Node, tmp_path_factory: pytest.TempPathFactory) -> Generator[Function]:
    folder = tmp_path_factory.mktemp("functions")
    written(folder, app_of(KNOWN), "receiver")
    (folder / "redrive-receiver" / "driver.ts").write_text(DRIVER)
    variables = {"SUPABASE_SECRET_KEYS": json.dumps({"default": SECRET}), "SHOP_WEBHOOK_SECRET": "s"}
    with (
        serving(api) as url,
        served(
            node, folder / "redrive-receiver", {**variables, "SUPABASE_URL": url}, entry="driver.ts"
        ) as function,
    ):
        yield function


@pytest.fixture(autouse=True)
def quiet(api: Postgrest) -> None:
    api.calls.clear()
    api.trouble = lambda name, arguments: None


def told(vector: dict[str, Any]) -> dict[str, Any]:
    secrets = secrets_of(vector)
    padded = secrets + [""] * (MOST_SECRETS - len(secrets))
    settings = {f"SECRET_{number}": secret for number, secret in enumerate(padded)}
    return {"x-test": json.dumps({"now": vector.get("now", 0), "set": settings})}


def posted(receiver: Function, vector: dict[str, Any]) -> tuple[int, str]:
    path = f"/redrive-receiver/{source_of(vector)}"
    return receiver.post(path, body_of(vector), {**vector["headers"], **told(vector)})


def github(body: bytes, **headers: str) -> dict[str, str | list[str]]:
    signed = hmac.new(b"s", body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={signed}", "X-GitHub-Event": "push", **headers}


class TestKnownRequests:
    def test_signed_wrong_are_refused_and_not_recorded(self, receiver: Function, api: Postgrest) -> None:
        wrong = [each for each in KNOWN if each["expected"] == "invalid"]
        answers = {each["id"]: posted(receiver, each)[0] for each in wrong}
        assert len(answers) > 120
        assert {name: status for name, status in answers.items() if status != 401} == {}
        assert api.calls == []

    def test_signed_right_are_recorded_as_redrive_knows_them(
        self, receiver: Function, api: Postgrest
    ) -> None:
        right = [each for each in KNOWN if each["expected"] == "valid"]
        assert {each["scheme"] for each in right} == {each["scheme"] for each in KNOWN}
        for vector in right:
            api.calls.clear()
            body = body_of(vector)
            assert posted(receiver, vector)[0] == 200, (vector["id"], receiver.log[-500:])
            try:
                payload = json.loads(body)
            except ValueError:
                payload = None
            judge = provider(vector["scheme"], config_of(vector))
            if judge.handshake(vector["headers"], payload, secrets_of(vector)):
                assert api.calls == []
                continue
            signed = verify(
                vector["scheme"],
                secrets=secrets_of(vector),
                headers=vector["headers"],
                body=body,
                now=vector.get("now"),
                config=config_of(vector),
            )
            signed_id = signed.id if judge.rules and judge.rules.signs_id else None
            found = judge.identify(vector["headers"], payload, body, signed_id=signed_id)
            ((name, given),) = api.calls
            assert name == "receive_event"
            assert (given["p_event_id"], given["p_type"], given["p_resource"], given["p_derived"]) == (
                found.event_id, found.type, found.resource, found.derived), vector["id"]  # fmt: skip
            assert bytes.fromhex(given["p_raw"][2:]) == body
            assert given["p_payload"] is None
            assert given["p_event_id"] == vector.get("event_id", given["p_event_id"])

    def test_a_signature_sent_twice_or_with_more_behind_it_is_refused(
        self, receiver: Function, api: Postgrest
    ) -> None:
        right = {each["scheme"]: each for each in reversed(KNOWN) if each["expected"] == "valid"}
        for vector in right.values():
            rules = provider(vector["scheme"], config_of(vector)).rules
            assert rules is not None
            names = {family.signature.name.lower() for family in rules.families}
            (name,) = [each for each in vector["headers"] if each.lower() in names]
            value = vector["headers"][name]
            for other in ([value, value], f"{value}0"):
                changed = {**vector, "headers": {**vector["headers"], name: other}}
                assert posted(receiver, changed)[0] == 401, (vector["id"], other)
        assert api.calls == []


class TestAnAnswer:
    def test_is_200_for_one_that_is_new_known_or_other_than_before(
        self, receiver: Function, project: Project
    ) -> None:
        answers: list[tuple[int, str]] = []
        for body in (b'{"n": 12345678901234567890}', b'{"n": 12345678901234567890}', b'{"n": 2}'):
            headers = github(
                body, **{"X-GitHub-Delivery": "one", "Authorization": "Bearer x", "X-More": "kept"}
            )
            answers.append(receiver.post("/redrive-receiver/shop", body, headers))
        assert answers == [(200, "ok\n"), (200, "duplicate\n"), (200, "conflict\n")]
        (row,) = project.read(
            "select payload::text, headers, type, raw from redrive.webhook_event where event_id = 'one'"
        )
        assert row[0] == '{"n": 12345678901234567890}'
        assert row[1]["x-more"] == "kept"
        assert not {"authorization", "x-hub-signature-256"} & row[1].keys()
        assert row[2] == "push"

    def test_is_503_whatever_befalls_the_database_and_says_nothing_of_it(
        self, receiver: Function, api: Postgrest
    ) -> None:
        for trouble in (500, 400, 401, 404, "cut", "silence"):
            api.trouble = lambda name, arguments, now=trouble: now
            answer = receiver.post(
                "/redrive-receiver/shop", b"{}", github(b"{}", **{"X-GitHub-Delivery": "t"})
            )
            assert answer == (503, "try again later\n"), trouble
        assert SECRET not in receiver.log

    def test_is_503_where_the_call_was_done_and_its_answer_lost_and_the_repeat_is_one(
        self, receiver: Function, api: Postgrest
    ) -> None:
        headers = github(b"{}", **{"X-GitHub-Delivery": "lost"})
        api.trouble = lambda name, arguments: "lost"
        assert receiver.post("/redrive-receiver/shop", b"{}", headers)[0] == 503
        api.trouble = lambda name, arguments: None
        assert receiver.post("/redrive-receiver/shop", b"{}", headers) == (200, "duplicate\n")

    def test_is_413_for_what_is_too_large_before_it_is_read(self, receiver: Function, api: Postgrest) -> None:
        body = b"x" * 100_001
        assert receiver.post("/redrive-receiver/shop", body, github(body)) == (413, "too large\n")
        assert api.calls == []
        assert receiver.post("/redrive-receiver/shop", body[1:], github(body[1:]))[0] == 200

    def test_is_404_for_an_unknown_source_and_405_for_another_method(self, receiver: Function) -> None:
        assert receiver.post("/redrive-receiver/toString")[0] == 404
        assert receiver.post("/redrive-receiver/")[0] == 404
        assert receiver.post("/redrive-receiver/shop", method="GET")[0] == 405

    def test_is_503_where_no_secret_is_set_or_one_cannot_be_right(self, receiver: Function) -> None:
        vector = next(each for each in KNOWN if each["scheme"] == "fastpix" and each["expected"] == "valid")
        path = f"/redrive-receiver/{source_of(vector)}"
        for secret in ("", " padded ", "no base64!"):
            settings = {"set": {f"SECRET_{n}": secret if n == 0 else "" for n in range(MOST_SECRETS)}}
            headers = {**vector["headers"], "x-test": json.dumps(settings)}
            assert receiver.post(path, body_of(vector), headers) == (503, "try again later\n")
        assert "SECRET_0 cannot be a signing secret of this provider" in receiver.log

    def test_greets_whom_it_knows(self, receiver: Function, api: Postgrest) -> None:
        ping = github(b"{}") | {"X-GitHub-Event": "ping"}
        assert receiver.post("/redrive-receiver/shop", b"{}", ping) == (200, "")
        body = json.dumps({"type": "url_verification", "challenge": "c"}).encode()
        headers = slack(body, "new")
        assert receiver.post("/redrive-receiver/chat", body, headers) == (200, '{"challenge":"c"}')
        assert api.calls == []

    def test_a_secret_whose_date_has_passed_no_longer_counts(self, receiver: Function) -> None:
        assert receiver.post("/redrive-receiver/chat", b"{}", slack(b"{}", "old")) == (401, "mismatch\n")

    def test_a_packed_body_is_known_by_what_it_holds(
        self, receiver: Function, api: Postgrest, project: Project
    ) -> None:
        text = b'{"n": 12345678901234567890, "repository": {"full_name": "o/r"}}'
        for name, packed in (("gzip", gzip.compress(text)), ("deflate", zlib.compress(text))):
            headers = github(packed, **{"X-GitHub-Delivery": name, "Content-Encoding": name.upper()})
            assert receiver.post("/redrive-receiver/shop", packed, headers) == (200, "ok\n")
            assert receiver.post("/redrive-receiver/shop", packed, headers) == (200, "duplicate\n")
            ((payload, raw, resource),) = project.read(
                "select payload::text, raw, resource from redrive.webhook_event where event_id = %s", [name]
            )
            assert json.loads(payload) == json.loads(text)
            assert (bytes(raw), resource) == (packed, "o/r")
        # JSON that Postgres cannot hold: as serve, without a payload.
        packed = gzip.compress(b'{"a": "\\u0000"}')
        headers = github(packed, **{"X-GitHub-Delivery": "nul", "Content-Encoding": "gzip"})
        assert receiver.post("/redrive-receiver/shop", packed, headers) == (200, "ok\n")

    def test_a_packed_body_is_as_large_as_what_it_holds(self, receiver: Function, api: Postgrest) -> None:
        bomb = gzip.compress(b"[" + b" " * 100_000 + b"]")
        lying = bomb[:-4] + b"\1\0\0\0"
        for packed in (bomb, lying):
            headers = github(packed, **{"Content-Encoding": "gzip"})
            assert receiver.post("/redrive-receiver/shop", packed, headers) == (413, "too large\n")
        assert api.calls == []

    def test_odd_bodies_are_known_as_serve_knows_them(self, receiver: Function, api: Postgrest) -> None:
        inbox = app_of([]).inboxes["pay"]
        secrets = resolve("pay", "fastpix", FASTPIX)
        for name, body in ODD.items():
            headers = sign("fastpix", secret=FASTPIX, body=body)
            if "form" in name:
                headers["Content-Type"] = "application/x-www-form-urlencoded"
            encoding = name.partition(" ")[0] if "packed" in name else ""
            if encoding:
                headers["Content-Encoding"] = encoding
            told = {"x-test": json.dumps({"set": {"PAY_WEBHOOK_SECRET": FASTPIX}})}
            api.calls.clear()
            assert receiver.post("/redrive-receiver/pay", body, {**headers, **told})[0] == 200, name
            pairs = [(each.lower().encode(), value.encode()) for each, value in headers.items()]
            wanted = examine(inbox, secrets, pairs, body, encoding, None, 0)
            ((_, given),) = api.calls
            assert (given["p_event_id"], given["p_type"], given["p_resource"]) == (
                wanted.event_id,
                wanted.type,
                wanted.resource,
            ), name

    def test_fields_of_a_form_are_read(self, receiver: Function, api: Postgrest) -> None:
        body = b"command=%2Fdeploy&trigger_id=13.37&text=a%20b"
        headers = slack(body, "new") | {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
        assert receiver.post("/redrive-receiver/chat", body, headers)[0] == 200
        ((_, given),) = api.calls
        assert (given["p_event_id"], given["p_type"]) == ("13.37", "/deploy")


def slack(body: bytes, secret: str) -> dict[str, str | list[str]]:
    now = 1_764_500_000
    signed = hmac.new(secret.encode(), f"v0:{now}:".encode() + body, hashlib.sha256).hexdigest()
    settings = {"now": now, "set": {"CHAT_OLD": "old", "CHAT_NEW": "new"}}
    return {
        "X-Slack-Signature": f"v0={signed}",
        "X-Slack-Request-Timestamp": str(now),
        "x-test": json.dumps(settings),
    }


class TestGeneration:
    OPTIONS = Options(worker="edge", api_schema="public", edge_functions=("receiver",))

    def test_types_are_right_and_lines_few(self, node: Node, tmp_path: Path) -> None:
        made = written(tmp_path, app_of(KNOWN), "receiver")
        done = node.deno("check", "--no-remote", "redrive-receiver/index.ts", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        done = node.deno("lint", folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(made["redrive-receiver/index.ts"].text.splitlines()) <= 80
        others = {path: file.text for path, file in made.items() if "declared" not in path}
        assert max(len(text.splitlines()) for text in others.values()) <= 100
        assert not [path for path, file in made.items() if "jsr:" in file.text or "npm:" in file.text]

    def test_no_secret_that_the_app_knows_is_written(self) -> None:
        app = Redrive()
        app.inbox("my-shop", provider="stripe", queue="q", secret=["whsec_hush", lambda: "whsec_hush"])  # pyright: ignore[reportArgumentType]
        text = "".join(file.text for file in files(app, self.OPTIONS).values())
        assert "hush" not in text
        assert '"MY_SHOP_WEBHOOK_SECRET"}, {"variable": "MY_SHOP_WEBHOOK_SECRET_2"}' in text

    def test_an_inbox_may_have_any_name_and_no_two_have_one_variable(
        self, node: Node, tmp_path: Path
    ) -> None:
        app = Redrive()
        for name in ("a-b", "a_b"):
            app.inbox(name, provider="github", queue="q")
        with pytest.raises(ConfigError, match=r"inboxes a-b and a_b: .* A_B_WEBHOOK_SECRET; name a variable"):
            files(app, self.OPTIONS)
        app = Redrive()
        for name in ("a-b", "a_b"):
            app.inbox(name, provider="github", queue="q", secret=Secret(env="SHARED"))
        assert files(app, self.OPTIONS)

    def test_what_it_cannot_verify_is_refused_with_the_reason(self) -> None:
        app = Redrive()
        app.inbox("calls", provider="twilio", queue="q")
        with pytest.raises(ConfigError, match="inbox calls: twilio signs the URL it posts to"):
            files(app, self.OPTIONS)
        app = Redrive()
        app.inbox("keys", provider="standard-webhooks", queue="q", secret="whpk_x")
        with pytest.raises(ConfigError, match="inbox keys: its secret is an ed25519 public key"):
            files(app, self.OPTIONS)

    def test_an_app_without_an_inbox_or_a_schema_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="this app has no inbox"):
            files(Redrive(), self.OPTIONS)
        with pytest.raises(ConfigError, match="--api-schema public"):
            files(Redrive(), Options(edge_functions=("receiver",)))
