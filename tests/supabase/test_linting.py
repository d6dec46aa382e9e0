"""What `supabase db lint` and `supabase db advisors` say of everything that redrive makes: nothing."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.node import Node
from tests.support.project import Project, Projects


@pytest.fixture
def linted(projects: Projects, whole: Project) -> Project:
    """A project with plpgsql_check, in `public`, where a superuser made it."""
    made = projects.copy(whole)
    made.read("create extension plpgsql_check schema public", role="postgres")
    return made


@pytest.fixture
def advised(projects: Projects, whole: Project) -> Project:
    """A project whose exposed schemas are known to the advisors."""
    made = projects.copy(whole)
    made.read(
        f"alter database {made.name} set pgrst.db_schemas = 'public, pgmq_public, redrive'", role="postgres"
    )
    return made


def lint(node: Node, project: Project, folder: Path) -> subprocess.CompletedProcess[str]:
    schemas = ("--schema", "redrive,public", "--fail-on", "warning")
    return node.supabase("db", "lint", "--db-url", project.url, *schemas, folder=folder)


def advise(node: Node, project: Project, folder: Path) -> subprocess.CompletedProcess[str]:
    return node.supabase("db", "advisors", "--db-url", project.url, "--fail-on", "warn", folder=folder)


def test_lint_has_nothing_to_say(node: Node, linted: Project, tmp_path: Path) -> None:
    done = lint(node, linted, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No schema errors found" in done.stdout + done.stderr

    # It does look: a slip of this kind is found.
    linted.read(
        "create function redrive.slip(unused integer) returns integer language plpgsql as "
        "$$ declare v_never integer; begin return 1; end $$"
    )
    done = lint(node, linted, tmp_path)
    assert done.returncode != 0
    assert "redrive.slip" in done.stdout


def test_advisors_have_nothing_to_say_even_were_our_schema_exposed(
    node: Node, advised: Project, tmp_path: Path
) -> None:
    done = advise(node, advised, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr

    advised.read("create table public.slip (id bigint)")
    advised.read("grant select on public.slip to anon")
    done = advise(node, advised, tmp_path)
    assert done.returncode != 0
    assert "public.slip" in done.stdout
