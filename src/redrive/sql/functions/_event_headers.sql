-- _event_headers: what an event's message carries. The empty key says that it has none, whatever its payload's key field says:
-- the event's uniqueness is its record's, and an event that is sent again always runs.
create function redrive._event_headers(p_id uuid, p_large boolean) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object('x-redrive-event', p_id, 'x-redrive-key', '')
        || case when p_large then '{"x-redrive-large": true}' else '{}'::jsonb end
$$;
revoke all on function redrive._event_headers(uuid, boolean) from public;
