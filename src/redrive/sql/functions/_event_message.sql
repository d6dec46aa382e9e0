-- _event_message: the message of an event's job: the payload itself, or where jsonb cannot hold it, what names the event.
create function redrive._event_message(p_event_id text, p_type text, p_payload jsonb) returns jsonb
language sql immutable set search_path = pg_catalog, pg_temp
as $$ select coalesce(p_payload, jsonb_build_object('event_id', p_event_id, 'type', p_type)) $$;
revoke all on function redrive._event_message(text, text, jsonb) from public;
