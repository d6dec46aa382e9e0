-- _read_cron: whether the last finished run of each pg_cron job of this database failed, whenever that was.
create function redrive._read_cron(p_now timestamptz) returns setof redrive._reading
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select * from redrive._cron_jobs() $$;
revoke all on function redrive._read_cron(timestamptz) from public;
