"""`redrive supabase init` on files alone: what it writes where, what it leaves, and what it refuses."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from redrive import Redrive
from redrive.errors import ConfigError, InvalidArgument
from redrive.supabase import arguments, migration, project, writing
from redrive.supabase.migration import Said
from redrive.supabase.plan import Options, Section
from redrive.supabase.project import Change
from tests.support.cli import Ran, run

APP = "tests.support.supabase_app:app"
EDGE: dict[str, Any] = {"worker": "edge", "api_schema": "public"}
NOW = datetime(2026, 11, 5, 12, 30, 0, 999_999, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A Supabase project's."""
    (tmp_path / "supabase").mkdir()
    (tmp_path / "supabase" / "config.toml").write_text('project_id = "shop"\n')
    return tmp_path


def app_with(*queues: str) -> Redrive:
    made = Redrive()
    for queue in queues:
        made.job(queue)(work)
    return made


async def work(payload: dict[str, Any]) -> None: ...


def init(folder: Path, app: Redrive | None = None, *, write: bool = True, **given: Any) -> writing.Plan:
    with chdir(folder):
        plan = writing.plan(app or app_with("email_jobs"), given, now=NOW)
        if write:
            plan.write()
    return plan


def command(folder: Path, *arguments: str) -> Ran:
    with chdir(folder):
        return run("supabase", "init", "--app", APP, *arguments)


def migrations(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "supabase" / "migrations").glob("*"))


def everything(folder: Path) -> Mapping[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


class TestTheFiles:
    def test_the_schema_comes_before_the_app(self, folder: Path) -> None:
        init(folder)
        assert migrations(folder) == ["20261105123000_redrive_schema.sql", "20261105123001_redrive_app.sql"]

    def test_a_project_is_found_from_any_folder_of_it(self, folder: Path) -> None:
        (folder / "supabase" / "functions" / "hello").mkdir(parents=True)
        init(folder / "supabase" / "functions" / "hello")
        assert len(migrations(folder)) == 2

    def test_they_come_after_every_migration_there_is(self, folder: Path) -> None:
        (folder / "supabase" / "migrations").mkdir()
        for name in ("20250101000000_a.sql", "20301231235959_a_wrong_clock.sql", "30000101000000_x.txt"):
            (folder / "supabase" / "migrations" / name).write_text("select 1;")
        init(folder)
        assert migrations(folder)[2:4] == [
            "20310101000000_redrive_schema.sql",
            "20310101000001_redrive_app.sql",
        ]

    @pytest.mark.parametrize("name", ["9_last.sql", "20261399000000_month_13.sql", "99991231235959_end.sql"])
    def test_where_nothing_can_come_after_it_is_said(self, folder: Path, name: str) -> None:
        (folder / "supabase" / "migrations").mkdir()
        (folder / "supabase" / "migrations" / name).write_text("select 1;")
        with pytest.raises(ConfigError, match=rf"{name} is sorted behind every time"):
            init(folder)
        assert migrations(folder) == [name]

    def test_again_they_say_the_same_and_nothing_is_written(self, folder: Path) -> None:
        init(folder)
        before = everything(folder)
        again = init(folder)
        assert everything(folder) == before
        assert again.changes == () and len(again.unchanged) == 2

    def test_a_checkout_with_other_ends_of_line_says_the_same(self, folder: Path) -> None:
        init(folder)
        for path in (folder / "supabase" / "migrations").iterdir():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        assert init(folder).changes == ()

    def test_what_changed_is_written_whole_in_a_new_file_and_the_old_one_stays(self, folder: Path) -> None:
        init(folder)
        before = everything(folder)
        plan = init(folder, app_with("email_jobs", "sms_jobs"))
        assert [each.path.name for each in plan.changes] == ["20261105123002_redrive_app.sql"]
        assert everything(folder).items() >= before.items()
        assert "queue email_jobs" in plan.changes[0].text and "queue sms_jobs" in plan.changes[0].text

    def test_a_file_that_was_edited_by_hand_is_written_anew_beside_it(self, folder: Path) -> None:
        init(folder)
        path = folder / "supabase" / "migrations" / migrations(folder)[1]
        path.write_text(path.read_text() + "-- mine\n")
        assert len(init(folder).changes) == 1
        assert path.read_text().endswith("-- mine\n") and len(migrations(folder)) == 3

    def test_dry_run_writes_nothing(self, folder: Path) -> None:
        before = everything(folder)
        ran = command(folder, "--dry-run")
        assert ran.code == 0 and ran.out.count("would be written: supabase/migrations/") == 2
        assert everything(folder) == before

    def test_out_takes_the_migrations_anywhere_and_says_what_config_toml_needs(self, tmp_path: Path) -> None:
        ran = command(tmp_path, "--out", "sql/new", "--api-schema", "api")
        assert ran.code == 0, ran.err
        assert len(list((tmp_path / "sql" / "new").glob("*_redrive_*.sql"))) == 2
        assert 'schemas = ["public", "graphql_public", "api"]' in ran.out

    def test_the_difference_of_config_toml_is_shown(self, folder: Path) -> None:
        ran = command(folder, "--api-schema", "api")
        assert '+schemas = ["public", "graphql_public", "api"]' in ran.out
        assert "+schemas" not in command(folder).out

    def test_json_names_the_files(self, folder: Path) -> None:
        first, second = command(folder, "--json").json, command(folder, "--json").json
        assert len(first["written"]) == 2 and second["written"] == []
        assert second["unchanged"] == first["written"]


class TestEdgeFunctions:
    def test_they_are_written_and_opened_in_config_toml(self, folder: Path) -> None:
        init(folder, **EDGE)
        written = everything(folder)
        assert "supabase/functions/redrive-worker/index.ts" in written
        assert "[functions.redrive-worker]" in written["supabase/config.toml"]
        assert init(folder).changes == ()

    def test_what_the_project_is_to_edit_is_written_once(self, folder: Path) -> None:
        init(folder, **EDGE)
        worker = folder / "supabase" / "functions" / "redrive-worker"
        (worker / "handlers.ts").write_text("// ours")
        (worker / "index.ts").write_text("// ours too")
        plan = init(folder, app_with("email_jobs", "sms_jobs"))
        assert (worker / "handlers.ts").read_text() == "// ours"
        assert worker / "index.ts" in [each.path for each in plan.changes]
        assert "handlers.ts has no handler of email_jobs, sms_jobs" in plan.notes[-1]

    def test_one_that_cannot_be_made_is_refused_before_anything_is_written(self, folder: Path) -> None:
        app = Redrive()
        app.inbox("calls", provider="twilio", queue="calls", secret="x", url="https://example.com/")
        before = everything(folder)
        with pytest.raises(ConfigError, match="twilio"):
            init(folder, app, api_schema="public", edge_functions=("receiver",))
        assert everything(folder) == before


class TestWhatLeft:
    def test_what_left_the_app_is_a_comment_and_nothing_drops_it(self, folder: Path) -> None:
        init(folder, app_with("email_jobs", "old_jobs"))
        plan = init(folder, app_with("email_jobs"))
        assert "queue old_jobs" in plan.left
        [change] = plan.changes
        assert "\n-- no longer in the app, left in the database: queue old_jobs\n" in change.text
        assert "old_jobs" not in "\n".join(
            line for line in change.text.splitlines() if not line.startswith("--")
        )

    def test_a_function_that_has_other_parameters_now_is_not_said_to_be_left(self) -> None:
        before = Said(makes=("function public.enq(text)", "function public.gone(text)"))
        part = Section("rpcs", "select 1;", ("function public.enq(text, text)",))
        assert Said.of(migration.text([part], options="", before=before)).left == (
            "function public.gone(text)",
        )

    def test_a_blank_line_before_the_head_loses_nothing(self) -> None:
        text = migration.text([], options="--worker edge", before=Said(makes=("queue old",)))
        assert Said.of(f"\ufeff\n{text}") == Said.of(text) != Said()

    def test_it_is_remembered_by_the_files_that_follow(self, folder: Path) -> None:
        init(folder, app_with("email_jobs", "old_jobs"))
        init(folder, app_with("email_jobs"))
        assert init(folder, app_with("email_jobs")).changes == ()
        assert "queue old_jobs" in init(folder, app_with("sms_jobs", "email_jobs")).left

    def test_until_it_comes_back(self, folder: Path) -> None:
        init(folder, app_with("email_jobs", "old_jobs"))
        init(folder, app_with("email_jobs"))
        assert init(folder, app_with("email_jobs", "old_jobs")).left == ()


class TestOptions:
    def test_they_are_remembered_and_can_be_forgotten(self, folder: Path) -> None:
        assert command(folder, "--worker", "resident", "--api-schema", "api").code == 0
        again = command(folder)
        assert again.out.count("unchanged: ") == 2
        assert "options: --worker resident --api-schema api" in again.err
        anew = command(folder, "--anew", "--dry-run")
        assert "would be written: " in anew.out

    @pytest.mark.parametrize(
        "options",
        [
            Options(),
            Options(worker="edge", interval=120, api_schema="api", edge_functions=("worker", "receiver")),
            Options(replace_recipe=True, keys_of=("a", "b"), url_secret="my-url", key_secret="my.key"),
        ],
    )
    def test_the_line_that_remembers_them_is_read_back(self, options: Options) -> None:
        assert arguments.options({}, arguments.line(options)) == options

    @pytest.mark.parametrize(
        "line",
        ["--worker", "--speed 3", "--interval x", "--interval ٣", "--url-secret", "--worker '"],
    )
    def test_a_line_that_somebody_edited_is_refused(self, line: str) -> None:
        with pytest.raises(InvalidArgument, match="--anew"):
            arguments.options({}, line)

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"interval": 0}, "--interval is 0"),
            ({"interval": 61}, "--interval is 61"),
            ({"interval": 3600}, "--interval is 3600"),
            ({"worker": "lambda"}, "tick, edge, resident"),
            ({"edge_functions": ("sender",), "api_schema": "api"}, "worker, receiver"),
            ({"edge_functions": ("worker",)}, "--api-schema public"),
            ({"worker": "edge"}, "--api-schema public"),
            ({"api_schema": "pgmq_public"}, "pgmq_public"),
            ({"api_schema": "auth"}, "auth"),
            ({"api_schema": "redrive"}, "redrive"),
            ({"api_schema": "My Schema"}, "My Schema"),
            ({"api_schema": ""}, "schema ''"),
            ({"keys_of": ("No",)}, "'No'"),
            ({"url_secret": "https://x.supabase.co"}, "name of a secret in Vault, not its value"),
            ({"key_secret": "sb_secret_abc"}, "name of a secret in Vault, not its value"),
            ({"key_secret": ""}, "name of a secret"),
        ],
    )
    def test_a_value_that_cannot_be_is_refused_in_a_sentence_and_nothing_is_written(
        self, folder: Path, given: dict[str, Any], said: str
    ) -> None:
        before = everything(folder)
        with pytest.raises((InvalidArgument, ConfigError), match=re.escape(said)) as refused:
            init(folder, **given)
        assert "\n" not in str(refused.value)
        assert everything(folder) == before

    def test_the_command_ends_with_2(self, folder: Path) -> None:
        ran = command(folder, "--interval", "61")
        assert ran.code == 2 and ran.err.startswith("redrive: --interval is 61") and ran.err.count("\n") == 1
        assert "--check" in command(folder, "--database", "postgresql:///x").err
        assert "--out" in command(folder, "--out", "").err

    @pytest.mark.parametrize("seconds", [1, 59, 60, 3540])
    def test_intervals_that_cron_has_are_taken(self, seconds: int) -> None:
        assert arguments.options({"interval": seconds}).interval == seconds


class TestWhatCannotBeWritten:
    def test_without_a_project_it_says_what_to_do(self, tmp_path: Path) -> None:
        ran = command(tmp_path)
        assert ran.code == 2 and "supabase init" in ran.err and "--out DIR" in ran.err

    def test_a_broken_config_stops_it_before_anything_is_written(self, folder: Path) -> None:
        (folder / "supabase" / "config.toml").write_text("[api\n")
        ran = command(folder)
        assert ran.code == 2 and "is no TOML" in ran.err
        assert migrations(folder) == []

    def test_a_config_that_is_no_text_is_refused(self, folder: Path) -> None:
        (folder / "supabase" / "config.toml").write_bytes(b'project_id = "caf\xe9"')
        with pytest.raises(ConfigError, match=r"config.toml is no UTF-8 text \(byte 17\)"):
            init(folder)

    def test_lines_of_config_toml_end_as_they_did(self, folder: Path) -> None:
        config = folder / "supabase" / "config.toml"
        config.write_bytes(b"[api]\r\nenabled = true\r\n")
        init(folder, api_schema="api")
        assert config.read_bytes().count(b"\n") == config.read_bytes().count(b"\r\n") == 3

    def test_a_file_where_a_folder_should_be_is_named(self, folder: Path) -> None:
        (folder / "supabase" / "migrations").write_text("")
        ran = command(folder)
        assert ran.code == 2 and "migrations cannot be read: Not a directory" in ran.err

    def test_out_that_is_a_file_is_named(self, folder: Path) -> None:
        assert "is no folder" in command(folder, "--out", "supabase/config.toml").err

    def test_a_link_is_followed_and_stays_a_link(self, tmp_path: Path) -> None:
        real, link = tmp_path / "real.toml", tmp_path / "link.toml"
        real.write_text("old")
        link.symlink_to(real)
        project.write([Change(link, "new")])
        assert link.is_symlink() and real.read_text() == "new"

    def test_what_fails_midway_is_taken_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        old, new, last = tmp_path / "old", tmp_path / "made" / "new", tmp_path / "last"
        old.write_text("as it was")
        replace = os.replace

        def full(source: Path, target: Path) -> None:
            if target == last:
                raise OSError(28, "No space left on device")
            replace(source, target)

        monkeypatch.setattr(os, "replace", full)
        with pytest.raises(ConfigError, match="last cannot be written: No space left on device"):
            project.write([Change(old, "changed"), Change(new, "x"), Change(last, "y")])
        assert everything(tmp_path) == {"old": "as it was"}
        assert [path.name for path in tmp_path.iterdir()] == ["old"]

    def test_a_file_that_may_not_be_written_stops_all(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        locked = tmp_path / "locked"
        locked.write_text("as it was")
        access = os.access
        # Whoever runs the tests may be root, who may write everything.
        monkeypatch.setattr(os, "access", lambda path, mode: path != locked and access(path, mode))
        with pytest.raises(ConfigError, match="locked cannot be written: Permission denied"):
            project.write([Change(tmp_path / "new", "x"), Change(locked, "y")])
        assert everything(tmp_path) == {"locked": "as it was"}


class TestTheRecipe:
    RECIPE = (
        "CREATE OR REPLACE FUNCTION public.claim_job(p_key text) ...; create function app.backoff (x int)"
    )

    def test_migrations_that_make_it_are_named_with_the_way_out(self, folder: Path) -> None:
        (folder / "supabase" / "migrations").mkdir()
        (folder / "supabase" / "migrations" / "20250101000000_queue.sql").write_text(self.RECIPE)
        ran = command(folder, "--dry-run")
        assert "20250101000000_queue.sql makes app.backoff, public.claim_job" in ran.err
        assert "--replace-recipe" in ran.err

    def test_a_file_that_would_stop_at_it_is_named_once_another_takes_it_over(self, folder: Path) -> None:
        init(folder)
        note = init(folder, replace_recipe=True).notes[-1]
        assert note.startswith("20261105123001_redrive_app.sql stops") and "delete it if it was never" in note

    def test_redrives_own_functions_are_none_of_it(self, folder: Path) -> None:
        assert command(folder, "--api-schema", "public").code == 0
        assert "replace-recipe" not in command(folder).err


def test_the_head_of_a_file_is_all_that_is_read() -> None:
    said = Said.of("-- x\n--\n-- options: --worker tick\n-- makes: queue a\nbegin;\n-- makes: queue b\n")
    assert said == Said("--worker tick", ("queue a",), ())
    assert Said.of("") == Said()
