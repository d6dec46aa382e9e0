"""Settings: the environment, then ./redrive.toml, then [tool.redrive] in ./pyproject.toml; and the database.

    REDRIVE_DATABASE_URL   database_url   postgresql://…, or the word embedded
    REDRIVE_APP            app            module:attribute
    REDRIVE_PG_BIN         pg_bin         folder of the programs of a Postgres, for the embedded server
    REDRIVE_CHECK_EVERY    check_every    seconds between two looks at the rules of health, 1 to 3600
    REDRIVE_HEARTBEAT_URL  heartbeat_url  http(s)://…, called while health is checked; silence is the alarm
    REDRIVE_ALERTS_<NAME>                 where alerts go: a sink, and there may be many; environment only
    REDRIVE_ALERTS_<NAME>_SECRET          what a webhook of that name is signed with, whsec_…
    REDRIVE_METRICS_TOKEN                 what /metrics asks for, as a Bearer token; environment only
    REDRIVE_TICK_SECRET                   what /tick asks for, likewise; several with commas between them

Guarantees  a key nobody knows, and a value with stray white space, is refused by name, never ignored;
            an embedded server is chosen only where somebody asked for one;
            no error and no repr shows where alerts or heartbeats go: those URLs are secrets.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
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

CHECK_EVERY = 60.0
METRICS_TOKEN = "REDRIVE_METRICS_TOKEN"
TICK_SECRET = "REDRIVE_TICK_SECRET"

_PREFIX = "REDRIVE_"
_ALERTS = "REDRIVE_ALERTS_"
_SECRET = "_SECRET"
_FILE = "redrive.toml"
_TABLE = ("tool", "redrive")
_SINK = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
# What Kubernetes makes of a service that is called redrive-alerts.
_OTHERS = re.compile(r"SERVICE_(HOST|PORT)(_.*)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?")


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
    check_every: float = CHECK_EVERY
    heartbeat_url: str | None = None

    @field_validator("*", mode="before")
    @classmethod
    def _no_stray_white_space(cls, value: object) -> object:
        if isinstance(value, str):
            _check_text(value)
        return value

    @field_validator("check_every")
    @classmethod
    def _often_enough(cls, value: float) -> float:
        if not 1 <= value <= 3600:
            raise ValueError(f"is {value:g}; it must be from 1 to 3600 seconds")
        return value

    @field_validator("heartbeat_url")
    @classmethod
    def _speaks_http(cls, value: str | None) -> str | None:
        if value is not None and not value.lower().startswith(("https://", "http://")):
            raise ValueError("is no URL that begins with https:// or http://")
        return value

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        # pydantic's repr, without where heartbeats go and the database's password.
        yield from ((name, getattr(self, name)) for name in ("app", "pg_bin", "check_every"))

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


@dataclass(frozen=True, slots=True, repr=False)
class SinkSetting:
    """Where alerts go: `url` and `secret` are to be kept, `name` and `variable` may be shown."""

    name: str
    variable: str
    url: str
    secret: str | None = None

    def __repr__(self) -> str:
        return f"SinkSetting({self.name!r})"

    @property
    def secret_variable(self) -> str:
        return self.variable + _SECRET


def alert_sinks() -> tuple[SinkSetting, ...]:
    """The sinks of the environment by name, in lower case. Raises `ConfigError` naming the variable."""
    given = {
        name.removeprefix(_ALERTS): value
        for name, value in os.environ.items()
        if name.startswith(_ALERTS) and not _OTHERS.fullmatch(name.removeprefix(_ALERTS))
    }
    for name, value in given.items():
        try:
            _check_text(value)
        except ValueError as problem:
            raise ConfigError(f"{_ALERTS}{name}: {problem}") from None
    secrets = {
        name.removesuffix(_SECRET): given.pop(name) for name in sorted(given) if name.endswith(_SECRET)
    }
    for name in sorted(given.keys() | secrets.keys()):
        if not _SINK.fullmatch(name):
            raise ConfigError(
                f"{_ALERTS}{name} names no sink; what follows {_ALERTS} is 1 to 40 of A-Z, 0-9 and _, "
                "beginning with a letter"
            )
        if name not in given:
            raise ConfigError(
                f"{_ALERTS}{name}{_SECRET} is set, but {_ALERTS}{name} is not; set that to the sink's URL"
            )
    return tuple(
        SinkSetting(name.lower(), _ALERTS + name, given[name], secrets.get(name)) for name in sorted(given)
    )


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
    known = {_variable(key) for key in Settings.model_fields} | {METRICS_TOKEN, TICK_SECRET}
    for name in sorted(os.environ):
        if name.startswith(_PREFIX) and name not in known and not name.startswith(_ALERTS):
            _refuse_misspelt_sink(name)
            for meant in get_close_matches(name, known, n=1, cutoff=0.85):
                raise ConfigError(f"{name} is no setting of redrive; did you mean {meant}?")


def _refuse_misspelt_sink(name: str) -> None:
    word, _, rest = name.removeprefix(_PREFIX).partition("_")
    if word == "ALERTS":
        raise ConfigError(f"{name} names no sink; write {_ALERTS}<NAME>, such as {_ALERTS}SLACK")
    if rest and not _OTHERS.fullmatch(rest) and get_close_matches(word, ["ALERTS"], cutoff=0.85):
        raise ConfigError(f"{name} is no setting of redrive; did you mean {_ALERTS}{rest}?")


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
