"""Where a source's secrets come from, and that nothing starts without them or ever shows them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast

import pytest

from redrive.errors import ConfigError, SignatureError
from redrive.inbox.secrets import Secret, resolve
from redrive.inbox.signing import sign
from tests.support.webhooks import NOW, secret_of

SOON = datetime.now(UTC) + timedelta(hours=1)


def test_the_environment_is_asked_where_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ORG_2_WEBHOOK_SECRET", "s3cret")
    assert resolve("github-org_2", "github", None).at(NOW) == ("s3cret",)


def test_an_absent_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="ACME_WEBHOOK_SECRET is not set"):
        resolve("acme", "github", None)
    with pytest.raises(ConfigError, match="OTHER is not set"):
        resolve("acme", "github", ["s", Secret(env="OTHER")])


@pytest.mark.parametrize("value", ["", " ", "s3cret\n", "\ts3cret"])
def test_a_variable_that_cannot_be_right_is_named_and_not_shown(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_WEBHOOK_SECRET", value)
    with pytest.raises(ConfigError, match="ACME_WEBHOOK_SECRET") as error:
        resolve("acme", "github", None)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a", ("a",)),
        (Secret("a"), ("a",)),
        (lambda: "a", ("a",)),
        (lambda: ["a", "b"], ("a", "b")),
        (Secret(lambda: "a"), ("a",)),
        (["a", Secret("b", until=SOON), Secret(lambda: "c")], ("a", "b", "c")),
    ],
)
def test_they_are_given_in_any_form_and_kept_in_order(given: Any, expected: tuple[str, ...]) -> None:
    assert resolve("acme", "github", given).at(NOW) == expected


@pytest.mark.parametrize(
    "given", ["", [], [""], lambda: "", lambda: [], [None], 3, lambda: None, b"a", [" a"]]
)
def test_none_and_one_that_is_none_refuse_to_start(given: Any) -> None:
    with pytest.raises(ConfigError, match="acme"):
        resolve("acme", "github", given)


def test_each_is_checked_for_the_scheme() -> None:
    with pytest.raises(ConfigError, match="secret number 2 of inbox 'acme' is not base64"):
        resolve("acme", "fastpix", [secret_of("fastpix"), "no base64!"])
    config = {"signature_header": "X", "key_encoding": "hex"}
    assert resolve("acme", "generic", "00ff", config)
    with pytest.raises(ConfigError, match="hex"):
        resolve("acme", "generic", "text", config)


def test_an_old_one_counts_until_its_date() -> None:
    live = resolve("acme", "github", ["new", Secret("old", until=SOON)])
    headers = sign("github", secret="old", body=b"{}")
    edge = SOON.timestamp()
    assert live.at(edge - 1) == ("new", "old")
    assert live.verify(headers, b"{}", now=edge - 1).secret == 1
    assert live.at(edge) == ("new",)
    with pytest.raises(SignatureError) as error:
        live.verify(headers, b"{}", now=edge)
    assert error.value.reason == "mismatch"


def test_when_the_date_of_every_one_has_passed_nothing_is_verified_and_nothing_starts() -> None:
    live = resolve("acme", "github", Secret("old", until=SOON))
    assert live.at(SOON.timestamp()) == ()
    with pytest.raises(SignatureError) as error:
        live.verify(sign("github", secret="old", body=b""), b"", now=SOON.timestamp())
    assert error.value.reason == "mismatch"
    with pytest.raises(ConfigError, match="date"):
        resolve("acme", "github", Secret("old", until=datetime(2020, 1, 1, tzinfo=UTC)))


PASSED = datetime(2020, 1, 1, tzinfo=UTC)


def test_one_whose_date_has_passed_is_not_looked_up_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACME_OLD", raising=False)

    def vault() -> str:
        raise AssertionError("it was asked")

    old = [Secret(env="ACME_OLD", until=PASSED), Secret(vault, until=PASSED), Secret("", until=PASSED)]
    live = resolve("acme", "github", [*old, "new"])
    assert live.at(NOW) == ("new",)
    assert live.name_at(NOW, 0) == "secret number 4 of inbox 'acme'"
    with pytest.raises(ConfigError, match="date until which it counts has passed"):
        resolve("acme", "github", old)


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: ["new", f], Secret])
def test_a_function_that_raises_is_one_sentence_that_names_the_inbox(wrap: Callable[[Any], Any]) -> None:
    def vault() -> str:
        raise TimeoutError("vault.example:8200\ndoes not answer")

    with pytest.raises(ConfigError) as error:
        resolve("acme", "github", wrap(vault))
    assert "inbox 'acme'" in str(error.value)
    assert str(error.value).endswith("raised TimeoutError: vault.example:8200 does not answer")


def test_each_has_a_name_that_tells_which_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_OLD", "old")
    live = resolve("acme", "github", ["new", Secret(env="ACME_OLD")])
    assert [live.name_at(NOW, n) for n in (0, 1)] == ["secret number 1 of inbox 'acme'", "ACME_OLD"]


def test_a_request_is_judged_by_the_clock_and_the_config() -> None:
    live = resolve("acme", "stripe", "s", {"tolerance": 10})
    assert live.verify(sign("stripe", secret="s", body=b"x"), b"x").timestamp
    with pytest.raises(SignatureError):
        live.verify(sign("stripe", secret="s", body=b"x", now=NOW), b"x", now=NOW + 11)


@pytest.mark.parametrize("until", ["2027-01-01", 1_800_000_000, datetime(2030, 1, 1), date(2030, 1, 1)])
def test_the_date_of_one_is_a_datetime_with_a_time_zone(until: Any) -> None:
    with pytest.raises(ConfigError, match=r"until is .*it must be a datetime with a time zone"):
        Secret("a", until=until)


@pytest.mark.parametrize(
    "wrong",
    [Secret, lambda: Secret("a", env="B"), lambda: Secret(env=""), lambda: Secret(env=cast("Any", 5))],
)
def test_a_secret_that_says_too_little_or_too_much_is_refused(wrong: Callable[[], Secret]) -> None:
    with pytest.raises(ConfigError):
        wrong()


def test_nothing_prints_one() -> None:
    live = resolve("acme", "github", [Secret("s3cret"), Secret("s3cret2", until=SOON)])
    for each in (live, Secret("s3cret"), Secret(lambda: "s3cret"), vars(live)["_kept"]):
        assert "s3cret" not in repr(each)
