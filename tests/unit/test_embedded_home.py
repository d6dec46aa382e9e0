"""Where a server lives and as whom, decided without running one."""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from pathlib import Path

import pytest

from redrive.errors import ConfigError
from redrive.store import home
from redrive.store.home import Home, settle


class TestTheSocket:
    def test_a_short_plain_path_keeps_it(self, tmp_path: Path) -> None:
        place = Path("/tmp/plain-and_short.1+2/.redrive")
        assert Home(place, None).socket_directory() == place

    @pytest.mark.parametrize("name", ["with space", "comma,comma", "ü", "percent%20", "quote'", "x" * 90])
    def test_any_other_path_gets_a_private_short_one_which_is_kept(self, tmp_path: Path, name: str) -> None:
        place = tmp_path / name
        place.mkdir()
        sockets = Home(place, None).socket_directory()
        try:
            assert sockets.parent == Path(tempfile.gettempdir())
            assert stat.S_IMODE(sockets.stat().st_mode) == 0o700
            assert Home(place, None).socket_directory() == sockets
        finally:
            sockets.rmdir()

    def test_a_noted_directory_that_became_a_link_is_not_trusted(self, tmp_path: Path) -> None:
        place = tmp_path / "with space"
        place.mkdir()
        (tmp_path / "link").symlink_to("/tmp")
        (place / "socket").write_text(str(tmp_path / "link"))
        sockets = Home(place, None).socket_directory()
        assert sockets.name.startswith("redrive-")
        sockets.rmdir()


class TestTheUser:
    @pytest.fixture(autouse=True)
    def as_root(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)

    def known(self, monkeypatch: pytest.MonkeyPatch, **users: int) -> None:
        def by_name(name: str) -> pwd.struct_passwd:
            return pwd.struct_passwd((name, "x", users[name], users[name], "", "/", "/bin/sh"))

        def by_id(uid: int) -> pwd.struct_passwd:
            return next(by_name(name) for name, known in users.items() if known == uid)

        monkeypatch.setattr(home.pwd, "getpwnam", by_name)
        monkeypatch.setattr(home.pwd, "getpwuid", by_id)

    def test_root_is_never_the_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known(monkeypatch, root=0, nobody=65534)
        assert home._account(0).name == "nobody"

    def test_postgres_comes_before_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known(monkeypatch, root=0, nobody=65534, postgres=101)
        assert home._account(0).name == "postgres"

    def test_the_owner_of_the_directory_comes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known(monkeypatch, root=0, postgres=101, alice=1000)
        assert home._account(1000).name == "alice"

    def test_where_there_is_nobody_the_error_says_what_to_do(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known(monkeypatch, root=0)
        with pytest.raises(ConfigError, match=r"neither a user postgres nor nobody.*add one"):
            home._account(0)


class TestAnOrdinaryUser:
    def test_a_directory_of_somebody_else_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = next(user.pw_uid for user in pwd.getpwall() if user.pw_uid not in (0, os.getuid()))
        monkeypatch.setattr(os, "geteuid", lambda: other)
        with pytest.raises(
            ConfigError, match=rf"{tmp_path} belongs to user id {tmp_path.stat().st_uid}, not to"
        ):
            settle(tmp_path)

    def test_a_user_without_a_name_is_told_so_before_initdb_fails(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
        with pytest.raises(ConfigError, match=r"user id 4000000000 has no name.*REDRIVE_DATABASE_URL"):
            settle(tmp_path)
