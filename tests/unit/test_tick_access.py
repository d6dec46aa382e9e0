"""Who may tick: the secrets of the environment, and without any this machine alone."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from redrive import ConfigError, Redrive
from redrive.settings import load_settings
from redrive.web import asgi

OLD, NEW = "an-old-secret-0123456789", "a-new-secret-0123456789"
SB = "sb_secret_0123456789abcdef"
VARIABLES = (
    "REDRIVE_TICK_SECRET",
    "SUPABASE_SECRET_KEYS",
    "SUPABASE_SECRET_KEY",
    "SUPABASE_SERVICE_ROLE_KEY",
)


def jwt(role: str) -> str:
    parts = [json.dumps(each).encode() for each in ({"alg": "HS256"}, {"role": role, "iss": "supabase"})]
    return ".".join(
        [base64.urlsafe_b64encode(each).decode().rstrip("=") for each in parts] + ["c2lnbmF0dXJl"]
    )


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def application() -> Any:
    app = Redrive("postgresql://nobody@127.0.0.1:1/nothing")

    @app.job("mail")
    async def mail() -> None: ...

    return asgi(app)


async def status(
    headers: Any = None,
    *,
    client: str = "203.0.113.9",
    server: str = "https://jobs.example.org",
    made: Any = None,
) -> int:
    """The answer to a tick of no queue of the app's: 404 for who may tick."""
    transport = httpx.ASGITransport(made or application(), client=(client, 1))
    async with httpx.AsyncClient(transport=transport, base_url=server) as http:
        answer = await http.post("/tick/nothing", headers=headers)
    for secret in (OLD, NEW, SB):
        assert secret not in answer.text
    return answer.status_code


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


class TestWithASecret:
    async def test_who_knows_it_may_from_anywhere_and_nobody_else_not_even_from_here(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_TICK_SECRET", NEW)
        made = application()
        assert await status(bearer(NEW), made=made) == 404
        assert await status({"authorization": f"bearer  {NEW}"}, made=made) == 404
        near = {"client": "127.0.0.1", "server": "http://127.0.0.1"}
        for headers in (
            {},
            *(bearer(each) for each in ("", OLD, NEW[:-1], NEW + "x", NEW.upper(), f"{NEW},")),
            {"Authorization": b"Bearer " + b"\xe9" * 16},
            {"apikey": b"\xff"},
            {"Authorization": NEW},
            {"Authorization": f"Basic {NEW}"},
            {"apikey": NEW},
            {"Authorization": f"Bearer {OLD}", "apikey": NEW},
        ):
            assert await status(headers, made=made) == 401, headers
            assert await status(headers, made=made, **near) == 401, headers

    async def test_each_of_several_counts_while_one_replaces_another(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_TICK_SECRET", f"{NEW},{OLD}")
        for given, expected in ((NEW, 404), (OLD, 404), (f"{NEW},{OLD}", 401), ("", 401)):
            assert await status(bearer(given)) == expected, given

    async def test_a_secret_key_of_supabase_counts_as_apikey_alone(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = "sb_secret_fedcba9876543210"
        monkeypatch.setenv("SUPABASE_SECRET_KEYS", json.dumps({"default": SB, "cron": other}))
        for key in (SB, other):
            assert await status({"apikey": key}) == 404
            assert await status(bearer(key)) == 401
        assert await status({"apikey": "sb_secret_0000000000000000"}) == 401
        monkeypatch.delenv("SUPABASE_SECRET_KEYS")
        monkeypatch.setenv("SUPABASE_SECRET_KEY", SB)
        assert await status({"apikey": SB}) == 404
        assert await status({"apikey": other}) == 401

    async def test_the_legacy_service_role_key_counts_in_either_header(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        key = jwt("service_role")
        monkeypatch.setenv("SUPABASE_SERVICE_ROLE_KEY", key)
        monkeypatch.setenv("REDRIVE_TICK_SECRET", NEW)
        for headers in (bearer(key), {"apikey": key}, bearer(NEW)):
            assert await status(headers) == 404
        assert await status(bearer(jwt("anon"))) == 401


class TestWithoutASecret:
    async def test_this_machine_may_and_nobody_further_away(self) -> None:
        near = {"client": "127.0.0.1", "server": "http://127.0.0.1:8000"}
        assert await status(None, **near) == 404
        assert await status({"Authorization": "Bearer whatever-0123456789"}, **near) == 404
        assert await status(client="::1", server="http://[::1]:8000") == 404
        assert await status() == 403
        assert await status(client="127.0.0.1") == 403
        assert await status(server="http://127.0.0.1") == 403
        for name, value in (
            *(("X-Forwarded-For", "127.0.0.1"), ("Forwarded", "for=127.0.0.1"), ("CF-Connecting-IP", "::1")),
            *(("Host", "jobs.example.org"), ("Host", "127.0.0.1.nip.io")),
            # A page in this machine's browser.
            *(("Origin", "https://evil.example"), ("Origin", "null"), ("Sec-Fetch-Site", "cross-site")),
        ):
            assert await status({name: value}, **near) == 403, (name, value)

    async def test_the_answer_says_what_to_set(self) -> None:
        transport = httpx.ASGITransport(application(), client=("203.0.113.9", 1))
        async with httpx.AsyncClient(transport=transport, base_url="https://jobs.example.org") as http:
            assert "set REDRIVE_TICK_SECRET" in (await http.post("/tick/mail")).text


class TestItRefusesToStart:
    @pytest.mark.parametrize(
        ("variable", "value", "said"),
        [
            ("REDRIVE_TICK_SECRET", "", "empty secret"),
            ("REDRIVE_TICK_SECRET", "   ", "empty secret"),
            ("REDRIVE_TICK_SECRET", f"{NEW},", "empty secret"),
            ("REDRIVE_TICK_SECRET", f"{NEW}, {OLD}", "without white space"),
            ("REDRIVE_TICK_SECRET", f"{NEW}\n", "without white space"),
            ("REDRIVE_TICK_SECRET", "geheimnis-für-alle-0", "ASCII"),
            ("REDRIVE_TICK_SECRET", "s3cret-of-cron1", "15 characters; it must have at least 16"),
            ("REDRIVE_TICK_SECRET", f"{NEW},short", "5 characters"),
            ("SUPABASE_SECRET_KEY", " ", "empty secret"),
            ("SUPABASE_SECRET_KEY", "sb_secret_1", "at least 16"),
            ("SUPABASE_SECRET_KEY", "sb_publishable_0123456789", "publishable or anon key"),
            ("REDRIVE_TICK_SECRET", "sb_publishable_0123456789", "publishable or anon key"),
            ("SUPABASE_SECRET_KEYS", "sb_secret_0123456789abcdef", "no JSON object"),
            ("SUPABASE_SECRET_KEYS", '["sb_secret_0123456789abcdef"]', "no JSON object"),
            ("SUPABASE_SECRET_KEYS", '{"a": 5}', "key 'a': is no text"),
            ("SUPABASE_SECRET_KEYS", '{"a": ""}', "key 'a' has an empty secret"),
            ("SUPABASE_SERVICE_ROLE_KEY", jwt("anon"), "publishable or anon key"),
            ("SUPABASE_SERVICE_ROLE_KEY", "0123", "at least 16"),
        ],
    )
    def test_naming_the_variable_and_never_the_secret(
        self, variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(variable, value)
        with pytest.raises(ConfigError) as error:
            application()
        assert variable in str(error.value) and said in str(error.value)
        for secret in (NEW, OLD, "s3cret-of-cron1", "sb_secret_1", "0123456789", jwt("anon")):
            assert secret not in str(error.value)

    def test_but_not_for_an_empty_variable_of_supabases(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in VARIABLES[1:]:
            monkeypatch.setenv(name, "")
        application()

    def test_for_a_misspelt_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("REDRIVE_TICK_SECRETS", NEW)
        with pytest.raises(ConfigError, match="did you mean REDRIVE_TICK_SECRET"):
            load_settings()
