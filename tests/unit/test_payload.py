"""What may be sent, what is refused, and by which words."""

from __future__ import annotations

import enum
import json
import math
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from redrive.errors import InvalidArgument, PayloadError
from redrive.payload import MAX_DEPTH, check_text, decode, encode, encode_headers, encode_many
from tests.support.values import json_values, shape


class Colour(enum.StrEnum):
    RED = "red"


@dataclass
class Point:
    x: int
    seen: datetime


class Model(BaseModel):
    id: UUID
    ratio: float = 0


class TestWhatIsTaken:
    @given(json_values)
    def test_any_json_value_comes_back_equal(self, value: Any) -> None:
        assert shape(decode(encode(value))) == shape(value)

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_a_float_is_written_so_that_jsonb_keeps_it_a_fraction(self, value: float) -> None:
        written = encode({"v": value})
        # What jsonb makes of it: a numeric, printed without an exponent, its scale kept.
        printed = format(decode(written, decimals=True)["v"], "f")
        back = decode(printed)
        assert isinstance(back, float)
        assert back == value

    @given(st.lists(json_values), st.integers(1, 7), st.integers(1, 60))
    def test_batches_hold_every_message_in_order(self, values: list[Any], count: int, size: int) -> None:
        batches = encode_many(values, count=count, size=size)
        assert [item for batch in batches for item in decode(batch.text)] == values
        assert all(len(decode(batch.text)) == batch.count <= count for batch in batches)

    @pytest.mark.parametrize("digits", [19, 400, 4_300, 4_301, 131_072])
    def test_integers_of_any_size_stay_exact(self, digits: int) -> None:
        value = -(10**digits - 3)
        assert decode(encode([value, {"n": value}])) == [value, {"n": value}]

    def test_decimals_keep_every_digit(self) -> None:
        value = {"price": Decimal("1.10"), "tiny": Decimal("1E-30"), "n": 3}
        assert encode({"price": Decimal("1.10")}) == '{"price":1.10}'
        assert decode(encode(value), decimals=True) == value
        assert str(decode(encode(value), decimals=True)["price"]) == "1.10"
        assert isinstance(decode(encode(value))["price"], float)

    @pytest.mark.parametrize(
        ("value", "stored"),
        [
            ((1, 2), [1, 2]),
            (namedtuple("Pair", "a b")(1, 2), [1, 2]),
            (OrderedDict(a=1), {"a": 1}),
            (Colour.RED, "red"),
            (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (datetime(2026, 7, 7, 12, tzinfo=UTC), "2026-07-07T12:00:00+00:00"),
            (date(2026, 7, 7), "2026-07-07"),
            (Point(1, datetime(2026, 7, 7, tzinfo=UTC)), {"x": 1, "seen": "2026-07-07T00:00:00Z"}),
            (Model(id=UUID(int=1)), {"id": "00000000-0000-0000-0000-000000000001", "ratio": 0.0}),
            ("a \\u0000 that is only letters", "a \\u0000 that is only letters"),
            ("1e+22", "1e+22"),
            ("\U0001f600 é", "\U0001f600 é"),
        ],
    )
    def test_types_beside_json_are_stored_as_documented(self, value: Any, stored: Any) -> None:
        assert decode(encode(value)) == stored
        assert decode(encode({"deep": [value]})) == {"deep": [stored]}

    def test_the_deepest_payload_taken_is_one_that_can_be_read(self) -> None:
        value: Any = []
        for _ in range(MAX_DEPTH - 1):
            value = [value]
        assert decode(encode(value)) == value
        with pytest.raises(PayloadError, match="nested beyond 200 levels"):
            encode([value])
        assert decode(encode_many([value], count=10)[0].text) == [value]
        with pytest.raises(PayloadError, match=r"message 0: .*nested beyond 200 levels"):
            encode_many([[value]], count=10)


class Opaque:
    pass


looped: list[Any] = []
looped.append(looped)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        ("payload", "path", "problem"),
        [
            ({"a": "x\0y"}, "$.a", "NUL character at position 1"),
            ({"a": [1, {"b": "\0"}]}, "$.a[1].b", "NUL"),
            ({"a\0": 1}, "$", "the key 'a\\x00' holds a NUL"),
            ("\ud800", "$", "lone surrogate ('\\ud800') at position 0"),
            ("\ud83d\ude00", "$", "lone surrogate"),
            ({"\udfff": 1}, "$", "lone surrogate"),
            ({"a": math.nan}, "$.a", "nan is no JSON number"),
            ([0, -math.inf], "$[1]", "-inf is no JSON number"),
            ({"d": Decimal("NaN")}, "$.d", "is no JSON number"),
            ({"d": Decimal("1E+131072")}, "$.d", "beyond what Postgres holds"),
            ({"d": Decimal("1E-16384")}, "$.d", "beyond what Postgres holds"),
            ({"n": 10**131_072}, "$.n", "an integer of 131,073 digits"),
            ({1: 2}, "$", "the key 1 is int"),
            ({"a": {None: 2}}, "$.a", "the key None is NoneType"),
            ([{"a b": [{True: 1}]}], '$[0]["a b"][0]', "the key True is bool"),
            ({"a": {1, 2}}, "$.a", "set is no JSON"),
            ({"a": b"raw"}, "$.a", "bytes is no JSON"),
            ({"a": Opaque()}, "$.a", "Opaque is no JSON"),
            ({"a": Opaque}, "$.a", "type is no JSON"),
            ({"a": timedelta(1)}, "$.a", "timedelta is no JSON"),
            ({"at": datetime(2026, 7, 7)}, "$.at", "has no time zone"),
            ({"m": Model(id=UUID(int=1), ratio=math.inf)}, "$.m.ratio", "inf is no JSON number"),
        ],
    )
    def test_the_error_names_the_path_and_the_problem(self, payload: Any, path: str, problem: str) -> None:
        with pytest.raises(PayloadError) as caught:
            encode(payload)
        assert caught.value.path == path
        assert problem in caught.value.problem

    def test_something_inside_itself_is_refused(self) -> None:
        with pytest.raises(PayloadError, match="or inside itself"):
            encode(looped)

    def test_in_a_batch_the_error_names_the_message(self) -> None:
        with pytest.raises(PayloadError) as caught:
            encode_many([{"n": n} for n in range(25)] + [{"n": math.nan}], count=10)
        assert (caught.value.index, caught.value.path) == (25, "$.n")
        assert str(caught.value).startswith("message 25: $.n: ")

    def test_size_counts_bytes_and_each_message_alone(self) -> None:
        assert encode("é" * 49, limit=100) == '"' + "é" * 49 + '"'
        with pytest.raises(PayloadError, match=r"102 bytes of JSON; the limit is 100"):
            encode("é" * 50, limit=100)
        assert len(encode_many(["a" * 90] * 5, limit=100, count=10)) == 1
        with pytest.raises(PayloadError, match=r"message 1: .* 102 bytes"):
            encode_many(["a" * 90, "é" * 50], limit=100, count=10)

    @pytest.mark.parametrize("payload", [{"a": "x\0y"}, "\ud800", {"a": math.nan}])
    def test_what_is_refused_is_what_the_standard_encoder_lets_through(self, payload: Any) -> None:
        json.dumps(payload)
        with pytest.raises(PayloadError):
            encode(payload)


class TestReading:
    def test_text_nested_too_deeply_to_read_is_said_to_be(self) -> None:
        with pytest.raises(PayloadError, match="too deeply to be read"):
            decode("[" * 5_000 + "]" * 5_000)


class TestHeaders:
    def test_an_object_of_json_is_taken(self) -> None:
        assert encode_headers(None) is None
        assert encode_headers({"trace": {"id": 1}}) == '{"trace":{"id":1}}'

    @pytest.mark.parametrize("name", ["x-redrive-key", "X-Redrive-Credit"])
    def test_redrives_own_names_are_refused(self, name: str) -> None:
        with pytest.raises(InvalidArgument, match=f"'{name}' is refused"):
            encode_headers({name: "k"})

    @pytest.mark.parametrize("headers", [[], "a", 1])
    def test_anything_but_an_object_is_refused(self, headers: Any) -> None:
        with pytest.raises(InvalidArgument, match="headers must be a dict"):
            encode_headers(headers)

    def test_a_bad_value_is_named_by_its_path(self) -> None:
        with pytest.raises(PayloadError, match=r"headers\.a: nan is no JSON number"):
            encode_headers({"a": math.nan})


class TestText:
    @pytest.mark.parametrize(
        ("value", "problem"),
        [
            (1, "must be text, not int"),
            ("", "is 0 characters; it must have 1 to 10"),
            ("é" * 11, "is 11 characters"),
            ("a\0", "NUL"),
            ("\ud800", "surrogate"),
        ],
    )
    def test_text_that_postgres_cannot_hold_is_refused(self, value: Any, problem: str) -> None:
        with pytest.raises(InvalidArgument, match=f"^key .*{problem}"):
            check_text(value, "key", most=10)
