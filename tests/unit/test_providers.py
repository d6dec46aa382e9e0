"""Who an event is, what it is about, and which requests only ask whether the receiver is there."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import ConfigError, InvalidArgument
from redrive.inbox.providers import PROVIDERS, Identity, provider
from redrive.inbox.schemes import NAMES
from redrive.inbox.signing import sign
from tests.support.values import json_values
from tests.support.webhooks import NOW, URL, config_of, secret_of

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def identified(name: str, payload: Any, headers: Any = (), **options: Any) -> Identity:
    body = json.dumps(payload).encode()
    return provider(name, options.pop("config", config_of(name))).identify(headers, payload, body, **options)


def hashed(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


class TestIdentity:
    @pytest.mark.parametrize(
        ("name", "headers", "payload", "expected"),
        [
            (
                "stripe",
                {},
                {"id": "evt_1", "type": "charge.succeeded", "data": {"object": {"id": "ch_1"}}},
                Identity("evt_1", "charge.succeeded", "ch_1", False),
            ),
            (
                "mux",
                {},
                {"id": "e", "type": "video.asset.ready", "object": {"type": "asset", "id": "as_1"}},
                Identity("e", "video.asset.ready", "as_1", False),
            ),
            (
                "fastpix",
                {},
                {"id": "e", "type": "video.media.ready", "object": {}, "data": {"id": "m-1"}},
                Identity("e", "video.media.ready", "m-1", False),
            ),
            (
                "github",
                {"x-github-delivery": "d-1", "x-github-event": "issues"},
                {"action": "opened", "repository": {"full_name": "octo/cat"}},
                Identity("d-1", "issues", "octo/cat", False),
            ),
            (
                "shopify",
                {"X-Shopify-Webhook-Id": "w", "X-Shopify-Event-Id": "e", "X-Shopify-Topic": "orders/create"},
                {"id": 1, "admin_graphql_api_id": "gid://shopify/Order/1"},
                Identity("w", "orders/create", "gid://shopify/Order/1", False),
            ),
            (
                "slack",
                {},
                {"type": "event_callback", "event_id": "Ev1", "event": {"type": "app_mention"}},
                Identity("Ev1", "app_mention", None, False),
            ),
            (
                "paddle",
                {},
                {"event_id": "evt_1", "notification_id": "n", "event_type": "a.b", "data": {"id": "txn_1"}},
                Identity("evt_1", "a.b", "txn_1", False),
            ),
            (
                "linear",
                {"Linear-Delivery": "d", "Linear-Event": "Comment"},
                {"type": "Issue", "action": "create", "data": {"id": "i1"}},
                Identity("d", "Issue", "i1", False),
            ),
            (
                "linear",
                {"Linear-Delivery": "d", "Linear-Event": "Comment"},
                [],
                Identity("d", "Comment", None, False),
            ),
            (
                "cloudflare-stream",
                {},
                {"uid": "u", "status": {"state": "ready"}, "modified": "2026-01-01T00:00:00Z"},
                Identity("u:ready:2026-01-01T00:00:00Z", "ready", "u", True),
            ),
            (
                "cloudflare-stream",
                {},
                {"uid": "u", "status": {"state": "error"}},
                Identity("u:error", "error", "u", True),
            ),
            ("bunny-stream", {}, {"VideoGuid": "g", "Status": 3}, Identity("g:3", "3", "g", True)),
            (
                "twilio",
                {"I-Twilio-Idempotency-Token": "t"},
                {"MessageSid": "SM1", "MessageStatus": "sent"},
                Identity("t", "sent", "SM1", False),
            ),
            (
                "twilio",
                {},
                {"MessageSid": "SM1", "MessageStatus": "sent"},
                Identity("SM1:sent", "sent", "SM1", False),
            ),
            ("svix", {"svix-id": "m"}, {"eventType": "a.b"}, Identity("m", "a.b", None, False)),
            (
                "svix",
                {"svix-signature": "v1,", "svix-id": "m", "webhook-id": "other"},
                {"type": "a.b"},
                Identity("m", "a.b", None, False),
            ),
            ("standard-webhooks", {"webhook-id": "m"}, {"type": "a.b"}, Identity("m", "a.b", None, False)),
        ],
    )
    def test_it_stands_where_the_provider_puts_it(
        self, name: str, headers: Any, payload: Any, expected: Identity
    ) -> None:
        if name == "svix" and "svix-signature" not in headers:
            headers = {**headers, "svix-signature": "v1,x"}
        assert identified(name, payload, headers) == expected

    @pytest.mark.parametrize("id", [None, 3, "", "a" * 256, "nul\0", "\ud800", ["e"], True])
    @pytest.mark.parametrize("name", ["stripe", "mux", "fastpix", "paddle", "slack"])
    def test_an_id_and_type_that_are_none_become_the_hash_and_unknown(self, name: str, id: Any) -> None:
        payload = {"id": id, "event_id": id, "type": id, "event_type": id, "data": {"id": id}}
        expected = Identity(hashed(json.dumps(payload).encode()), "unknown", None, False)
        assert identified(name, payload) == expected

    @pytest.mark.parametrize("value", ["", "é", ["d", "d"], "d" * 256])
    def test_a_header_that_is_no_id_is_none(self, value: Any) -> None:
        found = identified("github", {}, {"X-GitHub-Delivery": value, "X-GitHub-Event": value})
        assert found == Identity(hashed(b"{}"), "unknown", None, False)

    def test_the_longest_id_is_255_characters(self) -> None:
        assert identified("stripe", {"id": "é" * 255}).event_id == "é" * 255

    def test_a_state_without_its_parts_is_no_derived_id(self) -> None:
        for payload in (
            {"VideoGuid": "g"},
            {"VideoGuid": "g", "Status": True},
            {"Status": 10**18, "VideoGuid": "g"},
        ):
            found = identified("bunny-stream", payload)
            assert (found.event_id, found.derived) == (hashed(json.dumps(payload).encode()), False)

    def test_zooms_is_made_of_event_time_and_object(self) -> None:
        payload = {"event": "meeting.started", "event_ts": 1, "payload": {"object": {"uuid": "u=="}}}
        found = identified("zoom", payload)
        assert found.event_id == hashlib.sha256(b'["meeting.started", 1, "u=="]').hexdigest()
        assert (found.type, found.resource, found.derived) == ("meeting.started", "u==", False)
        again = identified("zoom", {**payload, "retried": True})
        assert again == found
        assert identified("zoom", {**payload, "event_ts": 2}) != found

    def test_the_signed_id_goes_before_one_that_a_replay_may_add(self) -> None:
        replayed = {"webhook-id": "signed", "svix-id": "added"}
        assert identified("svix", {}, replayed, signed_id="signed").event_id == "signed"
        assert identified("svix", {}, {**replayed, "webhook-signature": "v1,"}).event_id == "signed"

    @given(st.sampled_from(NAMES), json_values, st.binary(max_size=99), st.data())
    def test_whatever_arrives_is_identified(
        self, name: str, payload: Any, body: bytes, data: st.DataObject
    ) -> None:
        values = st.text(st.characters(), max_size=300)
        names = st.sampled_from(
            ["Content-Type", *sign(name, secret=secret_of(name), body=b"", url=URL, config=config_of(name))]
        )
        headers = data.draw(st.dictionaries(names, values | st.sampled_from(list(FORM.values()))))
        known = provider(name, config_of(name))
        found = known.identify(headers, data.draw(st.sampled_from([payload, None])), body)
        for text in (found.event_id, found.type, found.resource or "x"):
            assert text is not None
            assert 0 < len(text) <= 255
            assert "\0" not in text
            assert text.encode()
        known.action_of(payload, headers, body)
        known.handshake(headers, payload, ["s"])

    def test_the_action_is_a_part_of_its_own(self) -> None:
        assert PROVIDERS["github"].action_of({"action": "opened"}) == "opened"
        assert PROVIDERS["github"].action_of({}) is PROVIDERS["stripe"].action_of({"action": "x"}) is None

    def test_what_changes_between_deliveries_is_declared(self) -> None:
        volatile = {name: known.volatile for name, known in PROVIDERS.items() if known.volatile}
        assert volatile == {
            "mux": ("attempts",),
            "fastpix": ("attempts",),
            "stripe": ("pending_webhooks",),
        }


class TestForms:
    def test_twilios_fields_tell_who_it_is(self) -> None:
        body = b"MessageSid=SM1&SmsStatus=received&Body=%00&MessageSid=SM2"
        found = PROVIDERS["twilio"].identify(FORM, None, body)
        assert found == Identity(hashed(body), "received", "SM1", False)
        found = PROVIDERS["twilio"].identify(FORM, None, b"CallSid=CA1&CallStatus=ringing")
        assert (found.type, found.resource) == ("ringing", "CA1")

    def test_githubs_and_slacks_payload_field_is_read(self) -> None:
        fields = {"payload": json.dumps({"repository": {"full_name": "a/b"}, "action": "opened"})}
        body = urlencode(fields).encode()
        assert PROVIDERS["github"].identify(FORM, None, body).resource == "a/b"
        assert PROVIDERS["github"].action_of(None, FORM, body) == "opened"
        click = urlencode({"payload": '{"type": "block_actions", "trigger_id": "12.3"}'}).encode()
        assert PROVIDERS["slack"].identify(FORM, None, click) == Identity(
            "12.3", "block_actions", None, False
        )

    def test_slacks_commands_are_told_apart(self) -> None:
        body = b"command=%2Fdeploy&text=&trigger_id=13.7"
        assert PROVIDERS["slack"].identify(FORM, None, body) == Identity("13.7", "/deploy", None, False)

    @pytest.mark.parametrize(
        "body",
        [b"payload=%5B" * 2, b"payload=nonsense", b"a&" * 2000, b"MessageSid=" + b"x" * 10**6, b"\xff=%FF"],
    )
    def test_one_that_cannot_be_read_says_nothing(self, body: bytes) -> None:
        for name in ("github", "twilio"):
            assert PROVIDERS[name].identify(FORM, None, body) == Identity(
                hashed(body), "unknown", None, False
            )

    def test_only_a_form_is_read_as_one(self) -> None:
        for headers in ((), {"Content-Type": "text/plain"}, {"Content-Type": [*FORM.values()] * 2}):
            assert PROVIDERS["twilio"].identify(headers, None, b"MessageSid=SM1").resource is None


class TestConfig:
    def test_generic_finds_by_pointer_or_header(self) -> None:
        config = {
            "signature_header": "X-S",
            "event_id": "/meta/ids/1",
            "type": "X-Type",
            "resource": "/a~1b/m~0n",
        }
        payload = {"meta": {"ids": ["a", "b"]}, "a/b": {"m~n": "r"}}
        headers = {"x-type": "made", "X-Id": "unused"}
        assert identified("generic", payload, headers, config=config) == Identity("b", "made", "r", False)
        for short in ({"meta": {"ids": ["a"]}}, {"meta": {"ids": {"1": 2}}}, {"meta": 3}, None):
            found = identified("generic", short, headers, config=config)
            assert found == Identity(hashed(json.dumps(short).encode()), "made", None, False)

    def test_generic_takes_the_id_header_where_no_event_id_is_configured(self) -> None:
        config = {"signature_header": "X-S", "id_header": "X-Id"}
        assert identified("generic", {}, {"X-Id": "i"}, config=config).event_id == "i"
        config |= {"event_id": "/id"}
        assert identified("generic", {"id": "j"}, {"X-Id": "i"}, config=config, signed_id="i").event_id == "j"

    def test_the_bodys_hash_can_be_switched_off(self) -> None:
        for name, config in (("api-video", {}), ("generic", {"signature_header": "X-S"})):
            assert identified(name, {}, config=config).event_id == hashed(b"{}")
            assert identified(name, {}, config={**config, "body_hash": False}).event_id is None

    @pytest.mark.parametrize(
        ("name", "config", "named"),
        [
            ("github", {"event_id": "/id"}, "event_id"),
            ("github", {"body_hash": "no"}, "body_hash"),
            ("generic", {"signature_header": "X-S", "type": 3}, "type"),
            ("generic", {"signature_header": "X-S", "resource": " "}, "resource"),
            ("nobody", {}, "nobody"),
        ],
    )
    def test_what_cannot_be_right_is_refused_by_name(self, name: str, config: Any, named: str) -> None:
        with pytest.raises(ConfigError, match=named):
            provider(name, config)


class TestHandshakes:
    def test_slacks_challenge_goes_back(self) -> None:
        asked = {"type": "url_verification", "challenge": "3eZbrw1aB"}
        answer = PROVIDERS["slack"].handshake({}, asked, ["s"])
        assert answer is not None
        assert json.loads(answer.body) == {"challenge": "3eZbrw1aB"}
        assert answer.content_type == "application/json"

    def test_zooms_token_goes_back_signed_with_the_secret_that_fitted(self) -> None:
        asked = {"event": "endpoint.url_validation", "payload": {"plainToken": "qgg8vlvZRS6UYooatFL8Aw"}}
        for secrets, matched in ((["zoomsecret"], 0), (["newer", "zoomsecret"], 1)):
            answer = PROVIDERS["zoom"].handshake({}, asked, secrets, matched)
            assert answer is not None
            assert json.loads(answer.body) == {
                "plainToken": "qgg8vlvZRS6UYooatFL8Aw",
                "encryptedToken": "83b2a60d4bbe49dc93763ed9e727a9a7690cbe4c1f8bb0adc0ffccd09ecb1384",
            }

    def test_githubs_ping_is_answered_and_no_more(self) -> None:
        answer = PROVIDERS["github"].handshake({"X-GitHub-Event": "ping"}, None, ["s"])
        assert answer is not None
        assert answer.body == b""

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(
        "payload",
        [
            None,
            [],
            {"type": "url_verification"},
            {"type": "url_verification", "challenge": 3},
            {"event": "endpoint.url_validation", "payload": []},
            {"event": "endpoint.url_validation", "payload": {"plainToken": None}},
            {"challenge": "x", "plainToken": "x"},
        ],
    )
    def test_nothing_else_is_a_handshake(self, name: str, payload: Any) -> None:
        assert PROVIDERS[name].handshake({"X-GitHub-Event": "push"}, payload, ["s"]) is None

    @pytest.mark.parametrize("text", ["\ud800", "\0", "é"])
    def test_any_text_goes_back(self, text: str) -> None:
        slack = PROVIDERS["slack"].handshake({}, {"type": "url_verification", "challenge": text}, ["s"])
        asked = {"event": "endpoint.url_validation", "payload": {"plainToken": text}}
        zoom = PROVIDERS["zoom"].handshake({}, asked, ["s"])
        assert slack is not None
        assert zoom is not None
        assert json.loads(slack.body)["challenge"] == json.loads(zoom.body)["plainToken"] == text


class TestSigning:
    @pytest.mark.parametrize(
        ("name", "header"),
        [
            ("github", "X-GitHub-Event"),
            ("shopify", "X-Shopify-Topic"),
            ("linear", "Linear-Event"),
        ],
    )
    def test_identity_that_stands_in_headers_is_sent_there(self, name: str, header: str) -> None:
        headers = sign(name, secret="s", body=b"{}", event_id="d-1", type="a.b")
        assert headers[header] == "a.b"
        found = PROVIDERS[name].identify(headers, {}, b"{}")
        assert (found.event_id, found.type) == ("d-1", "a.b")

    def test_each_is_a_new_event_where_no_id_is_given(self) -> None:
        for name in ("github", "svix", "twilio"):
            ids = {
                PROVIDERS[name]
                .identify(sign(name, secret=secret_of(name), body=b"", url=URL), None, b"")
                .event_id
                for _ in range(3)
            }
            assert len(ids) == 3

    @pytest.mark.parametrize(
        ("name", "body", "more", "said"),
        [
            ("stripe", b'{"id": "evt_1"}', {"event_id": "evt_2"}, "event_id is 'evt_2'.* /id of .* 'evt_1'"),
            ("stripe", b'{"id": "evt_1"}', {"type": "a.b"}, "type is 'a.b'.* /type of .* 'unknown'"),
            ("fastpix", b"no JSON", {"event_id": "e"}, "event_id is 'e'.* 'sha256:"),
            ("zoom", b"{}", {"event_id": "e"}, "event_id is 'e', but zoom has no place for it"),
            ("slack", b'{"event": {"type": "message"}}', {"type": "click"}, "/event/type .* 'message'"),
        ],
    )
    def test_identity_that_stands_in_the_body_cannot_be_given_beside_it(
        self, name: str, body: bytes, more: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(InvalidArgument, match=said):
            sign(name, secret=secret_of(name), body=body, **more)

    def test_what_the_body_says_anyway_may_be_given(self) -> None:
        body = b'{"id": "evt_1", "type": "a.b"}'
        given = sign("stripe", secret="s", body=body, now=NOW, event_id="evt_1", type="a.b")
        assert given == sign("stripe", secret="s", body=body, now=NOW)

    def test_the_same_call_signs_the_same(self) -> None:
        for name in NAMES:
            in_body = name in ("stripe", "mux", "slack", "paddle", "zoom", "fastpix", "cloudflare-stream")
            in_body |= name in ("api-video", "bunny-stream")
            calls = [
                sign(
                    name,
                    secret=secret_of(name),
                    body=b"{}",
                    now=NOW,
                    event_id=None if in_body else "e",
                    url=URL,
                    config=config_of(name),
                )
                for _ in range(2)
            ]
            assert calls[0] == calls[1]

    def test_a_public_key_cannot_sign(self) -> None:
        with pytest.raises(ConfigError, match="public key"):
            sign("svix", secret="whpk_" + "A" * 43 + "=", body=b"")

    @pytest.mark.parametrize("value", ["é", "a\r\nX: y", " a", "\ud800"])
    def test_what_cannot_stand_in_a_header_is_refused(self, value: str) -> None:
        with pytest.raises(ConfigError, match="X-GitHub-Delivery"):
            sign("github", secret="s", body=b"{}", event_id=value)
        with pytest.raises(ConfigError, match="X-GitHub-Event"):
            sign("github", secret="s", body=b"{}", type=value)

    def test_twilio_needs_the_url(self) -> None:
        with pytest.raises(ConfigError, match="url"):
            sign("twilio", secret="s", body=b"a=b")
