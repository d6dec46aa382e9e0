"""A project's config.toml: what is changed in it, and what is not."""

from __future__ import annotations

import tomllib

import pytest

from redrive.errors import ConfigError
from redrive.supabase.config import difference, edited, exposed, snippet

CONFIG = """\
# The project's own words.
project_id = "shop"   # with a remark

[api]
enabled = true
schemas = ["public", "graphql_public"] # who may be called

[functions.hello]
verify_jwt = true
"""


def changed(old: str, new: str) -> list[str]:
    """The lines that were added or taken away."""
    lines = difference(old, new, "config.toml").splitlines()
    return [line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def test_nothing_is_changed_where_nothing_has_to_be() -> None:
    assert edited(CONFIG, functions=(), schema=None) == CONFIG
    assert edited(CONFIG, functions=(), schema="public") == CONFIG
    assert edited("", functions=(), schema="public") == ""


def test_a_function_is_opened_in_a_table_of_its_own_and_the_rest_stays_as_it_is() -> None:
    new = edited(CONFIG, functions=["redrive-worker"], schema=None)
    assert new.startswith(CONFIG)
    assert tomllib.loads(new)["functions"] == {
        "hello": {"verify_jwt": True},
        "redrive-worker": {"verify_jwt": False},
    }
    assert edited(new, functions=["redrive-worker"], schema=None) == new


def test_a_function_that_asks_for_a_jwt_is_opened_where_it_stands() -> None:
    new = edited(CONFIG, functions=["hello"], schema=None)
    assert changed(CONFIG, new) == ["-verify_jwt = true", "+verify_jwt = false"]


def test_a_schema_is_added_to_those_that_are_exposed() -> None:
    new = edited(CONFIG, functions=(), schema="api")
    assert changed(CONFIG, new) == [
        '-schemas = ["public", "graphql_public"] # who may be called',
        '+schemas = ["public", "graphql_public", "api"] # who may be called',
    ]


@pytest.mark.parametrize("before", ["", "[api]\nenabled = true\n", 'project_id = "x"\n\n[db]\nport = 1\n'])
def test_what_supabase_exposes_by_itself_stays_exposed(before: str) -> None:
    new = edited(before, functions=["redrive-worker"], schema="api")
    assert exposed(new) == ("public", "graphql_public", "api")
    assert tomllib.loads(new)["functions"]["redrive-worker"]["verify_jwt"] is False
    assert {**tomllib.loads(before), **tomllib.loads(new)} == tomllib.loads(new)


def test_a_list_over_several_lines_stays_one() -> None:
    before = '[api]\nschemas = [\n  "public",\n  "storage", # ours\n]\n'
    new = edited(before, functions=(), schema="api")
    assert exposed(new) == ("public", "storage", "api")
    assert "# ours" in new


def test_tables_that_stand_apart_are_found() -> None:
    before = "[functions.a]\nverify_jwt = true\n\n[db]\nport = 1\n\n[functions.b]\nverify_jwt = true\n"
    new = edited(before, functions=["a", "b", "c"], schema=None)
    functions = tomllib.loads(new)["functions"]
    assert {name: each["verify_jwt"] for name, each in functions.items()} == {
        "a": False,
        "b": False,
        "c": False,
    }
    assert tomllib.loads(new)["db"] == {"port": 1}


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("[api", "is no TOML"),
        ("api = 1", "api is no table"),
        ('[api]\nschemas = "public"', "api.schemas is no list"),
        ("functions = { hello = { verify_jwt = true } }", "in one line"),
        ("[functions]\nredrive-worker = 1", "functions.redrive-worker is no table"),
        ("functions = 1", "functions is no table"),
    ],
)
def test_a_file_that_is_no_config_is_refused_in_a_sentence(before: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        edited(before, functions=["redrive-worker"], schema="api")


def test_a_project_without_a_config_is_told_what_to_say() -> None:
    assert tomllib.loads(snippet(functions=["redrive-worker"], schema="api")) == {
        "api": {"schemas": ["public", "graphql_public", "api"]},
        "functions": {"redrive-worker": {"verify_jwt": False}},
    }
    assert snippet(functions=(), schema="public") == ""
