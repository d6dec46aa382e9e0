"""The SQL files keep the form that migrate, grants and a DBA's eye rely on."""

from __future__ import annotations

import re

import pytest

from redrive.sql import PARTS, SqlFile, function_files, table_files


@pytest.mark.parametrize("file", function_files(), ids=lambda file: file.name)
class TestEachFunctionFile:
    def test_begins_with_its_name_and_what_it_does(self, file: SqlFile) -> None:
        assert re.match(rf"-- {file.name}: \S", file.text)

    def test_names_known_parts_or_is_internal_or_the_owners(self, file: SqlFile) -> None:
        assert set(file.parts) <= set(PARTS)
        head = " ".join(line.strip("- ") for line in file.text.partition("\ncreate ")[0].splitlines())
        owners = "by the owner alone" in head
        assert bool(file.parts) != (file.name.startswith("_") or owners)

    def test_takes_no_digit_for_a_number_that_postgres_does_not(self, file: SqlFile) -> None:
        # With a locale of ICU, or a built-in one, \d is a digit of any script; a cast takes ours alone.
        assert not re.search(r"\\d|\[\[:digit:", file.text)

    def test_looks_for_names_among_the_callers_temporary_objects_last(self, file: SqlFile) -> None:
        # Without pg_temp in it, a path is searched there first: for types and relations, not for functions.
        headers = re.findall(r"(?ims)^create (?:or replace )?(?:function|procedure) .*?^as \$", file.text)
        paths = [re.findall("set search_path = ([a-z_, ']*?)(?= set |$)", each, re.M) for each in headers]
        assert paths == [["pg_catalog, pg_temp"]] * file.text.count("\ncreate ")

    def test_creates_only_its_function_and_closes_it_to_public(self, file: SqlFile) -> None:
        created = re.findall(r"(?im)^create (?:or replace )?(?:function|procedure) redrive\.(\w+)", file.text)
        closed = re.findall(r"(?im)^revoke all on function redrive\.(\w+)\(.*\) from public;", file.text)
        assert set(created) == {file.name}
        assert len(closed) == len(created)
        assert set(closed) == {file.name}


@pytest.mark.parametrize("file", [*table_files(), *function_files()], ids=lambda file: file.name)
def test_databases_of_few_characters_take_it(file: SqlFile) -> None:
    assert file.text.isascii()


def test_table_files_are_numbered_without_gap_or_double() -> None:
    numbers = [int(file.name.partition("_")[0]) for file in table_files()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_part_line_counts_only_in_the_head() -> None:
    head = SqlFile("f", "-- f: does\n-- part: send, work\ncreate function ...")
    body = SqlFile("f", "-- f: does\ncreate function ...\n-- part: send\n")
    assert (head.parts, body.parts) == (("send", "work"), ())
