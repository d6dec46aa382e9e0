"""What a signature vouches for, and that nothing a sender can send does more than be refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import sys
import tracemalloc
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import ConfigError, SignatureError
from redrive.inbox import signatures
from redrive.inbox.schemes import NAMES, SCHEMES, configured
from redrive.inbox.signatures import Verified, Verifier, verify
from redrive.inbox.signing import sign, signed_url
from tests.support.webhooks import NOW, URL, config_of, secret_of

BODY = b'{"id": "evt_1", "type": "thing.made"}'
SCHEME = st.sampled_from(NAMES)
# Of all characters, surrogates too; and more often those that mean something in these headers.
_TEXT = st.text(st.characters() | st.sampled_from(",;=. \t0159v+-abcdef"), max_size=120)
VALUE = _TEXT | st.lists(_TEXT, max_size=3)


def signed(scheme: str, body: bytes = BODY, **more: Any) -> dict[str, str]:
    more = {"now": NOW, "url": URL, "config": config_of(scheme), **more}
    return sign(scheme, secret=more.pop("secret", secret_of(scheme)), body=body, **more)


def check(scheme: str, headers: Any, body: bytes = BODY, **more: Any) -> Verified:
    more = {"secrets": [secret_of(scheme)], "now": NOW, "config": config_of(scheme), **more}
    return verify(
        scheme, headers=headers, body=body, url=more.pop("url", signed_url(scheme, URL, body)), **more
    )


def refused(scheme: str, headers: Any, body: bytes = BODY, **more: Any) -> str:
    with pytest.raises(SignatureError) as error:
        check(scheme, headers, body, **more)
    return error.value.reason


def stripe(stamp: str | bytes, body: bytes = BODY) -> bytes:
    """A header whose digest is right, whatever the time says."""
    raw = stamp if isinstance(stamp, bytes) else stamp.encode("utf-8", "surrogatepass")
    digest = hmac.new(secret_of("stripe").encode(), raw + b"." + body, hashlib.sha256).hexdigest()
    return b"t=" + raw + b",v1=" + digest.encode()


class TestAnyRequest:
    @given(SCHEME, st.binary(max_size=300), st.integers(0, 10**12 - 1), st.data())
    def test_what_is_signed_is_verified(
        self, scheme: str, body: bytes, now: int, data: st.DataObject
    ) -> None:
        ids = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=80)
        id = data.draw(ids)
        rules = configured(scheme, config_of(scheme))
        headers = signed(scheme, body, now=now, event_id=id if rules.signs_id else None)
        found = check(scheme, headers, body, now=now + data.draw(st.integers(-5, 5)))
        assert found.secret == 0
        assert found.timestamp == (now if rules.timed and rules.body_time is None else None)
        if rules.signs_id:
            assert found.id == id

    @given(SCHEME, st.data())
    def test_whatever_its_headers_say_it_is_verified_or_refused(
        self, scheme: str, data: st.DataObject
    ) -> None:
        headers: dict[str, Any] = signed(scheme)
        names = st.sampled_from([*headers, "X-Twilio-Webhooks-Signature-Settings", "svix-id", "other"])
        headers |= data.draw(st.dictionaries(names, VALUE, max_size=4))
        try:
            check(scheme, headers, now=NOW, url=data.draw(st.just(URL) | _TEXT))
        except SignatureError as error:
            assert error.reason in ("no_header", "malformed", "stale", "mismatch")

    @given(SCHEME, st.binary(max_size=300), st.binary(max_size=40), st.floats(0, 10**12))
    def test_whatever_its_body_and_header_bytes_are_it_is_refused(
        self, scheme: str, body: bytes, value: bytes, now: float
    ) -> None:
        pairs = [(name.lower().encode(), value) for name in signed(scheme)]
        assert refused(scheme, pairs, body, now=now) in ("no_header", "malformed", "mismatch")

    @given(st.sampled_from([name for name in NAMES if name != "twilio"]), st.binary(min_size=1), st.data())
    def test_a_changed_byte_is_a_mismatch(self, scheme: str, body: bytes, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(body) - 1))
        other = data.draw(st.integers(0, 255).filter(lambda value: value != body[place]))
        changed = body[:place] + bytes([other]) + body[place + 1 :]
        assert refused(scheme, signed(scheme, body), changed) == "mismatch"

    @pytest.mark.parametrize("scheme", NAMES)
    def test_its_headers_may_come_in_any_shape(self, scheme: str) -> None:
        headers = signed(scheme)
        shouted = {name.upper(): [f" \t{value}\t "] for name, value in headers.items()}
        pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        assert check(scheme, headers) == check(scheme, shouted) == check(scheme, iter(pairs))

    @pytest.mark.parametrize("scheme", NAMES)
    def test_a_header_that_counts_is_sent_once_and_not_empty(self, scheme: str) -> None:
        headers = signed(scheme)
        family = configured(scheme, config_of(scheme)).families[0]
        for header in (family.signature, family.id, family.timestamp):
            if header is not None:
                value = headers[header.name]
                assert refused(scheme, {**headers, header.name: [value, value]}) == "malformed"
                assert refused(scheme, {**headers, header.name: f"{value}é"}) == "malformed"
        for header in (family.signature, family.timestamp):
            if header is not None:
                rest = {name: value for name, value in headers.items() if name != header.name}
                assert refused(scheme, rest) == refused(scheme, {**rest, header.name: " "}) == "no_header"

    @pytest.mark.parametrize("around", ["\r\n", "\n", "\x0b", "\xa0"])
    def test_only_spaces_and_tabs_are_trimmed(self, around: str) -> None:
        for scheme in ("github", "fastpix", "slack"):
            headers = {name: value + around for name, value in signed(scheme).items()}
            assert refused(scheme, headers) == "malformed"

    @pytest.mark.parametrize(
        "scheme", [name for name in NAMES if configured(name, config_of(name)).families[0].id]
    )
    def test_the_length_of_an_id_matters_only_where_it_is_signed(self, scheme: str) -> None:
        headers = signed(scheme, event_id="a" * 9_000)
        if configured(scheme, config_of(scheme)).signs_id:
            assert refused(scheme, headers) == "malformed"
        else:
            assert check(scheme, headers).id in (None, "evt_1")

    def test_that_a_header_is_missing_is_said_before_that_another_is_malformed(self) -> None:
        assert refused("slack", {"X-Slack-Signature": ["v0=é", "x"]}) == "no_header"
        assert refused("slack", {"X-Slack-Request-Timestamp": "+1", "X-Slack-Signature": ""}) == "no_header"

    def test_a_header_of_many_signatures_is_not_worked_through(self) -> None:
        value = signed("stripe")["Stripe-Signature"]
        for size, padding in ((8_192, "v1=,"), (8_192, "zz=,")):
            fits = value.rjust(size, "x").replace("x" * 4, padding)
            assert check("stripe", {"Stripe-Signature": fits})
            assert refused("stripe", {"Stripe-Signature": f"x{fits}"}) == "malformed"

    def test_the_kelvin_sign_is_no_k_in_a_headers_name(self) -> None:
        headers = signed("standard-webhooks")
        headers["web\u212aook-id"] = headers.pop("webhook-id")
        assert refused("standard-webhooks", headers) == "no_header"


class TestSecrets:
    @pytest.mark.parametrize("scheme", NAMES)
    def test_the_one_that_fits_is_told(self, scheme: str) -> None:
        other = base64.b64encode(b"another key, also of 32 bytes...").decode()
        headers = signed(scheme)
        assert check(scheme, headers, secrets=[other, secret_of(scheme)]).secret == 1
        assert check(scheme, headers, secrets=[secret_of(scheme), other]).secret == 0
        assert refused(scheme, headers, secrets=[other, other]) == "mismatch"

    def test_every_one_is_tried_with_every_signature(self, monkeypatch: pytest.MonkeyPatch) -> None:
        value = signed("stripe")["Stripe-Signature"]
        tried: list[tuple[bytes, bytes]] = []

        def compare(one: bytes, other: bytes) -> bool:
            assert isinstance(one, bytes)
            tried.append((one, other))
            return one == other

        monkeypatch.setattr(signatures.hmac, "compare_digest", compare)
        headers = {"Stripe-Signature": f"{value},v1=1,v1=2"}
        assert check("stripe", headers, secrets=[secret_of("stripe"), "b", "c"]).secret == 0
        assert len(set(tried)) == 9

    @pytest.mark.parametrize(
        ("scheme", "secret"),
        [
            ("github", ""),
            ("github", " \n"),
            ("github", "secret\n"),
            ("github", " secret"),
            ("github", "\udcff"),
            ("github", None),
            ("github", b"secret"),
            ("standard-webhooks", "whsec_"),
            ("standard-webhooks", "whsec_not base64"),
            ("standard-webhooks", "whsec_YWJj_-=="),
            ("standard-webhooks", "whsec_YWJjZA"),
            ("svix", "whpk_YWJj"),
            ("fastpix", "é"),
            ("fastpix", "p52x6Cl4QXI8cYLriLAYogZBKDpmyycLLjQ7jH6cuTM"),
        ],
    )
    def test_one_that_cannot_be_right_is_refused_by_name_and_not_shown(
        self, scheme: str, secret: Any
    ) -> None:
        with pytest.raises(ConfigError, match="ACME_SECRET") as error:
            Verifier(scheme, [secret], settings=["ACME_SECRET"])
        assert (
            not isinstance(secret, str) or len(secret.strip()) < 2 or secret.strip() not in str(error.value)
        )

    @pytest.mark.parametrize("secret", ["0", "zz", "ab cd", ""])
    def test_a_hex_key_is_hex(self, secret: str) -> None:
        with pytest.raises(ConfigError):
            Verifier("generic", [secret], {"signature_header": "X", "key_encoding": "hex"})

    def test_there_is_at_least_one(self) -> None:
        for none in ([], "not a list"):
            with pytest.raises(ConfigError, match="at least one"):
                verify("github", secrets=none, headers={}, body=b"")


class TestTime:
    @given(st.text(st.sampled_from("0123456789+-_ .e\t٣²"), max_size=14))
    def test_it_is_one_to_twelve_digits(self, stamp: str) -> None:
        headers = {"Stripe-Signature": stripe(stamp).decode()}
        if re.fullmatch(r"[0-9]{1,12}", stamp):
            assert check("stripe", headers, now=int(stamp)).timestamp == int(stamp)
        else:
            assert refused("stripe", headers, now=0) == "malformed"

    @pytest.mark.parametrize(
        ("scheme", "tolerance"),
        [(name, rules.tolerance) for name, rules in SCHEMES.items() if rules.tolerance],
    )
    def test_its_window_is_open_to_both_sides_and_its_edge_inside(
        self, scheme: str, tolerance: float
    ) -> None:
        headers = signed(scheme)
        for side in (-1, 1):
            assert check(scheme, headers, now=NOW + side * tolerance).timestamp == NOW
            assert refused(scheme, headers, now=NOW + side * (tolerance + 0.01)) == "stale"
            assert check(scheme, headers, now=NOW + side * 900, config={"tolerance": 900})

    def test_it_is_judged_after_the_signature(self) -> None:
        assert refused("stripe", {"Stripe-Signature": stripe(str(NOW), b"else")}, now=NOW + 999) == "mismatch"

    def test_it_is_now_where_nothing_else_is_said(self) -> None:
        assert verify("stripe", secrets=["s"], headers=sign("stripe", secret="s", body=b"x"), body=b"x")
        old = sign("stripe", secret="s", body=b"x", now=NOW)
        with pytest.raises(SignatureError, match=r"signed \d+ s ago; the tolerance is 300 s"):
            verify("stripe", secrets=["s"], headers=old, body=b"x")

    @pytest.mark.parametrize(
        "said",
        [
            "1764500000000.0",
            "true",
            '"1764500000000"',
            "-1",
            "1e400",
            "9" * 5000,
            "9" * 30,
            "null",
            "[" * 99999,
        ],
    )
    def test_linears_must_be_a_whole_number_where_it_is_asked_for(self, said: str) -> None:
        body = b'{"webhookTimestamp":' + said.encode() + b"}"
        headers = signed("linear", body)
        assert check("linear", headers, body).timestamp is None
        assert refused("linear", headers, body, config={"tolerance": 60}) == "malformed"

    @pytest.mark.parametrize("body", [b"", b"\xff", b"[]", b"{}"])
    def test_linears_must_be_there_where_it_is_asked_for(self, body: bytes) -> None:
        assert refused("linear", signed("linear", body), body, config={"tolerance": 60}) == "malformed"

    @pytest.mark.parametrize(
        "scheme", ["github", "shopify", "fastpix", "api-video", "bunny-stream", "twilio"]
    )
    def test_a_tolerance_is_refused_where_no_time_is_signed(self, scheme: str) -> None:
        with pytest.raises(ConfigError, match="signs no time"):
            check(scheme, {}, config={"tolerance": 300})


class TestStandardWebhooks:
    KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    PUBLIC = "whpk_" + base64.b64encode(KEY.public_key().public_bytes_raw()).decode()

    def headers(self, *entries: str, body: bytes = BODY) -> dict[str, str]:
        signature = base64.b64encode(self.KEY.sign(b"msg_1.%d.%s" % (NOW, body))).decode()
        return {
            "webhook-id": "msg_1",
            "webhook-timestamp": str(NOW),
            "webhook-signature": " ".join(entries or (f"v1a,{signature}",)),
        }

    def test_a_public_key_verifies_v1a(self) -> None:
        for scheme in ("standard-webhooks", "svix"):
            found = check(scheme, self.headers(), secrets=[secret_of(scheme), self.PUBLIC])
            assert found == Verified("msg_1", "thing.made", NOW, 1)
        assert refused("svix", self.headers(), b"{}", secrets=[self.PUBLIC]) == "mismatch"

    def test_each_version_counts_only_for_keys_of_its_kind(self) -> None:
        assert refused("svix", self.headers()) == "malformed"
        assert refused("svix", signed("standard-webhooks"), secrets=[self.PUBLIC]) == "malformed"

    @pytest.mark.parametrize("entry", ["v1a,", "v1a", "v1a,AAAA", "v1a," + "A" * 88, "v1a," + "=" * 88])
    def test_a_v1a_that_is_none_is_malformed(self, entry: str) -> None:
        assert refused("svix", self.headers(entry), secrets=[self.PUBLIC]) == "malformed"

    def test_a_request_cannot_ask_for_many_curve_multiplications(self) -> None:
        entry = "v1a," + "A" * 86 + "=="
        assert refused("svix", self.headers(*[entry] * 4), secrets=[self.PUBLIC]) == "mismatch"
        assert refused("svix", self.headers(*[entry] * 5), secrets=[self.PUBLIC]) == "malformed"

    def test_a_public_key_without_cryptography_names_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
        with pytest.raises(ConfigError, match=r"KEY is .*install redrive\[ed25519\]"):
            Verifier("standard-webhooks", [self.PUBLIC], settings=["KEY"])
        assert check("standard-webhooks", signed("standard-webhooks"))

    def test_entries_stand_between_runs_of_spaces(self) -> None:
        headers = signed("standard-webhooks")
        right = headers["webhook-signature"]
        for value in (f"v1,x   {right}  v2,y", f"{right} v1a,zz", f", v1 {right} v1,a,b"):
            assert check("standard-webhooks", {**headers, "webhook-signature": value})
        for value in (right.replace("v1,", "V1,"), f"v1,x\t{right}", f"v1, {right[3:]}", f"{right},"):
            assert refused("standard-webhooks", {**headers, "webhook-signature": value}) == "malformed"

    def test_the_svix_headers_decide_where_there_is_a_svix_signature(self) -> None:
        ours, theirs = signed("svix", event_id="msg_a"), signed("standard-webhooks", event_id="msg_b")
        assert check("svix", {**ours, **theirs}).id == "msg_a"
        assert check("svix", {**theirs, "svix-id": "msg_c"}).id == "msg_b"
        assert refused("svix", {**theirs, "svix-signature": ""}) == "no_header"
        assert refused("standard-webhooks", ours) == "no_header"


class TestTwilio:
    FORM = b"MessageSid=SM1&MessageStatus=sent&Body=a+b%26%C3%A9&Empty="

    @pytest.mark.parametrize(
        ("signed_as", "seen_as"),
        [
            ("https://a.example/x?y=1", "https://a.example:443/x?y=1"),
            ("https://a.example:443/x", "https://a.example/x"),
            ("http://a.example:80", "http://a.example"),
            ("http://a.example/?", "http://a.example:80/?"),
            ("https://a.example/x", "https://a.example:8443/x"),
            ("https://u:p@a.example/x", "https://u:p@a.example:443/x"),
            ("https://[::1]:443/x", "https://[::1]/x"),
            ("https://[::1]/x", "https://[::1]:443/x"),
        ],
    )
    def test_a_port_may_be_there_or_not(self, signed_as: str, seen_as: str) -> None:
        headers = signed("twilio", self.FORM, url=signed_as)
        assert check("twilio", headers, self.FORM, url=seen_as)
        assert refused("twilio", headers, self.FORM, url=f"{seen_as}x") == "mismatch"

    @given(st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9)), max_size=8), st.randoms())
    def test_pairs_may_come_in_any_order_and_repeated(
        self, pairs: list[tuple[bytes, bytes]], random: Any
    ) -> None:
        from urllib.parse import quote_from_bytes as quote

        items = [f"{quote(name)}={quote(value)}".encode() for name, value in pairs]
        headers = {**signed("twilio", b"&".join(items)), "Content-Type": "application/x-www-form-urlencoded"}
        again = items + items[:2]
        random.shuffle(again)
        assert check("twilio", headers, b"&".join(again), url=URL)

    def test_a_body_that_is_no_form_is_signed_by_its_hash_in_the_url(self) -> None:
        headers = signed("twilio")
        url = signed_url("twilio", URL, BODY)
        assert url.endswith(f"&bodySHA256={hashlib.sha256(BODY).hexdigest()}")
        assert check("twilio", headers, url=url)
        assert signed_url("twilio", url, BODY) == url
        assert refused("twilio", headers, BODY + b" ", url=url) == "mismatch"
        assert refused("twilio", headers, url=f"{url}&bodySHA256=0") == "malformed"
        assert refused("twilio", headers, url=URL) == "malformed"
        assert refused("twilio", headers, url=url.upper()) == "malformed"

    @pytest.mark.parametrize("body", [b"", b"&&&"])
    def test_the_signature_of_a_json_body_does_not_vouch_for_an_empty_form(self, body: bytes) -> None:
        headers = {**signed("twilio"), "Content-Type": "application/x-www-form-urlencoded"}
        assert refused("twilio", headers, body, url=signed_url("twilio", URL, BODY)) == "mismatch"

    def test_it_is_a_form_only_where_one_content_type_says_so(self) -> None:
        headers: dict[str, Any] = signed("twilio", self.FORM)
        for kind in ("Application/X-WWW-Form-Urlencoded; charset=utf-8", [headers["Content-Type"]]):
            assert check("twilio", {**headers, "Content-Type": kind}, self.FORM)
        for kind in ("", "text/plain", [], [headers["Content-Type"]] * 2):
            assert refused("twilio", {**headers, "Content-Type": kind}, self.FORM) == "malformed"

    @pytest.mark.parametrize(
        ("settings", "reason"),
        [
            ("key=k,algorithm=HMAC_SHA1", None),
            ("key=k", None),
            ("algorithm", "malformed"),
            ("algorithm=hmac_sha1", "malformed"),
            ("algorithm=HMAC_SHA256", "malformed"),
            ("algorithm=HMAC_SHA1,algorithm=HMAC_SHA1", "malformed"),
            ("é", "malformed"),
        ],
    )
    def test_only_a_known_algorithm_may_be_announced(self, settings: str, reason: str | None) -> None:
        headers = {**signed("twilio", self.FORM), "X-Twilio-Webhooks-Signature-Settings": settings}
        if reason is None:
            assert check("twilio", headers, self.FORM)
        else:
            assert refused("twilio", headers, self.FORM) == reason

    def test_a_form_of_very_many_bytes_is_not_read(self) -> None:
        body = b"a=".ljust(256 * 1024, b"x")
        assert check("twilio", signed("twilio", body), body)
        headers = signed("twilio", self.FORM)
        assert refused("twilio", headers, body + b"x") == "malformed"
        large = b"a=" + b"%41" * 200_000
        tracemalloc.start()
        try:
            assert refused("twilio", headers, large) == "malformed"
            assert tracemalloc.get_traced_memory()[1] < 200_000
        finally:
            tracemalloc.stop()

    def test_a_form_of_very_many_fields_is_not_read(self) -> None:
        body = b"a&" * 10_000
        assert refused("twilio", signed("twilio", self.FORM), body) == "malformed"

    def test_the_url_has_to_be_known(self) -> None:
        with pytest.raises(ConfigError, match="url"):
            check("twilio", signed("twilio", self.FORM), self.FORM, url=None)


class TestWhatIsVouchedFor:
    def test_an_id_and_a_type_count_only_where_they_are_signed(self) -> None:
        for scheme in ("stripe", "mux", "fastpix"):
            assert check(scheme, signed(scheme)).id == "evt_1"
            assert check(scheme, signed(scheme)).type == "thing.made"
        for scheme in ("github", "shopify"):
            headers = signed(scheme, event_id="d-1", type="push")
            assert (check(scheme, headers).id, check(scheme, headers).type) == (None, None)
        assert check("linear", signed("linear", event_id="d-1", type="Issue")).type == "thing.made"

    def test_a_verifier_reads_no_body(self) -> None:
        found = Verifier("stripe", [secret_of("stripe")]).verify(signed("stripe"), BODY, now=NOW)
        assert found == Verified(None, None, NOW, 0)

    @pytest.mark.parametrize(
        "body", [b"[" * 99999, b"9" * 5000, b'{"id": "\\ud800", "type": 3}', b"\xff", b"null"]
    )
    def test_a_body_that_cannot_be_read_is_verified_all_the_same(self, body: bytes) -> None:
        assert check("stripe", signed("stripe", body), body) == Verified(None, None, NOW, 0)


class TestGeneric:
    @given(
        st.sampled_from(["hex", "base64"]),
        st.sampled_from(["utf8", "base64", "hex"]),
        st.sampled_from(["sha1", "sha256", "sha512"]),
        st.sampled_from(
            ["{body}", "{id}{body}", "{timestamp}\n{id}:{body}", "a{body}b", "{body}.{timestamp}", "é{body}"]
        ),
        st.sampled_from(["", "sha256=", "v1:"]),
        st.binary(max_size=99),
    )
    def test_it_signs_and_verifies_as_configured(
        self, encoding: str, key_encoding: str, algorithm: str, template: str, prefix: str, body: bytes
    ) -> None:
        config = {
            "signature_header": "X-Sig",
            "encoding": encoding,
            "key_encoding": key_encoding,
            "algorithm": algorithm,
            "signed": template,
            "prefix": prefix,
            "id_header": "X-Id",
            "timestamp_header": "X-Time" if "{timestamp}" in template else None,
        }
        secret = {"utf8": "kéy", "base64": "a2V5", "hex": "6b6579"}[key_encoding]
        headers = sign("generic", secret=secret, body=body, now=NOW, event_id="e1", config=config)
        found = verify(
            "generic", secrets=[secret], headers=headers, body=body, now=NOW + 10**6, config=config
        )
        assert found.id == ("e1" if "{id}" in template else None)
        assert found.timestamp == (NOW if "{timestamp}" in template else None)
        key = b"k\xc3\xa9y" if key_encoding == "utf8" else b"key"
        covered = (
            template.replace("{id}", "e1").replace("{timestamp}", str(NOW)).encode().replace(b"{body}", body)
        )
        digest = hmac.new(key, covered, algorithm).digest()
        text = digest.hex() if encoding == "hex" else base64.b64encode(digest).decode()
        assert headers["X-Sig"] == prefix + text

    @pytest.mark.parametrize(
        ("config", "named"),
        [
            ({}, "signature_header"),
            ({"signature_header": ""}, "signature_header"),
            ({"signature_header": "X Sig"}, "signature_header"),
            ({"signature_header": 3}, "signature_header"),
            ({"encoding": "HEX"}, "encoding"),
            ({"key_encoding": "text"}, "key_encoding"),
            ({"algorithm": "md5"}, "algorithm"),
            ({"prefix": " sha256="}, "prefix"),
            ({"prefix": "é"}, "prefix"),
            ({"signed": "{timestamp}", "timestamp_header": "X-T"}, "signed"),
            ({"signed": "{body}{body}"}, "signed"),
            ({"signed": "{body}{url}"}, "signed"),
            ({"signed": "{id}.{body}"}, "id_header"),
            ({"signed": "{timestamp}.{body}"}, "timestamp_header"),
            ({"timestamp_header": "X-T"}, "timestamp_header"),
            ({"tolerance": 300}, "tolerance"),
            ({"secret": "x"}, "secret"),
        ],
    )
    def test_a_config_that_cannot_be_right_is_refused_by_name(
        self, config: dict[str, Any], named: str
    ) -> None:
        whole = config if named == "signature_header" else {"signature_header": "X-Sig", **config}
        with pytest.raises(ConfigError, match=named):
            verify("generic", secrets=["s"], headers={}, body=b"", config=whole)

    @pytest.mark.parametrize("tolerance", [-1, float("inf"), float("nan"), "5", True])
    def test_a_tolerance_is_a_number_of_seconds(self, tolerance: Any) -> None:
        with pytest.raises(ConfigError, match="tolerance"):
            check("stripe", {}, config={"tolerance": tolerance})

    def test_an_unknown_scheme_names_the_known_ones(self) -> None:
        with pytest.raises(ConfigError, match="github"):
            verify("gitbub", secrets=["s"], headers={}, body=b"")

    def test_only_generic_is_told_how_to_verify(self) -> None:
        with pytest.raises(ConfigError, match="prefix"):
            verify("github", secrets=["s"], headers={}, body=b"", config={"prefix": ""})
