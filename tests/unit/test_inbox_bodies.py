"""A body is read and unpacked within its bounds, whatever its headers and its sender make of it."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redrive.inbox import body as bodies
from redrive.inbox.body import Budget, Share, encoding_of, read, unpacked

LIMIT = 1_000


def stream(*chunks: bytes, hang: bool = False, hung_up: bool = False) -> Any:
    left = list(chunks)

    async def receive() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or hang or hung_up}
        if hang:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    return receive


def share(most: int = 1_000_000) -> Share:
    return Share(Budget(most))


def reading(
    receive: Any, *headers: tuple[bytes, bytes], into: Share | None = None, within: float = 5
) -> bytes:
    return asyncio.run(read(receive, headers, into or share(), limit=LIMIT, within=within))


# A time in it would give the tests other names in each process.
_HELLO = gzip.compress(b"hello", mtime=0)


class TestReading:
    @given(st.lists(st.binary(max_size=100), max_size=9))
    def test_a_body_is_its_chunks(self, chunks: list[bytes]) -> None:
        assert reading(stream(*(chunks or [b""]))) == b"".join(chunks)

    def test_the_limit_itself_is_inside(self) -> None:
        assert len(reading(stream(b"x" * LIMIT), (b"content-length", b"1000"))) == LIMIT

    def test_a_declared_length_beyond_the_limit_is_refused_without_reading(self) -> None:
        with pytest.raises(bodies.TooLarge) as refused:
            reading(stream(hang=True), (b"content-length", b"1001"))
        assert refused.value.size == 1001

    def test_a_chunked_body_is_refused_as_soon_as_it_is_beyond_the_limit(self) -> None:
        taken = 0

        async def endless() -> dict[str, Any]:
            nonlocal taken
            taken += 1
            return {"type": "http.request", "body": b"x" * 300, "more_body": True}

        with pytest.raises(bodies.TooLarge):
            reading(endless)
        assert taken == 4

    def test_a_body_that_does_not_come_is_not_waited_for(self) -> None:
        with pytest.raises(bodies.TooSlow):
            reading(stream(b"{", hang=True), within=0.02)

    def test_a_sender_who_hung_up_is_noticed(self) -> None:
        with pytest.raises(bodies.Gone):
            reading(stream(b"{", hung_up=True))

    @pytest.mark.parametrize("value", [b"", b"-1", b"+5", b"1_0", b" 5", b"5x", b"9" * 19, b"\xd9\xa5"])
    def test_a_length_that_is_none_is_malformed(self, value: bytes) -> None:
        with pytest.raises(bodies.Broken):
            reading(stream(b"hello"), (b"content-length", value))

    def test_two_lengths_are_malformed_and_the_same_twice_is_one(self) -> None:
        with pytest.raises(bodies.Broken):
            reading(stream(b"hello"), (b"content-length", b"5"), (b"content-length", b"6"))
        assert reading(stream(b"hello"), (b"content-length", b"5"), (b"content-length", b"5")) == b"hello"

    @pytest.mark.parametrize("length", [b"4", b"6"])
    def test_another_length_than_was_declared_is_malformed(self, length: bytes) -> None:
        with pytest.raises(bodies.Broken):
            reading(stream(b"hello"), (b"content-length", length))


class TestBudget:
    def test_all_bodies_together_keep_within_it_and_give_it_back(self) -> None:
        budget = Budget(40_000)
        first, second, third = Share(budget), Share(budget), Share(budget)
        reading(stream(b"x" * 1000), into=first)
        reading(stream(b"x" * 1000), into=second)
        with pytest.raises(bodies.NoRoom):
            reading(stream(b"x" * 1000), into=third)
        third.release()
        first.release()
        first.release()
        assert reading(stream(b"x" * 1000), into=third) == b"x" * 1000
        for each in (second, third):
            each.release()
        assert budget.taken == 0

    def test_one_that_is_alone_is_let_in_whatever_it_takes(self) -> None:
        budget = Budget(100)
        large, small = Share(budget), Share(budget)
        large.take(90)
        large.take(90)
        with pytest.raises(bodies.NoRoom):
            small.take(1)
        large.release()
        small.take(1)
        with pytest.raises(bodies.NoRoom):
            large.take(100)

    def test_what_was_handed_on_is_released_by_the_other(self) -> None:
        budget = Budget(100)
        mine = Share(budget)
        mine.take(60)
        other = mine.handed_on()
        mine.release()
        assert budget.taken == 60
        other.release()
        assert budget.taken == 0


class TestUnpacking:
    @given(st.binary(max_size=LIMIT), st.sampled_from(["gzip", "x-gzip", "deflate", ""]))
    def test_what_was_packed_comes_back(self, body: bytes, encoding: str) -> None:
        packed = {"deflate": zlib.compress, "": bytes}.get(encoding, gzip.compress)(body)
        assert unpacked(packed, encoding, limit=LIMIT) == body

    @given(st.binary(max_size=300), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, gzip", "*"]))
    def test_anything_else_is_none_and_no_error(self, body: bytes, encoding: str) -> None:
        found = unpacked(body, encoding, limit=LIMIT)
        assert found is None or encoding in ("gzip", "deflate")

    def test_a_bomb_is_too_large_and_is_never_unpacked(self) -> None:
        bomb = gzip.compress(b"\0" * 50_000_000)
        assert len(bomb) < 100_000
        with pytest.raises(bodies.TooLarge) as refused:
            unpacked(bomb, "gzip", limit=LIMIT)
        assert refused.value.size == LIMIT + 1

    def test_the_limit_itself_is_inside(self) -> None:
        assert unpacked(gzip.compress(b"x" * LIMIT), "gzip", limit=LIMIT) == b"x" * LIMIT

    @pytest.mark.parametrize("body", [b"", _HELLO[:-3], _HELLO + b"x", gzip.compress(b"a", mtime=0) * 2])
    def test_what_is_cut_off_or_goes_on_is_not_packed_so(self, body: bytes) -> None:
        assert unpacked(body, "gzip", limit=LIMIT) is None

    @pytest.mark.parametrize(
        ("value", "encoding"), [(b"GZIP ", "gzip"), (b"identity", ""), (b"", ""), (b"\xff", "\xff")]
    )
    def test_the_encoding_is_what_the_header_says(self, value: bytes, encoding: str) -> None:
        assert encoding_of([(b"content-encoding", value)]) == encoding

    def test_without_a_header_nothing_is_packed(self) -> None:
        assert encoding_of([(b"content-type", b"gzip")]) == ""
