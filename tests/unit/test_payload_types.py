"""Typed payloads: what is sent, its own handler reads; a secret is never sent as its mask."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretBytes, SecretStr

from redrive.errors import PayloadError
from redrive.job import JobDefinition
from redrive.payload import Unreadable, decode_any, encode
from redrive.policy import QueuePolicy


class Login(BaseModel):
    user: str
    token: SecretStr


class Account(BaseModel):
    logins: list[Login]


@dataclass
class Keys:
    by_name: dict[str, SecretBytes]


class Doubled(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int

    @pydantic.computed_field
    @property
    def twice(self) -> int:
        return self.x * 2


class Renamed(BaseModel):
    user_id: int = Field(serialization_alias="userId")


class RenamedWithDefault(BaseModel):
    user_id: int = Field(0, serialization_alias="userId")


class Raw(BaseModel):
    data: bytes


class OneWay(BaseModel):
    at: int

    @pydantic.field_serializer("at")
    def _words(self, value: int) -> str:
        return f"about {value}"


def define(kind: Any) -> JobDefinition:
    def handler(payload) -> None: ...

    handler.__annotations__ = {"payload": kind}
    return JobDefinition.of("q", handler, QueuePolicy())


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (Login, Login(user="a", token=SecretStr("s3cret")), "$.token"),
        (Account, {"logins": [{"user": "a", "token": "s3cret"}]}, "$.logins[0].token"),
        (Keys, Keys({"a b": SecretBytes(b"s3cret")}), '$.by_name["a b"]'),
        (dict[str, SecretStr], {"token": "s3cret"}, "$.token"),
    ],
)
def test_a_secret_is_refused_by_its_path_and_without_its_value(kind: Any, value: Any, path: str) -> None:
    with pytest.raises(PayloadError, match="send a reference to where it is kept") as caught:
        define(kind).plain(value, 3)
    assert (caught.value.path, caught.value.index) == (path, 3)
    assert "s3cret" not in str(caught.value)


def test_a_secret_inside_a_payload_without_a_type_is_refused_too() -> None:
    with pytest.raises(PayloadError, match="send a reference") as caught:
        encode({"login": Login(user="a", token=SecretStr("s3cret"))})
    assert caught.value.path == "$.login.token"


def test_text_that_looks_like_the_mask_is_only_text() -> None:
    class Note(BaseModel):
        text: str

    assert define(Note).plain(Note(text="**********")) == {"text": "**********"}


@pytest.mark.parametrize("value", [Doubled(x=1), Renamed(user_id=1), RenamedWithDefault(user_id=1)])
def test_what_is_sent_its_own_handler_reads(value: BaseModel) -> None:
    job = define(type(value))
    assert job.decode(encode(job.plain(value))) == value


def test_what_its_own_handler_would_refuse_is_refused_before_it_is_sent() -> None:
    with pytest.raises(PayloadError, match="does not fit its own type OneWay once written") as caught:
        define(OneWay).plain(OneWay(at=1))
    assert caught.value.path == "$.at"


def test_what_pydantic_cannot_write_is_a_payload_error() -> None:
    for refused in (
        lambda: define(Raw).plain({"data": b"\xff"}, 2),
        lambda: encode(Raw(data=b"\xff"), index=2),
    ):
        with pytest.raises(PayloadError, match="pydantic cannot write this Raw") as caught:
            refused()
        assert caught.value.index == 2


@pytest.mark.parametrize("depth", [250, 1_500, 100_000])
def test_what_is_nested_too_deeply_is_looked_at_as_text(depth: int) -> None:
    text = "[" * depth + "]" * depth
    assert isinstance(decode_any(text), Unreadable) and decode_any(text) == text
