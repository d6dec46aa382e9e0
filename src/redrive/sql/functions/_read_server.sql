-- _read_server: how full the server's queue of notifications is.
create function redrive._read_server(p_now timestamptz) returns setof redrive._reading
language sql volatile set search_path = pg_catalog, pg_temp
as $$ select 'notify_queue_usage', '', pg_notification_queue_usage(), null::jsonb $$;
revoke all on function redrive._read_server(timestamptz) from public;
