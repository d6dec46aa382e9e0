-- schema_files: which of redrive's SQL files this database has, so that a role without any right on tables can ask.
-- A function that somebody dropped is not listed. release: the redrive that applied the file.
-- part: send, work, operate, read
create function redrive.schema_files()
returns table (kind text, name text, checksum text, release integer[])
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select f.kind, f.name, f.checksum, f.release
      from redrive.schema_file f
     where f.kind = 'table'
        or exists (select from pg_catalog.pg_proc p
                    where p.pronamespace = to_regnamespace('redrive') and p.proname = f.name)
$$;
revoke all on function redrive.schema_files() from public;
