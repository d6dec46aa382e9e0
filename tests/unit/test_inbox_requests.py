"""Saved requests are read byte for byte, and judged whatever they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from redrive.cli.inbox_requests import body_from, headers_from
from redrive.cli.inbox_target import Target
from redrive.cli.inbox_verify import check
from redrive.errors import InvalidArgument
from redrive.inbox.providers import PROVIDERS, provider

SAME_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"A: 1\nB:2\n", [(b"A", b"1"), (b"B", b"2")]),
        (b"POST /x HTTP/1.1\r\nA: b: c \r\n\r\n", [(b"A", b"b: c")]),
        (b"POST /x?at=10:30 HTTP/2\nA: 1\n", [(b"A", b"1")]),
        (b"HTTP/1.1 200 OK\r\nA: 1\r\n", [(b"A", b"1")]),
        (b"\nHTTP/2 200\nA: 1\n", [(b"A", b"1")]),
        (b"X-Note: speaks HTTP/1.1\nA: 1\n", [(b"X-Note", b"speaks HTTP/1.1"), (b"A", b"1")]),
        (b"A: 1\nA: 2\n", [(b"A", b"1"), (b"A", b"2")]),
        (b"A:\n", [(b"A", b"")]),
        (b"A: \xff\n", [(b"A", b"\xff")]),
        (b'{"A": "1", "B": ["2", "3"]}', [(b"A", b"1"), (b"B", b"2"), (b"B", b"3")]),
        ('{"A": "é"}'.encode(), [(b"A", "é".encode())]),
        (b'{"A": "\\ud800"}', [(b"A", b"\xed\xa0\x80")]),
        (b"", []),
    ],
)
def test_header_lines_are_read_as_they_stand(
    text: bytes, lines: list[tuple[bytes, bytes]], tmp_path: Path
) -> None:
    (tmp_path / "headers").write_bytes(text)
    assert headers_from(str(tmp_path / "headers")) == lines


def test_a_body_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(b"\xef\xbb\xbf{}\r\n \x00")
    assert body_from(str(tmp_path / "body")) == b"\xef\xbb\xbf{}\r\n \x00"
    with pytest.raises(InvalidArgument, match="cannot be read: Is a directory"):
        body_from(str(tmp_path))


@SAME_FOLDER
@given(
    st.binary()
    | st.text().map(str.encode)
    | st.dictionaries(st.text(), st.integers() | st.text()).map(lambda found: json.dumps(found).encode())
)
def test_whatever_a_file_holds_it_is_headers_or_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "headers").write_bytes(data)
    try:
        assert all(
            isinstance(part, bytes) for line in headers_from(str(tmp_path / "headers")) for part in line
        )
    except InvalidArgument as refused:
        assert "\n" not in str(refused)


@pytest.mark.parametrize("name", sorted(set(PROVIDERS) - {"generic"}))
@settings(max_examples=30)
@given(data=st.data())
def test_whatever_a_request_is_the_report_is_complete(name: str, data: st.DataObject) -> None:
    rules = provider(name).rules
    assert rules is not None
    names = [
        each.name.encode()
        for family in rules.families
        for each in (family.signature, family.id, family.timestamp)
        if each is not None
    ]
    lines = st.lists(
        st.tuples(st.sampled_from([*names, b"Content-Type"]), st.binary(max_size=40)), max_size=5
    )
    target = Target(name, provider(name), ["c2VjcmV0"], ["SECRET"], {})
    report = check(
        target, data.draw(lines), data.draw(st.binary(max_size=60)), url="https://shop.example/x", now=0.0
    )
    assert report.verified is None and report.reason is not None and report.problem
    assert list(report.steps.values()).count("failed") == 1
