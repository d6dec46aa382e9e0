"""The ring's own pieces: what a project is, what a request over its API may do, and that its tools run."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.support.node import PACKAGES, Node
from tests.support.project import OWNER, USER, Project, Projects


class TestAProject:
    def test_its_owner_is_no_superuser_and_owns_pgmq(self, project: Project) -> None:
        (row,) = project.read(
            "select r.rolsuper, c.relowner::regrole::text from pg_roles r, pg_class c "
            "where r.rolname = current_user and c.oid = 'pgmq.meta'::regclass"
        )
        assert tuple(row) == (False, OWNER)

    @pytest.mark.parametrize("layout", ["1.4.4", "1.13.0"])
    def test_pgmq_comes_in_the_versions_that_projects_have(self, projects: Projects, layout: str) -> None:
        made = projects.make(layout)
        assert made.read("select to_regclass('pgmq.meta') is not null")[0][0]
        projects.drop(made)

    def test_a_copy_of_a_migrated_one_has_everything(self, migrated: Project) -> None:
        assert migrated.read("select count(*) > 20 from redrive.schema_files()")[0][0]
        migrated.read("create schema more")


class TestARequest:
    def test_knows_its_user_and_role_and_timeouts(self, project: Project) -> None:
        with project.api("authenticated") as request:
            row = request.execute(
                "select current_user::text, auth.uid(), auth.role(), current_setting('statement_timeout')"
            ).fetchone()
        assert row == ("authenticated", USER, "authenticated", "8s")

    def test_leaves_nothing_behind_when_it_fails(self, project: Project) -> None:
        project.read("create table public.note (body text)")
        project.read("grant insert on public.note to service_role")
        with pytest.raises(psycopg.Error), project.api("service_role") as request:
            request.execute("insert into public.note values ('one')")
            request.execute("select 1 / 0")
        assert project.read("select * from public.note") == []

    def test_fails_over_an_update_without_where_at_any_depth(self, project: Project) -> None:
        project.read("create table public.note (body text)")
        project.read(
            "create function public.clear_notes() returns void language plpgsql security definer "
            "set search_path = '' as $$ "
            "begin execute format('update %I.note set body = null', 'public'); end $$"
        )
        with pytest.raises(AssertionError, match="no WHERE"), project.api("service_role") as request:
            request.execute("select public.clear_notes()")
        project.read(
            "create or replace function public.clear_notes() returns void language plpgsql security definer "
            "set search_path = '' as $$ begin update public.note set body = null where body <> ''; end $$"
        )
        with project.api("service_role") as request:
            request.execute("select public.clear_notes()")


class TestTools:
    def test_are_the_pinned_ones(self, node: Node, tmp_path: Path) -> None:
        assert node.supabase("--version", folder=tmp_path).stdout.strip() == PACKAGES["supabase"]
        assert f"deno {PACKAGES['deno']} " in node.deno("--version", folder=tmp_path).stdout

    def test_send_no_telemetry(self, node: Node, tmp_path: Path) -> None:
        assert "disabled" in node.supabase("telemetry", "status", folder=tmp_path).stdout

    def test_push_migrations_over_tcp(self, node: Node, project: Project, tmp_path: Path) -> None:
        folder = tmp_path / "supabase" / "migrations"
        folder.mkdir(parents=True)
        (folder / "20260101000000_first.sql").write_text("create table public.first (id bigint);\n")
        push = ("db", "push", "--db-url", project.url, "--yes")
        done = node.supabase(*push, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        again = node.supabase(*push, folder=tmp_path)
        assert "up to date" in again.stdout + again.stderr
        assert project.read("select to_regclass('public.first') is not null")[0][0]
