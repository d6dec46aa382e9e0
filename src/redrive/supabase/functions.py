"""Functions for PostgREST's clients: made by a migration where they are absent or of another text.

Ours are known by their comment, which ends in the checksum of their text. Running the section again changes
nothing; one of ours whose text is another now is dropped and made anew, and what depends on it stops the
migration. A function of somebody else's is never replaced, nor is one made beside it that a call with named
arguments could mean as well: the migration stops, and names it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from redrive.errors import ConfigError
from redrive.store.script import block, quote
from redrive.supabase.plan import Check, Section

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
# Of others, or closed to PostgREST's clients on purpose.
_NOT_OURS = (
    "auth", "cron", "extensions", "graphql", "graphql_public", "information_schema", "net", "pgmq",
    "pgmq_public", "realtime", "redrive", "storage", "supabase_functions", "vault",
)  # fmt: skip
# What Postgres reads as a word of its own where a schema or a role is named.
_WORDS = """
all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create
current_catalog current_date current_role current_time current_timestamp current_user default deferrable
desc distinct do else end except false fetch for foreign from grant group having in initially intersect
into lateral leading limit localtime localtimestamp not null offset on only or order placing primary
references returning select session_user some symmetric system_user table then to trailing true union
unique user using variadic when where window with
authorization binary collation concurrently cross current_schema freeze full ilike inner is isnull join
left like natural notnull outer overlaps right similar tablesample verbose
"""
_RESERVED = frozenset(_WORDS.split())


@dataclass(frozen=True, slots=True)
class ApiFunction:
    """`text` is the whole ``create function`` statement; `arguments` its input types as Postgres lists them:
    "text, bigint[]"."""

    schema: str
    name: str
    arguments: str
    text: str
    role: str
    about: str

    @property
    def signature(self) -> str:
        return f"{self.schema}.{self.name}({self.arguments})"

    @property
    def comment(self) -> str:
        return f"{self.about} (redrive {hashlib.sha256(self.text.encode()).hexdigest()[:16]})"


def identifier(name: str) -> str:
    """A name of lower-case letters, digits and _, as SQL reads it."""
    return f'"{name}"' if name in _RESERVED else name


def check_schema(schema: str) -> str:
    """`schema` when functions for PostgREST's clients may be made there; raises `ConfigError`."""
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_") or schema in _NOT_OURS:
        raise ConfigError(
            f"schema {schema!r} cannot hold functions for PostgREST's clients; name one of your own, in "
            "lower-case letters, digits and _, such as public or api"
        )
    return schema


def section(title: str, functions: Sequence[ApiFunction]) -> Section:
    """The section that makes `functions`, each executable by its role alone."""
    made = ",\n".join(map(_row, functions))
    callers = sorted({(each.schema, each.role) for each in functions})
    return Section(
        title,
        "".join(block(_opening(schema, role)) for schema, role in callers)
        + (block(_MAKE.replace("{functions}", f"values {made}")) if functions else ""),
        tuple(f"function {each.signature}" for each in functions),
        (
            *(_may_use(schema, role) for schema, role in callers),
            *(check for each in functions for check in _checks(each)),
        ),
    )


def _opening(schema: str, role: str) -> str:
    return _OPEN.format(schema=schema, role=role, quoted=identifier(schema), grantee=identifier(role))


def _may_use(schema: str, role: str) -> Check:
    return Check(
        f"role {role} may not use schema {schema}, or one of the two is missing",
        "coalesce((select has_schema_privilege(r.oid, n.oid, 'usage') "
        "from pg_catalog.pg_namespace n, pg_catalog.pg_roles r "
        f"where n.nspname = {_literal(schema)} and r.rolname = {_literal(role)}), false)",
    )


def _row(function: ApiFunction) -> str:
    columns = (function.schema, function.name, function.arguments, function.role, function.comment)
    return f"({', '.join(map(_literal, columns))}, {quote(function.text)})"


def _literal(text: str) -> str:
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


def _checks(function: ApiFunction) -> list[Check]:
    found = f"to_regprocedure({_literal(function.signature)})"
    return [
        Check(
            f"function {function.signature} is missing, or not as this redrive makes it",
            f"exists (select from pg_catalog.pg_proc p where p.oid = {found} "
            f"and obj_description(p.oid, 'pg_proc') = {_literal(function.comment)} "
            f"and strpos({quote(function.text)}, p.prosrc) > 0)",
        ),
        Check(
            f"function {function.signature} is not executable by {function.role} alone",
            f"coalesce((select {_CLOSED.replace('{role}', _literal(function.role))} "
            f"from pg_catalog.pg_proc p where p.oid = {found}), false)",
        ),
    ]


_OPEN = """
begin
    if not exists (select from pg_catalog.pg_namespace where nspname = '{schema}') then
        create schema {quoted};
    end if;
    if not has_schema_privilege('{role}', '{schema}', 'usage') then
        grant usage on schema {quoted} to {grantee};
    end if;
end
"""

# Whether function p is executable by its owner and one role, and by nobody else.
_CLOSED = """p.proacl is not null
       and array[(select r.oid from pg_catalog.pg_roles r where r.rolname = {role})]
            is not distinct from (select array_agg(distinct a.grantee) from aclexplode(p.proacl) a
                                   where a.grantee <> p.proowner)"""

# A call names its arguments. Two functions of a name can both be meant where each knows all that the other
# cannot do without. After a new release it may be one of our own, which made way for one that takes more.
_MAKE = """
declare
    v_made   boolean := false;
    v_ours   constant text := '[(]redrive [0-9a-f]{16}[)]$';
    v_recipe constant text[] := array[
        'read_with_dlq(text,integer,integer,integer)', 'queue_archive(text,bigint)', 'claim_job(text)',
        'claim_worker_lease(text,integer)', 'check_queue_health()', 'backoff(bigint,integer)',
        'enqueue_email(text)'];
    v_found  oid;
    v_wanted record;
    v_other  record;
    v_role   record;
    v_detail text;
begin
    for v_wanted in
        select w.*, format('%I.%I(%s)', w.schema, w.name, w.arguments) as signature
          from (
{functions}
          ) w (schema, name, arguments, role, comment, body)
    loop
        v_found := to_regprocedure(v_wanted.signature);
        if obj_description(v_found, 'pg_proc') is distinct from v_wanted.comment then
            if obj_description(v_found, 'pg_proc') ~ v_ours then
                begin
                    execute format('drop function %s', v_wanted.signature);
                exception when dependent_objects_still_exist then
                    get stacked diagnostics v_detail = pg_exception_detail;
                    raise exception using errcode = 'RD002', message = format(
                        'function %s cannot be replaced: %s; drop that, run this again, and create it again',
                        v_wanted.signature, replace(v_detail, chr(10), '; '));
                end;
            elsif v_found is not null then
                raise exception using errcode = 'RD002', message = format(
                    'function %s is there, and is not redrive''s; %s', v_wanted.signature,
                    case when v_wanted.name || '(' || replace(v_wanted.arguments, ', ', ',') || ')'
                              = any (v_recipe)
                         then 'generate the migration with --replace-recipe, and redrive''s takes its place'
                         else 'drop or rename it, or let redrive''s have another schema or name' end);
            end if;
            execute v_wanted.body;
            execute format('comment on function %s is %L', v_wanted.signature, v_wanted.comment);
            v_found := to_regprocedure(v_wanted.signature);
            v_made := true;
        end if;

        for v_other in
            with named as (
                select p.oid, n.names, n.names[1 : p.pronargs - p.pronargdefaults] as needed,
                       format('%s(%s)', p.proname, replace(oidvectortypes(p.proargtypes), ', ', ',')) as shown
                  from pg_catalog.pg_proc p
                 cross join lateral (
                       select coalesce(array_agg(a.name order by a.place), '{}') as names
                         from unnest(p.proargnames, p.proargmodes) with ordinality a (name, mode, place)
                        where a.mode is null or a.mode in ('i', 'b', 'v')) n
                 where p.pronamespace = v_wanted.schema::regnamespace and p.proname = v_wanted.name
                   and cardinality(n.names) = p.pronargs and '' <> all (n.names))
            select format('%I.%s', v_wanted.schema, theirs.shown) as signature,
                   theirs.shown = any (v_recipe) as recipe,
                   obj_description(theirs.oid, 'pg_proc') ~ v_ours as ours
              from named mine join named theirs on theirs.oid <> mine.oid
               and mine.needed <@ theirs.names and theirs.needed <@ mine.names
             where mine.oid = v_found
        loop
            if v_other.ours then
                execute format('drop function %s', v_other.signature);
                v_made := true;
            else
                raise exception using errcode = 'RD002', message = format(
                    'a call of function %s could mean %s as well, which is not redrive''s; %s',
                    v_wanted.signature, v_other.signature,
                    case when v_other.recipe
                         then 'generate the migration with --replace-recipe, and redrive''s takes its place'
                         else 'drop or rename it, or let redrive''s have another schema or name' end);
            end if;
        end loop;

        if not (select {closed} from pg_catalog.pg_proc p where p.oid = v_found) then
            -- Whoever default privileges let in has to leave.
            execute format('revoke all on function %s from public', v_wanted.signature);
            for v_role in
                select distinct a.grantee::regrole as name from pg_catalog.pg_proc p, aclexplode(p.proacl) a
                 where p.oid = v_found and a.grantee not in (0, p.proowner)
            loop
                execute format('revoke all on function %s from %s', v_wanted.signature, v_role.name);
            end loop;
            execute format('grant execute on function %s to %I', v_wanted.signature, v_wanted.role);
        end if;
    end loop;
    if v_made then
        notify pgrst, 'reload schema';
    end if;
end
""".replace("{closed}", _CLOSED.replace("{role}", "v_wanted.role"))
