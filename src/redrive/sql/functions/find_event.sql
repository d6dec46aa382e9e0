-- find_event: the record of the event that its sender calls p_event_id. Null when there is none.
-- part: work, operate, read
create function redrive.find_event(p_source text, p_event_id text) returns uuid
language sql stable security definer set search_path = pg_catalog, pg_temp
as $$
    select e.id from redrive.webhook_event e where e.source = p_source and e.event_id = p_event_id
$$;
revoke all on function redrive.find_event(text, text) from public;
