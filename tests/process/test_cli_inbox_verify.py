"""``redrive inbox verify``: every vector, and which step is said to fail."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import Ran, fine, run

VECTORS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "webhook-vectors.json").read_text())
SECRET = "It's a Secret to Everybody"
BODY = b"Hello, World!"
# GitHub's own example.
RIGHT = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("REDRIVE_APP", "GITHUB_WEBHOOK_SECRET"):
        monkeypatch.delenv(name, raising=False)


def arguments_of(vector: dict[str, Any], folder: Path) -> tuple[list[str], dict[str, str]]:
    """The command line for a vector, whose request is saved in `folder`, and its secrets' environment."""
    body = base64.b64decode(vector["body_b64"]) if "body_b64" in vector else vector["body"].encode()
    (folder / "body").write_bytes(body)
    (folder / "headers.json").write_text(json.dumps(vector["headers"]))
    secrets = vector.get("secrets") or [vector["secret"]]
    environment = {f"SECRET_{place}": secret for place, secret in enumerate(secrets)}
    arguments = [vector["scheme"], "--headers", "headers.json", "--body", "body", "--json"]
    for name in environment:
        arguments += ["--secret-env", name]
    for option, key in (("--url", "url"), ("--now", "now"), ("--tolerance", "tolerance_s")):
        if key in vector:
            arguments += [option, str(vector[key])]
    if "config" in vector:
        arguments += ["--config", json.dumps(vector["config"])]
    return ["inbox", "verify", *arguments], environment


@pytest.mark.parametrize("vector", VECTORS, ids=[each["id"] for each in VECTORS])
def test_every_vector_is_judged_as_it_should(
    vector: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, environment = arguments_of(vector, tmp_path)
    for name, secret in environment.items():
        monkeypatch.setenv(name, secret)
    ran = run(*arguments)
    valid = vector["expected"] == "valid"
    assert (ran.code, ran.json["valid"]) == (0 if valid else 1, valid), (vector["reason"], ran)
    assert ("failed" in ran.json["steps"].values()) is not valid
    assert all(secret not in ran.out + ran.err for secret in environment.values() if len(secret) > 5)


@pytest.mark.parametrize("name", ["stripe-01", "github-05"])
def test_the_command_itself_judges_as_well(name: str, tmp_path: Path) -> None:
    [vector] = [each for each in VECTORS if each["id"] == name]
    arguments, environment = arguments_of(vector, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "redrive.cli", *arguments],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, **environment},
        timeout=60,
    )
    valid = vector["expected"] == "valid"
    assert (done.returncode, json.loads(done.stdout)["valid"]) == (0 if valid else 1, valid), done


class TestSteps:
    @pytest.fixture(autouse=True)
    def _secret(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)

    @staticmethod
    def verify(headers: str, body: bytes = BODY, *more: str, provider: str = "github") -> Ran:
        Path("headers").write_text(headers)
        Path("body").write_bytes(body)
        return run("inbox", "verify", provider, "--headers", "headers", "--body", "body", *more)

    def test_a_request_that_would_be_let_in_passes_all(self) -> None:
        ran = self.verify(f"POST /webhooks/github HTTP/1.1\r\nX-Hub-Signature-256: {RIGHT}\r\n\r\n")
        assert ran.code == 0
        assert "✓ headers there" in ran.out and "✓ well-formed" in ran.out
        assert "✓ signed with the secret: GITHUB_WEBHOOK_SECRET" in ran.out
        assert "· fresh: not checked" in ran.out and ran.out.endswith("it would be let in\n")

    @pytest.mark.parametrize(
        ("headers", "failed", "said"),
        [
            ("Content-Type: text/plain\n", "headers there", "X-Hub-Signature-256 is missing"),
            ("X-Hub-Signature-256: sha1=00\n", "well-formed", "no signature as github writes them"),
            (f"X-Hub-Signature-256: {RIGHT[:-1]}0\n", "signed with the secret", "does not fit the secret"),
        ],
    )
    def test_the_first_check_that_refuses_is_named(self, headers: str, failed: str, said: str) -> None:
        ran = self.verify(headers)
        assert ran.code == 1 and f"✗ {failed}: " in ran.out and said in ran.out
        assert ran.out.endswith("it would be refused, with 401\n")
        assert RIGHT.removeprefix("sha256=") not in ran.out and SECRET not in ran.out
        steps = self.verify(headers, BODY, "--json").json["steps"]
        names = list(steps)
        place = names.index(failed)
        assert [steps[each] for each in names[:place]] == ["passed"] * place
        assert {steps[each] for each in names[place + 1 : -1]} <= {"not reached"}

    def test_an_old_request_with_the_right_secret_is_said_to_be_that(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        [vector] = [each for each in VECTORS if each["id"] == "zoom-06"]
        arguments, environment = arguments_of(vector, Path())
        for name, secret in environment.items():
            monkeypatch.setenv(name, secret)
        ran = run(*arguments)
        assert ran.json["reason"] == "stale" and "signed 301 s ago" in ran.json["problem"]
        assert ran.json["steps"]["signed with the secret"] == "passed"

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            (BODY + b"\n", "without the line end at its end"),
            (BODY + b"\r\n", "without the line end at its end"),
        ],
    )
    def test_a_body_that_an_editor_changed_is_recognised(self, body: bytes, said: str) -> None:
        ran = self.verify(f"x-hub-signature-256:{RIGHT}\n", body)
        assert ran.code == 1 and f"the signature holds for it {said}" in ran.out

    @pytest.mark.parametrize("sent", ['{"id":1,"name":"Käse"}', '{"id": 1, "name": "K\\u00e4se"}'])
    def test_a_body_that_was_parsed_and_written_again_is_recognised(self, sent: str) -> None:
        digest = hmac.new(SECRET.encode(), sent.encode(), hashlib.sha256).hexdigest()
        changed = json.dumps(json.loads(sent), indent=2).encode()
        ran = self.verify(f"X-Hub-Signature-256: sha256={digest}\n", changed)
        assert ran.code == 1 and "the signature holds for it as JSON written in another way" in ran.out

    def test_the_secret_that_fits_is_named_so_that_an_old_one_can_go(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("NEW", "another")
        two = ("--secret-env", "NEW", "--secret-env", "GITHUB_WEBHOOK_SECRET")
        ran = self.verify(f"X-Hub-Signature-256: {RIGHT}\n", BODY, *two)
        assert ran.code == 0 and "✓ signed with the secret: GITHUB_WEBHOOK_SECRET" in ran.out

    def test_an_inbox_of_the_app_says_provider_and_secret(self, tmp_path: Path) -> None:
        (tmp_path / "hooks_of_a_shop.py").write_text(
            "from redrive import Redrive\n"
            "app = Redrive()\n"
            f"app.inbox('shop', provider='github', secret=['another', {SECRET!r}], queue='hooks')\n"
        )
        headers = f"X-Hub-Signature-256: {RIGHT}\n"
        ran = self.verify(headers, BODY, "--app", "hooks_of_a_shop:app", provider="shop")
        assert ran.code == 0 and "signed with the secret: number 2 of the inbox's secrets" in ran.out
        unknown = self.verify(headers, BODY, "--app", "hooks_of_a_shop:app", provider="shp")
        assert unknown.code == 2 and "the inboxes of app hooks_of_a_shop:app are: shop" in unknown.err


def test_what_cannot_be_right_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("body").write_bytes(BODY)
    Path("headers").write_text("X: 1\n")
    Path("no_headers").write_text("X: 1\noops\n")
    Path("no_texts").write_text('{"X": 1}')
    Path("no_json").write_text('{"X": ')
    monkeypatch.setenv("PADDED", "secret\n")
    monkeypatch.setenv("EMPTY", "")
    monkeypatch.setenv("NO_BASE64", "***")
    monkeypatch.setenv("GOOD", "secret")
    for arguments, said in [
        (["githb"], "'githb' is no provider, and no inbox of an app"),
        (["github"], "GITHUB_WEBHOOK_SECRET is not set"),
        (["github", "--secret-env", "PADDED"], "PADDED begins or ends with white space"),
        (["github", "--secret-env", "EMPTY"], "EMPTY is empty"),
        (["fastpix", "--secret-env", "NO_BASE64"], "NO_BASE64 is not base64"),
        (["github", "--secret-env", "GOOD", "--headers", "nowhere"], "nowhere cannot be read: No such file"),
        (["github", "--secret-env", "GOOD", "--headers", "no_headers"], "no_headers line 2 is no header"),
        (["github", "--secret-env", "GOOD", "--headers", "no_texts"], "no_texts: the value of 'X' is 1"),
        (["github", "--secret-env", "GOOD", "--headers", "no_json"], "no_json is no JSON"),
        (["github", "--secret-env", "GOOD", "--tolerance", "5"], "github signs no time here"),
        (["generic", "--secret-env", "GOOD"], "config of generic lacks signature_header"),
        (["generic", "--secret-env", "GOOD", "--config", "[]"], "--config is []; it must be a JSON object"),
        (["generic", "--secret-env", "GOOD", "--config", "{"], "--config is no JSON"),
    ]:
        defaults = ["--body", "body", *([] if "--headers" in arguments else ["--headers", "headers"])]
        ran = run("inbox", "verify", *arguments, *defaults)
        assert ran.code == 2 and said in ran.err and len(ran.err.splitlines()) == 1, ran
    assert fine("inbox", "verify", "--help").code == 0
