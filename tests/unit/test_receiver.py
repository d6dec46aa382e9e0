"""The receiver from outside, with a stand-in for the database: what is answered, and what is recorded."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import json
import logging
import time
from pathlib import Path
from typing import Any, cast

import pytest
from psycopg import errors

from redrive import ConfigError, InvalidArgument, QueueMissing, Redrive, SetupError, Unavailable
from redrive.inbox import receiver as receiving
from redrive.inbox.receiver import Receiver
from redrive.inbox.signing import sign
from redrive.store.database import Database
from redrive.web import asgi
from tests.support.receiving import SECRET, Answered, Recording, github, lines, post
from tests.support.webhooks import VECTORS, body_of, secrets_of

PUSH = json.dumps({"ref": "refs/heads/main", "repository": {"full_name": "acme/shop"}}).encode()


class Web:
    """An application with the inbox `github`, in front of a database that only pretends."""

    def __init__(
        self, *, clock: Any = time.time, budget: int = 10**9, within: float = 5, **more: Any
    ) -> None:
        given: dict[str, Any] = {"source": "github", "provider": "github", "secret": SECRET, "queue": "hooks"}
        self.database = Recording()
        self.jobs = Redrive()
        self.jobs.inbox(**given | more)
        self.receiver = Receiver(
            self.jobs.inboxes,
            lambda: cast("Database", self.database),
            clock=clock,
            budget=budget,
            read_within=within,
        )
        self.application = asgi(self.jobs, receiver=self.receiver)

    async def post(
        self, body: bytes = PUSH, headers: Any = None, path: str = "/webhooks/github", **more: Any
    ) -> Answered:
        answer = await post(
            self.application, path, body, github(body, "1") if headers is None else headers, **more
        )
        assert answer is not None
        return answer

    @property
    def recorded(self) -> dict[str, Any]:
        [call] = self.database.calls
        return call


def hard_to_hold(sqlstate: str) -> Exception:
    """What `Database` raises when Postgres refuses a value."""
    kind = {"22P02": errors.InvalidTextRepresentation, "22P05": errors.UntranslatableCharacter}.get(sqlstate)
    if kind is None:
        return {"54000": errors.ProgramLimitExceeded, "54001": errors.StatementTooComplex}[sqlstate](
            "too much"
        )
    refusal = InvalidArgument("invalid input syntax for type json")
    refusal.__cause__ = kind("no")
    return refusal


class TestAnswers:
    async def test_what_is_new_is_ok_and_recorded_as_it_came(self) -> None:
        web = Web()
        answer = await web.post()
        assert (answer.status, answer.word) == (200, "ok")
        assert web.recorded | {"headers": None} == {
            "source": "github",
            "event_id": "1",
            "type": "push",
            "payload": PUSH.decode(),
            "raw": PUSH,
            "headers": None,
            "queue": "hooks",
            "resource": "acme/shop",
            "derived": False,
        }

    async def test_a_repeat_is_a_duplicate(self) -> None:
        web = Web()
        assert [(await web.post()).word for _ in range(3)] == ["ok", "duplicate", "duplicate"]

    async def test_an_unknown_source_is_404_and_counts_nowhere(self) -> None:
        web = Web()
        assert (await web.post(path="/webhooks/gitlab")).status == 404
        assert (await web.post(path="/webhooks/github/")).status == 404
        assert (await web.post(path="/webhooks/a%2Fb")).status == 404
        assert web.receiver.refusals.waiting == 0 and not web.database.calls

    @pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
    async def test_only_a_post_is_a_webhook(self, method: str) -> None:
        answer = await Web().post(method=method)
        assert (answer.status, answer.headers["allow"]) == (405, "POST")

    @pytest.mark.parametrize(
        ("headers", "reason"),
        [
            ([], "no_header"),
            ([(b"x-hub-signature-256", b"sha256=\xff")], "malformed"),
            ([(b"x-hub-signature-256", b"sha256=" + b"0" * 64)], "mismatch"),
        ],
    )
    async def test_a_bad_signature_is_401_with_its_reason_alone(self, headers: Any, reason: str) -> None:
        web = Web()
        answer = await web.post(headers=headers)
        assert (answer.status, answer.word) == (401, reason)
        assert web.database.calls == []

    async def test_a_body_beyond_the_limit_is_413_before_anybody_looks_at_its_signature(self) -> None:
        web = Web(limit=100)
        assert (await web.post(b"x" * 101)).status == 413
        assert (await web.post(b"x" * 101, length=False)).status == 413
        assert (await web.post(gzip.compress(b"0" * 101), [(b"content-encoding", b"gzip")])).status == 413
        await web.receiver.refusals.flush()
        assert [(each["reason"], each["count"]) for each in web.database.refusals] == [("too_large", 3)]

    async def test_a_body_that_does_not_come_is_408(self) -> None:
        async def silent() -> dict[str, Any]:
            return await asyncio.Event().wait()  # type: ignore[return-value]

        assert (await Web(within=0.02).post(receive=silent)).status == 408

    async def test_a_length_that_is_none_is_400(self) -> None:
        assert (await Web().post(headers=[(b"content-length", b"x")], length=False)).status == 400

    async def test_a_sender_who_hung_up_gets_no_answer(self) -> None:
        async def gone() -> dict[str, Any]:
            return {"type": "http.disconnect"}

        web = Web()
        assert await post(web.application, "/webhooks/github", PUSH, [], receive=gone) is None

    async def test_more_than_the_process_has_room_for_is_503(self) -> None:
        web = Web(budget=200_000)
        waiting = [asyncio.Event() for _ in range(3)]
        web.database.then = [each.wait for each in waiting]  # type: ignore[misc]
        under_way = [asyncio.create_task(web.post()) for _ in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        answer = await web.post()
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        for each in waiting:
            each.set()
        assert {(await each).status for each in under_way} == {200}
        assert (await web.post()).status == 200

    async def test_large_bodies_that_never_end_keep_no_small_one_out(self) -> None:
        web = Web(budget=1_000_000)

        def stalled() -> Any:
            pieces = [b"x" * 400_000]

            async def receive() -> dict[str, Any]:
                if not pieces:
                    await asyncio.Event().wait()
                return {"type": "http.request", "body": pieces.pop(), "more_body": True}

            return receive

        length = [(b"content-length", b"900000")]
        hanging = [
            asyncio.create_task(web.post(headers=length, length=False, receive=stalled())) for _ in range(4)
        ]
        for _ in range(5):
            await asyncio.sleep(0)
        assert [each.done() and each.result().status for each in hanging] == [False, False, 503, 503]
        assert (await web.post()).status == 200
        for each in hanging[:2]:
            each.cancel()
        # The server is at its end: what is cut off is told to come again.
        assert [(await each).status for each in hanging[:2]] == [503, 503]

    async def test_what_nobody_signed_is_not_unpacked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bomb = gzip.compress(b"0" * 3_000_000)
        lying = bomb[:-4] + (7).to_bytes(4, "little")
        web = Web(limit=1_000_000)
        packed = (b"content-encoding", b"gzip")
        assert (await web.post(bomb, [*github(bomb, "1"), packed])).status == 413
        assert (await web.post(lying, [*github(lying, "1"), packed])).status == 413
        assert (await web.post(bomb, [*github(bomb, "1", secret="another"), packed])).status == 413
        monkeypatch.setattr("redrive.inbox.examine.unpacked", None)
        assert (await web.post(lying, [*github(lying, "1", secret="another"), packed])).word == "mismatch"

    async def test_a_body_of_megabytes_is_given_longer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(receiving, "_ANSWER_WITHIN", 0.01)
        body = json.dumps({"text": "x" * 2_000_000}).encode()
        web = Web()
        at_last = asyncio.Event()
        web.database.then = [at_last.wait]  # type: ignore[list-item]
        asyncio.get_running_loop().call_later(0.1, at_last.set)
        assert (await web.post(body, github(body, "1"))).word == "ok"

    async def test_it_says_whether_it_lives_and_is_ready(self) -> None:
        web = Web()
        for path in ("/livez", "/readyz"):
            assert (await web.post(path=path, method="GET")).status == 200
        web.database.down = True
        assert (await web.post(path="/livez", method="GET")).status == 200
        assert (await web.post(path="/readyz", method="GET")).status == 503
        web.database.down = False
        web.database.then = [QueueMissing("queue hooks does not exist"), Unavailable("out of reach")]
        words = [(await web.post(path="/readyz", method="GET")).word for _ in range(3)]
        assert words == ["webhooks cannot be recorded", "the database does not answer", "ok"]

    async def test_a_fault_of_ours_is_logged_and_503(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(receiving, "examine", broken)
        assert (await Web().post()).status == 503
        assert "ZeroDivisionError" in caplog.text


class TestTheDatabase:
    @pytest.mark.parametrize(
        "fault",
        [
            Unavailable("out of reach"),
            SetupError("no schema"),
            QueueMissing("no queue hooks"),
            errors.InternalError_("broken"),
            InvalidArgument("of our own making"),
        ],
    )
    async def test_its_faults_are_503_with_retry_after(self, fault: Exception) -> None:
        web = Web()
        web.database.then = [fault]
        answer = await web.post()
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert (await web.post()).word == "ok"

    async def test_an_outage_is_one_line_of_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "redrive.inbox")
        web = Web()
        web.database.down = True
        for _ in range(20):
            assert (await web.post()).status == 503
        assert caplog.text.count("out of reach") == 1

    async def test_its_return_is_one_line_of_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "redrive.inbox")
        web = Web()
        await web.post()
        assert caplog.text == ""
        web.database.down = True
        await web.post()
        web.database.down = False
        for _ in range(3):
            assert (await web.post()).status == 200
        assert caplog.text.count("the database is back") == 1

    async def test_why_a_slow_one_failed_at_last_is_told_once(
        self, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receiving, "_ANSWER_WITHIN", 0.02)
        web = Web()
        at_last = asyncio.Event()

        async def refused() -> None:
            await at_last.wait()
            raise Unavailable('the database is out of reach: database "shop" does not exist')

        web.database.then = [refused, refused]
        for _ in range(2):
            assert (await web.post()).status == 503
        at_last.set()
        await web.receiver.close()
        assert caplog.text.count('database "shop" does not exist') == 1

    async def test_a_setting_that_is_wrong_is_a_sentence_and_no_traceback(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        web = Web()
        web.database.then = [ConfigError("no database is named")] * 2
        for _ in range(2):
            assert (await web.post()).status == 503
        assert caplog.text.count("no database is named") == 1 and "Traceback" not in caplog.text

    async def test_a_database_that_does_not_answer_is_503_and_the_repeat_a_duplicate(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receiving, "_ANSWER_WITHIN", 0.05)
        web = Web()
        at_last = asyncio.Event()
        web.database.then = [at_last.wait]  # type: ignore[list-item]
        assert (await web.post()).status == 503
        at_last.set()
        await web.receiver.close()
        assert [call["event_id"] for call in web.database.calls] == ["1"]
        assert (await web.post()).word == "duplicate"

    async def test_bodies_that_are_still_being_recorded_count_as_received(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receiving, "_ANSWER_WITHIN", 0.05)
        web = Web(budget=160_000)
        at_last = asyncio.Event()
        web.database.then = [at_last.wait, at_last.wait]  # type: ignore[list-item]
        assert {(await web.post()).status for _ in range(2)} == {503}
        web.database.then = [AssertionError("there is no room to ask")]
        assert (await web.post()).status == 503
        assert web.database.then
        web.database.then = []
        at_last.set()
        await web.receiver.close()
        assert (await web.post()).word == "duplicate"


class TestSignedMeansRecorded:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"not json",
            b"\xff\xfe{\x00}\x00",
            b'{"a": "\xc3\x28"}',
            b"a=1&b=2",
            b"[" * 100_000 + b"]" * 100_000,
            b'{"a": 1} trailing',
        ],
    )
    async def test_what_is_no_json_is_kept_raw(self, body: bytes) -> None:
        web = Web()
        assert (await web.post(body)).word == "ok"
        assert (web.recorded["payload"], web.recorded["raw"]) == (None, body)

    async def test_a_bom_is_no_part_of_the_payload_and_the_rest_is_not_touched(self) -> None:
        body = b'\xef\xbb\xbf {"b": 1.10, "a": "\\u00e9", "b": 1e2} \n'
        web = Web()
        assert (await web.post(body)).word == "ok"
        assert web.recorded["payload"] == body.decode("utf-8-sig")
        assert web.recorded["raw"] == body

    @pytest.mark.parametrize("sqlstate", ["22P02", "22P05", "54000", "54001"])
    async def test_what_postgres_cannot_hold_is_kept_raw_in_the_same_request(self, sqlstate: str) -> None:
        web = Web()
        web.database.then = [hard_to_hold(sqlstate)]
        assert (await web.post()).word == "ok"
        assert web.recorded["payload"] is None
        assert (web.recorded["event_id"], web.recorded["type"]) == ("1", "push")

    async def test_names_that_postgres_cannot_hold_give_way_to_the_body_s_hash(self) -> None:
        web = Web()
        web.database.then = [hard_to_hold("22P05"), hard_to_hold("22P05")]
        assert (await web.post()).word == "ok"
        assert web.recorded["event_id"] == f"sha256:{hashlib.sha256(PUSH).hexdigest()}"
        assert (web.recorded["type"], web.recorded["headers"], web.recorded["resource"]) == (
            "unknown",
            {},
            None,
        )
        assert web.recorded["raw"] == PUSH

    async def test_what_postgres_cannot_hold_in_any_form_is_503(self) -> None:
        web = Web()
        web.database.then = [hard_to_hold("54000")] * 3
        assert (await web.post()).status == 503

    async def test_a_packed_body_is_verified_as_received_and_read_unpacked(self) -> None:
        packed = gzip.compress(PUSH)
        web = Web()
        headers = [*github(packed, "1"), (b"content-encoding", b"gzip")]
        assert (await web.post(packed, headers)).word == "ok"
        assert (web.recorded["payload"], web.recorded["raw"]) == (PUSH.decode(), packed)
        assert web.recorded["headers"]["content-encoding"] == "gzip"

    @pytest.mark.parametrize("encoding", [b"gzip", b"br", b"gzip, br"])
    async def test_one_that_cannot_be_unpacked_is_kept_raw(self, encoding: bytes) -> None:
        body = b"\x1f\x8bnot so"
        web = Web()
        headers = [*github(body, "1"), (b"content-encoding", encoding)]
        assert (await web.post(body, headers)).word == "ok"
        assert (web.recorded["payload"], web.recorded["raw"]) == (None, body)

    @pytest.mark.parametrize(
        ("body", "kept"),
        [
            (b"[" + b",".join([b"1e131071"] * 400) + b"]", False),
            (b"[" + b",".join([b"1e99"] * 600_000) + b"]", False),
            (b"[" + b",".join([b"1.5e-10"] * 600_000) + b"]", True),
            (b'{"n": 1E+99999999999999999999}', False),
            (b"[" + b"[" * 5_000 + b"1e999" + b"]" * 5_000 + b"]", False),
            (b"[1e131071, 1e-16000, 2.5e300]", True),
            (b'{"sha": "' + b"4e99999 " * 2_000 + b'", "n": 1}', True),
            (b'{"sha": "4e99999", "n": 1' + b"0" * 5_000 + b"}", True),
        ],
    )
    async def test_one_whose_few_bytes_are_millions_of_digits_is_kept_raw(
        self, body: bytes, kept: bool
    ) -> None:
        web = Web()
        assert (await web.post(body, github(body, "1"))).word == "ok"
        assert (web.recorded["payload"] is not None) is kept
        assert web.recorded["raw"] == body

    async def test_a_large_one_is_looked_at_beside_the_loop_with_the_same_result(self) -> None:
        body = json.dumps({"text": "x" * 2_000_000}).encode()
        web = Web()
        assert (await web.post([body[:999], body[999:]], github(body, "1"))).word == "ok"  # type: ignore[arg-type]
        assert web.recorded["payload"] == body.decode()
        assert (await web.post(body, [])).word == "no_header"
        await web.receiver.close()

    async def test_without_an_id_the_body_s_hash_tells_repeats(self) -> None:
        web = Web()
        headers = [each for each in github(PUSH, "1") if each[0] != b"x-github-delivery"]
        assert [(await web.post(headers=headers)).word for _ in range(2)] == ["ok", "duplicate"]
        assert web.database.calls[0]["event_id"] == f"sha256:{hashlib.sha256(PUSH).hexdigest()}"

    @pytest.mark.parametrize("size", [256, 8_193, 60_000])
    async def test_an_id_that_is_too_long_is_the_body_s_hash(self, size: int) -> None:
        web = Web()
        assert (await web.post(headers=github(PUSH, "1" * size))).word == "ok"
        assert web.recorded["event_id"] == f"sha256:{hashlib.sha256(PUSH).hexdigest()}"

    async def test_where_the_hash_is_not_to_tell_each_delivery_is_new(self) -> None:
        web = Web(config={"body_hash": False})
        headers = [each for each in github(PUSH, "1") if each[0] != b"x-github-delivery"]
        assert [(await web.post(headers=headers)).word for _ in range(2)] == ["ok", "ok"]

    async def test_headers_are_kept_without_credentials_and_signatures_and_bounded(self) -> None:
        web = Web()
        more = [
            (b"authorization", b"Basic c2VjcmV0"),
            (b"cookie", b"session=secret"),
            (b"proxy-authorization", b"secret"),
            (b"x-twice", b"a"),
            (b"x-twice", b"b"),
            (b"x-odd", b"a\x00\xe9"),
            *((f"x-{n}".encode(), b"y" * 3_000) for n in range(20)),
        ]
        assert (await web.post(headers=[*github(PUSH, "1"), *more])).word == "ok"
        kept = web.recorded["headers"]
        assert kept["x-github-event"] == "push" and kept["x-twice"] == "a, b" and kept["x-odd"] == "a␀é"
        assert not kept.keys() & {"authorization", "cookie", "proxy-authorization", "x-hub-signature-256"}
        assert len(json.dumps(kept)) < 10_000


class TestHandshakes:
    async def test_a_ping_of_github_is_answered_and_not_stored(self) -> None:
        web = Web()
        answer = await web.post(b'{"zen": "x"}', github(b'{"zen": "x"}', "1", "ping"))
        assert (answer.status, answer.body) == (200, b"") and not web.database.calls

    async def test_a_challenge_of_slack_is_answered_and_not_stored(self) -> None:
        web = Web(provider="slack")
        body = b'{"type": "url_verification", "challenge": "3eZbrw1a"}'
        answer = await web.post(body, lines(sign("slack", secret=SECRET, body=body)))
        assert json.loads(answer.body) == {"challenge": "3eZbrw1a"} and not web.database.calls
        assert answer.headers["content-type"] == "application/json"

    async def test_a_validation_of_zoom_is_signed_with_the_secret_that_signed_it(self) -> None:
        web = Web(provider="zoom", secret=["a newer one", SECRET])
        body = b'{"event": "endpoint.url_validation", "payload": {"plainToken": "qgg8vlvZRS6UYooatFL8Aw"}}'
        answer = await web.post(body, lines(sign("zoom", secret=SECRET, body=body)))
        expected = hmac.new(SECRET.encode(), b"qgg8vlvZRS6UYooatFL8Aw", hashlib.sha256).hexdigest()
        assert json.loads(answer.body)["encryptedToken"] == expected and not web.database.calls

    async def test_one_that_is_not_signed_is_refused(self) -> None:
        web = Web(provider="slack")
        assert (await web.post(b'{"type": "url_verification", "challenge": "x"}', [])).status == 401


class TestEveryVector:
    @pytest.mark.parametrize("vector", [pytest.param(each, id=each["id"]) for each in VECTORS])
    async def test_is_answered_as_its_verdict_says(self, vector: dict[str, Any]) -> None:
        timed = vector.get("tolerance_s")
        web = Web(
            source="hook",
            provider=vector["scheme"],
            secret=secrets_of(vector),
            tolerance=timed,
            config=vector.get("config"),
            url=vector.get("url"),
            clock=lambda: float(vector.get("now", 0)),
        )
        answer = await web.post(
            body_of(vector),
            lines(vector["headers"]),
            "/webhooks/hook",
            url=vector.get("url", "http://hooks.test"),
            length=False,
        )
        if vector["expected"] == "invalid":
            assert answer.status == 401
            assert answer.word in ("no_header", "malformed", "stale", "mismatch")
            assert web.database.calls == []
            return
        assert answer.status == 200
        if web.database.calls:
            assert web.recorded["raw"] == body_of(vector)
            assert web.recorded["event_id"] == vector.get("event_id", web.recorded["event_id"])
            assert web.recorded["type"] == vector.get("event_type", web.recorded["type"])


class TestSecrets:
    def test_an_absent_one_refuses_to_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("GIT_HUB_WEBHOOK_SECRET", raising=False)
        with pytest.raises(ConfigError, match="GIT_HUB_WEBHOOK_SECRET is not set"):
            Web(source="git-hub", secret=None)
        monkeypatch.setenv("GIT_HUB_WEBHOOK_SECRET", SECRET)
        Web(source="git-hub", secret=None)

    @pytest.mark.parametrize("secret", ["", "  ", f"{SECRET}\n", [], [SECRET, ""], lambda: ""])
    def test_one_that_cannot_be_right_refuses_to_start_without_being_shown(self, secret: Any) -> None:
        app = Redrive()
        app.inbox("github", provider="github", secret=secret, queue="hooks")
        with pytest.raises(ConfigError) as refused:
            asgi(app)
        assert "github" in str(refused.value) and SECRET not in str(refused.value)

    async def test_an_old_one_still_counts_and_is_told_of(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO, "redrive.inbox")
        web = Web(secret=["a newer one", SECRET])
        assert (await web.post()).word == "ok"
        assert "old secret: secret number 2 of inbox 'github'" in caplog.text and SECRET not in caplog.text

    def test_no_database_is_found_out_before_the_first_webhook(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for name in ("REDRIVE_DATABASE_URL", "DATABASE_URL"):
            monkeypatch.delenv(name, raising=False)
        app = Redrive()
        app.inbox("github", provider="github", secret=SECRET, queue="hooks")
        with pytest.raises(ConfigError, match="no database is named; set REDRIVE_DATABASE_URL"):
            asgi(app)
        monkeypatch.setenv("REDRIVE_DATABASE_URL", "mysql://db/shop")
        with pytest.raises(ConfigError, match="database URL"):
            asgi(app)
        # Nobody listens there, and nobody is asked.
        monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://app@127.0.0.1:1/shop")
        asgi(app)
        monkeypatch.setenv("REDRIVE_DATABASE_URL", "embedded")
        app = Redrive()
        app.inbox("github", provider="github", secret=SECRET, queue="hooks")
        asgi(app)
        assert list(tmp_path.iterdir()) == []

    def test_an_app_that_declares_nothing_is_nothing_to_serve(self) -> None:
        with pytest.raises(ConfigError, match="declares neither an inbox nor a job"):
            asgi(Redrive())


async def test_twilio_is_held_against_the_url_as_configured_or_as_seen() -> None:
    body = b"MessageSid=SM1&MessageStatus=sent"
    public = "https://hooks.example.org/redrive/webhooks/twilio"
    headers = lines(sign("twilio", secret=SECRET, body=body, url=public))
    as_seen = {"path": "/redrive/webhooks/twilio", "url": "https://hooks.example.org"}
    given = Web(source="twilio", provider="twilio", url=public)
    assert (await given.post(body, headers, "/webhooks/twilio")).word == "ok"
    seen = Web(source="twilio", provider="twilio")
    assert (await seen.post(body, headers, "/webhooks/twilio")).word == "mismatch"
    from starlette.applications import Starlette
    from starlette.routing import Mount

    mounted = Starlette(routes=[Mount("/redrive", seen.application)])
    answer = await post(mounted, as_seen["path"], body, headers, url=as_seen["url"])
    assert answer is not None and answer.word == "ok"
    assert (seen.recorded["type"], seen.recorded["resource"]) == ("sent", "SM1")
