"""Database URLs: what is understood, what is refused, and that a password is never shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.errors import ConfigError
from redrive.store.url import parse, redact


@pytest.mark.parametrize(
    "scheme",
    ["postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg", "postgres+psycopg2", "PostgreSQL"],
)
def test_every_usual_scheme_means_the_same_database(scheme: str) -> None:
    known = parse(f"{scheme}://ada:s%40cret@db.example:6543/jobs")
    assert (known["user"], known["password"], known["host"], known["port"], known["dbname"]) == (
        "ada",
        "s@cret",
        "db.example",
        "6543",
        "jobs",
    )


def test_a_socket_directory_and_an_empty_url_are_fine() -> None:
    assert parse("postgresql:///jobs?host=/run/postgresql")["host"] == "/run/postgresql"
    assert "host" not in parse("postgresql://")


def test_our_connection_parameters_give_way_to_the_urls_own() -> None:
    assert parse("postgresql://h/d")["application_name"] == "redrive"
    assert parse("postgresql://h/d?application_name=shop&connect_timeout=3")["application_name"] == "shop"
    assert parse("postgresql://h/d?connect_timeout=3")["connect_timeout"] == "3"


def test_asyncpgs_word_for_sslmode_is_understood() -> None:
    assert parse("postgresql+asyncpg://h/d?ssl=require")["sslmode"] == "require"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://h/d", "starts with mysql://"),
        ("jobs", "has no scheme"),
        ("", "has no scheme"),
        ("postgresql://h/d\n", "white space"),
        ("postgresql://u:hunter2@h/d?pgbouncer=true", "'pgbouncer' that libpq does not know"),
        ("postgresql://u:hun@ter2@h/d", "more than one @"),
        ("postgresql://u:hun/ter2@h/d", "more than one @|port is not a number"),
        ("postgresql://u:hun#ter2/x@h/d", "more than one @|port is not a number"),
        ("postgresql://u:hun%ter2@h/d", "cannot be read"),
        ("postgresql://u:hunter2@h:54x/d", "port is not a number"),
        ("postgresql://u:hunter2@h:99999/d", "port is not a number"),
        ("postgresql://u:hunter2@[::1/d", "cannot be read"),
        ("postgresql://u:hunter 2@h/d", "cannot be read"),
        ("postgresql://u:%80hunter2@h/d", "cannot be read"),
        ("postgresql://u:1/a?hunter2=x@h/d", "cannot be read"),
    ],
)
def test_nonsense_is_refused_with_a_rule_and_without_the_password(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        parse(url)
    shown = f"{refused.value} {refused.value.__cause__ or ''} {redact(url)}"
    assert not any(part in shown for part in ("hunter", "ter2", "hun#"))


def test_a_redacted_url_still_tells_which_database() -> None:
    url = "postgresql+asyncpg://ada:s3cret@db.example:6543/jobs?sslmode=require&sslpassword=s3cret"
    assert redact(url) == "postgresql://ada@db.example:6543/jobs"
    assert redact("postgresql:///jobs?host=/run/pg&password=s3cret") == "postgresql:///run/pg/jobs"
    assert redact("nonsense:s3cret@") == "postgresql://…"


@given(
    st.text(alphabet=st.characters(codec="ascii", categories=("L", "N", "P", "S")), min_size=8, max_size=20)
)
def test_no_password_is_ever_shown(password: str) -> None:
    password = f"pw{password}"
    url = f"postgresql://ada:{password}@db.example/jobs"
    assert password not in redact(url)
    try:
        parse(url)
    except ConfigError as refused:
        assert password not in str(refused)
