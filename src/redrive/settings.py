"""Settings: the environment, then ./redrive.toml, then [tool.redrive] in ./pyproject.toml; and the database.

    REDRIVE_DATABASE_URL   database_url   postgresql://…, or the word embedded
    REDRIVE_APP            app            module:attribute
    REDRIVE_PG_BIN         pg_bin         folder of the programs of a Postgres, for the embedded server

Guarantees  a key nobody knows, and a value with stray white space, is refused by name, never ignored;
            an embedded server is chosen only where somebody asked for one.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    PyprojectTomlConfigSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from redrive.errors import ConfigError

EMBEDDED = "embedded"
EMBEDDED_DIRECTORY = ".redrive"

_PREFIX = "REDRIVE_"
_FILE = "redrive.toml"
_TABLE = ("tool", "redrive")


class Settings(BaseSettings):
    """What redrive is told about its surroundings. Read it with `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        extra="forbid",
        frozen=True,
        toml_file=_FILE,
        pyproject_toml_table_header=_TABLE,
    )

    database_url: str | None = None
    app: str | None = None
    pg_bin: Path | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _no_stray_white_space(cls, value: object) -> object:
        if isinstance(value, str):
            _check_text(value)
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (
            env_settings,
            TomlConfigSettingsSource(settings_cls),
            PyprojectTomlConfigSettingsSource(settings_cls),
        )


@dataclass(frozen=True, slots=True)
class DatabaseChoice:
    """Which database, and where that came from. `url` is None for the embedded server in `directory`."""

    url: str | None
    directory: Path
    source: str

    @property
    def only_shared(self) -> bool:
        """Whether nobody named this database to redrive in particular: ask before adding a schema to it."""
        return self.source == "DATABASE_URL"


def load_settings() -> Settings:
    """The settings for the working directory. Raises `ConfigError` naming the key and where it stands."""
    _refuse_misspelt_variables()
    try:
        return Settings()
    except ValidationError as problem:
        [first, *_] = problem.errors(include_url=False, include_input=False)
        key = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            known = ", ".join(Settings.model_fields)
            raise ConfigError(f"{origin(key)} is no setting of redrive; they are: {known}") from None
        raise ConfigError(f"{origin(key)}: {first['msg'].removeprefix('Value error, ')}") from None
    except tomllib.TOMLDecodeError as problem:
        raise ConfigError(f"{_unreadable_file()} is no TOML: {problem}; mend it") from None


def choose_database(settings: Settings, *, embedded: bool = False) -> DatabaseChoice:
    """REDRIVE_DATABASE_URL, else DATABASE_URL, else the server `redrive dev` left in ./.redrive.

    `embedded` (for `redrive dev`) makes that server the choice also where nobody has started it yet. Raises
    `ConfigError` when no database is named.
    """
    directory = Path.cwd() / EMBEDDED_DIRECTORY
    if settings.database_url is not None:
        url = None if settings.database_url == EMBEDDED else settings.database_url
        return DatabaseChoice(url, directory, origin("database_url"))
    shared = os.environ.get("DATABASE_URL")
    if shared is not None:
        try:
            _check_text(shared)
        except ValueError as problem:
            raise ConfigError(f"DATABASE_URL: {problem}") from None
        return DatabaseChoice(shared, directory, "DATABASE_URL")
    if embedded:
        return DatabaseChoice(None, directory, "redrive dev")
    if directory.is_dir():
        return DatabaseChoice(None, directory, f"./{EMBEDDED_DIRECTORY}, left by redrive dev")
    raise ConfigError(
        f"no database is named; set {_PREFIX}DATABASE_URL (or DATABASE_URL) to postgresql://user:password@host/name,"
        f" or to the word {EMBEDDED} for a Postgres of redrive's own in ./{EMBEDDED_DIRECTORY};"
        " `redrive dev` starts one there by itself"
    )


def _check_text(value: str) -> None:
    if not value.strip():
        raise ValueError("is empty; give it a value, or unset it")
    if value != value.strip():
        raise ValueError("begins or ends with white space (a newline?); remove it")


def _refuse_misspelt_variables() -> None:
    """Variables with our prefix may be other people's (Kubernetes makes REDRIVE_PORT of a service's name)."""
    known = {_variable(key) for key in Settings.model_fields}
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name not in known:
            for meant in get_close_matches(name, known, n=1, cutoff=0.85):
                raise ConfigError(f"{name} is no setting of redrive; did you mean {meant}?")


def _variable(key: str) -> str:
    return f"{_PREFIX}{key.upper()}"


def origin(key: str) -> str:
    """Where the value of `key` stands, in the order in which it is looked for."""
    if _variable(key) in os.environ:
        return _variable(key)
    if key in _toml(_FILE):
        return f"{key} in {_FILE}"
    return f"{key} in [{'.'.join(_TABLE)}] of pyproject.toml"


def _toml(name: str) -> dict[str, Any]:
    path = Path(name)
    return tomllib.loads(path.read_text()) if path.is_file() else {}


def _unreadable_file() -> str:
    try:
        _toml(_FILE)
    except tomllib.TOMLDecodeError:
        return _FILE
    return "pyproject.toml"
