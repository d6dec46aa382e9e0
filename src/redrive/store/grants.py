"""Grants: a role with a part of redrive can execute that part's functions, and needs no right on its tables.

The tables of an inbox's API are no part of schema redrive, and have no functions in front:
`redrive.api_table` says which part needs which rights on them.

Guarantees  what was granted is recorded and holds again after every migrate, which replaces functions;
            a role that is gone is passed over. Supabase's `service_role`, where it exists, gets work, send.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import tuple_row

from redrive.errors import InvalidArgument, SetupError
from redrive.sql import FOLDER, PARTS, SqlFile, function_files
from redrive.store.faults import explain_psycopg
from redrive.store.script import LOCK, block, quote


def grant(connection: psycopg.Connection[Any], role: str, part: str) -> None:
    """Let `role` do `part`, one of send, work, operate, read; granting twice is fine.

    Raises `InvalidArgument` for an unknown part or role, `SetupError` where this connection may not grant.
    """
    _check(connection, role, part)
    record = "insert into redrive.role_grant (role, part) values (%s, %s) on conflict do nothing"
    _change(connection, record, role, part, apply_sql(function_files(FOLDER)))


def revoke(connection: psycopg.Connection[Any], role: str, part: str) -> None:
    """Take `part` from `role`; what another part of the role's covers stays. Raises as `grant` does."""
    _check(connection, role, part)
    record = "delete from redrive.role_grant where role = %s and part = %s"
    _change(connection, record, role, part, _revoke_sql(function_files(FOLDER), role, part))


def apply_sql(files: list[SqlFile], *, unless: str | None = None) -> str:
    """One SQL statement that grants again what is recorded; it looks first, for most is there already.

    It does nothing where the condition `unless` is true.
    """
    return block(_APPLY.replace("{mapping}", _mapping(files)), unless=unless)


def _revoke_sql(files: list[SqlFile], role: str, part: str) -> str:
    filled = _REVOKE.replace("{mapping}", _mapping(files)).replace("{part}", quote(part))
    return block(filled.replace("{role}", quote(role)))


def _mapping(files: list[SqlFile]) -> str:
    pairs = [f"('{file.name}', '{part}')" for file in files for part in file.parts]
    return f"values {', '.join(pairs)}" if pairs else "select null::text, null::text where false"


def _check(connection: psycopg.Connection[Any], role: str, part: str) -> None:
    if part not in PARTS:
        raise InvalidArgument(f"part {part!r} is unknown; a part is one of {', '.join(PARTS)}")
    if not _first(connection, "select exists (select from pg_catalog.pg_roles where rolname = %s)", role):
        raise InvalidArgument(f"role {role!r} does not exist in this database server; create it first")
    owner = _first(
        connection,
        "select rolname from pg_catalog.pg_namespace join pg_catalog.pg_roles r on r.oid = nspowner "
        "where nspname = 'redrive'",
    )
    if owner is None:
        raise SetupError("this database has no redrive schema yet; run `redrive migrate` first")
    if role == owner:
        raise InvalidArgument(
            f"role {role!r} owns redrive here: it can do every part, and none can be taken from it"
        )
    if not _first(connection, "select pg_has_role(%s::name, 'usage')", owner):
        raise SetupError(
            f"schema redrive belongs to role {owner!r}, and only it can grant; connect as {owner}"
        )


def _first(connection: psycopg.Connection[Any], sql: str, *parameters: str) -> Any:
    row = connection.cursor(row_factory=tuple_row).execute(sql.encode(), parameters).fetchone()
    return row[0] if row else None


def _change(connection: psycopg.Connection[Any], record: str, role: str, part: str, apply: str) -> None:
    try:
        with connection.transaction():
            connection.execute(LOCK.encode())
            connection.execute(record.encode(), (role, part))
            connection.execute(apply.encode())
    except psycopg.Error as error:
        raise explain_psycopg(error) or error from error


_APPLY = """
declare
    v_role record;
    v_function record;
    v_table record;
begin
    if exists (select from pg_catalog.pg_roles where rolname = 'service_role') then
        insert into redrive.role_grant (role, part) values ('service_role', 'work'), ('service_role', 'send')
            on conflict do nothing;
    end if;
    for v_role in
        select r.oid, r.rolname, array_agg(g.part) as parts
          from redrive.role_grant g join pg_catalog.pg_roles r on r.rolname = g.role
         group by r.oid, r.rolname
    loop
        if not has_schema_privilege(v_role.oid, 'redrive', 'usage') then
            execute format('grant usage on schema redrive to %I', v_role.rolname);
        end if;
        for v_function in
            select distinct p.oid::pg_catalog.regprocedure as signature
              from ({mapping}) mapping (name, part)
              join pg_catalog.pg_proc p on p.proname = mapping.name
             where p.pronamespace = 'redrive'::pg_catalog.regnamespace
               and mapping.part = any (v_role.parts)
               and not exists (select from aclexplode(p.proacl) a where a.grantee = v_role.oid)
        loop
            execute format('grant execute on function %s to %I', v_function.signature, v_role.rolname);
        end loop;
        for v_table in
            select distinct n.nspname, c.relname, r.may,
                   pg_has_role(n.nspowner, 'usage')
                   and not exists (select from aclexplode(n.nspacl) a
                                    where a.grantee = v_role.oid and a.privilege_type = 'USAGE') as closed
              from redrive.api_table t
              join pg_catalog.pg_namespace n on n.nspname = t.schema_name
              join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.table_name
             cross join unnest(t.rights) r(may)
             where t.part = any (v_role.parts) and pg_has_role(c.relowner, 'usage')
               and not exists (select from aclexplode(c.relacl) a
                                where a.grantee = v_role.oid and a.privilege_type = upper(r.may))
        loop
            if v_table.closed then
                execute format('grant usage on schema %I to %I', v_table.nspname, v_role.rolname);
            end if;
            execute format('grant %s on %I.%I to %I',
                           v_table.may, v_table.nspname, v_table.relname, v_role.rolname);
        end loop;
    end loop;
end
"""

_REVOKE = """
declare
    v_parts text[] := (select coalesce(array_agg(part), '{}') from redrive.role_grant where role = {role});
    v_function record;
    v_table record;
begin
    for v_table in
        select n.nspname, c.relname, r.may
          from redrive.api_table t
          join pg_catalog.pg_namespace n on n.nspname = t.schema_name
          join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.table_name
         cross join unnest(t.rights) r(may)
         where t.part = {part} and pg_has_role(c.relowner, 'usage')
           and not exists (select from redrive.api_table k
                            where (k.schema_name, k.table_name) = (t.schema_name, t.table_name)
                              and k.part = any (v_parts) and r.may = any (k.rights))
    loop
        execute format('revoke %s on %I.%I from %I', v_table.may, v_table.nspname, v_table.relname, {role});
    end loop;
    for v_table in
        select n.nspname
          from pg_catalog.pg_namespace n
         where n.nspname in (select schema_name from redrive.api_table where part = {part})
           and pg_has_role(n.nspowner, 'usage')
           and not exists (select from pg_catalog.pg_class c cross join aclexplode(c.relacl) a
                              join pg_catalog.pg_roles r on r.oid = a.grantee
                            where c.relnamespace = n.oid and r.rolname = {role})
    loop
        execute format('revoke usage on schema %I from %I', v_table.nspname, {role});
    end loop;
    for v_function in
        select p.oid::pg_catalog.regprocedure as signature
          from pg_catalog.pg_proc p
         where p.pronamespace = 'redrive'::pg_catalog.regnamespace
           and not exists (select from ({mapping}) mapping (name, part)
                            where mapping.name = p.proname and mapping.part = any (v_parts))
    loop
        execute format('revoke all on function %s from %I', v_function.signature, {role});
    end loop;
    if v_parts = '{}' then
        execute format('revoke usage on schema redrive from %I', {role});
    end if;
end
"""
