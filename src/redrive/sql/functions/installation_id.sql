-- installation_id: which redrive this database is. A job is only completed in its worker's own database.
-- part: work, operate
create function redrive.installation_id() returns uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$ select i.id from redrive.installation i $$;
revoke all on function redrive.installation_id() from public;
