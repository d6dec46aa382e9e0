"""Settings: what is read from where, what is refused, and which database that means."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from redrive.errors import ConfigError
from redrive.settings import choose_database, load_settings


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, and none of our variables."""
    for name in list(os.environ):
        if name.startswith("REDRIVE_") or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_environment_wins_over_redrive_toml_and_that_over_pyproject(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "pyproject.toml").write_text(
        '[tool.redrive]\napp = "low:app"\ndatabase_url = "postgresql://low/d"\n'
    )
    assert load_settings().app == "low:app"

    (place / "redrive.toml").write_text('app = "mid:app"\n')
    assert load_settings().app == "mid:app"
    assert load_settings().database_url == "postgresql://low/d"

    monkeypatch.setenv("REDRIVE_APP", "high:app")
    assert load_settings().app == "high:app"


def test_a_pyproject_without_our_table_is_no_settings_file(place: Path) -> None:
    (place / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert load_settings().app is None


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("redrive.toml", "data_base = 'x'", "data_base in redrive.toml is no setting"),
        (
            "pyproject.toml",
            "[tool.redrive]\nwrong = 1",
            r"wrong in \[tool.redrive\] of pyproject.toml is no setting",
        ),
        ("redrive.toml", "app = 5", "app in redrive.toml: Input should be a valid string"),
        ("redrive.toml", "app = ", "redrive.toml is no TOML"),
        ("pyproject.toml", "[tool", "pyproject.toml is no TOML"),
        ("redrive.toml", "app = ' a:b'", "app in redrive.toml: begins or ends with white space"),
    ],
)
def test_what_cannot_be_right_in_a_file_is_refused_by_name(
    place: Path, file: str, text: str, said: str
) -> None:
    (place / file).write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_settings()


@pytest.mark.parametrize("name", ["REDRIVE_DATABASE_URL", "REDRIVE_APP", "REDRIVE_PG_BIN"])
@pytest.mark.parametrize(("value", "said"), [("x\n", "white space"), (" x", "white space"), ("", "is empty")])
def test_a_variable_with_stray_white_space_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=f"{name}: .*{said}"):
        load_settings()


def test_a_secret_is_not_repeated_when_its_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://u:hunter2@h/d\n")
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_misspelt_variable_is_refused_with_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDRIVE_DATABSE_URL", "postgresql://h/d")
    with pytest.raises(ConfigError, match=r"REDRIVE_DATABSE_URL .* did you mean REDRIVE_DATABASE_URL"):
        load_settings()


@pytest.mark.parametrize(
    "name", ["REDRIVE_PORT", "REDRIVE_SERVICE_HOST", "REDRIVE_PORT_8080_TCP", "REDRIVE_TEST_URL"]
)
def test_variables_that_others_make_of_our_name_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "tcp://10.0.0.1:8080")
    assert load_settings().database_url is None


class TestWhichDatabase:
    def test_ours_goes_before_the_shared_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DATABASE_URL", "postgresql://shared/d")
        choice = choose_database(load_settings())
        assert (choice.url, choice.source, choice.only_shared) == (
            "postgresql://shared/d",
            "DATABASE_URL",
            True,
        )

        monkeypatch.setenv("REDRIVE_DATABASE_URL", "postgresql://ours/d")
        choice = choose_database(load_settings())
        assert (choice.url, choice.source) == ("postgresql://ours/d", "REDRIVE_DATABASE_URL")
        assert not choice.only_shared

    def test_one_from_a_file_says_which_file(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DATABASE_URL", "postgresql://shared/d")
        (place / "redrive.toml").write_text('database_url = "postgresql://file/d"')
        choice = choose_database(load_settings())
        assert (choice.url, choice.source) == ("postgresql://file/d", "database_url in redrive.toml")

    def test_the_word_embedded_means_the_server_in_this_directory(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_DATABASE_URL", "embedded")
        choice = choose_database(load_settings())
        assert (choice.url, choice.directory) == (None, place / ".redrive")
        assert choice.source == "REDRIVE_DATABASE_URL"

    def test_what_dev_left_is_found_again(self, place: Path) -> None:
        (place / ".redrive").mkdir()
        choice = choose_database(load_settings())
        assert (choice.url, choice.directory) == (None, place / ".redrive")
        assert "left by redrive dev" in choice.source

    def test_dev_may_begin_one(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert choose_database(load_settings(), embedded=True).directory == place / ".redrive"

        monkeypatch.setenv("DATABASE_URL", "postgresql://shared/d")
        assert choose_database(load_settings(), embedded=True).url == "postgresql://shared/d"

    def test_without_any_nothing_is_guessed(self) -> None:
        with pytest.raises(
            ConfigError, match=r"no database is named; set REDRIVE_DATABASE_URL.*`redrive dev`"
        ):
            choose_database(load_settings())

    @pytest.mark.parametrize("value", ["", "postgresql://u:hunter2@h/d\n"])
    def test_a_shared_one_that_cannot_be_right_is_refused_not_passed_over(
        self, place: Path, monkeypatch: pytest.MonkeyPatch, value: str
    ) -> None:
        (place / ".redrive").mkdir()
        monkeypatch.setenv("DATABASE_URL", value)
        with pytest.raises(ConfigError, match="DATABASE_URL: ") as refused:
            choose_database(load_settings())
        assert "hunter2" not in str(refused.value)
