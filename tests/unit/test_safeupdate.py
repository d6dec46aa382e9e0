"""Every UPDATE and DELETE of ours names its rows, as Supabase wants it of whatever comes over its API."""

from __future__ import annotations

from dataclasses import replace

import pytest

from redrive.sql import FOLDER
from redrive.supabase import migration, schema
from tests.support.safeupdate import unguarded
from tests.support.whole_app import OPTIONS, app

FILES = sorted(FOLDER.rglob("*.sql"))


@pytest.mark.parametrize(
    "text",
    [
        "update redrive.watch w set checked_at = now();",
        "DELETE FROM redrive.key;",
        "update only a.b as c\n set d = (select e from f where g);",
        "with gone as (delete from redrive.key returning id) select id from gone where id > 1",
        "execute format('update pgmq.%I set vt = now()', 'q_a') using 'where';",
        "execute 'delete from pgmq.' || quote_ident(v_name);",
        "execute 'update ' || v_name || ' set vt = now() where true';",
        "create function f() as $$ begin delete from a; select 1 where true; end $$",
        "for r in update a set b = 1 returning b loop select 1 where true; end loop;",
        "delete from a -- where\n;",
    ],
)
def test_a_statement_without_where_is_found(text: str) -> None:
    assert len(unguarded(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "update redrive.watch w set checked_at = now() where w.id;",
        "delete from a using b where a.id = b.id;",
        "with gone as (delete from a where b returning id) select id from gone",
        "insert into a values (1) on conflict (id) do update set b = excluded.b;",
        "select 1 from a for no key update skip locked;",
        "select has_table_privilege('a', 'update'), 'delete';",
        "execute format('delete from pgmq.%I where msg_id = $1', v_name) using 1;",
        "-- delete from a\nselect 1;",
        "create trigger t before update or delete on a for each row execute function f();",
        "grant select, update, delete on a to b;",
    ],
)
def test_what_names_its_rows_or_changes_none_is_not(text: str) -> None:
    assert unguarded(text) == []


@pytest.mark.parametrize("name", [str(file.relative_to(FOLDER)) for file in FILES])
def test_every_statement_of_ours_has_a_where(name: str) -> None:
    assert unguarded((FOLDER / name).read_text()) == []


def test_every_statement_of_a_projects_migrations_has_a_where() -> None:
    assert unguarded(schema.text()) == []
    for options in (OPTIONS, replace(OPTIONS, worker="tick", replace_recipe=True)):
        text = migration.text(migration.sections(app, options), options="")
        assert "p_queue_name" in text
        assert unguarded(text) == []
