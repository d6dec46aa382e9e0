"""pgmq in this database: found, or installed; never upgraded.

What an installation can do is looked up in the catalogue, object by object. Versions are not parsed: an
installation from SQL has none, and a half-upgraded one has two.
"""

from __future__ import annotations

from redrive.store.script import block, quote

# What redrive calls, with a queue's name alone: a mixed installation has two that fit, and neither is found.
CALLED = ("create", "drop_queue")
# Columns of pgmq.meta that redrive reads.
META_COLUMNS = ("queue_name", "is_partitioned", "is_unlogged", "created_at")

# Whether there is any pgmq here at all, as an SQL condition. An empty schema counts as none.
PRESENT = """exists (select from pg_catalog.pg_namespace n
    where n.nspname = 'pgmq'
      and (exists (select from pg_catalog.pg_class c where c.relnamespace = n.oid)
           or exists (select from pg_catalog.pg_proc p where p.pronamespace = n.oid)))"""


def install_sql() -> str:
    """Install pgmq where there is none: the extension where it is offered, else the SQL of the wheel."""
    # A whole client comes with it: half a second of start that only migrate pays.
    from pgmq.install import get_embedded_install_sql

    return block(f"""
begin
    if not {PRESENT} then
        if exists (select from pg_catalog.pg_available_extensions where name = 'pgmq') then
            create extension pgmq;
        else
            execute {quote(get_embedded_install_sql())};
        end if;
    end if;
end
""")


def extension_sql() -> str:
    """Install the extension where there is no pgmq; refuse (RD002) where it is not offered."""
    return block(_EXTENSION.replace("{present}", PRESENT))


def check_sql() -> str:
    """Refuse (RD002) a pgmq that lacks what redrive needs, or that the current role may not use."""
    return block(_CHECK.replace("{called}", _values(CALLED)).replace("{columns}", _values(META_COLUMNS)))


def _values(names: tuple[str, ...]) -> str:
    return ", ".join(f"('{name}')" for name in names)


_EXTENSION = """
begin
    if not {present} then
        if not exists (select from pg_catalog.pg_available_extensions where name = 'pgmq') then
            raise exception using errcode = 'RD002', message =
                'this server offers no extension pgmq, and none of its objects are here; on Supabase, '
                'upgrade the project''s Postgres (15.6.1.143 or newer has it); elsewhere run redrive migrate '
                'first, which brings pgmq as plain SQL';
        end if;
        create extension pgmq;
    end if;
end
"""

_CHECK = """
declare
    v_schema oid := (select oid from pg_catalog.pg_namespace where nspname = 'pgmq');
    v_meta   oid := (select oid from pg_catalog.pg_class where relnamespace = v_schema and relname = 'meta');
    v_lacks  text;
begin
    select string_agg(lack, ', ' order by lack) into v_lacks from (
        select format('column pgmq.meta.%s', name)
          from (values {columns}) needed (name)
         where not exists (select from pg_catalog.pg_attribute
                            where attrelid = v_meta and attname = name and attnum > 0 and not attisdropped)
        union all
        select format('%s function pgmq.%s(text)', case when fitting = 0 then 'the' else 'a unique' end, name)
          from (values {called}) needed (name)
         cross join lateral (
                select count(*) from pg_catalog.pg_proc
                 where pronamespace = v_schema and proname = name and pronargs >= 1
                   and pronargs - pronargdefaults <= 1
                   and proargtypes[0] = 'text'::pg_catalog.regtype) p (fitting)
         where fitting <> 1
    ) lacking (lack);
    if v_lacks is not null then
        raise exception using errcode = 'RD002', message = format(
            'the pgmq in this database lacks %s: it is incomplete or a mixture of versions; complete it '
            '(alter extension pgmq update, or the whole SQL of one version) and run migrate again', v_lacks);
    end if;
    if not (has_schema_privilege(v_schema, 'usage') and has_schema_privilege(v_schema, 'create')
            and has_table_privilege(v_meta, 'select') and has_table_privilege(v_meta, 'insert')
            and has_table_privilege(v_meta, 'delete')) then
        raise exception using errcode = 'RD002', message = format(
            'role %1$s may not make queues in schema pgmq, which belongs to %2$s; run migrate as %2$s, or '
            'let it grant usage, create on schema pgmq and select, insert, delete on pgmq.meta to %1$s',
            quote_ident(current_user),
            (select nspowner::pg_catalog.regrole from pg_catalog.pg_namespace where oid = v_schema));
    end if;
end
"""
