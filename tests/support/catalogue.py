"""Who may do what in a database: over everything that one role owns there, as its catalogue has it."""

from __future__ import annotations

from typing import Any

import psycopg

# A right on an object counts where the object can be named as well: usage of its schema. The row types of
# tables and the arrays of types are left out: they come by themselves, and show nothing of a table.
_RIGHTS = """
with mine as (select oid from pg_roles where rolname = %(owner)s),
     named as (select n.oid, n.nspname, n.nspowner, has_schema_privilege(%(role)s, n.oid, 'usage') as usage,
                      has_schema_privilege(%(role)s, n.oid, 'create') as making
                 from pg_namespace n
                where n.nspname !~ '^pg_' and n.nspname <> 'information_schema')
select 'function ' || p.oid::regprocedure
  from pg_proc p join named n on n.oid = p.pronamespace
 where p.proowner in (select oid from mine) and n.usage
   and has_function_privilege(%(role)s, p.oid, 'execute')
union all
select r.may || ' on ' || c.oid::regclass
  from pg_class c join named n on n.oid = c.relnamespace
 cross join unnest(array['delete', 'truncate', 'trigger']) r(may)
 where c.relowner in (select oid from mine) and c.relkind in ('r', 'p', 'v', 'm', 'f') and n.usage
   and has_table_privilege(%(role)s, c.oid, r.may)
union all
select r.may || ' on ' || c.oid::regclass
  from pg_class c join named n on n.oid = c.relnamespace
 cross join unnest(array['select', 'insert', 'update', 'references']) r(may)
 where c.relowner in (select oid from mine) and c.relkind in ('r', 'p', 'v', 'm', 'f') and n.usage
   and has_any_column_privilege(%(role)s, c.oid, r.may)
union all
select 'sequence ' || c.oid::regclass
  from pg_class c join named n on n.oid = c.relnamespace
 where c.relowner in (select oid from mine) and n.usage
   and case when c.relkind = 'S' then has_sequence_privilege(%(role)s, c.oid, 'usage, select, update') end
union all
select 'type ' || t.oid::regtype
  from pg_type t join named n on n.oid = t.typnamespace left join pg_class c on c.oid = t.typrelid
 where t.typowner in (select oid from mine) and t.typcategory <> 'A' and coalesce(c.relkind, 'c') = 'c'
   and n.usage and has_type_privilege(%(role)s, t.oid, 'usage')
union all
select r.may || ' on schema ' || n.nspname
  from named n cross join lateral (values ('usage', n.usage), ('create', n.making)) r(may, has)
 where r.has and (n.nspowner in (select oid from mine) or r.may = 'create')
union all
select 'create on database' where has_database_privilege(%(role)s, current_database(), 'create')
"""
_MADE = """
with mine as (select oid from pg_roles where rolname = %(owner)s)
select 'function ' || oid::regprocedure from pg_proc where proowner in (select oid from mine)
union all
select case relkind when 'S' then 'sequence ' else 'table ' end || oid::regclass
  from pg_class where relowner in (select oid from mine) and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
   and relnamespace <> 'pg_toast'::regnamespace
"""


def rights(connection: psycopg.Connection[Any], role: str, *, owner: str) -> set[str]:
    """What `role` may use of all that `owner` has: "function f(text)", "select on t", "usage on schema s"."""
    return {row[0] for row in connection.execute(_RIGHTS, {"role": role, "owner": owner}).fetchall()}


def made(connection: psycopg.Connection[Any], *, owner: str) -> set[str]:
    """Every function, table, view and sequence that `owner` has."""
    return {row[0] for row in connection.execute(_MADE, {"owner": owner}).fetchall()}
