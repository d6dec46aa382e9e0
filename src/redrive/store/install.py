"""The SQL that installs schema redrive: what `migrate` runs and `migrate --sql` prints.

Each statement looks before it acts, so the whole may be run again. Refusals are raised as RD002. `source` is
a query of files: name, checksum, body; `unless` a condition under which a statement does nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from redrive.store.script import LOCK, block

# A second migrate waits for the first, which may be installing pgmq on a slow machine.
_WAIT_FOR_ANOTHER = "60s"
# Whoever queues for a table's lock keeps everybody behind it waiting too: rather give up.
_WAIT_FOR_A_TABLE = "10s"


def opening(*, check_bodies: bool = False) -> str:
    """The transaction's settings, what is refused at once, and the lock that lets in one at a time."""
    return (
        # Each statement has to see what the migrate we waited for has committed.
        "set transaction isolation level read committed;\n"
        "set local statement_timeout = 0;\n"
        "set local client_min_messages = warning;\n"
        "set local search_path = '';\n"
        # SQL functions would be refused when they call one that is created after them.
        f"set local check_function_bodies = {'on' if check_bodies else 'off'};\n"
        + block(_REFUSE_SERVER)
        + f"set local lock_timeout = '{_WAIT_FOR_ANOTHER}';\n"
        + block(f"begin perform {LOCK.removeprefix('select ')}; end")
        + f"set local lock_timeout = '{_WAIT_FOR_A_TABLE}';\n"
        + block(_BECOME_OWNER)
    )


def bookkeeping() -> str:
    """Schema redrive and the list of files that were applied."""
    return block(_BOOKKEEPING)


def newer(release: Sequence[int]) -> str:
    """The condition that a newer release has migrated this database. Needs the bookkeeping."""
    return f"exists (select from redrive.schema_file where release > {_array(release)})"


def refuse_newer(release: Sequence[int]) -> str:
    """Refuse what a newer release has migrated."""
    return block(_REFUSE_NEWER.replace("{newer}", newer(release)))


def tables(source: str, release: Sequence[int], *, unless: str | None = None) -> str:
    """Apply the numbered files that were not applied yet; refuse when one was edited since."""
    code = _TABLES.replace("{release}", _array(release)).replace("{files}", source)
    return block(code, unless=unless)


def functions(source: str, release: Sequence[int], *, unless: str | None = None) -> str:
    """Drop the functions whose file is gone, replace those whose file changed or that somebody dropped."""
    code = _FUNCTIONS.replace("{release}", _array(release)).replace("{files}", source)
    return block(code, unless=unless)


def _array(release: Sequence[int]) -> str:
    return f"array[{', '.join(map(str, release))}]"


_REFUSE_SERVER = """
begin
    if current_setting('server_version_num')::integer < 140000 then
        raise exception using errcode = 'RD002', message = format(
            'this server is Postgres %s; redrive needs Postgres 14 or newer; upgrade it',
            current_setting('server_version'));
    elsif pg_is_in_recovery() then
        raise exception using errcode = 'RD002', message =
            'this server is a read replica; migrate needs the primary; name that one in the database URL';
    elsif current_setting('transaction_read_only')::boolean then
        raise exception using errcode = 'RD002', message =
            'this session is read-only (default_transaction_read_only); migrate writes; use another role';
    end if;
end
"""

# A definer function acts as its owner: were a superuser to replace a plain owner's functions, they would act
# as the superuser from then on. So whoever may, becomes the owner for this transaction.
_BECOME_OWNER = """
declare
    v_owner name := (select r.rolname
                       from pg_catalog.pg_namespace n join pg_catalog.pg_roles r on r.oid = n.nspowner
                      where n.nspname = 'redrive');
begin
    if v_owner is null or not exists (select from pg_catalog.pg_namespace where nspname = 'pgmq') then
        if not has_database_privilege(current_database(), 'create') then
            raise exception using errcode = 'RD002', message = format(
                'role %1$I may not create schemas in database %2$I; run migrate as the database''s owner, or '
                'let the owner grant create on database %2$I to %1$I', current_user, current_database());
        end if;
    end if;
    if v_owner <> current_user then
        if not pg_has_role(v_owner, 'usage') then
            raise exception using errcode = 'RD002', message = format(
                'schema redrive belongs to role %1$I, and you are %2$I; run migrate as %1$I',
                v_owner, current_user);
        end if;
        execute format('set local role %I', v_owner);
    end if;
end
"""

_BOOKKEEPING = """
begin
    if not exists (select from pg_catalog.pg_namespace where nspname = 'redrive') then
        create schema redrive;
    end if;
    create table if not exists redrive.schema_file (
        kind       text not null check (kind in ('table', 'function')),
        name       text not null,
        checksum   text not null,
        release    integer[] not null,
        applied_at timestamptz not null default now(),
        primary key (kind, name)
    );
end
"""

_REFUSE_NEWER = """
begin
    if {newer} then
        raise exception using errcode = 'RD002', message = format(
            'this database was migrated by redrive %s, newer than this script; nothing was changed',
            (select array_to_string(max(release), '.') from redrive.schema_file));
    end if;
end
"""

_TABLES = """
declare
    v_file  record;
    v_known text;
begin
    for v_file in select * from ({files}) file (name, checksum, body) order by name loop
        v_known := (select checksum from redrive.schema_file where kind = 'table' and name = v_file.name);
        if v_known is null then
            execute v_file.body;
            insert into redrive.schema_file (kind, name, checksum, release)
                values ('table', v_file.name, v_file.checksum, {release});
        elsif v_known <> v_file.checksum then
            raise exception using errcode = 'RD002', message = format(
                'table file %s was edited after it was applied here; what is applied stays as it is: '
                'put the file back, and make the change in a new one', v_file.name);
        end if;
    end loop;
end
"""

_FUNCTIONS = """
declare
    v_names     text[];
    v_checksums text[];
    v_bodies    text[];
    v_file      record;
    v_function  record;
    v_detail    text;
begin
    select array_agg(name), array_agg(checksum), array_agg(body) into v_names, v_checksums, v_bodies
      from ({files}) file (name, checksum, body);

    for v_function in
        select p.oid::pg_catalog.regprocedure as signature
          from pg_catalog.pg_proc p
          left join unnest(v_names, v_checksums) f (name, checksum) on f.name = p.proname
          left join redrive.schema_file s on s.kind = 'function' and s.name = p.proname
         where p.pronamespace = 'redrive'::pg_catalog.regnamespace
           and f.checksum is distinct from s.checksum
    loop
        begin
            execute format('drop routine %s', v_function.signature);
        exception when dependent_objects_still_exist then
            get stacked diagnostics v_detail = pg_exception_detail;
            raise exception using errcode = 'RD002', message = format(
                'function %s cannot be replaced: %s; drop what depends on it, run migrate, create it again',
                v_function.signature, replace(v_detail, chr(10), '; '));
        end;
    end loop;
    delete from redrive.schema_file s
     where s.kind = 'function' and not s.name = any (coalesce(v_names, '{}'));

    for v_file in
        select f.* from unnest(v_names, v_checksums, v_bodies) f (name, checksum, body)
         where not exists (select from pg_catalog.pg_proc p
                            where p.pronamespace = 'redrive'::pg_catalog.regnamespace and p.proname = f.name)
    loop
        execute v_file.body;
        -- Whoever default privileges let in besides PUBLIC (Supabase: anon, authenticated) has to leave too.
        for v_function in
            select p.oid::pg_catalog.regprocedure as signature, a.grantee::pg_catalog.regrole as role
              from pg_catalog.pg_proc p
             cross join lateral (select distinct grantee from aclexplode(p.proacl)) a
             where p.pronamespace = 'redrive'::pg_catalog.regnamespace and p.proname = v_file.name
               and a.grantee not in (0, p.proowner)
        loop
            execute format('revoke all on function %s from %s', v_function.signature, v_function.role);
        end loop;
        insert into redrive.schema_file (kind, name, checksum, release)
            values ('function', v_file.name, v_file.checksum, {release})
            on conflict (kind, name) do update
                set checksum = excluded.checksum, release = excluded.release, applied_at = now();
    end loop;
end
"""
